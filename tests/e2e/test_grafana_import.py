"""`e2e/grafana/run.py` against a small Grafana of our own, whose queries a real Prometheus answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llmvitals.series import series
from support.boards import made_files
from support.grafana_api import GrafanaApi
from support.prometheus import PrometheusServer, prometheus_of

pytestmark = pytest.mark.prometheus

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "e2e" / "grafana" / "run.py"
START, STEP, SAMPLES = 1_700_000_000, 15, 81
END = START + STEP * (SAMPLES - 1)
PAGE = {
    "llm_target_up": {"instance": "vllm-0"},
    "llm_requests_running": {"instance": "vllm-0", "model": "llama"},
    "llm_kv_usage_ratio": {"instance": "vllm-0", "model": "llama"},
}
"""What an exporter shows of one server: enough for some panels of a board, not for others."""
CHOSEN = ("service", "engine")
"""Boards that are brought here, the second with an XY chart; all are asked in tests/contract."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    moments = [(START + STEP * n) * 1000 for n in range(SAMPLES)]
    page = {series(name, **labels): [(moment, 1.0) for moment in moments] for name, labels in PAGE.items()}
    with prometheus_of(tmp_path_factory.mktemp("prometheus"), page) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two boards in all their shapes."""
    place = tmp_path_factory.mktemp("boards")
    for path, text in made_files().items():
        inside = Path(path).relative_to("dashboards")
        if inside.stem in CHOSEN and inside.suffix == ".json" and "raw" not in inside.parts:
            (place / inside).parent.mkdir(exist_ok=True)
            (place / inside).write_text(text, encoding="utf-8")
    return place


@pytest.fixture
def small(tmp_path):
    """One board of one panel, to be broken."""
    board = {
        "uid": "somebody",
        "title": "One",
        "time": {"from": "now-5m", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "annotations": {"list": []},
        "panels": [{"type": "stat", "title": "Up", "targets": [{"refId": "A", "expr": "vector(1)", "instant": True}]}],
    }
    (tmp_path / "one.json").write_text(json.dumps(board), encoding="utf-8")
    return tmp_path


def rewritten(folder: Path, **changed: object) -> Path:
    path = folder / "one.json"
    board = json.loads(path.read_text(encoding="utf-8"))
    board["panels"][0]["targets"][0].update(changed)
    path.write_text(json.dumps(board), encoding="utf-8")
    return folder


def grafana(prometheus: PrometheusServer, **how: object) -> GrafanaApi:
    return GrafanaApi(prometheus.url, END, **how)


def ran(url: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script with nothing of this environment that speaks for it."""
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("GRAFANA", "PROMETHEUS", "KEEP"))}
    return subprocess.run(
        [sys.executable, SCRIPT, url, folder],
        env=bare | {"GRAFANA_TOKEN": "let-me-in"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_board_is_brought_in_each_of_its_shapes_and_every_panel_is_asked(prometheus, folder):
    with grafana(prometheus) as server:
        done = ran(server.url, folder, PROMETHEUS_URL=prometheus.url)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"(\d+) panels, annotations and variables of boards asked, 0 wrong", done.stdout)
    for name in ("service.json", "engine.json", "v2/service.json", "v2/engine.json"):
        lines = [line for line in done.stdout.splitlines() if line.strip().startswith(f"{name} ")]
        data = json.loads((folder / name.removeprefix("v2/")).read_text(encoding="utf-8"))
        every = [panel for row in data["panels"] for panel in (row, *row.get("panels", []))]
        asking = [panel for panel in every if panel.get("targets")]
        assert len(lines) == len(asking) + len(data["annotations"]["list"]) + 4, "panels, annotations, variables"
        assert len([line for line in lines if re.search(r"variable: (instance|model) +1\s*$", line)]) == 2
        assert len([line for line in lines if re.search(r"variable: (cluster|namespace) +0\s*$", line)]) == 2
        if "service" in name:
            assert any(re.search(r"Can the numbers be trusted\? +2\s*$", line) for line in lines)
            assert any(re.search(r"Verdict +0\s*$", line) for line in lines), "no data is no error"
    assert said
    assert int(said[1]) > 60
    assert all("$cluster" not in query["expr"] and "${" not in query["expr"] for query in server.asked)
    assert not any(path.startswith("grafana-10") for path in done.stdout.split())


def test_it_writes_into_a_folder_of_its_own_and_takes_everything_away(prometheus, folder):
    with grafana(prometheus) as server:
        server.folders["theirs"] = "Theirs"
        theirs = {"folder": "theirs", "board": {"title": "Serving"}}
        server.boards["llmvitals-serving"] = theirs
        done = ran(server.url, folder, PROMETHEUS_URL=prometheus.url)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (server.folders, server.boards, server.sources) == (
            {"theirs": "Theirs"},
            {"llmvitals-serving": theirs},
            {},
        )


def test_keep_leaves_it_and_a_source_that_is_there_is_taken(prometheus, small):
    with grafana(prometheus) as server:
        server.sources = {
            "logs": {"uid": "logs", "name": "logs", "type": "loki", "isDefault": True},
            "second": {"uid": "second", "name": "second", "type": "prometheus"},
            "main": {"uid": "main", "name": "main", "type": "prometheus", "isDefault": True},
        }
        done = ran(server.url, small, KEEP="1")
        assert done.returncode == 0, done.stdout + done.stderr
        (made,) = server.folders
        assert [one["folder"] for one in server.boards.values()] == [made]
        assert {query["datasource"]["uid"] for query in server.asked} == {"main"}
        assert set(server.sources) == {"logs", "second", "main"}
        assert not [path for method, path in server.calls if method == "DELETE"]


@pytest.mark.parametrize(
    ("version", "older"), [("10.4.19", True), ("11.0.6", True), ("11.1.0", False), ("12.4.1", False)]
)
def test_an_older_server_gets_the_shape_that_it_reads_and_no_resources(prometheus, folder, version, older):
    with grafana(prometheus, version=version, resources=False) as server:
        done = ran(server.url, folder, PROMETHEUS_URL=prometheus.url, KEEP="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("grafana-10/engine.json" in done.stdout) == older
    assert "v2/" not in done.stdout
    versions = {one["board"]["schemaVersion"] for one in server.boards.values()}
    assert (38 in versions) == older


def test_another_organisation_has_its_own_namespace(prometheus, folder):
    with grafana(prometheus, org=3) as server:
        done = ran(server.url, folder, PROMETHEUS_URL=prometheus.url)
        assert done.returncode == 0, done.stdout + done.stderr
    assert ("POST", "/apis/dashboard.grafana.app/v2/namespaces/org-3/dashboards") in server.calls


def test_a_user_and_a_password_do_as_well(prometheus, small):
    with grafana(prometheus) as server:
        access = {"GRAFANA_TOKEN": "", "GRAFANA_USER": "admin", "GRAFANA_PASSWORD": "secret"}
        assert ran(server.url, small, PROMETHEUS_URL=prometheus.url, **access).returncode == 0


def test_who_is_not_let_in_is_told_what_to_set(prometheus, small):
    with grafana(prometheus) as server:
        done = ran(server.url, small, GRAFANA_TOKEN="wrong", PROMETHEUS_URL=prometheus.url)
        assert (server.folders, server.sources) == ({}, {})
    assert done.returncode == 2
    assert "401 Unauthorized; set GRAFANA_TOKEN, or GRAFANA_USER and GRAFANA_PASSWORD" in done.stdout
    assert "Traceback" not in done.stderr
    assert "wrong" not in done.stdout + done.stderr, "a token is not printed"


def test_without_a_data_source_it_says_how_to_give_one(prometheus, small):
    with grafana(prometheus) as server:
        done = ran(server.url, small)
        assert server.folders == {}
    assert done.returncode == 2
    assert "give one with PROMETHEUS_URL" in done.stdout


def test_where_nothing_answers_it_says_so(small):
    done = ran("http://127.0.0.1:9", small)
    assert done.returncode == 2
    assert "is http://127.0.0.1:9 right?" in done.stdout


def test_a_query_that_fails_is_named_with_its_panel_and_everything_is_taken_away(prometheus, small):
    rewritten(small, expr="rate(llm_x[5m")
    with grafana(prometheus) as server:
        done = ran(server.url, small, PROMETHEUS_URL=prometheus.url)
        assert (server.folders, server.boards, server.sources) == ({}, {}, {})
    assert done.returncode == 1
    assert re.search(r"one\.json\s+Up\s+0\s+A: bad_data: ", done.stdout)


def test_a_board_that_somebody_changed_in_between_is_said_and_not_overwritten(prometheus, small, monkeypatch):
    with grafana(prometheus) as server:
        taken = {"folder": "elsewhere", "board": {"title": "Theirs"}}
        store = server._store

        def clash(uid, folder, board, *, overwrite=False):
            server.boards.setdefault(uid, taken)
            store(uid, folder, board, overwrite=overwrite)

        monkeypatch.setattr(server, "_store", clash)
        done = ran(server.url, small, PROMETHEUS_URL=prometheus.url)
        assert list(server.boards.values()) == [taken], "what somebody else has there stays"
    assert done.returncode == 1
    assert re.search(
        r"one\.json\s+the board itself\s+0\s+.*412 The dashboard has been changed by someone else", done.stdout
    )


def test_a_board_that_is_kept_otherwise_is_said(prometheus, small):
    def shortened(board: dict) -> dict:
        return {**board, "panels": []}

    with grafana(prometheus, changes=shortened) as server:
        done = ran(server.url, small, PROMETHEUS_URL=prometheus.url)
    assert done.returncode == 1
    assert "Grafana kept something else than what it was given" in done.stdout


def test_what_cannot_be_taken_away_is_said(prometheus, small, monkeypatch):
    with grafana(prometheus) as server:
        answer = server.answer

        def stubborn(method, target, access, body):
            if method == "DELETE" and "/folders/" in target:
                return 403, {"message": "You'll need additional permissions"}
            return answer(method, target, access, body)

        monkeypatch.setattr(server, "answer", stubborn)
        done = ran(server.url, small, PROMETHEUS_URL=prometheus.url)
        assert len(server.folders) == 1
    assert done.returncode == 1
    assert "could not be removed: DELETE /api/folders/llmvitals-e2e-" in done.stdout


def test_make_takes_the_address_from_its_words_only():
    def told(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "-n", "e2e-grafana", *words],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert "GRAFANA_URL=" in told(GRAFANA_URL="http://elsewhere").stderr
    line = told("GRAFANA_URL=http://g:3000", "PROMETHEUS_URL=http://p:9090", "KEEP=1").stdout.splitlines()[-1]
    assert line.endswith("python e2e/grafana/run.py 'http://g:3000'")
    assert "PROMETHEUS_URL='http://p:9090' KEEP='1'" in line
