"""Makes the small recordings under ``tests/fixtures/captures`` from full ones.

    python tools/thin_capture.py FULL_RECORDINGS [tests/fixtures/captures]

Each keeps every second page, without its HELP lines; values, moments and answer times stay as they were received.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

EVERY = 2
KEPT = ("engine", "server_flags", "model", "streams")  # what a reader of a recording needs to know about it


class Case(NamedTuple):
    """What a recording is of, and what a triage of it must say."""

    load: str
    verdict: str
    leading: str | None = None


CASES: dict[str, Case] = {
    "admission-503": Case("8 requests/s offered to 4 seats; more than 8 in flight are refused", "shedding"),
    "client-aborts": Case("6 clients drop their stream after 0.5-2 s, again and again", "cause", "ghost-compute"),
    "healthy": Case("2 short requests/s; nobody waits", "healthy"),
    "kv-full": Case("40 clients, 19 of whose requests fill the KV pool", "cause", "kv-cache-saturation"),
    "kv-preemption": Case("16 clients whose answers outgrow a small KV pool", "cause", "preemption-thrash"),
    "no-max-tokens": Case("some requests run without max_tokens", "cause", "unbounded-output"),
    "prefill-overload": Case("8,000-token prompts faster than they can be computed", "cause", "prefill-bound"),
    "queue-two-seats": Case("4 requests/s offered to 2 seats that serve 1.1/s", "cause", "batch-too-small"),
}


def without_help(page: bytes) -> bytes:
    """The page without the sentences that explain each family."""
    return b"".join(line for line in page.splitlines(keepends=True) if not line.startswith(b"# HELP"))


def thin(source: Path, target: Path, *, every: int = EVERY) -> None:
    """Write every ``every``-th page of the recording ``source`` to ``target``, which is replaced."""
    index = json.loads((source / "capture.json").read_text(encoding="utf-8"))
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pages = 0
    for recorded in index["targets"]:
        pages += len(recorded["scrapes"])
        recorded["scrapes"] = recorded["scrapes"][::every]
        for file in (scrape["file"] for scrape in recorded["scrapes"] if scrape.get("file")):
            page = gzip.decompress((source / file).read_bytes())
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (target / file).write_bytes(gzip.compress(without_help(page), 9, mtime=0))
    _write(target / "capture.json", index)
    _write(target / "about.json", about(source, index, pages))


def about(source: Path, index: dict[str, Any], pages: int) -> dict[str, Any]:
    """What the recording is and what a triage of it must say."""
    full = json.loads((source / "about.json").read_text(encoding="utf-8"))
    case = CASES[source.name]
    kept = sum(len(recorded["scrapes"]) for recorded in index["targets"])
    return {
        "load": case.load,
        "expected": {"verdict": case.verdict, "leading": case.leading},
        "thinned": f"{kept} of {pages} pages, HELP lines left out",
        **{key: full[key] for key in KEPT},
    }


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    full, fixtures = Path(sys.argv[1]), Path(*sys.argv[2:3] or ["tests/fixtures/captures"])
    for name in CASES:
        thin(full / name, fixtures / name)
