"""The triage page in a real browser, at desktop and phone width, over made documents and over the real exporter."""

import json
import time
from importlib.util import find_spec

import pytest
import requests

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.simulator.scenarios import scenario
from llmvitals.telemetry.ingest import RawPage
from support.fake_exporter import BLIND, SENTENCES, THRASH, FakeExporter, document
from support.prometheus import wait_for

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from support.browser import DESKTOP, PHONE, picture, streamlit

pytestmark = pytest.mark.browser
CHART = ".lv-chart[data-points] img"
# Of the six conditions of the made cause one has no number; of the six vital signs the exporter keeps five.
LEADING, VITAL = 5, 5
# A folded step of the walk draws what its firing checks looked at: of the thrash three lines, of the full pool two.
FOLDED = 3 + 2
CHARTS = LEADING + VITAL + FOLDED

# For each chart in sight its signal, how many numbers its line has, whether it is drawn, and the words in it.
DRAWN = """
return [...document.querySelectorAll('.lv-ev')].filter(head => !head.closest('details')).map(head => {
  const chart = head.parentElement.querySelector('.lv-chart');
  const image = chart && chart.querySelector('img');
  const words = selector => [...chart.querySelectorAll(selector)].map(e => e.textContent);
  return [head.dataset.signal, chart && {
    points: +chart.dataset.points, drawn: image.complete && image.naturalWidth > 0,
    labels: words('.lim'), since: words('.since'), svg: decodeURIComponent(image.src),
  }];
});
"""


@pytest.fixture(scope="module")
def fake():
    """One made exporter for the module; each test sets what it says."""
    exporter = FakeExporter()
    yield exporter
    exporter.close()


@pytest.fixture(scope="module")
def gone():
    """The address of an exporter that has ended."""
    exporter = FakeExporter()
    exporter.close()
    return exporter.url


@pytest.fixture(scope="module")
def url(fake, gone, tmp_path_factory):
    """The app over both."""
    sources = [{"name": "prod", "url": fake.url}, {"name": "gone", "url": gone}]
    settings = {"exporter": {"interval_seconds": 1.0}, "sources": sources}
    with streamlit(settings, tmp_path_factory.mktemp("app")) as found:
        yield found


def calm(page):
    """No exception, no complaint on the console, no word to another host; then leave the page."""
    assert not page.texts('[data-testid="stException"]')
    # Streamlit looks for its own paths below a page's first
    assert [said for said in page.complaints() if "/runbooks/_stcore/" not in said] == []
    assert page.hosts() <= {"127.0.0.1"}
    page.leave()


@pytest.fixture(autouse=True)
def _calm(fake, page):
    """Every test starts with the cause and ends calm."""
    fake.verdict, fake.answers, fake.late = "cause", {}, {}
    yield
    calm(page)


def opened(page, url, size=DESKTOP):
    """Load the page and wait until the walk's last step and all charts are drawn."""
    page.open(url, size)
    page.has('[data-step="7"]')
    page.until(f"document.querySelectorAll('{CHART}').length === {CHARTS}")


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_the_verdict_its_number_and_its_confidence_are_on_top(page, url, name, size):
    opened(page, url, size)
    picture(page, f"cause-{name}")
    top = page.has(".lv-verdict")
    for said in ("Cause found", "Preemption thrash", SENTENCES["cause"], "94 %", "high", "vllm-0", "llama-3-8b"):
        assert said in top.text
    action = page.has(".lv-action")
    assert "max_num_seqs = 4" in action.text
    assert THRASH["action"]["text"] in action.text
    assert top.y < action.y < 700
    page.laid_out(scrolling="pre")
    assert page.run("return document.documentElement.scrollWidth") <= size[0]


def test_every_line_has_its_limit_drawn_in(page, url):
    opened(page, url)
    drawn = dict(page.run(DRAWN))
    assert list(drawn)[:6] == [e["signal"] for e in THRASH["evidence"]]
    assert drawn.pop("gpu_sm_active_ratio") is None
    assert all(found["drawn"] and found["points"] > 1 for found in drawn.values())
    assert {signal: found["labels"] for signal, found in drawn.items()} == {
        "preemptions_per_minute": ["limit 5 /min"],
        "preemption_spread_ratio": ["limit 33.3 %"],
        "kv_usage_high_ratio": ["limit 95 %"],
        "preemptions_per_completion": ["limit 0.1"],
        "waiting_share_ratio": ["limit 50 %"],
        "ttft_p95_seconds": ["limit 2 s"],
        "tpot_p95_seconds": ["limit 50 ms"],
        "requests_waiting": [],
        "requests_running": [],
        "generation_tokens_rate": [],
    }
    for found in drawn.values():
        assert found["svg"].count("stroke-dasharray") == found["svg"].count("<rect") == len(found["labels"])


def test_a_number_and_a_gap_are_told_beside_their_limit(page, url):
    opened(page, url)
    measured = page.has('[data-signal="preemptions_per_minute"]').text
    assert "126 /min" in measured
    assert "limit > 5 /min" in measured
    assert "Speaks for it" in measured
    absent = page.has('[data-signal="gpu_sm_active_ratio"]').text
    assert "no data" in absent
    assert "no GPU is joined" in absent


def test_steps_in_order_with_states_and_reasons_then_what_it_is_blind_to(page, url):
    opened(page, url)
    steps = page.run("return [...document.querySelectorAll('[data-step]')].map(e => e.dataset.step)")
    assert steps == [str(n) for n in range(8)]
    places = [page.has(f'[data-step="{n}"]').y for n in range(8)]
    assert places == sorted(places)
    thrash = page.has('[data-cause="preemption-thrash"]').text
    assert "Firing" in thrash
    assert "Work is evicted and computed again." in thrash
    for cause, word in (
        ("kv-cache-saturation", "Shadowed"),
        ("vram-headroom", "Unknown"),
        ("adapter-slots", "Not applicable"),
    ):
        assert word in page.has(f'[data-cause="{cause}"]').text
        assert page.run(f"return !document.querySelector('[data-cause=\"{cause}\"] .lv-good')")
    shown = page.has(".stMain").text
    for item in BLIND:
        assert all(item[key] in shown for key in ("what", "why", "series"))
    assert "Unbounded output" in page.has("[data-contributing]").text


def test_the_runbook_is_inside(page, url):
    opened(page, url)
    page.element("summary", "Runbook: Preemption thrash").click()
    page.has(".stMarkdown", "More requests were admitted than the KV pool can hold")
    page.has(".stMarkdown", "--max-num-seqs")


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_a_runbook_is_turkish_where_the_address_says_so(page, url, name, size):
    page.open(f"{url}/?lang=tr", size)
    page.has('[data-step="7"]')
    page.run("[...document.querySelectorAll('.stMain summary')].slice(0, 3).forEach(e => e.click())")
    page.has(".stMarkdown h2", "Anlamı")
    page.laid_out(scrolling="pre")
    picture(page, f"turkish-{name}")


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_a_page_of_runbooks_leads_to_the_others(page, url, name, size):
    page.open(f"{url}/runbooks?page=target-gone", size)
    page.has("h1", "No page from a target")
    page.laid_out(scrolling="pre")
    picture(page, f"runbook-{name}")
    link = page.run(
        "return [...document.querySelectorAll('.stMarkdown a')].find(a => a.href.includes('page=not-serving')).href"
    )
    assert link == f"{url}/runbooks?page=not-serving"
    page.open(link, size)
    page.has(".stMarkdown", "not-serving")


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
@pytest.mark.parametrize("lang", ["en", "tr"])
def test_a_runbook_shows_its_picture_without_loading_it_from_anywhere(page, url, name, size, lang):
    page.open(f"{url}/runbooks?page=first-tokens-late&lang={lang}", size)
    wide, source = page.until(
        "(e => e && e.complete && e.naturalWidth > 0 && [e.getBoundingClientRect().width, e.src])"
        "(document.querySelector('.stMain [data-testid=stImage] img'))"
    )
    assert source.startswith(("data:image/svg+xml", f"{url}/media/")), "from the app itself"
    assert 250 < wide <= size[0]
    page.laid_out(scrolling="pre")
    picture(page, f"runbook-picture-{lang}-{name}")


REFRESHED = """
const main = document.querySelector('.stMain');
return {scroll: main.scrollTop, height: main.scrollHeight, open: document.querySelectorAll('details[open]').length};
"""
# Watches from one moment on for any in which the verdict or a chart was not there, or something moved or faded.
WATCH = """
const main = document.querySelector('.stMain'), seen = window.lvSeen = {empty: 0, moved: 0, faded: 0, frames: 0};
const scroll = main.scrollTop, height = main.scrollHeight, step = document.querySelector('[data-step="1"]');
const top = step.getBoundingClientRect().top;
const look = () => {
  seen.frames++;
  const charts = document.querySelectorAll('.lv-chart img');
  if (!document.querySelector('.lv-verdict h1') || charts.length !== arguments[0]
    || [...charts].some(e => e.offsetParent && !e.complete)) seen.empty++;
  if (main.scrollTop !== scroll || main.scrollHeight !== height
    || document.querySelector('[data-step="1"]').getBoundingClientRect().top !== top) seen.moved++;
  const shown = [...document.querySelectorAll('.lv-verdict, .lv-step, .lv-chart')];
  if (shown.some(e => getComputedStyle(e).opacity !== '1')) seen.faded++;
  window.lvFrame = requestAnimationFrame(look);
};
look();
"""


def test_three_refreshes_neither_fold_nor_jump_nor_flicker(page, url, fake):
    opened(page, url, (1280, 900))
    page.element("summary", "Measured in step 1").click()
    page.has(".lv-table caption", "VRAM headroom")
    page.run("document.querySelector('.stMain').scrollTo(0, 1500)")
    page.until("[...document.images].every(e => e.complete) && !document.getAnimations().length")  # it opens slowly
    before = page.run(REFRESHED)
    assert before["scroll"] > 1000
    assert before["open"] == 1
    page.run(WATCH, CHARTS)
    for number in range(3):
        told = f"evicted {number} times".encode()
        fake.answers["/triage"] = (200, json.dumps(document()).encode().replace(b"evicted and computed again", told))
        page.has('[data-cause="preemption-thrash"]', told.decode())
        assert page.run(REFRESHED) == before
    seen = page.run("cancelAnimationFrame(window.lvFrame); return window.lvSeen")
    assert seen["frames"] > 10
    assert (seen["empty"], seen["moved"], seen["faded"]) == (0, 0, 0)
    assert "VRAM headroom" in page.has(".lv-table caption", "VRAM headroom").text


def test_the_verdict_is_there_while_the_minutes_before_are_waited_for(page, url, fake):
    fake.late["/history"] = 3.0
    page.open(url)
    page.has(".lv-verdict", SENTENCES["cause"])
    page.has(".lv-action", "max_num_seqs = 4")
    page.has(".lv-line", "The minutes before are asked for.")
    assert not page.driver.find_elements("css selector", CHART)
    page.has("[data-since]", "looked up")
    page.until(f"document.querySelectorAll('{CHART}').length === {CHARTS}")
    page.has("[data-since]", "Since ")


def test_what_is_waited_for_is_said_while_there_is_no_verdict_yet(page, url, fake):
    fake.late["/triage"] = 3.0
    page.open(f"{url}/?source=prod&instance=vllm-1&model=llama-3-8b")
    page.has(".lv-line", "The verdict of vllm-1 · llama-3-8b is asked for.")
    page.has(".lv-verdict", SENTENCES["healthy"])


def test_a_history_that_fails_costs_the_lines_alone(page, url, fake):
    fake.answers["/history"] = (500, b"")
    page.open(url)
    page.has(".lv-line", "500")
    page.has('[data-step="7"]')
    page.has(".lv-verdict", SENTENCES["cause"])
    page.has("[data-since]", "Since when is not known.")
    page.has('[data-signal="preemptions_per_minute"]', "126 /min")


def test_since_when_is_said_in_words_and_marked_in_the_charts(page, url, fake):
    opened(page, url)
    said = page.has("[data-since]", "Since ").text
    at = said.removeprefix("Since ").removesuffix(" UTC")
    drawn = dict(page.run(DRAWN))
    assert drawn["preemptions_per_minute"]["since"] == [f"since {at}"]
    assert drawn["ttft_p95_seconds"]["since"] == []
    assert f"since {at} UTC" in page.has('[data-cause="preemption-thrash"]').text
    assert "since before " in page.has('[data-cause="kv-cache-saturation"]').text


@pytest.mark.parametrize("verdict", ["healthy", "shedding", "no-traffic", "undetermined"])
def test_other_verdicts(page, url, fake, verdict):
    fake.verdict = verdict
    page.open(url)
    top = page.has(".lv-verdict", SENTENCES[verdict])
    picture(page, verdict)
    page.has('[data-step="7"]')
    assert not page.driver.find_elements("css selector", ".lv-action")
    green = "lv-good" in top.classes
    assert green == (verdict == "healthy")
    if verdict in ("no-traffic", "undetermined"):
        page.until("!document.querySelector('[data-step] .lv-good')")


def test_a_link_from_an_alert_lands_on_its_scope_and_stays_there(page, url):
    page.open(f"{url}/?source=prod&instance=vllm-1&model=llama-3-8b")
    page.has(".lv-verdict", "vllm-1")
    page.has(".lv-verdict", SENTENCES["healthy"])
    page.open(url)
    page.has(".lv-verdict", SENTENCES["cause"])
    page.element('[data-testid="stSidebar"] input[aria-label="Scope"]').click()
    page.element('[role="option"]', "vllm-1").click()
    page.has(".lv-verdict", SENTENCES["healthy"])
    page.until("location.search.includes('instance=vllm-1')")
    page.open(page.driver.current_url)
    page.has(".lv-verdict", SENTENCES["healthy"])


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_an_unreachable_source_is_one_clear_line(page, url, gone, size):
    page.open(f"{url}/?source=gone", size)
    line = page.has(".lv-line", "Source unreachable")
    picture(page, "unreachable")
    assert f"{gone}/triage" in line.text
    assert "cannot be reached" in line.text
    assert not page.driver.find_elements("css selector", ".lv-verdict")
    page.laid_out(scrolling="pre")


def test_the_last_verdict_stays_marked_while_the_source_is_away(page, url, fake):
    opened(page, url)
    fake.answers["/triage"] = (503, b"{}")
    page.has(".lv-line", "last verdict shown")
    picture(page, "stale")
    assert "lv-stale" in page.has(".lv-verdict", SENTENCES["cause"]).classes
    del fake.answers["/triage"]
    page.until("!document.querySelector('.lv-stale') && !document.body.innerText.includes('last verdict shown')")


def test_a_url_may_be_typed_in_on_loopback(page, url):
    other = FakeExporter()
    other.verdict = "shedding"
    try:
        opened(page, url)
        page.element("summary", "Another URL").click()
        field = page.until("document.querySelector('[data-testid=\"stTextInput\"] input[placeholder^=http]')")
        page.until("arguments.length === 0 && document.querySelector('[placeholder^=http]').offsetParent !== null")
        field.send_keys(other.url + "\n")
        page.has(".lv-verdict", SENTENCES["shedding"])
    finally:
        other.close()


def test_no_source_and_a_page_for_everybody(page, tmp_path):
    with streamlit({}, tmp_path, address="0.0.0.0") as found:
        page.open(found)
        page.has(".lv-line", "No source configured")
        assert not page.driver.find_elements("css selector", '[data-testid="stTextInput"]')
        calm(page)


SECONDS = 60
LIMITS = Limits(listen="127.0.0.1:0", interval_seconds=3600.0, window_seconds=30.0, timeout_seconds=60.0)


@pytest.fixture(scope="module")
def simulated():
    """The real exporter over the simulated engine, 50 s into its long answers.

    It is given the cycles of the past minute, makes one of its own at its start, and then none for an hour: what it
    says does not change while the page is read.
    """
    origin = time.time() - SECONDS
    live = scenario("preemption").live(origin=origin)
    target = Target(url="http://127.0.0.1:9/metrics", name="simulated", gpu_url="http://127.0.0.1:9/gpu")

    def pages(t):
        engine, gpu = (RawPage(t, 0.01, 200, body, "") for body in (live.page_at(t), live.gpu_page_at(t)))
        return {target.name: engine}, {target.gpu_url: gpu}

    def fetch(asked, *, timeout_s):
        engine, gpu = pages(origin + SECONDS)
        return gpu[target.gpu_url] if asked.startswith(target.gpu_url) else engine[target.name]

    settings = Settings(targets=(target,), exporter=LIMITS)
    exporter, past = Exporter(settings, fetch=fetch), Engine(settings)
    for second in range(0, SECONDS, 2):
        exporter.recall(*pages(origin + second))
        past.record(*pages(origin + second))
        exporter.board.post(past.publish(origin + second))
    with exporter:
        wait_for(lambda: exporter.board.cycles > len(range(0, SECONDS, 2)), "the exporter's own cycle")
        yield exporter


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_the_page_says_what_the_real_exporter_says(page, simulated, tmp_path, name, size):
    told = requests.get(f"{simulated.url}/triage", timeout=60).json()
    assert told["leading"]["cause"] == "preemption-thrash"
    seats = told["leading"]["action"]["value"]
    settings = {"exporter": {"interval_seconds": 3600.0}, "sources": [{"name": "simulation", "url": simulated.url}]}
    with streamlit(settings, tmp_path) as found:
        page.open(found, size)
        page.has(".lv-verdict", told["sentence"])
        assert page.has(".lv-set").text.split()[-1] == f"{seats:.0f}"
        evidence = {e["signal"] for e in told["leading"]["evidence"] if e["value"] is not None}
        page.has("[data-step='7']")
        page.until(f"document.querySelectorAll('{CHART}').length >= {len(evidence)} + 4")
        drawn = dict(page.run(DRAWN))
        assert all(drawn[signal]["points"] for signal in evidence)
        assert drawn["preemptions_per_minute"]["labels"]
        steps = [step["title"] for step in told["steps"]]
        heads = page.texts("[data-step] h3")
        assert all(
            shown.startswith(f"{n} · {title}") for n, (title, shown) in enumerate(zip(steps, heads, strict=True))
        )
        states = {c["cause"]: c["state"].replace("-", " ") for step in told["steps"] for c in step["checks"]}
        for cause, state in states.items():
            assert state in page.has(f'[data-cause="{cause}"]').text.lower()
        page.laid_out(scrolling="pre")
        picture(page, f"real-{name}")
        calm(page)
