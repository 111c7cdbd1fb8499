"""Pages of gateways for tests: read into canonical samples, and which of their families nobody knows."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from llmvitals.series import Series
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.mapping import Adapter, plain_name
from llmvitals.telemetry.registry import ADAPTERS, EVERYWHERE

_NAME = re.compile(r"([A-Za-z_:][\w:]*)")


def canonical(text: str, kind: str = "auto") -> dict[str, float]:
    """Canonical samples by their text without ``instance``: ``name{label="value",...}``."""
    found = Ingest(instance="it", kind=kind).read(RawPage(1.7e9, 0.01, 200, text.encode()))
    return {_spelled(series): value for series, value in found.samples.items()}


def _spelled(series: Series) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in series.labels if name != "instance")
    return f"{series.name}{{{labels}}}"


def gaps(text: str) -> dict[str, tuple[str, str]]:
    """Families that the page cannot give: kind of gap and reason."""
    found = Ingest(instance="it").read(RawPage(1.7e9, 0.01, 200, text.encode()))
    return {s.label("family"): (s.label("gap"), s.label("reason")) for s in found.samples if s.name == "llm_family_gap"}


def adapter(kind: str) -> Adapter:
    return next(a for a in ADAPTERS if a.kind == kind)


def unknown(text: str, kind: str) -> set[str]:
    """Families of a page that are neither taken nor listed as known and unused."""
    mine = adapter(kind)
    taken = {plain_name(row.source) for row in mine.rows}
    listed = [u.name for u in (*mine.unused, *EVERYWHERE)]
    names = {plain_name(_NAME.match(line)[1]) for line in text.splitlines() if _NAME.match(line)}  # type: ignore[index]
    return {name for name in names - taken if not any(fnmatchcase(name, pattern) for pattern in listed)}


def shared_pages(folder: str) -> list[Path]:
    """Real pages that lie beside the repository; the test is skipped where they do not."""
    home = Path(os.environ.get("LLMVITALS_SHARED", "../shared")) / "reference" / "pages" / folder
    found = sorted(home.iterdir()) if home.is_dir() else []
    if not found:
        pytest.skip(f"the real pages of {folder} are not here")
    return found
