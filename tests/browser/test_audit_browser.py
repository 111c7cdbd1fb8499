"""The audit in a real browser: paste a command, read the findings, copy the line; at desktop and phone width."""

from importlib.util import find_spec

import pytest

from support.fake_exporter import FakeExporter

if find_spec("streamlit") is None or find_spec("selenium") is None:
    pytest.skip("the app needs streamlit, its test selenium", allow_module_level=True)

from selenium.webdriver.common.keys import Keys

from support.browser import PHONE, picture, streamlit

pytestmark = pytest.mark.browser
LAPTOP = (1280, 1400)
COMMAND = (
    "vllm serve m/x --max-num-seqs 256 --gpu-memory-utilization 0.99 --no-enable-prefix-caching --api-key sk-hidden"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The app over a made exporter."""
    fake = FakeExporter()
    with streamlit({"sources": [{"name": "prod", "url": fake.url}]}, tmp_path_factory.mktemp("app")) as found:
        yield found
    fake.close()


@pytest.mark.parametrize(("name", "size"), [("desktop", LAPTOP), ("phone", PHONE)])
def test_a_pasted_command_gives_its_findings_and_lines_to_copy(page, url, name, size):
    page.open(f"{url}/audit", size)
    box = page.element('textarea[aria-label^="Command"]')
    box.send_keys(COMMAND)
    box.send_keys(Keys.CONTROL, Keys.ENTER)
    page.has('[data-rule="share-high"]', "0.99")
    page.has('[data-rule="prefix-caching-off"]')
    page.has('[data-testid="stCode"]', "--enable-prefix-caching")
    page.laid_out()
    assert page.run("return document.documentElement.scrollWidth") <= size[0]
    shown = page.run(
        "return [...document.querySelectorAll('.stMain .lv, .stMain code')].map(e => e.innerText).join(' ')"
    )
    assert "sk-hidden" not in shown
    assert "sk-hidden" not in page.driver.current_url
    picture(page, f"audit-{name}")
    assert not page.texts('[data-testid="stException"]')
    assert [said for said in page.complaints() if "/audit/_stcore/" not in said] == []
    assert page.hosts() <= {"127.0.0.1"}
    page.leave()
