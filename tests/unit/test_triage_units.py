"""Numbers as people read them: worked out by hand from the base unit."""

import math

import pytest

from llmvitals.triage.units import digits, with_unit


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.34, "seconds", "340 ms"),
        (3.1, "seconds", "3.1 s"),
        (240.0, "seconds", "4 min"),
        (9000.0, "seconds", "2.5 h"),
        (0.97, "ratio", "97 %"),
        (0.0, "ratio", "0 %"),
        (5120.0, "tokens", "5,120 tokens"),
        (3 * 2**30, "bytes", "3 GiB"),
        (126.0, "1/minute", "126 /min"),
        (298.4, "tokens/second", "298 tokens/s"),
        (4.0, "", "4"),
        (-0.5, "ratio", "-50 %"),
        (1e-41, "probability", "< 0.000001"),
    ],
)
def test_a_number_is_shown_in_the_unit_that_a_person_reads_out(value, unit, shown):
    assert with_unit(value, unit) == shown


def test_what_is_no_number_is_said_in_words():
    assert digits(math.inf) == "unbounded"
    assert digits(math.nan) == "not a number"
