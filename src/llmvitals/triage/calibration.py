"""What a confidence stands for: of the lab's verdicts that state it, that share was right.

A check's belief is set by hand; how many of the verdicts with such a belief are right is measured, and the one is turned into
the other. In the lab each fault comes as often as any other, and its sources are joined: what a verdict is blind to is in no
confidence.
"""

from __future__ import annotations

import math
from itertools import pairwise

SEEDS: tuple[int, ...] = (101, 102, 103)
"""Seeds of the scores that the table was fitted on. What it promises is to be held against other ones."""

CERTAIN = 0.8
"""Beliefs below are suspicions: with a gateway they are settled."""

POINTS: tuple[tuple[float, float], ...] = ((0.5, 0.5), (0.7, 0.8), (0.88, 0.989), (0.98, 0.997))
"""(belief, share that was right) over the leading causes of all plays of ``SEEDS`` that count; ``tools/calibrate.py`` prints it.

- 0.5: with less, no verdict of the lab led; such a suspicion is stated as it is believed.
- 0.7: 72 of 90 suspicions, with the engine's page alone.
- 0.88 to 0.98: ends of the most likely line through 2,003 verdicts with all telemetry, of which 1,993 were right
  (logistic regression: J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999).
"""


def calibrated(belief: float) -> float:
    """The confidence to state for a belief (both 0 to 1), to a tenth of a percent: between points, log-odds go straight.

    It rises with what confirms a cause, also where the lab's verdicts are too few to tell by how much.
    """
    if belief <= POINTS[0][0]:
        return belief
    (left, low), (right, high) = next((pair for pair in pairwise(POINTS) if belief <= pair[1][0]), POINTS[-2:])
    way = (_log_odds(belief) - _log_odds(left)) / (_log_odds(right) - _log_odds(left))
    return round(1.0 / (1.0 + math.exp(-_log_odds(low) - way * (_log_odds(high) - _log_odds(low)))), 3)


def _log_odds(share: float) -> float:
    return math.log(share / (1.0 - share))
