"""Measures on a window: growth, histograms at real edges, and two tests of statistics, against numbers worked by hand."""

from __future__ import annotations

import math

import pytest

from llmvitals.series import Snapshot, Track, Window, series
from llmvitals.signals import measure
from llmvitals.signals.measure import (
    Hist,
    Line,
    binomial_tail,
    growth,
    hist,
    line,
    mann_kendall_z,
    percentile,
    steps,
    track_growth,
)


def window(*pages: dict[str, float], step: float = 5.0) -> Window:
    """Pages of plain counters; a key ``name@rank`` sets the rank."""
    shots = []
    for i, page in enumerate(pages):
        samples = {}
        for text, value in page.items():
            name, _, rank = text.partition("@")
            samples[series(name, model="m", rank=rank or "0")] = float(value)
        shots.append(Snapshot(i * step, samples))
    return Window.of(shots)


def track(*values: float) -> Track:
    return Track((), tuple(float(5 * i) for i in range(len(values))), tuple(map(float, values)))


# -- growth -----------------------------------------------------------------------------------------------------------
def test_growth_adds_steps_up():
    assert track_growth(track(100, 103, 103, 110), born_after=None) == 10  # 3 + 0 + 7


def test_a_step_down_is_a_restart_from_0():
    assert track_growth(track(100, 104, 2, 5), born_after=None) == 9  # 4, then 2 since the restart, then 3


def test_one_page_has_not_grown():
    assert track_growth(track(100), born_after=None) == 0


def test_a_series_born_in_the_window_counts_its_first_value():
    assert growth(window({"up": 1}, {"up": 1, "errors_total": 7}, {"up": 1, "errors_total": 9}), "errors_total") == 9


def test_a_series_on_the_first_page_counts_from_there():
    assert growth(window({"errors_total": 7}, {"errors_total": 9}), "errors_total") == 2


def test_growth_of_several_series_is_added_up_each_with_its_own_reset():
    found = window({"a_total@0": 10, "a_total@1": 50}, {"a_total@0": 14, "a_total@1": 3})
    assert growth(found, "a_total") == 7  # 4 + 3 since rank 1 began again


def test_a_rank_that_only_came_into_view_brings_no_past():
    found = window({"a_total@0": 10}, {"a_total@0": 14, "a_total@1": 5000}, {"a_total@0": 14, "a_total@1": 5001})
    assert growth(found, "a_total") == 5  # 4 + 1; the 5000 happened before


def test_growth_of_what_is_absent_is_nothing_and_not_0():
    assert growth(window({"other": 1}, {"other": 1}), "a_total") is None
    assert growth(Window.of([]), "a_total") is None


# -- lines ------------------------------------------------------------------------------------------------------------
def test_a_line_sums_ranks_or_takes_the_fullest():
    found = window({"kv@0": 0.2, "kv@1": 0.9}, {"kv@0": 0.3, "kv@1": 0.1})
    assert line(found, "kv") == Line((0.0, 5.0), (pytest.approx(1.1), pytest.approx(0.4)))
    assert line(found, "kv", peak=True) == Line((0.0, 5.0), (0.9, 0.3))
    assert line(found, "kv", {"rank": "1"}) == Line((0.0, 5.0), (0.9, 0.1))
    assert line(found, "other") is None


def test_a_line_holds_only_the_pages_that_show_it():
    found = line(window({"x": 1}, {"kv": 0.5}, {"x": 1}), "kv")
    assert found == Line((5.0,), (0.5,))


def test_the_part_after_a_moment_includes_it():
    assert Line((0.0, 5.0, 10.0), (1.0, 2.0, 3.0)).after(5.0) == Line((5.0, 10.0), (2.0, 3.0))


def test_two_pages_of_one_moment_count_once():
    pages = [Snapshot(t, {series("a_total"): v}) for t, v in ((0.0, 4.0), (5.0, 6.0), (5.0, 7.0), (10.0, 9.0))]
    found = line(Window.of(pages), "a_total")
    assert found == Line((0.0, 5.0, 10.0), (4.0, 7.0, 9.0))  # the last one given, never 6 + 7


def test_steps_between_pages():
    assert steps(Line((0.0, 1.0, 2.0, 3.0), (5.0, 8.0, 2.0, 2.0))) == (3.0, 2.0, 0.0)


# -- histograms -------------------------------------------------------------------------------------------------------
def buckets(counts: dict[str, float], total: float | None = None, summed: float | None = 0.0) -> dict[object, float]:
    page: dict[object, float] = {series("h_bucket", le=le): v for le, v in counts.items()}
    if total is not None:
        page[series("h_bucket", le="+Inf")] = total
    if summed is not None:
        page[series("h_sum")] = summed
    return page


def hist_of(first: dict[object, float], last: dict[object, float]) -> Hist | None:
    return hist(Window.of([Snapshot(0.0, first), Snapshot(5.0, last)]), "h")  # type: ignore[arg-type]


def test_a_histogram_holds_only_what_the_window_saw():
    found = hist_of(buckets({"1": 10, "2": 30}, 40, 70.0), buckets({"1": 12, "2": 37}, 50, 100.0))
    # at most 1: 12-10, at most 2: 37-30, all: 50-40; the mean is 30 s over 10 observations
    assert found == Hist((1.0, 2.0), (2.0, 7.0), 10.0, 30.0)
    assert found.mean == 3.0
    assert found.open_count == 3.0


def test_edges_come_in_order_of_size_and_not_of_text():
    found = hist_of(buckets({"10": 0, "2.5": 0, "5": 0}, 0), buckets({"10": 9, "2.5": 1, "5": 4}, 9))
    assert found is not None
    assert (found.edges, found.counts) == ((2.5, 5.0, 10.0), (1.0, 4.0, 9.0))


def test_a_bucket_caught_between_two_updates_is_lifted_to_the_one_before():
    found = hist_of(buckets({"1": 0, "2": 0}, 0), buckets({"1": 5, "2": 4}, 3))
    assert found is not None
    assert (found.counts, found.total) == ((5.0, 5.0), 5.0)


def test_without_its_sum_a_histogram_is_absent_and_has_no_mean_of_0():
    assert hist_of(buckets({"1": 0}, 0, None), buckets({"1": 5}, 5, None)) is None


def test_without_the_open_bucket_the_last_edge_is_all_there_is():
    found = hist_of(buckets({"1": 0, "2": 0}), buckets({"1": 5, "2": 6}))
    assert found is not None
    assert (found.total, found.open_count) == (6.0, 0.0)


H = Hist((1.0, 2.5, 5.0), (10.0, 14.0, 19.0), 20.0, 30.0)


@pytest.mark.parametrize(
    ("bound", "surely", "at_most"),
    [
        (2.5, 14, 14),  # a real edge: exact
        (2.5 * (1 + 1e-12), 14, 14),  # the same edge written another way
        (2.0, 10, 14),  # inside the bucket 1..2.5: its four may lie on either side
        (0.5, 0, 10),  # below the first edge
        (5.0, 19, 19),
        (9.0, 19, 20),  # in the open bucket
    ],
)
def test_counts_at_a_bound_are_taken_at_real_edges(bound, surely, at_most):
    assert H.at_most(bound) == (surely, at_most)


@pytest.mark.parametrize(
    ("q", "edges"),
    [
        (0.5, (0.0, 1.0)),  # the 10th of 20 is still in the first bucket
        (0.51, (1.0, 2.5)),
        (0.7, (1.0, 2.5)),  # the 14th
        (0.95, (2.5, 5.0)),  # the 19th
        (0.96, (5.0, math.inf)),
    ],
)
def test_the_bucket_of_a_quantile(q, edges):
    assert H.bucket(q) == edges


def test_an_empty_histogram_has_neither_mean_nor_quantile():
    empty = Hist((1.0,), (0.0,), 0.0, 0.0)
    assert empty.mean is None
    assert empty.bucket(0.5) is None
    assert empty.at_most(1.0) == (0.0, 0.0)


def test_a_histogram_without_finite_edges_has_only_the_open_bucket():
    assert Hist((), (), 3.0, 6.0).bucket(0.5) == (0.0, math.inf)
    assert Hist((), (), 3.0, 6.0).at_most(2.0) == (0.0, 3.0)


# -- statistics -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("q", "found"), [(0.0, 1), (0.5, 2), (0.75, 3), (0.9, 4), (1.0, 4)])
def test_percentile_is_the_nearest_rank(q, found):
    assert percentile((4.0, 1.0, 3.0, 2.0), q) == found  # rank = ceil(q x 4)


@pytest.mark.parametrize(
    ("bad", "n", "p", "chance"),
    [
        (0, 10, 0.05, 1.0),
        (1, 10, 0.05, 0.4012630607616212),  # 1 - 0.95^10
        (2, 10, 0.05, 0.0861383558928174),  # 1 - 0.95^10 - 10 x 0.05 x 0.95^9
        (10, 10, 0.5, 1 / 1024),  # all of them
        (3, 3, 0.1, 0.001),
        (11, 10, 0.05, 0.0),
        (1, 1, 0.05, 0.05),
    ],
)
def test_binomial_tail(bad, n, p, chance):
    assert binomial_tail(bad, n, p) == pytest.approx(chance, rel=1e-9)


def test_binomial_tail_agrees_with_exact_fractions_at_a_thousand():
    exact = sum(math.comb(1000, k) * 19 ** (1000 - k) for k in range(70, 1001)) / 20**1000
    assert binomial_tail(70, 1000, 0.05) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("bad", [480, 500, 550, 600, 650, 700])
def test_beyond_what_is_summed_the_tail_is_still_that_of_the_sum(bad, monkeypatch):
    n = 10_001  # the first that is not
    near = binomial_tail(bad, n, 0.05)
    monkeypatch.setattr(measure, "SUMMED", n)
    assert near == pytest.approx(binomial_tail(bad, n, 0.05), rel=1e-3)


def test_any_number_of_trials_has_a_tail_at_once():
    n = 2**64
    for bad in (1, n // 40, n // 20, n // 10, n - 1, n):
        assert 0.0 <= binomial_tail(bad, n, 0.05) <= 1.0
    assert binomial_tail(n // 40, n, 0.05) == pytest.approx(1.0)
    assert binomial_tail(n // 10, n, 0.05) == 0.0
    half = binomial_tail(n // 20, n, 0.05)
    assert half == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("values", "z"),
    [
        # 5 rising values: S = 10, variance 5 x 4 x 15 / 18 = 16.667, z = 9 / 4.0825
        ((1, 2, 3, 4, 5), 2.2045),
        ((5, 4, 3, 2, 1), -2.2045),
        # 10 rising: S = 45, variance 10 x 9 x 25 / 18 = 125, z = 44 / 11.1803
        (tuple(range(10)), 3.9355),
        # 1 1 2 2: S = 4, variance (4 x 3 x 13 - 2 x (2 x 1 x 9)) / 18 = 6.6667, z = 3 / 2.582
        ((1, 1, 2, 2), 1.1619),
        ((7, 7, 7, 7, 7), 0.0),  # all tied: no variance
        ((1, 2, 3), 0.0),  # too few
        # pairs from 1: + + + 0 +, from 3: - + - 0, from 2: + - +, from 4: - -, from 1: +; S = 4 - 1 + 1 - 2 + 1 = 3;
        # 1 and 3 come twice: variance (6 x 5 x 17 - 2 x 18) / 18 = 26.333, z = 2 / 5.1316
        ((1, 3, 2, 4, 1, 3), 0.3897),
    ],
)
def test_mann_kendall(values, z):
    assert mann_kendall_z(tuple(map(float, values))) == pytest.approx(z, abs=5e-4)
