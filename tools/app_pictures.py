"""Draws the pictures of docs/app.md anew: every page of the app over a simulated fleet, in a real Chromium.

``python tools/app_pictures.py [FOLDER [NAME...]]``; needs prometheus, chromium and chromium-driver. One picture a page as on a
desktop in light colours and English; the phone, the dark theme and Turkish are shown on the pages that people open during an
incident.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bench.app_browser import chromium, streamlit
from bench.fleet_store import END, replica, stored
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from llmvitals.data import folder

REPLICAS = 240
DESKTOP, PHONE = (1280, 1500), (390, 1500)
WAIT_SECONDS = 60.0
SETTLED = """return document.querySelector('.stApp')?.dataset.testScriptState === 'notRunning'
  && document.querySelectorAll('.stMain .lv, .stMain h1').length > 0 && !document.querySelector('.stMain .stSpinner')
  && [...document.querySelectorAll('.stVegaLiteChart')].every(e => !e.offsetParent || e.querySelector('svg, canvas'))"""
ILL = next(replica(number) for number in range(REPLICAS) if replica(number)[2] == "preemption")
SCOPE = {"source": "fleet", "instance": ILL[0], "model": ILL[1]}
AT = {"at": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(END))}
COMMAND = (
    "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4 --max-num-seqs 1024 --max-model-len 131072"
)


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: the page's path, what its address asks for, the window, the theme, and what is done on it before."""

    name: str
    path: str = ""
    query: tuple[tuple[str, str], ...] = ()
    size: tuple[int, int] = DESKTOP
    theme: str = "light"
    act: Callable[[Chrome], None] | None = None


def paste(driver: Chrome) -> None:
    """A command for the audit."""
    box = driver.find_element(By.CSS_SELECTOR, ".stMain textarea")
    box.send_keys(COMMAND)
    driver.execute_script("arguments[0].blur()", box)


def upload(driver: Chrome) -> None:
    """Results for the page of load tests."""
    results = Path(__file__).parents[1] / "tests" / "fixtures" / "loadtest" / "guidellm-0.5.0.json"
    driver.find_element(By.CSS_SELECTOR, ".stMain input[type=file]").send_keys(str(results))


SHOTS: tuple[Shot, ...] = (
    Shot("triage", "", (*SCOPE.items(), *AT.items())),
    Shot("triage-phone-dark-tr", "", (*SCOPE.items(), *AT.items(), ("lang", "tr")), PHONE, "dark"),
    Shot("fleet", "fleet", (("source", "fleet"), *AT.items())),
    Shot("fleet-phone-dark-tr", "fleet", (("source", "fleet"), *AT.items(), ("lang", "tr")), PHONE, "dark"),
    Shot("replicas", "replicas", (("source", "fleet"), *AT.items())),
    Shot("capacity", "capacity", (("known", "Llama-3.3-70B"), ("gpu", "H100-80GB"), ("gpus", "2"), ("weights", "fp8"))),
    Shot("audit", "audit", act=paste),
    Shot("loadtests", "loadtests", act=upload),
    Shot("runbooks", "runbooks", (("page", "preemption-thrash"),)),
    Shot("sources", "sources"),
)


def settled(driver: Chrome) -> None:
    """Wait until the page has run to its end and stays so for a moment: fragments run after it."""
    until, calm = time.monotonic() + WAIT_SECONDS, 0
    while calm < 8:
        if time.monotonic() > until:
            raise SystemExit(f"{driver.current_url} never came to rest")
        calm = calm + 1 if driver.execute_script(SETTLED) else 0
        time.sleep(0.15)


def take(driver: Chrome, base: str, shot: Shot, place: Path) -> None:
    """One picture."""
    width, height = shot.size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": shot.size == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": shot.theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(f"{base}/{shot.path}?{urlencode(shot.query)}")
    settled(driver)
    if shot.act is not None:
        shot.act(driver)
        time.sleep(1.0)
        settled(driver)
    driver.save_screenshot(str(place / f"{shot.name}.png"))
    sys.stdout.write(f"{shot.name}\n")


def main() -> None:
    """All of them, or those whose names are given behind the folder."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img/app")
    place.mkdir(parents=True, exist_ok=True)
    only = sys.argv[2:]
    with stored(REPLICAS) as url:
        settings = {"sources": [{"name": "fleet", "url": url, "kind": "prometheus"}]}
        script = folder("app") / "streamlit_app.py"
        with streamlit(script, settings) as base, chromium() as driver:
            for shot in SHOTS:
                if not only or shot.name in only:
                    take(driver, base, shot, place)


if __name__ == "__main__":
    main()
