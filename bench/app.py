"""What the app makes an engineer wait for where a Prometheus holds a thousand replicas: the verdict, and the fleet.

The data are asked for in process, the pages in a real Chromium, each from going to its address in a new session to its words; the
app's server is warm, as it is for everybody but the first. Seconds hold a bar; beside them stands the same against something that
was done in the same run: the plainest query for as many replicas, and an empty Streamlit page.
"""

from __future__ import annotations

import math
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from bench import Bench, Measured
from bench.fleet_store import END, replica, stored
from llmvitals.app.ask import Failure, ask
from llmvitals.app.fleet import ask_fleet
from llmvitals.app.fleet_promql import endpoint
from llmvitals.app.services import board
from llmvitals.data import folder
from llmvitals.settings import Settings, Source

REPLICAS, FEW = 1000, 100
RUNS, FEW_RUNS = 9, 3
BAR_SECONDS = 2.0
PLAIN = "llm_requests_running"
ANY = {"instance": "", "model": ""}
EMPTY = "import streamlit as st\n\nst.write('nothing but this')\n"


def median(run: Callable[[], object], times: int) -> float:
    """Seconds, after one that warms up."""
    run()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def seen(look: Callable[[], float], times: int) -> float:
    """Seconds that a look says it took, after one that warms up."""
    look()
    return statistics.median(look() for _ in range(times))


def data(url: str, replicas: int, times: int) -> list[Measured]:
    """The verdict and the fleet as data."""
    source, settings = Source(name="fleet", url=url, kind="prometheus"), Settings()

    def plain() -> None:
        with endpoint(source) as asked:
            assert len(asked.now(PLAIN, END)) >= replicas

    def verdict() -> None:
        answer = ask(source, ANY, float(END), settings)
        assert not isinstance(answer, Failure), answer
        assert len(answer.members) == replicas
        assert answer.verdict.leading is not None

    def fleet() -> None:
        found = ask_fleet(source, float(END), settings)
        assert not isinstance(found, Failure), found
        assert board(found, settings).total == replicas

    one = median(plain, times)
    query = f"one query for {replicas} replicas"
    return [
        Measured(
            f"the worst scope's verdict among {replicas} replicas, against {query}",
            median(verdict, times),
            one,
            "s",
            math.inf,
        ),
        Measured(f"the fleet's data, against {query}", median(fleet, times), one, "s", math.inf),
    ]


def pages(url: str, replicas: int, times: int) -> list[Measured]:
    """The same on the pages, in a browser."""
    from bench.app_browser import chromium, missing, seconds_until, streamlit  # noqa: PLC0415  # selenium may not be here

    if lacks := missing():
        print(f"app: its pages are left out, for {lacks} is not on the PATH", file=sys.stderr)
        return []
    settings = {"sources": [{"name": "fleet", "url": url, "kind": "prometheus"}]}
    worst = min(name for name, _, kind in map(replica, range(replicas)) if kind != "healthy")
    places = (
        ("the triage page, to its verdict", "/?source=fleet&at=", ".lv-verdict", "Confidence"),
        ("the fleet's page, to its table", "/fleet?source=fleet&at=", "tr[data-replica]", worst),
    )
    moments = (
        END + n / 100 for n in count()
    )  # each look asks anew: the pages keep an answer for those who look at the same
    found = []
    with chromium() as driver:
        script = Path(driver.capabilities["chrome"]["userDataDir"]) / "empty.py"
        script.write_text(EMPTY, encoding="utf-8")
        with streamlit(script, {}) as empty:
            nothing = seen(lambda: seconds_until(driver, empty, ".stMarkdown", "nothing but this"), times)
        with streamlit(folder("app") / "streamlit_app.py", settings) as app:
            for what, path, selector, text in places:
                took = seen(
                    lambda p=path, s=selector, w=text: seconds_until(driver, f"{app}{p}{next(moments):.2f}", s, w),
                    times,
                )
                found.append(
                    Measured(f"{what}, {replicas} replicas, against {BAR_SECONDS:g} s", took, BAR_SECONDS, "s", 1.0)
                )
                found.append(Measured(f"{what}, against an empty page", took, nothing, "s", math.inf))
    return found


def run(short: bool) -> list[Measured]:
    """A Prometheus is filled, then asked as the app asks it."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("app: left out, for Prometheus is not on the PATH (apt-get install prometheus)", file=sys.stderr)
        return []
    replicas, times = (FEW, FEW_RUNS) if short else (REPLICAS, RUNS)
    began = time.perf_counter()
    with stored(replicas) as url:
        print(f"app: {replicas} replicas were written in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        rows = data(url, replicas, times)
        if find_spec("streamlit") is None or find_spec("selenium") is None:
            print("app: its pages are left out, for Streamlit or Selenium is not installed", file=sys.stderr)
            return rows
        return rows + pages(url, replicas, times)


BENCH = Bench("app", run)
