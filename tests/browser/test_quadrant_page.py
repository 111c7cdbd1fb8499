"""The picture of replicas in a real browser: drawn, named, listed, reachable, at desktop and phone width; and a moment of
the past from a real Prometheus.
"""

from datetime import UTC, datetime
from importlib.util import find_spec

import pytest

from llmvitals.exporters.page import recording
from llmvitals.series import Snapshot, series
from llmvitals.simulator.scenarios import scenario
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.replica import QUADRANTS
from support.fake_exporter import FakeExporter, replicas
from support.prometheus import PrometheusServer, load_blocks

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from support.browser import picture, streamlit

pytestmark = pytest.mark.browser
LAPTOP, PHONE = (1280, 1500), (400, 3000)
SVG = ".stVegaLiteChart svg"
# The marks of the chart: points with their fill, the words, and where the limits lie.
DRAWN = f"""
const svg = document.querySelector('{SVG}');
const box = e => e.getBoundingClientRect();
return {{
  points: [...svg.querySelectorAll('.mark-symbol path[aria-label]')].filter(e => box(e).width > 6)
    .map(e => [e.getAttribute('fill'), e.getAttribute('stroke'),
    box(e).width, box(e).x + box(e).width / 2, box(e).y + box(e).height / 2]),
  words: [...svg.querySelectorAll('.mark-text text')].map(e => e.textContent),
  rules: [...svg.querySelectorAll('.mark-rule line')].map(e => [box(e).x, box(e).y, box(e).width, box(e).height]),
  edge: box(svg).right,
}};
"""


@pytest.fixture(scope="module")
def fake():
    """One made exporter for the module."""
    exporter = FakeExporter()
    yield exporter
    exporter.close()


@pytest.fixture(scope="module")
def url(fake, tmp_path_factory):
    """The app over it."""
    settings = {"exporter": {"interval_seconds": 1.0}, "sources": [{"name": "prod", "url": fake.url}]}
    with streamlit(settings, tmp_path_factory.mktemp("app")) as found:
        yield found


@pytest.fixture(autouse=True)
def _calm(fake, page):
    """Every test ends without an exception, a complaint on the console, or a word to another host."""
    fake.answers = {}
    yield
    assert not page.texts('[data-testid="stException"]')
    # opened below its root, Streamlit first looks for its server there, and the browser says so
    assert [said for said in page.complaints() if "/replicas/_stcore/" not in said] == []
    assert page.hosts() <= {"127.0.0.1"}
    page.leave()


def opened(page, url, size=LAPTOP, query=""):
    """Load the picture and wait until it is laid out: a chart is there before it has its width."""
    page.open(f"{url}/replicas{query}", size)
    page.until(f"document.querySelectorAll('{SVG} .mark-symbol path').length > 0")
    page.laid_out()
    return page.run(DRAWN)


@pytest.mark.parametrize(("name", "size"), [("desktop", LAPTOP), ("phone", PHONE)])
def test_every_replica_stands_in_its_quadrant_with_its_name(page, url, name, size):
    drawn = opened(page, url, size)
    picture(page, f"replicas-{name}")
    assert page.run("return document.documentElement.scrollWidth") <= size[0]
    down, across = (next(r for r in drawn["rules"] if r[side] > 50) for side in (3, 2))
    left, height = down[0], across[1]
    seen = {(x > left, y < height) for _, _, _, x, y in drawn["points"]}
    assert seen == {(full, busy) for full in (True, False) for busy in (True, False)}
    assert len(drawn["points"]) == 5
    assert all(x < drawn["edge"] for *_, x, _ in drawn["points"])
    said = " ".join(" ".join(words.split()) for words in drawn["words"])
    assert all(part in said for quadrant in QUADRANTS for part in quadrant.title.split()[:2])
    assert {"vllm-0 (12)", "vllm-1 (1)", "vllm-2 (4)", "vllm-3", "vllm-4"} <= set(drawn["words"])


def test_waiting_is_size_and_colour_and_utilisation_is_hollow(page, url):
    drawn = opened(page, url)
    filled = [p for p in drawn["points"] if p[0] not in (None, "none", "transparent")]
    hollow = [p for p in drawn["points"] if p not in filled]
    assert [p[1] for p in hollow] == ["#3d7fc4"]
    tones = sorted((tone, width) for tone, _, width, *_ in filled)
    assert [tone for tone, _ in tones] == ["#3d7fc4", "#d65a22", "#d65a22", "#d65a22"]
    assert max(width for _, width in tones) > 1.3 * min(width for _, width in tones)


def test_what_has_no_place_is_listed_with_its_reason(page, url):
    opened(page, url)
    assert "GPU 3 is not on the GPU page" in page.has('[data-missing="sglang-0"]').text
    assert "refused the connection" in page.has('[data-missing="vllm-9"]').text
    row = page.has('[data-replica="vllm-0"]').text
    for said in (
        "98.5 %",
        "31 % SMs active",
        "Memory binds",
        "KV cache",
        "joined by pod labels",
        "KV cache saturation",
    ):
        assert said in row
    assert "utilisation (not compute)" in page.has('[data-replica="vllm-4"]').text


def test_a_tooltip_has_the_numbers_and_the_join(page, url):
    drawn = opened(page, url)
    *_, x, y = max(drawn["points"], key=lambda p: p[2])
    for kind in ("mouseMoved", "mouseMoved"):
        page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y})
        x += 1
    text = page.has("#vg-tooltip-element", "vllm-0").text
    picture(page, "replicas-tooltip")
    for said in ("98.5 % (estimate)", "31 % SMs active", "12", "GPU 0, joined by pod labels", "KV cache", "22 %"):
        assert said in text


def test_the_way_of_a_chosen_replica_ends_on_its_point(page, url):
    opened(page, url, query="?instance=vllm-0&model=llama-3-8b")
    page.until(f"document.querySelectorAll('{SVG} .mark-line path').length === 1")
    picture(page, "replicas-way")
    ends = page.run(
        f"const path = document.querySelector('{SVG} .mark-line path'), box = path.getBoundingClientRect();"
        "return [box.right, box.bottom]"
    )
    *_, x, y = max(page.run(DRAWN)["points"], key=lambda p: p[2])
    assert abs(ends[0] - x) < 3
    assert abs(ends[1] - y) < 3


def test_the_picture_is_a_click_away_and_leads_to_a_replicas_verdict(page, url):
    page.open(url, LAPTOP)
    page.has(".lv-verdict")
    page.element('[data-testid="stSidebarNavLink"]', "KV usage against compute").click()
    page.has('[data-replica="vllm-1"]')
    page.element('[data-replica="vllm-1"] a', "vllm-1").click()
    page.has(".lv-verdict", "vllm-1")
    page.until("location.search.includes('instance=vllm-1') && location.pathname === '/'")


def test_when_the_source_fails_the_last_picture_stays_and_is_called_old(page, url, fake):
    opened(page, url)
    fake.answers["/replicas"] = (500, b"")
    page.has(".lv-line", "answered with status 500")
    assert page.texts('[data-replica="vllm-0"]')
    fake.answers["/replicas"] = replicas(now=1_700_000_000.0)
    page.has(".lv-line", "Stale")
    fake.answers["/replicas"] = replicas() | {"replicas": []}
    page.has(".lv-line", "No engine is watched")


START, SECONDS, STEP = 1_800_000_000.0, 90, 3
AT = START + SECONDS
# A simulated server and what its GPU is made to do: SM activity, or only utilisation.
STORED = {
    "calm": ("healthy", {"sm_active_ratio": 0.2}),
    "thrashing": ("preemption", {"sm_active_ratio": 0.7}),
    "blind": ("healthy", {"busy_ratio": 0.9}),
    "bare": ("healthy", {}),
}


def stored(name):
    """What the exporter would have stored of it."""
    kind, gpu = STORED[name]
    live, ingest = scenario(kind).live(origin=START), Ingest(instance=name)
    card = {"instance": name, "gpu": "GPU-a", "index": "2", "join": "configured"}
    beside = {series(f"llm_gpu_{family}", **card): value for family, value in gpu.items()}
    for second in range(0, SECONDS + 1, STEP):
        page = ingest.snapshot(RawPage(START + second, 0.01, 200, live.page_at(START + second), ""))
        yield Snapshot(page.t, {**page.samples, **beside}, page.detail)


@pytest.mark.prometheus
def test_a_moment_of_the_past_from_a_prometheus(page, tmp_path):
    load_blocks([recording([s for name in STORED for s in stored(name)]).decode()], tmp_path / "data")
    at = datetime.fromtimestamp(AT, UTC).strftime("%Y-%m-%d %H:%M:%S").replace(" ", "%20")
    with PrometheusServer(tmp_path) as server:
        sources = [{"name": "fleet", "url": server.url, "kind": "prometheus"}]
        settings = {"exporter": {"window_seconds": 30.0}, "sources": sources}
        with streamlit(settings, tmp_path) as url:
            drawn = opened(page, url, query=f"?source=fleet&instance=thrashing&model=sim-8b&at={at}")
            page.until(f"document.querySelectorAll('{SVG} .mark-line path').length === 1")
            picture(page, "replicas-promql")
            assert len(drawn["points"]) == 3
            assert "Full and working" in page.has('[data-replica="thrashing"]').text
            calm = page.has('[data-replica="calm"]').text
            for said in ("Idle", "20 % SMs active", "GPU 2, as configured"):
                assert said in calm
            assert "not compute" in page.has('[data-replica="blind"]').text
            assert "no GPU is joined" in page.has('[data-missing="bare"]').text
            assert " ago" not in page.has(".lv-page").text  # the past does not grow old
            page.leave()
