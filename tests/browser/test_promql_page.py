"""A moment of the past from a real Prometheus: verdict, lines and scope choice, in process and in a real browser."""

from datetime import UTC, datetime
from importlib.util import find_spec

import pytest

from llmvitals.app.ask import ask
from llmvitals.app.past import ask_past, drawn
from llmvitals.exporters.page import recording
from llmvitals.series import Window
from llmvitals.settings import Exporter, Settings, Source
from llmvitals.simulator.scenarios import scenario
from llmvitals.sources.promql import read_prometheus
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.course import began
from llmvitals.triage.walk import diagnose
from support.prometheus import PrometheusServer, load_blocks

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from support.browser import browser, picture, streamlit

pytestmark = [pytest.mark.browser, pytest.mark.prometheus]
START, SECONDS, STEP = 1_700_000_000.0, 90, 3
AT = START + SECONDS
SCENARIOS = {"calm": "healthy", "thrashing": "preemption"}


def snapshots(name, kind):
    """What the exporter would have stored of a simulated server."""
    live, ingest = scenario(kind).live(origin=START), Ingest(instance=name)
    moments = [START + second for second in range(0, SECONDS + 1, STEP)]
    return [ingest.snapshot(RawPage(t, 0.01, 200, live.page_at(t), "")) for t in moments]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A Prometheus that holds a minute and a half of two simulated servers."""
    folder = tmp_path_factory.mktemp("prometheus")
    stored = [s for name, kind in SCENARIOS.items() for s in snapshots(name, kind)]
    load_blocks([recording(stored).decode()], folder / "data")
    with PrometheusServer(folder) as server:
        yield server


def test_the_walk_over_stored_samples_names_what_the_pages_show(prometheus):
    settings = Settings(exporter=Exporter(window_seconds=30.0))
    source = Source(name="fleet", url=prometheus.url, kind="prometheus")
    answer = ask(source, {"instance": "thrashing", "model": ""}, AT, settings)
    assert answer.verdict.leading.cause == "preemption-thrash"
    assert {m.instance: m.leading for m in answer.members}["calm"] == ""
    past = ask_past(source, answer.current({}), drawn(answer.verdict), AT, settings, scopes=len(answer.members))
    line = past.traces["preemptions_per_minute"]
    assert line.times[-1] == AT
    assert len(line.times) > 10
    since = began(past.course)["preemption-thrash"]
    assert (since.before, since.t) == (True, START + 30), "it shows in the first window that there is"
    # The long answers begin 10 s into the recording: at first nothing is thrown out, at the end much is.
    assert line.values[-1] > 5
    (seen,) = read_prometheus(prometheus.url, selector='{instance="thrashing"}', at=AT, seconds=30.0)
    again = diagnose(Window.of(seen.snapshots), settings)
    assert answer.verdict.leading.action == again.leading.action


def test_the_page_shows_that_moment(prometheus, tmp_path):
    settings = {
        "exporter": {"window_seconds": 30.0},
        "sources": [{"name": "fleet", "url": prometheus.url, "kind": "prometheus"}],
    }
    at = datetime.fromtimestamp(AT, UTC).strftime("%Y-%m-%d %H:%M:%S")
    with streamlit(settings, tmp_path) as url, browser() as page:
        page.open(f"{url}/?source=fleet&instance=thrashing&at={at}".replace(" ", "%20"))
        top = page.has(".lv-verdict", "Preemption thrash")
        assert f"ending {at} UTC" in top.text
        assert "data " not in top.text  # no age: the past does not grow old
        page.until("document.querySelectorAll('.lv-chart img').length >= 6")
        picture(page, "promql")
        assert page.has('input[aria-label="Time (UTC)"]')
        field = page.element('input[aria-label="Time (UTC)"]')
        field.clear()
        field.send_keys("yesterday\n")
        page.has(".lv-line", "Write 'now', or UTC as")
        assert not page.texts('[data-testid="stException"]')
        assert page.complaints() == []


def test_a_dashboards_link_shows_the_moment_at_its_right_edge(prometheus, tmp_path):
    settings = {
        "exporter": {"window_seconds": 30.0},
        "sources": [{"name": "fleet", "url": prometheus.url, "kind": "prometheus"}],
    }
    edge = f"from={(AT - 1800) * 1000:.0f}&to={AT * 1000:.0f}"
    with streamlit(settings, tmp_path) as url, browser() as page:
        page.open(f"{url}/?var-cluster=$__all&var-namespace=$__all&var-model=$__all&var-instance=thrashing&{edge}")
        top = page.has(".lv-verdict", "Preemption thrash")
        assert f"ending {datetime.fromtimestamp(AT, UTC):%Y-%m-%d %H:%M:%S} UTC" in top.text
        page.until("new URLSearchParams(location.search).get('instance') === 'thrashing'")
        page.until("!location.search.includes('var-') && !location.search.includes('to=')")
        assert not page.texts('[data-testid="stException"]')
        assert page.complaints() == []
