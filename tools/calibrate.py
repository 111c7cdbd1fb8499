"""Print the table of confidences (``POINTS`` of ``llmvitals.triage.calibration``) for the scores of some seeds.

    python tools/calibrate.py 101 102 103 [--jobs 2] [--size 1]

Plays every scenario, and asks of each leading cause how far it was believed in and whether it was there: with all telemetry,
and suspicions with the engine's page alone. A quarter of an hour for each seed on one core.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from llmvitals.lab import result  # noqa: E402 - the path comes first
from llmvitals.lab.play import SETTINGS, Job, plan, showing  # noqa: E402
from llmvitals.lab.result import LEVELS  # noqa: E402
from llmvitals.triage import judge  # noqa: E402
from llmvitals.triage.calibration import CERTAIN  # noqa: E402
from llmvitals.triage.walk import diagnose  # noqa: E402

ENDS = (0.88, 0.98)
"""The least and the most that what is certain is believed in."""

Told = tuple[float, bool]
"""The belief in a leading cause, and whether it was there."""


def beliefs(job: Job) -> list[Told]:
    """What one play adds."""
    run, why = showing(job)
    if why:
        return []
    real = {*run.row.causes, *run.row.truth}
    with (
        mock.patch.object(judge, "calibrated", lambda belief: belief),
        mock.patch.object(result, "calibrated", lambda belief: belief),
    ):
        alone, full = (result.heard(diagnose(run.window(run.last, at), SETTINGS)) for at in (LEVELS[0], LEVELS[-1]))
    kept = [full] * (full.confidence >= CERTAIN) + [alone] * (alone.confidence < CERTAIN)
    return [(one.confidence, one.leading in real) for one in kept if one.leading]


def fitted(told: Mapping[Told, int]) -> tuple[float, float]:
    """(steepness, offset) of the most likely line between the log-odds of belief and share, by Newton's method."""
    steep, offset = 1.0, 0.0
    for _ in range(100):
        g0 = g1 = h00 = h01 = h11 = 0.0
        for (belief, right), n in told.items():
            x = math.log(belief / (1.0 - belief))
            p = 1.0 / (1.0 + math.exp(-(offset + steep * x)))
            g0, g1 = g0 + n * (right - p), g1 + n * (right - p) * x
            w = n * p * (1.0 - p)
            h00, h01, h11 = h00 + w, h01 + w * x, h11 + w * x * x
        det = h00 * h11 - h01 * h01
        up, aside = (h00 * g1 - h01 * g0) / det, (h11 * g0 - h01 * g1) / det
        steep, offset = steep + up, offset + aside
        if abs(up) + abs(aside) < 1e-9:
            break
    return steep, offset


def points(told: Mapping[Told, int]) -> list[tuple[float, float]]:
    """(belief, share that was right): of suspicions as a whole, and at both ends of the line through what is certain."""
    unsure = {one: n for one, n in told.items() if one[0] < CERTAIN}
    steep, offset = fitted({one: n for one, n in told.items() if one[0] >= CERTAIN})
    found = [(end, 1.0 / (1.0 + math.exp(-offset) * (end / (1.0 - end)) ** -steep)) for end in ENDS]
    if unsure:
        count = sum(unsure.values())
        middle = sum(belief * n for (belief, _), n in unsure.items()) / count
        found.insert(0, (middle, sum(n for (_, right), n in unsure.items() if right) / count))
    return found


def main() -> int:
    """Print how many of each belief were right, and the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("seeds", type=int, nargs="+")
    ask.add_argument("--jobs", type=int, default=2, help="processes")
    ask.add_argument("--size", type=float, default=1.0, help="times as many plays")
    given = ask.parse_args()
    todo = [job for seed in given.seeds for job in plan(seed, None, given.size)]
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        told = Counter(one for some in pool.map(beliefs, todo, chunksize=8) for one in some)
    for belief in sorted({belief for belief, _ in told}):
        right, wrong = told[belief, True], told[belief, False]
        sys.stdout.write(f"{belief:.2f}: {right} of {right + wrong}\n")
    for belief, share in points(told):
        sys.stdout.write(f"    ({belief:.3g}, {share:.3g}),\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
