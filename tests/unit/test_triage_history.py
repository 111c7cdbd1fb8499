"""Lines over time: what is asked for, how a window is replayed, and the JSON form."""

import pytest

from llmvitals.errors import PageError
from llmvitals.series import Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.triage.history import MOST_POINTS, VITALS, Trace, decode, encode, replay, wanted

RUNNING = series("llm_requests_running", instance="a", model="m")
UP = series("llm_target_up", instance="a", model="m")


def window(pages):
    return Window.of(Snapshot(5.0 * i, {UP: 1.0, RUNNING: float(i)}) for i in range(pages))


def test_each_point_is_the_signal_over_the_window_that_ends_there():
    trace = replay(window(25), 60.0, ("requests_running",), Settings())["requests_running"]
    assert trace.times == tuple(60.0 + 5.0 * i for i in range(13))
    assert trace.values == tuple(float(12 + i) for i in range(13))


def test_a_long_window_is_thinned_from_its_newest_end():
    trace = replay(window(200), 20.0, ("requests_running",), Settings())["requests_running"]
    assert len(trace.times) <= MOST_POINTS
    assert trace.values[-1] == 199.0


def test_a_window_that_is_too_short_has_no_points():
    assert replay(window(3), 60.0, ("requests_running",), Settings())["requests_running"] == Trace((), ())


BUCKETS = {
    edge: series("llm_request_ttft_seconds_bucket", instance="a", model="m", le=edge)
    for edge in ("1.0", "10.0", "+Inf")
}


def test_a_line_says_how_far_its_newest_number_goes_and_why_there_is_none():
    late = (
        Snapshot(5.0 * i, {UP: 1.0, **{key: float(edge == "+Inf") * i for edge, key in BUCKETS.items()}})
        for i in range(25)
    )
    found = replay(Window.of(late), 60.0, ("ttft_p95_seconds", "prefix_hit_ratio"), Settings())
    assert found["ttft_p95_seconds"].values[-1] == 10.0
    assert found["ttft_p95_seconds"].standing == "lower bound"
    assert found["prefix_hit_ratio"].values[-1] is None
    assert ": " in found["prefix_hit_ratio"].why
    assert decode(encode(found), place="here") == found


def test_vital_signs_come_first_and_nothing_twice():
    names = wanted(("seats", "requests_running", "seats"))
    assert names[: len(VITALS)] == tuple(v.signal for v in VITALS)
    assert names[len(VITALS) :] == ("seats",)


def test_the_json_form_is_read_back():
    traces = {"seats": Trace((1.0, 2.0), (4.0, None), 5.0)}
    assert decode(encode(traces), place="here") == traces


@pytest.mark.parametrize("found", [None, {}, {"signals": 3}, {"signals": {"a": {"times": "x"}}}])
def test_anything_else_is_an_error_that_names_the_place(found):
    with pytest.raises(PageError, match="here"):
        decode(found, place="here")
