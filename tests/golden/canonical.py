"""What a page becomes, as text: the golden form. ``python tests/golden/canonical.py`` writes it anew for every page."""

from __future__ import annotations

from pathlib import Path

from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage

HERE = Path(__file__).parent
PAGES = HERE / "pages"
VALUES = HERE / "values"
EXPECTED = HERE / "expected"
SGLANG = HERE / "sglang"  # the same three folders of another engine
HOMES = (HERE, *sorted(folder.parent for folder in HERE.glob("*/pages")))


def snapshot(page: Path) -> Snapshot:
    """The page as one scrape of a target named ``golden``."""
    return Ingest(instance="golden").read(RawPage(1.7e9, 0.02, 200, page.read_bytes()))


def spell(series: Series) -> str:
    """A series as on an exposition page."""
    return f"{series.name}{{{','.join(f'{name}={value!r}' for name, value in series.labels)}}}"


def canonical(found: Snapshot) -> str:
    """Every sample on its own line, in order."""
    return "\n".join(sorted(f"{spell(series)} {value!r}" for series, value in found.samples.items())) + "\n"


def write_all() -> None:
    """Write the golden form of every page."""
    for home in HOMES:
        (home / "expected").mkdir(exist_ok=True)
        for page in sorted((home / "pages").iterdir()):
            (home / "expected" / f"{page.stem}.txt").write_text(canonical(snapshot(page)), encoding="utf-8")


if __name__ == "__main__":
    write_all()
