"""The counters of promises are what one counts by hand over the requests themselves, and say nothing that is not certain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.series import Series, Snapshot, series
from llmvitals.settings import Settings, Slo, SloClass
from llmvitals.signals.budget import JUDGED, MISSED, counters

TTFT, TPOT = "llm_request_ttft_seconds", "llm_request_tpot_seconds"
WHO = {"instance": "a", "model": "m", "engine": "vllm", "rank": "0"}


def spelt(edge: float) -> str:
    return "+Inf" if math.isinf(edge) else repr(edge)


def page(family: str, edges: Sequence[float], seen: Sequence[float], **labels: str) -> dict[Series, float]:
    """A histogram as an engine would show it after these requests."""
    who = {**WHO, **labels}
    told = {
        series(f"{family}_bucket", **who, le=spelt(e)): float(sum(s <= e for s in seen)) for e in (*edges, math.inf)
    }
    told[series(f"{family}_count", **who)] = float(len(seen))
    told[series(f"{family}_sum", **who)] = math.fsum(seen)
    return told


PROMISED = Slo()  # 2 s and 50 ms


def told(samples: dict[Series, float], slo: Slo = PROMISED) -> dict[Series, float]:
    return counters(Snapshot(1.0, samples), Settings(slo=slo))


def judged(objective: str, **labels: str) -> Series:
    return series(JUDGED, **{**WHO, **labels}, objective=objective)


def missed(objective: str, edge: str, **labels: str) -> Series:
    return series(MISSED, **{**WHO, **labels}, objective=objective, edge=edge)


EDGES = st.lists(st.sampled_from([0.01, 0.05, 0.25, 1.0, 2.0, 2.5, 7.5, 40.0]), unique=True).map(sorted)
TIMES = st.lists(st.floats(0.0, 100.0), max_size=30)


@given(edges=EDGES, first=TIMES, later=TIMES, threshold=st.sampled_from([0.05, 0.3, 2.0, 39.0, 41.0]))
def test_they_equal_a_count_of_the_requests_and_only_rise(edges, first, later, threshold):
    slo = Slo(ttft_seconds=threshold)
    above = [edge for edge in edges if edge >= threshold]
    before, after = told(page(TTFT, edges, first), slo), told(page(TTFT, edges, first + later), slo)
    if not above:
        assert (before, after) == ({}, {})
        return
    for seen, found in ((first, before), (first + later, after)):
        assert sorted(found.values()) == sorted([float(len(seen)), float(sum(s > above[0] for s in seen))])
        by_name = {key.name: value for key, value in found.items()}
        assert by_name[MISSED] == sum(s > above[0] for s in seen)
        assert by_name[MISSED] <= sum(s > threshold for s in seen), "nobody is told to have missed who kept it"
    assert all(after[key] >= value for key, value in before.items())


def test_each_rank_model_and_objective_has_its_own_and_says_beyond_which_edge():
    samples = {
        **page(TTFT, (1.0, 2.5, 5.0), (0.5, 2.2, 3.0, 9.0)),
        **page(TTFT, (1.0, 2.5, 5.0), (9.0,), rank="1"),
        **page(TPOT, (0.05, 0.1), (0.01, 0.06, 0.07), model="n"),
    }
    assert told(samples) == {
        judged("ttft"): 4.0,
        missed("ttft", "2.5"): 2.0,
        judged("ttft", rank="1"): 1.0,
        missed("ttft", "2.5", rank="1"): 1.0,
        judged("tpot", model="n"): 3.0,
        missed("tpot", "0.05", model="n"): 2.0,
    }


def test_labels_of_a_target_stay_on_both():
    found = told(page(TTFT, (2.0,), (1.0, 3.0), cluster="east"))
    assert found == {judged("ttft", cluster="east"): 2.0, missed("ttft", "2", cluster="east"): 1.0}


def test_a_model_is_held_to_the_promise_of_the_class_that_takes_it():
    slo = Slo(ttft_seconds=2.0, classes=(SloClass(name="batch", models=("big-*",), ttft_seconds=10.0),))
    seen, edges = (1.0, 5.0, 50.0), (2.0, 10.0)
    samples = {**page(TTFT, edges, seen), **page(TTFT, edges, seen, model="big-1")}
    found = told(samples, slo)
    assert found[missed("ttft", "2")] == 2.0
    assert found[missed("ttft", "10", model="big-1")] == 1.0


@pytest.mark.parametrize("spelling", ["2", "2.0", "2.00", "2e+00"])
def test_an_edge_is_one_series_however_a_release_spells_it(spelling):
    samples = {
        series(f"{TTFT}_bucket", **WHO, le=spelling): 1.0,
        series(f"{TTFT}_bucket", **WHO, le="+Inf"): 3.0,
        series(f"{TTFT}_count", **WHO): 3.0,
    }
    assert told(samples) == {judged("ttft"): 3.0, missed("ttft", "2"): 2.0}


def test_nothing_is_certain_where_only_the_open_bucket_lies_above_the_threshold():
    assert told(page(TTFT, (0.5, 1.0), (0.7, 30.0))) == {}
    assert told(page(TTFT, (), (0.7, 30.0))) == {}


@pytest.mark.parametrize(
    "samples",
    [
        {series(f"{TTFT}_bucket", **WHO, le="2.0"): 3.0},
        {series(f"{TTFT}_count", **WHO): 3.0},
        {series(f"{TTFT}_bucket", **WHO, le="2.0"): 4.0, series(f"{TTFT}_count", **WHO): 3.0},
        {series(f"{TTFT}_bucket", **WHO, le="2.0"): math.nan, series(f"{TTFT}_count", **WHO): 3.0},
        {series(f"{TTFT}_bucket", **WHO, le="2.0"): 1.0, series(f"{TTFT}_count", **WHO): math.nan},
        {series(f"{TTFT}_bucket", **WHO, le="2.0"): 1.0, series(f"{TTFT}_count", **WHO): math.inf},
        {series(f"{TTFT}_bucket", **WHO, le="2.0"): -1.0, series(f"{TTFT}_count", **WHO): 3.0},
        {series(f"{TTFT}_bucket", **WHO, le="soon"): 1.0, series(f"{TTFT}_count", **WHO): 3.0},
        {series(f"{TTFT}_bucket", **WHO): 1.0, series(f"{TTFT}_count", **WHO): 3.0},
    ],
    ids=[
        "no count",
        "no bucket",
        "more below than all",
        "nan bucket",
        "nan count",
        "endless",
        "negative",
        "le",
        "no le",
    ],
)
def test_a_broken_histogram_is_left_out_and_the_others_stand(samples):
    found = told({**samples, **page(TTFT, (2.0,), (1.0,), rank="1")})
    assert found == {judged("ttft", rank="1"): 1.0, missed("ttft", "2", rank="1"): 0.0}


NUMBERS = st.floats() | st.integers(-3, 9).map(float)


@given(st.dictionaries(st.sampled_from(["0.5", "2", "2.0", "4", "+Inf", "-Inf", "NaN", "", "x"]), NUMBERS), NUMBERS)
def test_whatever_a_page_shows_they_are_counters(buckets, count):
    samples = {series(f"{TTFT}_bucket", **WHO, le=le): value for le, value in buckets.items()}
    found = told({**samples, series(f"{TTFT}_count", **WHO): count})
    by_name = {key.name: value for key, value in found.items()}
    assert not found or 0.0 <= by_name[MISSED] <= by_name[JUDGED] < math.inf


def test_a_page_read_between_two_updates_does_not_fall_behind_itself():
    """The count may be taken apart from the buckets: their difference must not go down, which would read as a restart."""
    edges = (2.0,)
    before, after = page(TTFT, edges, (1.0, 3.0)), page(TTFT, edges, (1.0, 1.0, 3.0))
    before[series(f"{TTFT}_count", **WHO)] = 3.0  # already knows of the third, as no bucket does
    assert [told(one)[missed("ttft", "2")] for one in (before, after)] == [1.0, 1.0]


def test_other_families_promise_nothing():
    assert told(page("llm_request_e2e_seconds", (2.0,), (1.0, 3.0))) == {}
