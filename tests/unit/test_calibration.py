"""What a belief is stated as: a rising table, fitted to verdicts of the lab."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest

from llmvitals.triage import calibration
from llmvitals.triage.calibration import CERTAIN, calibrated
from llmvitals.triage.checks import CHECKS

ROOT = Path(__file__).resolve().parents[2]
BELIEFS = [n / 100 for n in range(5, 99)]
"""All that a check may be believed in."""


def test_more_belief_is_stated_as_more_and_nothing_as_certain():
    stated = list(map(calibrated, BELIEFS))
    assert all(low <= high for low, high in pairwise(stated))
    assert stated[-1] < 1.0


def test_what_confirms_shows_in_what_is_stated():
    """From unseen to confirmed, and from contradicted to unseen, it is 0.03."""
    assert all(calibrated(belief) < calibrated(round(belief + 0.03, 2)) for belief in BELIEFS[:-3])


@pytest.mark.parametrize(
    ("belief", "stated"),
    [
        (0.3, 0.3),  # below the table: the belief itself
        (0.5, 0.5),
        (0.75, 0.9),  # a point
        (
            math.sqrt(3) / (1 + math.sqrt(3)),
            0.75,
        ),  # odds of 3 ** 0.5 lie half way between 1 and 3: so does 3 between 1 and 9
        (0.9, 81 / 82),  # beyond the table the last stretch goes on: odds of 9, squared
    ],
)
def test_between_points_odds_go_straight_by_their_logarithm(monkeypatch, belief, stated):
    monkeypatch.setattr(calibration, "POINTS", ((0.5, 0.5), (0.75, 0.9)))
    assert calibrated(belief) == pytest.approx(stated, abs=5e-4)


def test_a_suspicion_is_stated_as_one_and_what_is_sure_as_sure():
    for check in CHECKS:
        stated = calibrated(check.confidence)
        assert stated <= 0.5 if check.confidence <= 0.5 else stated > 0.5, check.cause
        assert stated >= 0.9 or check.confidence < CERTAIN, check.cause


@pytest.fixture
def calibrate(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import calibrate  # noqa: PLC0415 - a script beside the package

    return calibrate


def test_two_beliefs_are_stated_as_the_shares_that_they_hold(calibrate):
    """A line meets both points: log-odds of 0.5 and 0.75 are 0 and ln 3, those of 3 in 4 and 9 in 10 are ln 3 and ln 9."""
    told = {(0.5, True): 3, (0.5, False): 1, (0.75, True): 90, (0.75, False): 10}
    assert calibrate.fitted(told) == pytest.approx((1.0, math.log(3.0)))


def test_the_table_has_the_share_of_suspicions_and_the_line_of_what_is_certain(calibrate):
    """Both ends hold verdicts: a line of two beliefs meets their shares."""
    low, high = calibrate.ENDS
    told = {(0.6, True): 3, (0.7, False): 1, (low, True): 9, (low, False): 1, (high, True): 99, (high, False): 1}
    (belief, share), *certain = calibrate.points(told)
    assert (belief, share) == pytest.approx((0.625, 0.75))
    assert certain == [pytest.approx((low, 0.9)), pytest.approx((high, 0.99))]


def test_the_mean_over_the_fitted_verdicts_is_the_share_that_was_right(calibrate):
    """So it is for every most likely line with an offset: the derivative by the offset says it."""
    told = {(0.9, True): 60, (0.9, False): 1, (0.95, True): 100, (0.97, True): 300, (0.97, False): 2}
    steep, offset = calibrate.fitted(told)
    mean = sum(n / (1 + math.exp(-offset) * (b / (1 - b)) ** -steep) for (b, _), n in told.items()) / sum(told.values())
    assert mean == pytest.approx(460 / 463)
