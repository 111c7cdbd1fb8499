"""What comes from another machine's clock: a moment that no date can be written for is refused where it is read."""

import math

import pytest

from llmvitals.errors import PageError
from llmvitals.triage import course, document, history, replica
from llmvitals.triage.view import clock
from support.fake_exporter import document as triage
from support.fake_exporter import history as past
from support.fake_exporter import replicas

NO_MOMENTS = [1e300, -1e300, 1e12, math.inf, math.nan]


def put(made, value, *path):
    """The document with another value at this place."""
    part = made
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return made


SIGNAL = "preemptions_per_minute"
READ = {
    "the window of a verdict": lambda t: document.decode(put(triage(), t, "window", "end"), place="x"),
    "a point of a line": lambda t: history.decode(put(past(), t, "signals", SIGNAL, "times", 0), place="x"),
    "the end of a course": lambda t: course.decode(put(past(), t, "course", "end"), place="x"),
    "the end of a fleet": lambda t: replica.decode(put(replicas(), t, "end"), place="x"),
    "the newest page of a replica": lambda t: replica.decode(
        {**replicas(), "replicas": [{"instance": "a", "newest": t}]}, place="x"
    ),
}


@pytest.mark.parametrize("t", NO_MOMENTS)
@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_a_moment_that_no_clock_shows_is_one_line(read, t):
    with pytest.raises(PageError, match="no clock shows"):
        read(t)


@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_a_clock_that_is_wrong_by_years_is_read(read):
    for t in (0.0, 1e9, 4e9, 1e11):
        assert clock(t)
        read(t)


def test_a_window_whose_end_is_no_number_is_one_line():
    with pytest.raises(PageError):
        document.decode(put(triage(), "soon", "window", "end"), place="x")


def test_a_line_with_more_times_than_values_is_one_line():
    with pytest.raises(PageError, match="as many times as values"):
        history.decode(put(past(), [1.0], "signals", SIGNAL, "values"), place="x")
