"""Now beside before: what moved beyond its noise, to which side, and what was set otherwise."""

from __future__ import annotations

from llmvitals.settings import Settings
from llmvitals.triage.compare import MOST_ROWS, Comparison, Moment, compare
from llmvitals.triage.sides import DOWN, UP, bad_side
from llmvitals.triage.walk import diagnose_with
from support.made import healthy, run
from support.situations import thrash

SETTINGS = Settings()


def moment(t: float, *, cause: str = "", outcome: str = "", **values: float | None) -> Moment:
    return Moment(t, values, dict.fromkeys(values, 0.0), outcome, cause)


def row(found: Comparison, signal: str):
    return next((row for row in found.rows if row.signal == signal), None)


def judged(t: float, window) -> Moment:
    verdict, readings = diagnose_with(window, SETTINGS)
    values = {name: reading.value for name, reading in readings.items()}
    cause = verdict.leading.cause if verdict.leading else ""
    return Moment(t, values, dict.fromkeys(values, 0.0), verdict.outcome.value, cause)


def test_an_incident_beside_a_quiet_hour_shows_what_it_is_named_by_first():
    found = compare(judged(0.0, run(8, healthy)), judged(600.0, thrash()))
    assert (found.before.outcome, found.now.cause) == ("healthy", "preemption-thrash")
    first = found.rows[0]
    assert first.decides
    assert first.changed
    assert first.worse
    assert {r.signal for r in found.rows if r.decides and r.changed and r.worse} >= {"preemptions_per_minute"}
    assert len(found.rows) <= MOST_ROWS
    ranks = [(not (r.decides and r.changed), not r.changed, not r.worse) for r in found.rows]
    assert ranks == sorted(ranks)


def test_the_way_back_is_told_as_better():
    found = compare(judged(0.0, thrash()), judged(600.0, run(8, healthy)))
    assert row(found, "preemptions_per_minute").worse is False
    assert row(found, "preemptions_per_minute").decides  # what was named then counts as well


def test_what_varies_by_itself_has_not_changed():
    before = Moment(0.0, {"ttft_p95_seconds": 1.0}, {"ttft_p95_seconds": 0.2})
    assert row(compare(before, moment(1.0, ttft_p95_seconds=1.6)), "ttft_p95_seconds").changed is False
    assert row(compare(before, moment(1.0, ttft_p95_seconds=1.9)), "ttft_p95_seconds").changed is True


def test_without_noise_a_difference_is_shown_and_not_called_a_change_and_a_tiny_one_is_none():
    def moved(now: float):
        return row(
            compare(Moment(0.0, {"ttft_p95_seconds": 1.0}), Moment(1.0, {"ttft_p95_seconds": now})), "ttft_p95_seconds"
        )

    assert moved(2.0).changed is None
    assert moved(2.0).worse is True
    assert moved(1.05).changed is False


def test_a_number_that_is_missing_once_is_no_change():
    found = row(compare(moment(0.0, ttft_p95_seconds=None), moment(1.0, ttft_p95_seconds=4.0)), "ttft_p95_seconds")
    assert (found.before, found.now, found.changed, found.worse) == (None, 4.0, None, None)


def test_what_was_set_otherwise_is_a_fact_and_no_row():
    before = Moment(0.0, {"kv_capacity_tokens": 50_000.0, "lora_slots": 4.0}, facts={"Version": "0.31.0", "Model": "m"})
    now = Moment(1.0, {"kv_capacity_tokens": 40_000.0, "lora_slots": 4.0}, facts={"Version": "0.32.0", "Model": "m"})
    found = compare(before, now)
    assert [(fact.before, fact.now) for fact in found.facts] == [
        ("0.31.0", "0.32.0"),
        ("50,000 tokens", "40,000 tokens"),
    ]
    assert row(found, "kv_capacity_tokens") is None


def test_a_fact_that_is_not_known_at_one_moment_did_not_change():
    assert compare(Moment(0.0, {}), Moment(1.0, {}, facts={"Version": "0.32.0"})).facts == ()


def test_load_is_neither_worse_nor_better():
    found = compare(moment(0.0, generation_tokens_rate=10.0), moment(1.0, generation_tokens_rate=90.0))
    assert row(found, "generation_tokens_rate").worse is None


def test_chances_are_no_rows():
    found = compare(moment(0.0, ttft_harm_p=1.0), moment(1.0, ttft_harm_p=1e-9, cause="kv-cache-saturation"))
    assert found.rows == ()


def test_sides_are_those_of_the_checks():
    assert bad_side("preemptions_per_minute") == UP
    assert bad_side("kv_free_low_ratio") == bad_side("gpu_clock_ratio") == DOWN
    assert bad_side("requests_running") == bad_side("kv_usage_ratio") == ""
