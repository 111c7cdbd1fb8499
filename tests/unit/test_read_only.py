"""Read-only by design: whatever page is opened, a source is asked by GET, or by POST of a query, and nothing else."""

from __future__ import annotations

import sys

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from llmvitals.data import folder
from support.answers import Answer, Answers, Asked
from support.fake_exporter import document, history, replicas
from support.promql import matrix, ok

QUERIES = {"/api/v1/query", "/api/v1/query_range"}
READ = {"/triage", "/history", "/replicas", "/capture", "/healthz", "/metrics", "/api/v1/label/__name__/values"}
PAGES = sorted(path.stem for path in folder("app").glob("*_page.py"))


def fixed(found: object):
    import json  # noqa: PLC0415 - of this helper alone

    return Answer(json.dumps(found).encode(), 200, {"content-type": "application/json"})


def stored(asked: Asked) -> Answer:
    labels = {"instance": "a", "model": "m", "engine": "vllm", "rank": "0"}
    points = [(1_700_000_000.0 - 5.0 * i, "1") for i in range(12, -1, -1)]
    return matrix(({"__name__": "llm_requests_running", **labels}, points))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a page on a source of a kind."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place
    before = set(sys.modules)

    def opened(page: str, kind: str, url: str) -> None:
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump({"sources": [{"name": "s", "url": url, "kind": kind}]}))
        monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
        monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
        AppTest.from_file(str(folder("app") / f"{page}.py"), default_timeout=60).run()

    yield opened
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder("app"))):
            sys.modules.pop(name)


@pytest.mark.parametrize("kind", ["exporter", "prometheus"])
def test_every_page_only_reads(run, kind):
    exporter = {"/triage": fixed(document()), "/history": fixed(history()), "/replicas": fixed(replicas())}
    promql = dict.fromkeys(QUERIES, stored) | {"/api/v1/label/__name__/values": ok(["llm_requests_running"])}
    with Answers(exporter if kind == "exporter" else promql) as server:
        for page in PAGES:
            run(page, kind, server.url)
    assert server.asked, "no page asked anything"
    assert {one.method for one in server.asked} <= {"GET", "POST"}
    for one in server.asked:
        if one.method == "POST":
            assert one.path in QUERIES, one
            assert "query=" in one.body
        else:
            assert one.path in READ, one
