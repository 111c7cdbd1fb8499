"""Everything that can be applied is built by kubectl, keeps to its kind's strict schema, and survives being written and read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from llmvitals import __version__
from support.manifests import (
    CUSTOM,
    KUBERNETES,
    ROOT,
    SCHEMAS,
    built,
    containers,
    documents,
    named,
    pods,
    problems,
    round_trip,
    selects,
)

pytestmark = pytest.mark.kubernetes

EVERY = sorted(
    path.parent
    for path in [
        *KUBERNETES.rglob("kustomization.yaml"),
        *(ROOT / name / "kustomization.yaml" for name in ("alerts", "dashboards")),
    ]
)
COMPONENTS = [one for one in EVERY if yaml.safe_load((one / "kustomization.yaml").read_text())["kind"] == "Component"]
APPLIED = [one for one in EVERY if one not in COMPONENTS]
OF_ENGINES = KUBERNETES / "components" / "sidecar"
REGISTRY = "registry.example/llmvitals"


def own(folder: Path, *resources: Path | str, components: tuple[Path, ...] = (), **more: object) -> Path:
    """A kustomization as somebody would have it beside the checkout."""
    names = [one if isinstance(one, str) else os.path.relpath(one, folder) for one in resources]
    (folder / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": names,
                "components": [os.path.relpath(one, folder) for one in components],
                "images": [{"name": "llmvitals", "newName": REGISTRY, "newTag": "9.9"}],
                **more,
            }
        )
    )
    return folder


def named_by(folder: Path) -> str:
    return str(folder.relative_to(ROOT))


@pytest.mark.parametrize("folder", APPLIED, ids=named_by)
def test_what_is_applied_keeps_to_its_schemas(folder: Path) -> None:
    made = built(folder)
    assert made
    assert [wrong for one in made for wrong in problems(one)] == []
    assert [one for one in made if round_trip(one) != one] == []


@pytest.mark.parametrize("path", sorted(KUBERNETES.rglob("*.y*ml")), ids=named_by)
def test_a_file_says_nothing_twice(path: Path) -> None:
    """A key that stands twice is taken by kubectl without a word: the last one counts."""
    assert documents(path.read_text())


@pytest.mark.parametrize("folder", APPLIED, ids=named_by)
def test_no_object_is_applied_twice(folder: Path) -> None:
    ids = [(o["apiVersion"], o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in built(folder)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("folder", APPLIED, ids=named_by)
def test_our_image_has_the_tag_of_this_release_and_nothing_is_latest(folder: Path) -> None:
    images = [container["image"] for _, template in pods(built(folder)) for container in containers(template)]
    assert {image for image in images if image.startswith("llmvitals")} <= {f"llmvitals:{__version__}"}
    assert [image for image in images if ":" not in image or image.endswith(":latest")] == []


def test_one_line_sets_the_image_of_every_object(tmp_path: Path) -> None:
    made = built(own(tmp_path, KUBERNETES / "all"))
    images = {container["image"] for _, template in pods(made) for container in containers(template)}
    assert images == {f"{REGISTRY}:9.9"}


@pytest.mark.parametrize("component", [one for one in COMPONENTS if one != OF_ENGINES], ids=named_by)
def test_a_component_goes_on_top_of_everything(component: Path, tmp_path: Path) -> None:
    file = {"sign-in": "secrets.toml", "web-config": "web-config.yaml"}.get(component.name)
    more = {"secretGenerator": [{"name": f"llmvitals-{component.name}", "files": [file]}]} if file else {}
    for name in filter(None, [file]):
        (tmp_path / name).write_text("x")
    plain = built(KUBERNETES / "all")
    made = built(own(tmp_path, KUBERNETES / "all", components=(component,), images=[], **more))
    assert [wrong for one in made for wrong in problems(one)] == []
    assert [one for one in made if one not in plain], "it changes something"


def test_a_service_monitor_takes_the_place_of_the_pod_monitor_and_scrapes_alike(tmp_path: Path) -> None:
    """What differs is one label more to drop: the operator adds the Service's name."""
    component = KUBERNETES / "components" / "servicemonitor"
    made = built(own(tmp_path, KUBERNETES / "all", components=(component,), namespace="llmvitals"))
    assert [one["metadata"]["name"] for one in made if one["kind"] == "PodMonitor"] == ["llmvitals-sidecar"]
    (before,) = named(built(KUBERNETES / "all"), "PodMonitor", "llmvitals")["spec"]["podMetricsEndpoints"]
    monitor = named(made, "ServiceMonitor")
    (point,) = monitor["spec"]["endpoints"]
    *first, last = before["relabelings"]
    assert point == {**before, "relabelings": [*first, {**last, "regex": f"{last['regex']}|service"}]}
    services = [one for one in made if one["kind"] == "Service"]
    taken = [one for one in services if selects(monitor["spec"]["selector"], one["metadata"]["labels"])]
    assert [one["metadata"]["name"] for one in taken] == ["llmvitals"]
    assert point["port"] in {port["name"] for port in taken[0]["spec"]["ports"]}
    assert monitor["metadata"]["namespace"] == taken[0]["metadata"]["namespace"]


def test_a_change_of_the_settings_is_another_pod(tmp_path: Path) -> None:
    """A ConfigMap that keeps its name would change under pods that nobody tells."""
    for number, text in enumerate(("slo: {ttft_seconds: 1}\n", "slo: {ttft_seconds: 2}\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "llmvitals.yaml").write_text(text)
        maps = [{"name": "llmvitals", "behavior": "replace", "files": ["llmvitals.yaml"]}]
        own(folder, KUBERNETES / "base", namespace="llmvitals", configMapGenerator=maps)
    templates = [named(built(tmp_path / number), "DaemonSet")["spec"]["template"] for number in "01"]
    assert templates[0] != templates[1]
    names = [template["spec"]["volumes"][0]["configMap"]["name"] for template in templates]
    assert [named(built(tmp_path / n), "ConfigMap")["metadata"]["name"] for n in "01"] == names


def test_a_schema_is_there_for_every_custom_kind() -> None:
    core = (".k8s.io", "apps", "v1", "autoscaling", "batch", "policy")
    kinds = {
        one["kind"]
        for folder in APPLIED
        for one in built(folder)
        if not one["apiVersion"].partition("/")[0].endswith(core)
    }
    assert kinds <= CUSTOM
    assert {"PodMonitor", "PrometheusRule"} <= kinds
    assert (SCHEMAS / "README.md").is_file()


@pytest.mark.parametrize(
    ("kind", "where", "key"),
    [("DaemonSet", ("spec", "template", "spec"), "hostNet"), ("PodMonitor", ("spec",), "honourLabels")],
)
def test_the_schemas_refuse_what_a_kind_does_not_have(kind: str, where: tuple[str, ...], key: str) -> None:
    wrong = round_trip(named(built(KUBERNETES / "all"), kind, "llmvitals"))
    inner = wrong
    for step in where:
        inner = inner[step]
    inner[key] = True
    assert any(key in one for one in problems(wrong))
