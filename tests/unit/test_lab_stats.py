"""Intervals and the monotone fit, against values from textbooks and by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.lab.stats import Share, median_of, monotone, resampled


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe (1998), table I, method 3: the score interval without continuity correction
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_interval(hits, n, low, high):
    assert Share(hits, n).interval == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_nothing_is_known():
    assert Share.of([]).value is None
    assert Share.of([]).interval == (0.0, 1.0)


def test_a_share_counts_what_is_true():
    share = Share.of([True, False, True, True])
    assert (share.hits, share.n, share.value) == (3, 4, 0.75)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_share_and_stays_within_nought_and_one(given):
    share = Share(*given)
    low, high = share.interval
    assert 0 <= low <= share.value <= high <= 1
    assert low < share.centre < high


def test_answers_that_stand_or_fall_together_say_less_than_as_many_alone():
    # either all or none, two draws of two: 0 and 1 come up once in four each
    assert resampled([Share(0, 10), Share(10, 10)]) == (0.0, 1.0)
    assert Share(10, 20).interval == pytest.approx((0.30, 0.70), abs=0.005)
    # twenty such groups: binomial(20, 1/2), whose 2.5 % and 97.5 % quantiles are 6 and 14
    assert resampled([Share(0, 5), Share(5, 5)] * 10) == pytest.approx((0.3, 0.7), abs=0.051)


def test_a_resample_pools_groups_and_weighs_them_by_their_answers():
    # about 450 of 5,000; the mean of the groups' own shares would be 0.45
    low, high = resampled([Share(9, 10), Share(0, 90)] * 50)
    assert 0.05 < low < 0.09 < high < 0.15
    assert resampled([Share(1, 2), Share(5, 10), Share(20, 40)]) == (0.5, 0.5)
    assert resampled([Share(3, 7), Share(1, 9)] * 5) == resampled([Share(3, 7), Share(1, 9)] * 5)


@pytest.mark.parametrize("groups", [[], [Share(3, 4)], [Share(3, 4), Share(0, 0)]])
def test_fewer_than_two_groups_have_no_interval_over_groups(groups):
    assert resampled(groups) is None


@pytest.mark.parametrize(
    ("n", "low", "high"),
    # the usual table of order statistics for the median at 95 %
    [(5, None, None), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (25, 8, 18), (50, 18, 33)],
)
def test_the_median_lies_between_two_of_the_values(n, low, high):
    found = median_of(float(i) for i in range(n, 0, -1))
    assert (found.n, found.value, found.low, found.high) == (n, (n + 1) / 2, low, high)


def test_what_never_came_is_longer_than_any():
    assert median_of([None, 1.0, 2.0]).value == 2.0
    assert median_of([1.0, None]).value == math.inf
    found = median_of([1.0] * 6 + [None] * 4)
    assert (found.value, found.low, found.high) == (1.0, 1.0, math.inf)


def test_the_median_of_nothing_is_absent():
    assert median_of([]).value is None


def test_many_values_are_no_trouble():
    found = median_of(float(i) for i in range(5000))
    # 2500 -+ 1.96 * sqrt(5000) / 2
    assert found.low == pytest.approx(2500 - 69.3, abs=2)
    assert found.high == pytest.approx(2500 + 69.3, abs=2)


def test_neighbours_that_fall_are_pooled():
    points = [(0.9, Share(3, 3)), (0.5, Share(1, 2)), (0.6, Share(1, 4))]
    assert monotone(points) == ((0.5, 1 / 3), (0.6, 1 / 3), (0.9, 1.0))


def test_pooling_reaches_back():
    # 2/2 and 1/2 pool to 3/4, which then lies above 2/4: all three become 5/8
    points = [(0.1, Share(2, 2)), (0.2, Share(1, 2)), (0.3, Share(2, 4))]
    assert monotone(points) == ((0.1, 0.625), (0.2, 0.625), (0.3, 0.625))


def test_what_rises_stays_as_it_is():
    points = [(0.2, Share(1, 4)), (0.4, Share(1, 4)), (0.8, Share(3, 4))]
    assert monotone(points) == ((0.2, 0.25), (0.4, 0.25), (0.8, 0.75))


shares = st.integers(1, 30).flatmap(lambda n: st.builds(Share, st.integers(0, n), st.just(n)))


@given(st.lists(shares, min_size=1, max_size=12))
def test_a_fit_never_falls_and_keeps_the_number_of_hits(given):
    fitted = monotone([(float(i), share) for i, share in enumerate(given)])
    assert all(a[1] <= b[1] + 1e-12 for a, b in pairwise(fitted))
    hits = sum(value * share.n for (_, value), share in zip(fitted, given, strict=True))
    assert hits == pytest.approx(sum(share.hits for share in given))
