"""The capacity page in a real browser: linked, pasted into, by keyboard, and narrow."""

import json
from importlib.util import find_spec

import pytest

from support import model_configs as known

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from selenium.webdriver.common.keys import Keys

from support.browser import DESKTOP, PHONE, picture, streamlit

pytestmark = pytest.mark.browser
LINK = "/capacity?known=Llama-3.3-70B&gpus=2&weights=fp8&context=4000"
SCROLLS = ".lv-scroll, .stVegaLiteChart, [role='tablist'], [data-testid='stMarkdownContainer']"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The app without any source."""
    with streamlit({}, tmp_path_factory.mktemp("app")) as found:
        yield found


@pytest.fixture(autouse=True)
def _calm(page):
    """Every test ends without an exception, a complaint on the console, or a word to another host.

    Opened below its root, Streamlit first looks for its server there, and the browser says so.
    """
    yield
    assert not page.texts('[data-testid="stException"]')
    assert [said for said in page.complaints() if "/capacity/_stcore/" not in said] == []
    assert page.hosts() <= {"127.0.0.1"}
    page.leave()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_link_shows_seats_and_nothing_sticks_out(page, url, size):
    page.open(url + LINK, size)
    assert "50" in page.has("[data-capacity]").text
    page.until("document.querySelector('.stVegaLiteChart canvas, .stVegaLiteChart svg')")
    page.laid_out(scrolling=SCROLLS)
    assert page.run("return document.documentElement.scrollWidth") <= size[0]
    picture(page, f"capacity-{size[0]}")
    for tab, has in (
        ("Layouts", "the weights do not fit"),
        ("Queue", "Little's law"),
        ("Plan for users", "Work out the plan"),
    ):
        page.element("[role='tab']", tab).click()
        page.has(".stMain [role='tabpanel']", has)
        page.laid_out(scrolling=SCROLLS)
        picture(page, f"capacity-{size[0]}-{tab.split()[0].lower()}")


def test_a_config_is_pasted_and_only_keys_are_used(page, url):
    page.open(url + "/capacity?gpus=2&weights=fp8&context=4000")
    box = page.element("textarea")
    page.run("arguments[0].focus()", box)
    box.send_keys(json.dumps(known.LLAMA_70B), Keys.CONTROL, Keys.ENTER)
    assert "50" in page.has("[data-capacity]").text
    assert "hidden_size" not in page.run("return location.href")
    tab = page.element("[role='tab']", "Memory and seats")
    page.run("arguments[0].focus()", tab)
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ENTER)
    page.has(".stMain [role='tabpanel']", "the weights do not fit")


def test_a_change_is_simulated_when_its_button_is_pressed(page, url):
    page.open(url + LINK)
    page.element("[role='tab']", "What if").click()
    page.element("label", "max_num_seqs")
    field = page.run(
        "return [...document.querySelectorAll('input[placeholder=\"as it is\"]')].filter(e => e.type === 'text')[1]"
    )
    field.send_keys("+1")
    assert not page.texts("[data-whatif]")
    page.element("button", "Simulate both").click()
    assert "Before" in page.has("[data-whatif]").text
