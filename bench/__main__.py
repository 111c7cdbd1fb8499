"""``python -m bench [--only NAME] [--short]``: a Markdown table of ratios; exit 1 when a bar is missed."""

from __future__ import annotations

import argparse
import math
import sys

from bench import Bench, Measured, app, boards, gateway, node, page, parse, soak, spans

BENCHES: tuple[Bench, ...] = (
    parse.BENCH,
    page.BENCH,
    node.BENCH,
    spans.BENCH,
    gateway.BENCH,
    boards.BENCH,
    app.BENCH,
    soak.BENCH,
)


def table(rows: list[Measured]) -> str:
    """The measurements as Markdown."""
    lines = ["| measured | ours | compared with | ratio | bar | |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        bar, holds = (f"{row.bar:g}", "holds" if row.holds else "MISSED") if row.bar < math.inf else ("none", "")
        numbers = f"{row.ours:.3g} {row.unit} | {row.theirs:.3g} {row.unit} | {row.ratio:.3f} | {bar}"
        lines.append(f"| {row.what} | {numbers} | {holds} |")
    return "\n".join(lines)


def main() -> int:
    """Run the benches that were asked for."""
    names = [bench.name for bench in BENCHES]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=names, help="run one bench")
    parser.add_argument("--short", action="store_true", help="fewer repeats")
    options = parser.parse_args()
    rows = [row for bench in BENCHES if options.only in (None, bench.name) for row in bench.run(options.short)]
    print(table(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
