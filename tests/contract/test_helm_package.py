"""What `helm package` makes is whole, is the same chart, and fits into what a release keeps of itself."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals import __version__
from support.charts import CHART, NO_BOARDS, OPERATOR, helm, rendered, template, text
from support.manifests import ROOT, pods

pytestmark = pytest.mark.helm

SECRET_BYTES = 1024 * 1024
"""The most that a Secret may hold (Kubernetes, concepts/configuration/secret, "Restriction on Secret data size")."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    done = helm("package", CHART, "--destination", folder)
    assert done.returncode == 0, done.stderr
    return folder / f"llmvitals-{__version__}.tgz"


@pytest.fixture(scope="module")
def packed(package: Path) -> dict[str, bytes]:
    with tarfile.open(package) as archive:
        files = [member for member in archive if member.isfile()]
        assert len(files) == len(archive.getmembers()), "links and folders of their own"
        return {one.name.removeprefix("llmvitals/"): archive.extractfile(one).read() for one in files}


def test_chart_image_and_project_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_there_is_one_copy_of_boards_and_rules() -> None:
    """Links stay links in git, lead to the repository's own files, and nowhere out of it."""
    links = {path.name: path.readlink() for path in (CHART / "files").iterdir()}
    assert links == {
        "dashboards": Path("../../../../dashboards"),
        "prometheusrule.yaml": Path("../../../../alerts/prometheusrule.yaml"),
    }
    assert {(CHART / "files" / name).resolve() for name in links} == {
        ROOT / "dashboards",
        ROOT / "alerts/prometheusrule.yaml",
    }


def test_the_package_holds_the_chart_and_the_contents_of_its_links(packed: dict[str, bytes]) -> None:
    own = {
        path.relative_to(CHART).as_posix(): path
        for path in CHART.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    boards = {f"files/dashboards/{path.name}": path for path in (ROOT / "dashboards").glob("*.json")}
    expected = {**own, **boards, "files/prometheusrule.yaml": ROOT / "alerts/prometheusrule.yaml"}
    assert sorted(packed) == sorted(expected)
    rewritten = {"Chart.yaml"}  # helm writes it in its own way
    assert [name for name in packed if name not in rewritten and packed[name] != expected[name].read_bytes()] == []
    assert yaml.safe_load(packed["Chart.yaml"]) == yaml.safe_load((CHART / "Chart.yaml").read_bytes())


def test_it_makes_the_same_objects(package: Path) -> None:
    assert text(None, *OPERATOR, chart=package) == text(None, *OPERATOR)


def test_a_copy_of_the_folder_alone_is_refused_rather_than_made_without_boards(tmp_path: Path) -> None:
    alone = shutil.copytree(CHART, tmp_path / "llmvitals", symlinks=True)
    done = template(None, chart=alone)
    assert done.returncode != 0
    assert "files/" in done.stderr


def test_another_version_of_the_chart_restarts_no_pod(tmp_path: Path) -> None:
    """All exporters of a cluster would start anew for a label."""
    assert helm("package", CHART, "--version", "99.0.0", "--destination", tmp_path).returncode == 0
    newer = rendered(NO_BOARDS, chart=tmp_path / "llmvitals-99.0.0.tgz")
    assert [template for _, template in pods(newer)] == [template for _, template in pods(rendered(NO_BOARDS))]
    assert {one["metadata"]["labels"]["helm.sh/chart"] for one in newer} == {"llmvitals-99.0.0"}


def test_a_release_fits_into_the_secret_that_helm_keeps_it_in(packed: dict[str, bytes]) -> None:
    """Helm keeps the chart and what was made of it as JSON, packed by gzip, in base64; the last two cost a third more."""
    release = {
        "chart": {
            "files": [{"name": name, "data": base64.b64encode(data).decode()} for name, data in packed.items()],
        },
        "manifest": text(None, *OPERATOR),
    }
    kept = base64.b64encode(gzip.compress(json.dumps(release).encode(), 9))
    assert len(kept) < SECRET_BYTES


def notes(tmp_path: Path, package: Path, values: dict[str, Any], *flags: str) -> str:
    """What is said after an installation: the file as a template of its own, since only a cluster makes helm show it."""
    with tarfile.open(package) as archive:
        archive.extractall(tmp_path, filter="data")
    told = tmp_path / "llmvitals" / "templates" / "NOTES.txt"
    lines = [f"  {line}" for line in told.read_text(encoding="utf-8").splitlines()]
    told.unlink()
    (told.parent / "told.yaml").write_text(
        "kind: Notes\napiVersion: v1\ntold: |\n" + "\n".join(lines), encoding="utf-8"
    )
    (one,) = [
        one for one in rendered({**NO_BOARDS, **values}, *flags, chart=tmp_path / "llmvitals") if one["kind"] == "Notes"
    ]
    return one["told"]


@pytest.mark.parametrize(
    ("values", "flags", "said", "unsaid"),
    [
        ({}, OPERATOR, ["PodMonitors", "kube-prometheus-stack", "port-forward", "open to everybody"], ["NOTHING", "NO ALERTS"]),
        ({}, (), ["NOTHING SCRAPES IT YET", "does not know monitoring.coreos.com/v1", "NO ALERTS WERE MADE"], ["PodMonitors"]),
        ({"monitoring": {"enabled": False}}, OPERATOR, ["NOTHING SCRAPES IT YET", "honor_labels"], ["does not know"]),
        ({"monitoring": {"labels": {"release": "a"}}}, OPERATOR, ["PodMonitors"], ["kube-prometheus-stack"]),
        ({"settings": {"slo": {"objective": 0.9}, "alerts": {}}}, OPERATOR, ["YOUR PROMISES: alerts, slo of"], ["NO ALERTS"]),
        ({"settings": {"slo": {}}, "rules": {"file": "spec: {}"}}, OPERATOR, [], ["YOUR PROMISES"]),
        ({"settings": {"node": {}}}, OPERATOR, [], ["YOUR PROMISES"]),
        ({"app": {"enabled": False}}, OPERATOR, ["llmvitals.io/scrape"], ["port-forward"]),
        ({"app": {"signInSecret": "a"}}, OPERATOR, ["port-forward"], ["open to everybody"]),
        ({}, OPERATOR, ["pod-security.kubernetes.io/enforce=privileged"], []),
        (
            {"hostNetwork": False, "hostPID": False, "hostPaths": {"proc": False, "cgroup": False, "podResources": False}},
            OPERATOR,
            [],
            ["privileged"],
        ),
    ],
)  # fmt: skip
def test_the_notes_say_what_is_left_to_do(tmp_path, package, values, flags, said, unsaid):
    told = notes(tmp_path, package, values, *flags)
    assert [word for word in said if word not in told] == []
    assert [word for word in unsaid if word in told] == []
