"""Write the table of deviations into docs/accuracy.md: signals against what the clients of each recording saw.

python tools/accuracy.py FOLDER_OF_RECORDINGS
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from support.accuracy import Accuracy, accuracy  # noqa: E402 - the path comes first
from support.recordings import EXPECTED  # noqa: E402

BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"


def _row(a: Accuracy) -> str:
    outside = [
        f"{q.what} p{q.q * 100:.0f}: client {q.client:.3g} s, bucket {q.bucket[0]:g}-{q.bucket[1]:g} s"
        for q in a.quantiles
        if q.off
    ]
    inside = f"{sum(not q.off for q in a.quantiles)}/{len(a.quantiles)}"
    aborts = "-" if a.aborts is None else f"{a.aborts[0]:.0f} / {a.aborts[1]}"
    aged, most, share = a.ages
    age = f"{aged}: {most:+.2f} s, {share:.0%}" if aged and not math.isnan(share) else "-"
    goodput = (
        f"{a.goodput[0]:.3f} ≤ **{a.goodput[1]:.3f}** ≤ {a.goodput[2]:.3f}" if a.goodput else f"withheld: {a.withheld}"
    )
    return " | ".join(
        [
            "",
            a.name,
            "yes" if a.stalled else "",
            f"{inside} {'; '.join(outside)}".strip(),
            aborts,
            f"{a.preempted[0]}/{a.preempted[1]}",
            age,
            goodput,
            "",
        ]
    ).strip()


def table(folder: Path) -> str:
    """The Markdown table."""
    head = (
        "| recording | front end stalled | client quantiles in the bucket or its neighbour | aborts: seen / true "
        "| preempted waiting: pages equal | queue age: pages, most above the truth, mean share of it "
        "| goodput: low, clients, high |\n"
        "|---|---|---|---|---|---|---|"
    )
    rows = [found for name in EXPECTED if (found := accuracy(folder / name)) is not None]
    return "\n".join([head, *(_row(r) for r in rows)])


def main() -> int:
    """Rewrite the measured part of the page."""
    page = ROOT / "docs" / "accuracy.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{table(Path(sys.argv[1]))}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
