"""The objects fit together, and fit the program: ports, labels, probes, names, settings, and how long a pod may take to end."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from llmvitals.cli import group
from llmvitals.exporters.board import Board
from llmvitals.exporters.lifecycle import LINGER_SECONDS
from llmvitals.exporters.listen import DRAIN_SECONDS
from llmvitals.exporters.server import Site
from llmvitals.exporters.spans.receiver import CLOSE_SECONDS
from llmvitals.settings import Settings, decode
from llmvitals.sources import pod_words, sidecar
from support.manifests import KUBERNETES, Manifest, built, containers, named, plain_name, pods, problems, selects

pytestmark = pytest.mark.kubernetes

ALL = KUBERNETES / "all"
ROUTES = {"serve": {route.path for route in Site(Board(), Settings()).app().routes}, "app": {"/_stcore/health"}}
ENGINE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "vllm", "labels": {"llmvitals.io/sidecar": "true"}},
    "spec": {
        "selector": {"matchLabels": {"app": "vllm"}},
        "template": {
            "metadata": {"labels": {"app": "vllm"}, "annotations": {"llmvitals.io/scrape": "true"}},
            "spec": {
                "containers": [{"name": "vllm", "image": "vllm:1", "ports": [{"name": "http", "containerPort": 8000}]}]
            },
        },
    },
}


@pytest.fixture(scope="module")
def with_sidecar(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, ...]:
    """Engines of somebody's own: one that asks for a sidecar, one with volumes that does, and one that does not."""
    folder = tmp_path_factory.mktemp("serving")
    others = [("code", "StatefulSet", True), ("web", "Deployment", False)]
    own = [ENGINE]
    for name, kind, wanted in others:
        one: dict[str, Any] = yaml.safe_load(yaml.safe_dump(ENGINE).replace("vllm", name))
        one["kind"] = kind
        if kind == "StatefulSet":
            one["spec"]["serviceName"] = name
            one["spec"]["template"]["spec"]["volumes"] = [{"name": "models", "emptyDir": {}}]
        if not wanted:
            del one["metadata"]["labels"]
        own.append(one)
    (folder / "engines.yaml").write_text(yaml.safe_dump_all(own))
    back = Path(*[".."] * (len(folder.parts) - 1))
    (folder / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "namespace": "serving",
                "resources": ["engines.yaml"],
                "components": [str(back / str(KUBERNETES / "components/sidecar").lstrip("/"))],
                "images": [{"name": "llmvitals", "newName": "registry.example/llmvitals"}],
            }
        )
    )
    return built(folder)


def ours(made: tuple[Manifest, ...]) -> list[tuple[Manifest, Manifest, Manifest]]:
    """Each workload of a set of objects with its pod template and our container in it."""
    return [(one, t, c) for one, t in pods(made) for c in containers(t) if c["name"] == "llmvitals"]


@pytest.fixture(params=["DaemonSet", "Deployment", "sidecar"])
def placed(
    request: pytest.FixtureRequest, with_sidecar: tuple[Manifest, ...]
) -> tuple[tuple[Manifest, ...], Manifest, Manifest, Manifest]:
    """All objects, the workload, its pod template and our container in it; of the exporter, of the app, and of a sidecar."""
    made = with_sidecar if request.param == "sidecar" else built(ALL)
    kind = "Deployment" if request.param == "sidecar" else request.param
    return (made, *next(one for one in ours(made) if one[0]["kind"] == kind))


def parsed(container: Manifest) -> click.Context:
    """The container's arguments as the command reads them, without running it; variables of the pod have a value."""
    args = list(container["args"])
    for variable in container.get("env", ()):
        args = [arg.replace(f"$({variable['name']})", variable.get("value", "value")) for arg in args]
    assert [arg for arg in args if "$(" in arg] == []
    command = group.get_command(click.Context(group), args[0])
    assert command is not None
    return command.make_context(args[0], args[1:])


def settings_of(made: tuple[Manifest, ...], template: Manifest, container: Manifest) -> Settings:
    """What the settings file says that the container's arguments name, by mount, volume and ConfigMap."""
    path = Path(parsed(container).params["settings_path"])
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == str(path.parent)]
    (volume,) = [v for v in template["spec"]["volumes"] if v["name"] == mount["name"]]
    (config,) = [
        one for one in made if one["kind"] == "ConfigMap" and one["metadata"]["name"] == volume["configMap"]["name"]
    ]
    return decode(yaml.safe_load(config["data"][path.name]), place=path.name)


def test_the_arguments_are_the_commands_own_and_the_settings_are_accepted(placed) -> None:
    made, _, template, container = placed
    settings = settings_of(made, template, container)
    port = parsed(container).params.get("port") or int(settings.exporter.listen.rpartition(":")[2])
    assert port == container["ports"][0]["containerPort"]


def test_it_listens_where_a_cluster_reaches_it(placed) -> None:
    made, _, template, container = placed
    address = parsed(container).params.get("address") or settings_of(made, template, container).exporter.listen
    assert address.startswith("0.0.0.0")


def test_probes_ask_for_pages_that_are_there_at_ports_that_are_there(placed) -> None:
    _, _, _, container = placed
    probes = [value["httpGet"] for key, value in container.items() if key.endswith("Probe")]
    assert probes
    assert {probe["path"] for probe in probes} <= ROUTES[container["args"][0]]
    assert {probe["port"] for probe in probes} <= {port["name"] for port in container["ports"]}


def test_liveness_never_asks_for_an_engine_and_a_sidecar_never_holds_one_back(placed) -> None:
    """/healthz and Streamlit's page are about the process alone; a sidecar that is not ready takes its engine out of service."""
    _, workload, _, container = placed
    assert container["livenessProbe"]["httpGet"]["path"] in {"/healthz", "/_stcore/health"}
    beside = workload["metadata"]["name"] == "vllm"
    assert ("readinessProbe" in container) == ("startupProbe" in container) == (not beside)


def test_what_is_mounted_is_there_and_what_is_there_is_mounted(placed) -> None:
    _, _, template, container = placed
    volumes = {volume["name"] for volume in template["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert all(mount.get("readOnly") for mount in container["volumeMounts"] if mount["name"] != "tmp")


def test_it_has_no_more_power_than_it_needs(placed) -> None:
    _, _, template, container = placed
    pod, own = template["spec"], container["securityContext"]
    both = {**pod.get("securityContext", {}), **own}
    assert both["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"]["drop"] == ["ALL"]
    on_the_node = bool(pod.get("hostPID"))
    assert (both["runAsUser"] == 0) == on_the_node
    assert both.get("runAsNonRoot", False) is (not on_the_node)
    assert ("add" in own["capabilities"]) == on_the_node


def test_it_says_what_it_needs_of_the_node(placed) -> None:
    _, _, _, container = placed
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
    assert "memory" in container["resources"]["limits"]
    assert "cpu" not in container["resources"]["limits"], "it would be throttled, and its clock with it"


def test_a_pod_is_given_longer_to_end_than_the_exporter_takes() -> None:
    """Cycle, server and receiver are waited for one after another, see ``Exporter.stop``."""
    longest = LINGER_SECONDS + (DRAIN_SECONDS + LINGER_SECONDS) + (DRAIN_SECONDS + CLOSE_SECONDS)
    for kind in ("DaemonSet", "Deployment"):
        assert named(built(ALL), kind)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > longest


def test_selectors_take_the_pods_that_they_are_meant_for_and_no_others() -> None:
    made = built(ALL)
    labels = {one["metadata"]["name"]: template["metadata"]["labels"] for one, template in pods(made)}
    assert set(labels) == {"llmvitals", "llmvitals-app"}
    for one in made:
        spec = one.get("spec") or {}
        if one["kind"] in {"Service", "DaemonSet", "Deployment", "NetworkPolicy"}:
            selector = spec.get("podSelector") or spec["selector"]
            selector = {"matchLabels": selector} if one["kind"] == "Service" else selector
            assert [name for name, own in labels.items() if selects(selector, own)] == [one["metadata"]["name"]]


def test_services_and_policies_name_ports_of_their_pods() -> None:
    made = built(ALL)
    ports = {one["metadata"]["name"]: {p["name"]: p for p in container["ports"]} for one, _, container in ours(made)}
    for one in (o for o in made if o["kind"] in {"Service", "NetworkPolicy"}):
        own = ports[one["metadata"]["name"]]
        for port in one["spec"].get("ports", ()):
            assert own[port["targetPort"]]["containerPort"] == port["port"]
        for rule in one["spec"].get("ingress", ()):
            assert {port["port"] for port in rule["ports"]} <= own.keys()


def test_the_app_may_reach_its_sources() -> None:
    made = built(ALL)
    _, template, container = next(one for one in ours(made) if one[0]["kind"] == "Deployment")
    sources = settings_of(made, template, container).sources
    policy = named(made, "NetworkPolicy", "llmvitals-app")["spec"]
    may = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert {int(source.url.rpartition(":")[2]) for source in sources} | {53, 443} <= may


def test_a_policy_lets_prometheus_in_from_the_namespace_that_the_app_asks_it_in() -> None:
    made = built(ALL)
    _, template, container = next(one for one in ours(made) if one[0]["kind"] == "Deployment")
    asked = settings_of(made, template, container).sources[0].url.split("//")[1].split(".")[1]
    (rule,) = named(made, "NetworkPolicy", "llmvitals")["spec"]["ingress"]
    own, peer = rule["from"]
    assert own == {"podSelector": {}}, "its own namespace, whatever a kustomization above calls it"
    assert selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": asked})
    assert not selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": "default"})


def test_another_namespace_takes_rights_and_policies_along(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({"namespace": "watch", "resources": [os.path.relpath(ALL, tmp_path.resolve())]})
    )
    made = built(tmp_path)
    (subject,) = named(made, "ClusterRoleBinding", "llmvitals")["subjects"]
    assert subject["namespace"] == "watch", "else the exporters may list no pods"
    assert not [one["kind"] for one in made if one["metadata"].get("namespace", "watch") != "watch"]


def test_accounts_and_maps_that_are_named_exist_and_stand_in_the_one_namespace() -> None:
    made = built(ALL)
    here = {(one["kind"], one["metadata"]["name"]) for one in made}
    for _, template in pods(made):
        account = template["spec"].get("serviceAccountName")
        assert account is None or ("ServiceAccount", account) in here
        assert account or template["spec"]["automountServiceAccountToken"] is False
        for volume in template["spec"]["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in here
    spaces = {one["metadata"].get("namespace") for one in made} - {None}
    assert spaces == {named(made, "Namespace")["metadata"]["name"]} == {"llmvitals"}
    assert {one["kind"] for one in made if "namespace" not in one["metadata"]} == {
        "Namespace", "ClusterRole", "ClusterRoleBinding",
    }  # fmt: skip


def test_the_namespace_allows_what_the_daemonset_is() -> None:
    pod = named(built(ALL), "DaemonSet")["spec"]["template"]["spec"]
    assert pod["hostPID"]
    assert pod["hostNetwork"]
    labels = named(built(ALL), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_daemonset_is_replaced_a_part_at_a_time_and_never_twice_on_a_node() -> None:
    spec = named(built(ALL), "DaemonSet")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"].keys() == {"maxUnavailable"}
    ports = spec["template"]["spec"]["containers"][0]["ports"]
    assert all(port["hostPort"] == port["containerPort"] for port in ports)


def nodes_of(pod: Manifest, labels: dict[str, str]) -> bool:
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return any(selects({"matchExpressions": term["matchExpressions"]}, labels) for term in terms)


@pytest.mark.parametrize(
    ("labels", "taken"),
    [
        ({"nvidia.com/gpu.present": "true"}, True),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, True),
        ({"llmvitals.io/node": "true"}, True),
        ({"nvidia.com/gpu.present": "false"}, False),
        ({"kubernetes.io/os": "linux"}, False),
    ],
)
def test_nodes_with_gpus_get_an_exporter_and_others_on_demand(labels: dict[str, str], taken: bool) -> None:
    assert nodes_of(named(built(ALL), "DaemonSet")["spec"]["template"]["spec"], labels) is taken


def monitored(made: tuple[Manifest, ...], labels: dict[str, str]) -> list[str]:
    monitors = [one for one in made if one["kind"] == "PodMonitor"]
    return [one["metadata"]["name"] for one in monitors if selects(one["spec"]["selector"], labels)]


def test_each_exporter_is_scraped_by_one_monitor_and_the_app_by_none(with_sidecar) -> None:
    made = built(ALL)
    found = {
        (one["kind"], one["metadata"]["name"]): monitored(made, template["metadata"]["labels"])
        for one, template in [*pods(made), *pods(with_sidecar)]
    }
    assert found == {
        ("DaemonSet", "llmvitals"): ["llmvitals"],
        ("Deployment", "llmvitals-app"): [],
        ("Deployment", "vllm"): ["llmvitals-sidecar"],
        ("StatefulSet", "code"): ["llmvitals-sidecar"],
        ("Deployment", "web"): [],
    }


def test_monitors_name_ports_and_pages_and_keep_the_names_of_engines(with_sidecar) -> None:
    """honorLabels and the job are what alerts rest on; the sidecars' may be in any namespace."""
    made = built(ALL)
    ports = {port["name"] for _, _, c in [*ours(made), *ours(with_sidecar)] for port in c["ports"]}
    for one in (o for o in made if o["kind"] == "PodMonitor"):
        (point,) = one["spec"]["podMetricsEndpoints"]
        assert point["port"] in ports
        assert point["path"] in ROUTES["serve"]
        assert point["honorLabels"] is True
        jobs = [r["replacement"] for r in point["relabelings"] if r.get("targetLabel") == "job"]
        assert jobs == [Settings().alerts.job]
    beside = named(made, "PodMonitor", "llmvitals-sidecar")["spec"]
    assert beside["namespaceSelector"] == {"any": True}


def test_a_sidecar_has_its_engine_to_itself_and_calls_it_by_its_pod(with_sidecar) -> None:
    for workload, template, container in ours(with_sidecar):
        annotations = template["metadata"]["annotations"]
        assert pod_words.read("owner", annotations["llmvitals.io/owner"]) == "sidecar"
        assert annotations["llmvitals.io/scrape"] == "true", "what stood there stays"
        (target,) = parsed(container).params["targets"]
        paths = {one["name"]: one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") for one in container["env"]}
        values = {
            "metadata.namespace": "serving", "metadata.name": workload["metadata"]["name"], "spec.nodeName": "n1",
        }  # fmt: skip
        environ = {name: values[path] for name, path in paths.items() if path}
        settings = settings_of(with_sidecar, template, container)
        assert settings.targets == ()
        (known,) = sidecar.in_this_pod([decode({"targets": [{"url": target}]}, place="x").targets[0]], environ)
        assert known.name == f"serving/{workload['metadata']['name']}"
        assert (settings.node.kubernetes.enabled, settings.node.processes) == ("off", "off"), "it would ask in vain"


def test_a_sidecar_stands_behind_the_engine_and_changes_nothing_of_it(with_sidecar) -> None:
    """The first container is the one that kubectl takes for logs and commands."""
    assert [wrong for one in with_sidecar for wrong in problems(one)] == []
    for workload, template in pods(with_sidecar):
        first, *more = containers(template)
        assert first["name"] == workload["metadata"]["name"]
        assert [one["name"] for one in more] == ([] if first["name"] == "web" else ["llmvitals"])
        assert template["metadata"]["labels"]["app"] == first["name"]
    code = named(with_sidecar, "StatefulSet")["spec"]["template"]["spec"]
    assert {volume["name"] for volume in code["volumes"]} == {"models", "llmvitals"}
    assert {plain_name(one["metadata"]["name"]) for one in with_sidecar if one["kind"] == "ConfigMap"} == {
        "llmvitals-sidecar"
    }


def test_the_health_page_of_the_app_is_one_that_streamlit_has() -> None:
    files = importlib.metadata.files("streamlit") or []
    served = [Path(str(one.locate())) for one in files if "web/server" in str(one) and str(one).endswith(".py")]
    assert any("_stcore/health" in one.read_text() for one in served)
