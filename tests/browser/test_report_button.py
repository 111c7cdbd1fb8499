"""The incident report on the triage page: prepared and saved in a real browser, and the file opens by itself."""

from __future__ import annotations

import json
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from llmvitals.app.promql import judge
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target, Thresholds
from llmvitals.sources.capture import judged_by, raw, read_capture
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.report import document
from support.prometheus import wait_for

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from support.browser import DESKTOP, PHONE, streamlit

pytestmark = pytest.mark.browser

CAPTURE = Path(__file__).parents[1] / "fixtures" / "captures" / "kv-preemption"
FACTS = """({lines: document.querySelectorAll('svg .c-line').length, wide: document.documentElement.scrollWidth,
  loaded: performance.getEntriesByType('resource').length, title: document.querySelector('.banner strong').innerText})"""


def test_the_report_is_prepared_saved_and_read(page, tmp_path, ran_recording):
    ran_recording(CAPTURE)
    (recorded,) = raw(CAPTURE)
    bodies, count = [one.body for one in recorded.pages], iter(range(10**6))
    settings = Settings(
        targets=(Target(url="http://engine:8000", name="a"),),
        exporter=Limits(listen="127.0.0.1:0", interval_seconds=0.5, timeout_seconds=2.0),
        thresholds=Thresholds(min_seconds=2.0),
    )

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(time.time(), 0.01, 200, bodies[min(next(count), len(bodies) - 1)])

    saved = tmp_path / "saved"
    saved.mkdir()
    with (
        Exporter(settings, fetch=fetch) as exporter,
        streamlit({"sources": [{"name": "x", "url": exporter.url}]}, tmp_path) as url,
    ):
        page.leave()
        page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(saved)})
        page.open(url, DESKTOP)
        page.has(".lv-verdict", "Preemption thrash")
        page.element(".st-key-report-prepare button").click()
        page.has("[data-report]", "secrets are taken out")
        page.element(".st-key-report-save button").click()
        (file,) = wait_for(lambda: list(saved.glob("*.zip")), "the file")
        assert page.complaints() == []
    folder = tmp_path / "opened"
    with zipfile.ZipFile(file) as packed:
        packed.extractall(folder)
    own = judged_by(folder)
    assert own is not None
    replayed = document(judge(read_capture(folder), own.settings(Settings())))
    assert json.loads(json.dumps(replayed)) == json.loads((folder / "verdict.json").read_text())
    for size in (DESKTOP, PHONE):
        page.open((folder / "report.html").as_uri(), size)
        facts = page.until(FACTS)
        assert (facts["title"], facts["loaded"]) == ("Preemption thrash", 0)
        assert facts["lines"] > 3
        assert facts["wide"] <= size[0]
    assert page.complaints() == []
