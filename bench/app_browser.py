"""The app in a real Chromium: how long from going to an address until something stands on the page."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from tools.prometheus import free_port

SIZE = (1280, 1000)
WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.02
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """What a look needs and is not here; '' where all is."""
    if not any(map(shutil.which, NAMES)):
        return "Chromium"
    return "" if shutil.which("chromedriver") else "chromedriver"


@contextmanager
def streamlit(script: Path, settings: dict[str, object]) -> Iterator[str]:
    """A page's server; its address."""
    with tempfile.TemporaryDirectory(prefix="llmvitals-app-") as place:
        file, port = Path(place) / "settings.yaml", free_port()
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        flags = (
            f"--server.port={port}",
            "--server.address=127.0.0.1",
            "--server.headless=true",
            "--server.fileWatcherType=none",
        )
        command = [sys.executable, "-m", "streamlit", "run", str(script), *flags, "--", "--settings", str(file)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=script.parent)
        try:
            _listens(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(20)


def _listens(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the app did not start")


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="llmvitals-chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = next(found for name in NAMES if (found := shutil.which(name)))
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}"):
            options.add_argument(flag)
        options.page_load_strategy = "none"
        driver = webdriver.Chrome(options=options, service=Service(executable_path=shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def seconds_until(driver: webdriver.Chrome, url: str, selector: str, text: str) -> float:
    """From going to an address in a fresh session until an element that holds the text stands there.

    What the page does after that is waited for and not counted: else it would be counted at the next look.
    """
    driver.get("about:blank")
    began = time.perf_counter()
    driver.get(url)
    _wait(
        driver,
        url,
        "[...document.querySelectorAll(arguments[0])].some(e => e.innerText.includes(arguments[1]))",
        selector,
        text,
    )
    took = time.perf_counter() - began
    _wait(driver, url, "document.querySelector('.stApp').dataset.testScriptState === 'notRunning'")
    return took


def _wait(driver: webdriver.Chrome, url: str, look: str, *arguments: str) -> None:
    until = time.perf_counter() + WAIT_SECONDS
    while not driver.execute_script(f"return {look}", *arguments):
        if time.perf_counter() > until:
            raise SystemExit(f"{url} never showed {' '.join(arguments) or 'all'}")
        time.sleep(LOOK_SECONDS)
