"""How boards come to a Grafana: by hand, from its own disk, as ConfigMaps. Nothing has to be edited on the way."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from llmvitals.dashboards import bringing
from support.boards import made_files

MADE = made_files()
BOARDS = {path: json.loads(text) for path, text in MADE.items() if path.endswith(".json")}
CLASSIC = {path: board for path, board in BOARDS.items() if "spec" not in board}
BASES = {path: yaml.safe_load(text) for path, text in MADE.items() if path.endswith("/kustomization.yaml")}
EACH_BASE = pytest.mark.parametrize("path", sorted(BASES))

# grafana.com/docs: administration/provisioning, "Dashboards", the keys of a provider of type file
PROVIDER = {
    "name",
    "orgId",
    "folder",
    "folderUid",
    "type",
    "disableDeletion",
    "updateIntervalSeconds",
    "allowUiUpdates",
    "options",
}
OPTIONS = {"path", "foldersFromFilesStructure"}
LIMIT = 1024 * 1024  # bytes that an object in Kubernetes may have
AN_OBJECT = 4096  # more than what stands around the data
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")  # a DNS subdomain, RFC 1123
KEY = re.compile(r"[-._a-zA-Z0-9]+")  # of a ConfigMap
RELATIVE = re.compile(r"now(-\d+[smhdwMy])?(/[smhdwMy])?")


def inside(node: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every key with its value, and the way to it."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield path, key, value
            yield from inside(value, f"{path}.{key}")
    elif isinstance(node, list):
        for at, value in enumerate(node):
            yield from inside(value, f"{path}[{at}]")


@pytest.mark.parametrize("path", sorted(BOARDS))
def test_nothing_of_the_grafana_it_was_made_on_is_in_a_board(path: str) -> None:
    board = BOARDS[path]
    keys = {key for _, key, _ in inside(board)}
    assert not keys & {"__inputs", "__requires", "__elements", "gnetId", "iteration"}
    assert "id" not in board, "Grafana gives it"
    assert not board.get("version"), "Grafana counts it"
    times = [value for _, key, value in inside(board) if key in ("from", "to") and isinstance(value, str)]
    assert all(RELATIVE.fullmatch(value) for value in times if value.startswith(("now", "1", "2")))


@pytest.mark.parametrize("path", sorted(CLASSIC))
def test_a_board_is_imported_by_choosing_a_source_and_nothing_else(path: str) -> None:
    """Its only source is the variable, which begins with the first Prometheus there is, and everything chosen begins with all."""
    board = CLASSIC[path]
    sources = {json.dumps(value) for _, key, value in inside(board) if key == "datasource" and isinstance(value, dict)}
    assert {json.loads(one)["uid"] for one in sources} <= {"${datasource}", "-- Grafana --", "-- Dashboard --"}
    variables = board["templating"]["list"]
    assert variables[0]["name"] == "datasource"
    assert all(v["type"] in ("datasource", "query", "textbox") for v in variables)
    assert all(v["current"]["value"] == ["$__all"] for v in variables if v["type"] == "query")
    assert "current" not in variables[0], "another Grafana's source would be chosen"
    assert RELATIVE.fullmatch(board["time"]["from"])
    assert RELATIVE.fullmatch(board["time"]["to"])


def test_boards_that_one_grafana_takes_have_identities_and_titles_of_their_own() -> None:
    for folders in (("dashboards", "dashboards/raw"), ("dashboards/grafana-10", "dashboards/raw")):
        mine = [board for path, board in CLASSIC.items() if str(PurePosixPath(path).parent) in folders]
        assert len({board["uid"] for board in mine}) == len({board["title"] for board in mine}) == len(mine)
        assert all(re.fullmatch(r"[-\w]{1,40}", board["uid"]) for board in mine), "what Grafana takes as an identity"


def test_provisioning_holds_what_grafana_reads() -> None:
    told = yaml.safe_load(MADE[bringing.PROVISIONING])
    assert set(told) == {"apiVersion", "providers"}
    assert told["apiVersion"] == 1
    (provider,) = told["providers"]
    assert set(provider) <= PROVIDER
    assert provider["type"] == "file"
    assert set(provider["options"]) <= OPTIONS
    assert provider["options"]["path"].startswith("/")
    assert provider["options"]["foldersFromFilesStructure"] is False, "it would take the folder's own name instead"
    assert isinstance(provider["allowUiUpdates"], bool)
    assert isinstance(provider["disableDeletion"], bool)
    assert provider["updateIntervalSeconds"] >= 10, "below, changes are looked for more often than they are read"


@EACH_BASE
def test_a_base_makes_one_config_map_of_each_board_of_its_folder(path: str) -> None:
    base = BASES[path]
    folder = str(PurePosixPath(path).parent)
    assert (base["apiVersion"], base["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    assert base["generatorOptions"]["disableNameSuffixHash"] is True
    assert base["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}, "a text: labels are no numbers"
    assert set(base["generatorOptions"]["annotations"]) == {"grafana_folder"}
    listed = []
    for made in base["configMapGenerator"]:
        assert set(made) == {"name", "files"}
        assert NAME.fullmatch(made["name"])
        assert len(made["name"]) <= 253
        (held,) = made["files"]
        key, _, name = held.partition("=")
        assert KEY.fullmatch(key)
        assert key.endswith(".json"), "what the sidecar takes for a board"
        assert len(MADE[f"{folder}/{name}"].encode()) + AN_OBJECT < LIMIT
        listed.append(f"{folder}/{name}")
    assert sorted(listed) == sorted(p for p in BOARDS if str(PurePosixPath(p).parent) == folder)


def test_config_maps_of_bases_that_stand_side_by_side_share_no_name_and_no_file() -> None:
    """The sidecar puts the files of all ConfigMaps into one folder. Those of Grafana 10 stand in place of the others'."""
    made = [
        one
        for path in ("dashboards", "dashboards/raw")
        for one in BASES[f"{path}/kustomization.yaml"]["configMapGenerator"]
    ]
    keys = [one["files"][0].partition("=")[0] for one in made]
    assert len({one["name"] for one in made}) == len(set(keys)) == len(made)
    older = {one["name"] for one in BASES["dashboards/grafana-10/kustomization.yaml"]["configMapGenerator"]}
    assert older <= {one["name"] for one in made}


@EACH_BASE
def test_kubectl_makes_of_a_base_what_it_says(path: str, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: what it would make is read from the file by the tests above")
    folder = PurePosixPath(path).parent
    for made, text in MADE.items():
        if PurePosixPath(made).parent == folder:
            (tmp_path / PurePosixPath(made).name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [kubectl, "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    maps = list(yaml.load_all(done.stdout, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    assert len(maps) == len(BASES[path]["configMapGenerator"])
    for one in maps:
        assert one["kind"] == "ConfigMap"
        assert one["metadata"]["labels"] == {"grafana_dashboard": "1"}
        ((key, text),) = one["data"].items()
        assert key == f"{one['metadata']['name']}.json", "no hash in the name: the next apply finds it again"
        name = key.removeprefix("llmvitals-").removeprefix("raw-")
        assert text == MADE[f"{folder}/{name}"]
