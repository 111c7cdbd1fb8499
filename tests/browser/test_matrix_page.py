"""The support matrix in a real browser: linked, filtered, side by side, at desktop and phone width."""

from importlib.util import find_spec

import pytest

from llmvitals.telemetry.registry import engines
from support.fake_exporter import FakeExporter

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from support.browser import DESKTOP, PHONE, picture, streamlit

pytestmark = pytest.mark.browser
LAPTOP = (1280, 900)
ROWS = "[...document.querySelectorAll('[data-family]')]"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The app over a made exporter."""
    fake = FakeExporter()
    settings = {"sources": [{"name": "prod", "url": fake.url}]}
    with streamlit(settings, tmp_path_factory.mktemp("app")) as found:
        yield found
    fake.close()


@pytest.fixture(autouse=True)
def _calm(page):
    """Every test ends without an exception, a complaint on the console, or a word to another host.

    Opened below its root, Streamlit first looks for its server there, and the browser says so.
    """
    yield
    assert not page.texts('[data-testid="stException"]')
    assert [said for said in page.complaints() if "/sources/_stcore/" not in said] == []
    assert page.hosts() <= {"127.0.0.1"}
    page.leave()


def nothing_sticks_out(page, size):
    page.laid_out(scrolling=".lv-scroll > *")
    assert page.run("return document.documentElement.scrollWidth") <= size[0]


def families(kind):
    """The families that a source is asked for, as the registry has them."""
    return {s.family for engine in engines() if engine.kind == kind for s in engine.support}


@pytest.mark.parametrize(("name", "size"), [("desktop", LAPTOP), ("phone", PHONE)])
def test_every_source_is_in_the_short_table_of_its_group(page, url, name, size):
    page.open(f"{url}/sources", size)
    page.has('[data-group="gpu"]')
    nothing_sticks_out(page, size)
    picture(page, f"sources-{name}")
    for group in ("engine", "gateway", "gpu"):
        shown = page.texts(f'[data-group="{group}"] tbody th')
        assert shown == [engine.title for engine in engines() if engine.origin.value == group]
    row = page.has('[data-group="engine"] tbody tr', "vLLM").text
    assert "8 of 8" in row
    assert "Inside the engine" in page.has('[data-group="engine"] thead').text
    assert "engine" not in page.has('[data-group="gateway"] thead').text.lower()


def test_the_triage_is_the_first_page_and_the_matrix_is_one_click_away(page, url):
    page.open(url, LAPTOP)
    page.has(".lv-verdict")
    picture(page, "sources-navigation")
    page.element('[data-testid="stSidebarNavLink"]', "What each source can say").click()
    page.element('[data-group="engine"] a', "SGLang").click()
    page.has('[data-family="llm_requests_waiting"]')
    page.until("location.pathname === '/sources' && location.search === '?kind=sglang'")


@pytest.mark.parametrize(("name", "size"), [("desktop", DESKTOP), ("phone", PHONE)])
def test_a_link_opens_one_source_with_how_from_what_and_why_not(page, url, name, size):
    page.open(f"{url}/sources?kind=vllm", size)
    page.until(f"{ROWS}.length === {len(families('vllm'))}")
    nothing_sticks_out(page, size)
    picture(page, f"sources-vllm-{name}")
    assert set(page.run(f"return {ROWS}.map(e => e.dataset.family)")) == families("vllm")
    waiting = page.has('[data-family="llm_requests_waiting"]').text
    assert "mapped" in waiting
    assert "vllm:num_requests_waiting" in waiting
    derived = page.has('[data-family="llm_kv_capacity_tokens"]').text
    assert "derived" in derived
    assert "0.4+" in derived


def test_the_filter_and_the_choice_go_into_the_address(page, url):
    page.open(f"{url}/sources?kind=ollama", LAPTOP)
    page.until(f"{ROWS}.length === {len(families('ollama'))}")
    page.element('input[aria-label="Family or series"]').send_keys("preempt")
    page.until(f"{ROWS}.length > 0 && {ROWS}.every(e => e.dataset.family.includes('preempt'))")
    page.until("location.search.includes('family=preempt') && location.search.includes('kind=ollama')")
    assert "not available" in page.has('[data-family="llm_preemptions_total"]').text
    page.element('input[aria-label="Source"]').click()
    page.element('[role="option"]', "vLLM").click()
    page.until("location.search.includes('kind=vllm')")
    page.has('[data-family="llm_preemptions_total"]', "mapped")
    page.open(page.driver.current_url, LAPTOP)
    page.has('[data-family="llm_preemptions_total"]', "mapped")
    assert page.run(f"return {ROWS}.every(e => e.innerText.includes('preempt'))")


@pytest.mark.parametrize(("name", "size"), [("desktop", LAPTOP), ("phone", PHONE)])
@pytest.mark.parametrize("group", ["engine", "gateway", "gpu"])
def test_side_by_side_each_cell_has_a_word_and_the_names_stay_in_sight(page, url, group, name, size):
    page.open(f"{url}/sources?view={group}", size)
    page.has(f'[data-side="{group}"]')
    nothing_sticks_out(page, size)
    members = [engine for engine in engines() if engine.origin.value == group]
    words = page.run(f"return {ROWS}.map(e => [...e.querySelectorAll('td')].map(c => c.innerText.trim()))")
    assert len(words) == len(members[0].support)
    assert {len(row) for row in words} == {len(members)}
    assert {word for row in words for word in row} <= {"mapped", "derived", "no"}
    page.run("document.querySelector('.lv-scroll').scrollTo(300, 400)")
    held = page.run(
        "const box = document.querySelector('.lv-scroll').getBoundingClientRect();"
        "const rows = [...document.querySelectorAll('.lv-wide tbody [data-family] th')];"
        "return [rows.every(e => Math.abs(e.getBoundingClientRect().left - box.left) < 3),"
        " Math.abs(document.querySelector('.lv-wide thead th:last-child').getBoundingClientRect().top - box.top) < 3]"
    )
    picture(page, f"sources-{group}-{name}")
    assert held == [True, True]


def test_the_view_is_chosen_and_the_back_button_returns(page, url):
    page.open(f"{url}/sources", LAPTOP)
    page.element('[data-testid="stButtonGroup"] button', "Gateways side by side").click()
    page.has('[data-side="gateway"]')
    page.until("location.search === '?view=gateway'")
    page.driver.back()
    page.has('[data-group="gateway"]')
    page.until("location.search === '' && !document.querySelector('[data-side]')")
