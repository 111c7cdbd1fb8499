"""Write the errors of the simulator against recordings of a real server into docs/simulator.md.

python tools/fidelity.py [FOLDER_OF_RECORDINGS]     (default: captures/ under LLMVITALS_SHARED, ../shared)
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from support.fidelity import MEASURES, Compared, Measure, compare, counted  # noqa: E402 - the path comes first
from support.loads import LEFT_OUT  # noqa: E402
from support.recordings import EXPECTED, name_of  # noqa: E402

BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"


def _cell(error: float | None) -> str:
    if error is None:
        return "-"
    if math.isinf(error):
        return "real: 0"
    percent = round(100 * error)
    return f"{percent:+d}" if percent else "0" if error else "·"


def _by_recording(compared: list[Compared]) -> list[str]:
    head = ["recording", *(m.short for m in MEASURES), "verdict on the twin"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for one in compared:
        said = name_of(one.simulated)
        same = said if said in EXPECTED[one.name] else f"**{said}**, not {EXPECTED[one.name][0]}"
        mark = " (fitted)" if one.fitted else ""
        cells = [f"{one.name}{mark}", *(_cell(one.errors[m.name]) for m in MEASURES), same]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _sizes(compared: list[Compared], measure: Measure, *, fitted: bool) -> str:
    found = [(size, c.name) for c in compared if c.fitted is fitted and (size := counted(c, measure)) is not None]
    if not found:
        return "-"
    most, where = max(found)
    return f"{median(size for size, _ in found):.0%}, {most:.0%}" + (f" ({where})" if most else "")


def _by_measure(compared: list[Compared]) -> list[str]:
    rows = ["| measure | fitted: median, most | held out: median, most | held to |", "|---|---|---|---|"]
    rows += [
        f"| {m.name} | {_sizes(compared, m, fitted=True)} | {_sizes(compared, m, fitted=False)} "
        f"| {m.typical:.0%}, {m.worst:.0%} |"
        for m in MEASURES
    ]
    return rows


def tables(folder: Path) -> str:
    """Both tables as Markdown."""
    compared = [compare(folder / name) for name in EXPECTED if name not in LEFT_OUT]
    compared.sort(key=lambda one: not one.fitted)
    return "\n".join([*_by_measure(compared), "", *_by_recording(compared)])


def main() -> int:
    """Rewrite the measured part of the page."""
    shared = Path(os.environ.get("LLMVITALS_SHARED") or ROOT.parent / "shared") / "captures"
    page = ROOT / "docs" / "simulator.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    found = tables(Path(sys.argv[1]) if len(sys.argv) > 1 else shared)
    page.write_text(f"{before}{BEGIN}\n{found}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
