"""``python -m support.fuzz_run N``: N changed pages in courses, with progress; ends with 1 at the first that goes wrong.

``SEED`` other ones than chance gives, ``FIRST`` the course to begin with, ``WORKERS`` processes (a core each).
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from multiprocessing import get_context

from support import fuzz_course
from support.fuzz_course import PAGES, FoundError, play

KEPT = fuzz_course.ROOT / "build" / "fuzz"
EVERY_SECONDS = 10.0


def _course(seed: int, number: int) -> FoundError | int:
    try:
        return play(seed, number)
    except FoundError as found:
        found.__cause__ = None  # it does not go from process to process
        return found


def _played(seed: int, first: int, courses: int, workers: int) -> Iterator[FoundError | int]:
    numbers = range(first, first + courses)
    if workers == 1:
        yield from map(partial(_course, seed), numbers)
        return
    with get_context("fork").Pool(workers) as pool:
        yield from pool.imap_unordered(partial(_course, seed), numbers, chunksize=8)


def main(n: int, seed: int, first: int, workers: int) -> int:
    """Play courses until ``n`` pages were read; the exit code."""
    logging.getLogger("llmvitals").addHandler(fuzz_course.Quiet())
    logging.getLogger("llmvitals").propagate = False
    courses = -(-n // PAGES)
    print(f"{courses * PAGES:,} pages from {len(fuzz_course.corpus())} in {courses:,} courses, seed {seed}", flush=True)
    done, began, told = 0, time.monotonic(), time.monotonic()
    for turn, result in zip(count(1), _played(seed, first, courses, workers), strict=False):
        if isinstance(result, FoundError):
            KEPT.mkdir(parents=True, exist_ok=True)
            for at, body in enumerate(result.pages):
                (KEPT / f"{seed}-{result.course}-{at:02}.page").write_bytes(body)
            print(f"{result}\n  its pages: build/fuzz/{seed}-{result.course}-*.page", flush=True)
            print(f"  again: make fuzz N={PAGES} SEED={seed} FIRST={result.course}", flush=True)
            return 1
        done += result
        now = time.monotonic()
        if now - told >= EVERY_SECONDS or turn == courses:
            told = now
            print(f"{done:,} pages, {done / (now - began):,.0f} a second, nothing wrong; seed {seed}", flush=True)
    return 0


if __name__ == "__main__":
    given = os.environ
    sys.exit(
        main(
            int(sys.argv[1]),
            int(given.get("SEED") or secrets.randbelow(1_000_000)),
            int(given.get("FIRST") or 0),
            int(given.get("WORKERS") or os.cpu_count() or 1),
        )
    )
