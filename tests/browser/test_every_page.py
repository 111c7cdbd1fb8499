"""Every page of the app as people open it: at desktop and phone width, in each language, light and dark.

What must hold on all of them: something is there, no error, nothing on the console, nothing asked of another host, nothing that
sticks out, text that can be read on its ground, and in Turkish no text left in English that has a translation.
"""

import ast
from importlib.util import find_spec

import pytest

from llmvitals.app.runbook import LANGUAGES
from llmvitals.app.translation import catalogue
from llmvitals.data import folder
from support.fake_exporter import FakeExporter

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from selenium.webdriver import ActionChains, Keys

from support.browser import DESKTOP, PHONE, picture, streamlit

pytestmark = pytest.mark.browser

SIZES = {"desktop": DESKTOP, "phone": PHONE}
GROUNDS = {"light": 128, "dark": 127}
SCROLLS = ".lv-scroll, .stVegaLiteChart, [data-testid='stDataFrame'], pre, [role='tablist'], [data-testid='stMarkdownContainer']"
SHOWN = ".stMain .lv, .stMain h1"
# The script has run to its end, and every chart has its drawing.
SETTLED = """document.querySelector('.stApp').dataset.testScriptState === 'notRunning'
  && [...document.querySelectorAll('.stVegaLiteChart')].every(e => !e.offsetParent || e.querySelector('svg, canvas'))"""

# How light the ground of the page is, from 0 to 255.
GROUND = (
    "(getComputedStyle(document.querySelector('.stApp')).backgroundColor.match(/[\\d.]+/g) || [])"
    ".slice(0, 3).reduce((a, b) => a + +b, 0) / 3"
)

# Texts of ours with less contrast than WCAG 2.2 asks for (4.5; 3 for large ones), with what they have.
FAINT = """
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const parse = text => { const v = rgb(text); const unit = /^color\\(/.test(text) ? 255 : 1;
  return [v[0] * unit, v[1] * unit, v[2] * unit, v.length > 3 ? v[3] : 1]; };
const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const light = c => { const f = c.slice(0, 3).map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; });
  return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
const ground = e => { const layers = [];
  for (let at = e; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, one) => over(one, below), [255, 255, 255, 1]); };
const clear = e => { let all = 1; for (let at = e; at; at = at.parentElement) all *= +getComputedStyle(at).opacity; return all; };
return [...document.querySelectorAll('.stMain .lv *')].filter(e => e.getClientRects().length
    && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
  const style = getComputedStyle(e), below = ground(e), ink = parse(style.color);
  const mixed = over([...ink.slice(0, 3), ink[3] * clear(e)], below);
  const [a, b] = [light(mixed), light(below)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && +style.fontWeight >= 700);
  return {text: e.innerText.slice(0, 40), ratio, least: large ? 3 : 4.5}; }).filter(f => f.ratio < f.least - .05);
"""


def pages():
    """The path and the file of every page, as the entry lists them."""
    tree = ast.parse((folder("app") / "streamlit_app.py").read_text(encoding="utf-8"))
    listed = next(n.value for n in tree.body if isinstance(n, ast.AnnAssign) and n.target.id == "PAGES")
    return [(row.elts[2].value, row.elts[0].value.removesuffix("_page.py")) for row in listed.elts]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The app over one made exporter that is asked anew once a minute."""
    fake = FakeExporter()
    settings = {"exporter": {"interval_seconds": 60.0}, "sources": [{"name": "prod", "url": fake.url}]}
    with streamlit(settings, tmp_path_factory.mktemp("app")) as found:
        yield found
    fake.close()


def ground(page, theme):
    """The page in that theme, as the system asks for it."""
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    page.until(f"{GROUND} {'>' if theme == 'light' else '<'} {GROUNDS[theme]}", f"the {theme} theme")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("path", "name"), pages())
def test_a_page_holds_at_every_width_in_every_language_and_theme(page, url, path, name, size, language):
    page.open(f"{url}/{path}?lang={language}", SIZES[size])
    page.until(f"document.querySelectorAll({SHOWN!r}).length > 0 && {SETTLED}", f"the page {name}")
    page.laid_out(SCROLLS)
    for theme in GROUNDS:
        ground(page, theme)
        picture(page, f"page-{name}-{size}-{language}-{theme}")
        assert page.run(FAINT) == []
    assert page.texts('[data-testid="stException"]') == []
    # opened below its root, Streamlit first looks for its server there, and the browser says so
    assert [said for said in page.complaints() if f"/{path}/_stcore/" not in said] == []
    assert page.hosts() <= {"127.0.0.1"}
    if language != "en":
        known = {english for english, said in catalogue(language).items() if english != said and " " in english}
        lines = {line.strip() for line in page.run("return document.body.innerText").splitlines()}
        assert lines & known == set()
    page.leave()


# What can be operated and is shown; of a group of radio buttons one is reached by Tab, the others by arrows.
CONTROLS = """[...document.querySelectorAll(':is(.stMain, .stSidebar) :is(a[href], button, input, textarea, summary)')]
  .filter(e => e.checkVisibility({opacityProperty: true, visibilityProperty: true}) && !e.disabled
    && (e.tagName === 'SUMMARY' || !e.closest('details:not([open])')) && e.tabIndex >= 0 && e.getAttribute('role') !== 'radio'
    && !(e.type === 'radio') && !e.closest('[aria-hidden="true"]'))"""
LEFT = (
    f"return ({CONTROLS}).filter(e => !e.dataset.reached)"
    ".map(e => (e.getAttribute('aria-label') || e.innerText || e.type).slice(0, 40))"
)


@pytest.mark.parametrize("path", ["", "fleet", "capacity", "audit"])
def test_every_control_is_reached_by_tab(page, url, path):
    page.open(f"{url}/{path}", DESKTOP)
    page.until(f"document.querySelectorAll({SHOWN!r}).length > 0 && {SETTLED}", "the page")
    page.driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    for _ in range(page.run(f"return ({CONTROLS}).length") + 40):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        page.run("document.activeElement.dataset.reached = '1'")
        if not page.run(LEFT):
            break
    assert page.run(LEFT) == []
    page.leave()
