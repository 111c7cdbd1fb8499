"""A real Chromium and a real Streamlit for tests, both on loopback; each is ended by its own handle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from llmvitals.data import folder
from support.prometheus import fetch, free_port, wait_for

WAIT_SECONDS = 90.0
DESKTOP, PHONE = (1280, 4000), (390, 6000)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def streamlit(
    settings: dict, place: Path, *, address: str = "127.0.0.1", port: int = 0, options: Sequence[str] = ()
) -> Iterator[str]:
    """The app on these settings, with more ``options`` of Streamlit; gives its URL."""
    file, log, port = place / "settings.yaml", place / "app.log", port or free_port()
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    script = str(folder("app") / "streamlit_app.py")
    flags = (f"--server.port={port}", f"--server.address={address}", *options, "--", "--settings", str(file))
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", script, *flags],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=place,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: fetch(f"{url}/_stcore/health"), "the app's start", WAIT_SECONDS)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@dataclass(frozen=True, slots=True)
class Seen:
    """An element as it was: its text, its classes, and its distance from the viewport's top in pixels."""

    text: str
    classes: str
    y: float


def _find(selector: str, text: str) -> str:
    listed = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return f"{listed}.find(e => e.innerText.includes({json.dumps(text)}))"


# Elements of the page proper that stick out of the viewport, by class and text.
STICKING_OUT = """scrolling => [...document.querySelectorAll('.stMain *')]
  .filter(e => !(scrolling && e.closest(scrolling)) && e.getClientRects().length
    && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + '.' + (e.getAttribute('class') || '') + ': ' + (e.innerText || '').slice(0, 40))"""


class Page:
    """One browser; every wait is for a condition."""

    def __init__(self, profile: str) -> None:
        options = webdriver.ChromeOptions()
        names = ("chromium", "chromium-browser", "google-chrome")
        options.binary_location = next(found for name in names if (found := shutil.which(name)))
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(executable_path=shutil.which("chromedriver")))

    def open(self, url: str, size: tuple[int, int] = DESKTOP) -> None:
        """Load a page in a viewport of that size (a window cannot be made as narrow as a phone)."""
        self.leave()
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get(url)

    def leave(self) -> None:
        """Go to an empty page and forget what was logged."""
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)

    def until(self, script: str, what: str = ""):
        """Wait until a JavaScript expression is true; gives its value."""
        wait = WebDriverWait(self.driver, WAIT_SECONDS, poll_frequency=0.1)
        return wait.until(lambda driver: driver.execute_script(f"return {script}"), what or script)

    def laid_out(self, scrolling: str = "") -> None:
        """Wait until nothing sticks out of the viewport: a chart is there before it has its width.

        ``scrolling``: a selector of what may be wider, since it scrolls by itself, with all that is in it.
        """
        self.until(f"({STICKING_OUT})({json.dumps(scrolling)}).length === 0")

    def element(self, selector: str, text: str = ""):
        """Wait for an element that a CSS selector finds and that holds this text, to click it or write into it."""
        return self.until(_find(selector, text), f"{selector}: {text}")

    def has(self, selector: str, text: str = "") -> Seen:
        """The same, as it was at one moment: a refresh may replace the element at the next."""
        script = f"(e => e && {{text: e.innerText, classes: e.className, y: e.getBoundingClientRect().y}})({_find(selector, text)})"
        return Seen(**self.until(script, f"{selector}: {text}"))

    def texts(self, selector: str) -> list[str]:
        """The text of every element, in order of the page."""
        return self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector
        )

    def run(self, script: str, *arguments: object):
        """Run JavaScript."""
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """What the page said on its console, beyond information."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def hosts(self) -> set[str]:
        """Every host that the page asked, over HTTP or a socket."""
        named = ("Network.requestWillBeSent", "Network.webSocketCreated")
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        urls = [
            m["params"].get("url") or m["params"].get("request", {}).get("url", "")
            for m in messages
            if m["method"] in named
        ]
        return {urlsplit(url).hostname or "" for url in urls if urlsplit(url).scheme in ("http", "https", "ws", "wss")}


@contextmanager
def browser() -> Iterator[Page]:
    """A fresh browser with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="llmvitals-chromium-", ignore_cleanup_errors=True) as profile:
        page = Page(profile)
        try:
            yield page
        finally:
            page.driver.quit()


def picture(page: Page, name: str) -> None:
    """Keep what is seen as a PNG, where LLMVITALS_PICTURES names a folder: for people to look at."""
    place = os.environ.get("LLMVITALS_PICTURES")
    if place:
        page.driver.save_screenshot(str(Path(place) / f"{name}.png"))
