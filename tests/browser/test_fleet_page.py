"""The fleet's page in a real browser, at both widths: a thousand replicas, a filter that is typed, a name that leads on."""

import json
import time
from importlib.util import find_spec

import pytest

from llmvitals.triage.replica import encode
from support.fake_exporter import FakeExporter
from support.fleets import made_fleet

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from support.browser import DESKTOP, PHONE, picture, streamlit

pytestmark = [pytest.mark.browser]
SOON = 10.0
"""Seconds in which a page of a thousand stands, on a machine that does other things too (the bench has the bar)."""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The app on an exporter of a thousand replicas."""
    exporter = FakeExporter()
    exporter.answers["/replicas"] = (200, json.dumps(encode(made_fleet(1000))).encode())
    settings = {"sources": [{"name": "east", "url": exporter.url}]}
    with streamlit(settings, tmp_path_factory.mktemp("app")) as url:
        yield url
    exporter.close()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_thousand_replicas_fit_on_the_page(app, page, size):
    start = time.monotonic()
    page.open(f"{app}/fleet?source=east", size)
    page.has("tr[data-replica]", "vllm-0007")
    assert time.monotonic() - start < SOON
    page.laid_out()
    page.until(
        "document.querySelector('.lv-plot img').complete && document.querySelector('.lv-plot img').naturalWidth > 0"
    )
    longest = "document.querySelector('[data-bar=\"vllm-0007\"] .b').getBoundingClientRect().width"
    queue = "document.querySelector('[data-bar=\"vllm-0007\"] .lv-q0').getBoundingClientRect().width"
    assert page.run(f"return {queue} / {longest}") == pytest.approx(9.0 / 13.3, abs=0.01)
    picture(page, f"fleet-{size[0]}")
    assert len(page.texts("tr[data-replica]")) == 50
    assert page.hosts() == {"127.0.0.1"}
    assert [said for said in page.complaints() if "/fleet/_stcore/" not in said] == []


def test_what_is_typed_narrows_the_page_and_a_name_leads_to_its_triage(app, page):
    page.open(f"{app}/fleet?source=east", DESKTOP)
    page.element('input[aria-label="Find"]').send_keys("vllm-0107\n")
    page.until("document.querySelectorAll('tr[data-replica]').length === 1")
    page.until("new URLSearchParams(location.search).get('find') === 'vllm-0107'")
    page.element("tr[data-replica] a", "vllm-0107").click()
    page.until("location.pathname === '/' && new URLSearchParams(location.search).get('instance') === 'vllm-0107'")
