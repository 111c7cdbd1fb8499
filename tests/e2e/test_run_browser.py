"""The demo in a real browser: the page opens from ``run`` alone and names what the terminal names."""

import re
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec

import pytest

from support.command import argv
from support.waiting import free_port

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_spec("streamlit") is None, reason="the app needs streamlit"),
]
CAUSE = re.compile(r"CAUSE preemption-thrash .* Set --max-num-seqs to (\d+)\.")


@pytest.fixture
def browser():
    from selenium import webdriver  # noqa: PLC0415
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    names = ("chromium", "chromium-browser", "google-chrome")
    options.binary_location = next(found for name in names if (found := shutil.which(name)))
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1400"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def test_the_page_says_what_the_terminal_says(browser, tmp_path):
    app_port = free_port()
    log = tmp_path / "run.log"
    with log.open("wb") as sink:
        run = subprocess.Popen(
            argv("run", "--port", free_port(), "--app-port", app_port), stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + 60
        while not (told := CAUSE.findall(log.read_text(encoding="utf-8"))) and time.monotonic() < end:
            time.sleep(0.2)
        assert told, log.read_text(encoding="utf-8")
        browser.get(f"http://127.0.0.1:{app_port}/")
        end = time.monotonic() + 60
        shown = ""
        while "Set --max-num-seqs to" not in shown and time.monotonic() < end:
            time.sleep(0.2)
            shown = browser.find_element("tag name", "body").text
        assert "preemption" in shown.lower()
        assert "simulated vLLM, not your server" in shown
        # The terminal's number and the page's are some seconds apart; a line is written for more than a tenth.
        (on_page,) = {int(number) for number in re.findall(r"Set --max-num-seqs to (\d+)", shown)}
        assert on_page == pytest.approx(int(CAUSE.findall(log.read_text(encoding="utf-8"))[-1]), rel=0.15)
    finally:
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 0
