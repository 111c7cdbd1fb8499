"""What a page does not say: take each family away in turn and odd numbers in, and see that no cause is made of it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from llmvitals.gaps import GapKind
from llmvitals.schema import BY_NAME, Kind, family_of
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS, compute
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.window import scopes
from llmvitals.triage.verdict import Outcome, Verdict
from llmvitals.triage.walk import diagnose, diagnose_with
from support.made import Server, changed, healthy, run, without
from support.recordings import LESS, name_of, only_scope
from support.situations import SITUATIONS, WELL

SETTINGS = Settings()
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
RECORDED = sorted(p.name for p in FIXTURES.iterdir())
MADE: dict[str, Callable[[], Window]] = {
    **{f"{s.cause}: {name}": make for s in SITUATIONS for name, make in s.shown.items()},
    **{f"well: {name}": make for name, make in WELL.items()},
}
SYMPTOMS = {
    "hardware-event: fell off the bus": ("not-serving",),
    "head-of-line-blocking: small ones behind large ones, by traces": ("prefill-bound",),
}
TARGET = ("llm_target_", "llm_family_")
UNREAD = {
    "llm_request_max_generation_tokens", "llm_request_computed_prompt_tokens", "llm_request_preemptions",
    "llm_prompt_tokens_by_source_total", "llm_prompt_tokens_cached_total",
    "llm_external_prefix_cache_hit_tokens_total", "llm_external_prefix_cache_query_tokens_total",
    "llm_multimodal_cache_hits_total", "llm_multimodal_cache_queries_total", "llm_engine_asleep",
    "llm_estimated_flops_total", "llm_estimated_read_bytes_total", "llm_estimated_write_bytes_total",
    "llm_process_resident_bytes",
    "llm_kv_block_tokens",  # follows from the pool's tokens and blocks
}  # fmt: skip
"""What no signal of such a page reads."""
SLOW_OR_SICK = (
    "kv-admission-wait", "prefix-miss-id-first", "long-prompts", "batch-too-large", "lora-one-slot", "engine-died",
    "vllm-0.11-light", "two-api-servers",
)  # fmt: skip


@cache
def recorded(name: str) -> Window:
    return only_scope(FIXTURES / name)[1]


@cache
def made(name: str) -> Window:
    return MADE[name]()


def families(window: Window) -> list[str]:
    found = {f.name for name in window.names() if (f := family_of(name)) is not None}
    return sorted(name for name in found if not name.startswith(TARGET))


def told(verdict: Verdict) -> set[str]:
    """The families that a verdict says it is blind to."""
    return {f.name for b in verdict.blind if (f := family_of(b.series)) is not None}


def false_zeros(before: dict[str, Reading], after: dict[str, Reading]) -> set[str]:
    """Signals that had a number and now claim 0. A lower bound of 0 and a chance of 0 claim nothing of the kind."""
    return {
        s.id
        for s in SIGNALS
        if after[s.id].value == 0
        and (before[s.id].value or 0.0) > 1e-9
        and s.unit != "probability"
        and after[s.id].standing is not Standing.LOWER
    }


def check_every_gap(window: Window, symptoms: tuple[str, ...] = ()) -> None:
    """Without any one family nothing raises, nothing becomes 0, and no other cause is named.

    ``symptoms``: what is rightly named once the family that shows its cause is gone.
    """
    base, before = diagnose_with(window, SETTINGS)
    for family in set(families(window)) - UNREAD:
        if family == "llm_http_requests_total" and before["completion_rate"].value == 0:
            continue  # vLLM shows its HTTP series from the first answer on: without one, absent is 0
        verdict, after = diagnose_with(without(window, family), SETTINGS)
        assert name_of(verdict) in {name_of(base), *LESS, *symptoms}, (family, verdict.sentence)
        assert not false_zeros(before, after), family
        if name_of(verdict) != name_of(base):
            assert family in told(verdict), (family, sorted(told(verdict)))


@pytest.mark.parametrize("name", RECORDED)
def test_no_family_taken_from_a_recording_makes_another_cause(name):
    check_every_gap(recorded(name))


@pytest.mark.parametrize("name", MADE)
def test_no_family_taken_from_a_made_window_makes_another_cause(name):
    check_every_gap(made(name), SYMPTOMS.get(name, ()))


@pytest.mark.parametrize("name", SLOW_OR_SICK)
def test_no_family_taken_from_a_full_recording_makes_another_cause(name, shared, ran_recording):
    folder = shared / "captures" / name
    window = only_scope(folder)[1]
    ran_recording(folder)
    base = name_of(diagnose(window, SETTINGS))
    for family in set(families(window)) - UNREAD:
        verdict = diagnose(without(window, family), SETTINGS)
        assert name_of(verdict) in {base, *LESS}, (family, verdict.sentence)


# -- every signal says why it is absent -------------------------------------------------------------------------------
def test_a_signal_holds_a_number_or_a_gap_and_never_both():
    for name in RECORDED:
        for signal, reading in compute(recorded(name), SETTINGS).items():
            assert (reading.value is None) == (reading.gap is not None), signal
            assert reading.gap is None or reading.gap.why, signal


def test_every_family_that_a_derived_signal_reads_is_missed_by_somebody():
    """A family that can go without any signal noticing is read by nothing, or by something that takes its absence for 0."""
    window = recorded("kv-preemption")
    before = compute(window, SETTINGS)
    for family in families(window):
        after = compute(without(window, family), SETTINGS)
        moved = {s for s in before if before[s] != after[s]}
        assert bool(moved) == (family not in UNREAD), family


# -- odd numbers ------------------------------------------------------------------------------------------------------
def _not_target(key: Series) -> bool:
    return not key.name.startswith(TARGET)


def _gauge(key: Series) -> bool:
    found = family_of(key.name)
    return found is not None and found.kind is Kind.GAUGE and _not_target(key)


def _shifted(window: Window, by: float) -> Window:
    half = len(window.snapshots) // 2
    return Window.of(replace(s, t=s.t - (by if i >= half else 0.0)) for i, s in enumerate(window.snapshots))


def _pages(window: Window, each: Callable[[int, Snapshot], Snapshot]) -> Window:
    return Window.of(each(i, s) for i, s in enumerate(window.snapshots))


def _only(keep: Callable[[int, Series], bool], window: Window) -> Window:
    return _pages(
        window,
        lambda i, s: replace(s, samples={k: v for k, v in s.samples.items() if not _not_target(k) or keep(i, k)}),
    )


def _failed(snapshot: Snapshot) -> Snapshot:
    kept = {k: (0.0 if k.name == "llm_target_up" else v) for k, v in snapshot.samples.items() if not _not_target(k)}
    return replace(snapshot, samples=kept)


def _second_rank(window: Window, hidden: tuple[str, ...] = ()) -> Window:
    """The same engine twice behind one API server; rank 1 does not show ``hidden``."""

    def double(_: int, s: Snapshot) -> Snapshot:
        twins = {
            Series(k.name, tuple((n, "1" if n == "rank" else v) for n, v in k.labels)): value
            for k, value in s.samples.items()
            if k.label("rank") and not k.name.startswith(("llm_http", "llm_process", *hidden))
        }
        return replace(s, samples={**s.samples, **twins})

    return _pages(window, double)


def odd(window: Window) -> Iterator[tuple[str, Window]]:
    """What a page, a clock or a network can do to a window without the server being any different."""
    pages, n = window.snapshots, len(window.snapshots)
    yield "NaN gauges", changed(window, lambda k, v: math.nan if _gauge(k) else v)
    yield "NaN counters", changed(window, lambda k, v: v if _gauge(k) or not _not_target(k) else math.nan)
    yield "NaN everywhere", changed(window, lambda k, v: math.nan if _not_target(k) else v)
    yield "infinite", changed(window, lambda k, v: math.inf if _not_target(k) else v)
    yield "negative gauges", changed(window, lambda k, v: -1.0 - v if _gauge(k) else v)
    yield "a pool of nothing", changed(window, lambda k, v: 0.0 if k.name.startswith(("llm_kv_", "llm_max")) else v)
    yield "out of order", Window.of(random.Random(1).sample(pages, n))
    yield "every page twice", Window.of([*pages, *pages])
    yield "two pages a moment", _pages(window, lambda i, s: replace(s, t=pages[i // 2 * 2].t))
    yield "all at one moment", _pages(window, lambda _, s: replace(s, t=5.0))
    yield "clock set back a little", _shifted(window, 3.5)
    yield "clock set back a minute", _shifted(window, 60.0)
    yield "clock set back an hour", _shifted(window, 3600.0)
    yield "no page", Window.of([])
    yield "one page", Window.of(pages[:1])
    yield "two pages", Window.of(pages[:2])
    yield "four pages", Window.of(pages[:4])
    yield "no word on being up", changed(window, lambda k, v: None if k.name == "llm_target_up" else v)
    yield "all failed", _pages(window, lambda _, s: _failed(s))
    yield "several API servers", changed(window, lambda k, v: None if k.name.startswith("llm_process") else v)
    yield "no buckets", changed(window, lambda k, v: None if k.name.endswith("_bucket") else v)
    yield "no open bucket", changed(window, lambda k, v: None if k.label("le") == "+Inf" else v)
    yield "no sums", changed(window, lambda k, v: None if k.name.endswith("_sum") else v)
    yield "no counts", changed(window, lambda k, v: None if k.name.endswith("_count") else v)
    yield "gauges from the second third on", _only(lambda i, k: i > n // 3 or not _gauge(k), window)
    yield "gauges until the last third", _only(lambda i, k: i < n * 2 // 3 or not _gauge(k), window)
    yield "a page without counters", _only(lambda i, k: i != n // 2 or _gauge(k), window)
    yield "an empty page", _only(lambda i, k: i != n // 2, window)
    yield "an empty last page", _only(lambda i, k: i != n - 1, window)
    yield "two ranks", _second_rank(window)
    yield (
        "two ranks, one without gauges",
        _second_rank(window, ("llm_requests_running", "llm_requests_waiting", "llm_kv_usage")),
    )


BROKEN = {"NaN counters", "NaN everywhere", "infinite", "no counts"}
"""Oddities that leave no basic family: to say that the numbers cannot be trusted is then the right answer."""


def check_oddities(window: Window) -> None:
    base = name_of(diagnose(window, SETTINGS))
    for what, strange in odd(window):
        verdict, readings = diagnose_with(strange, SETTINGS)
        for signal, reading in readings.items():
            assert reading.value is None or math.isfinite(reading.value), (what, signal)
            assert (reading.value is None) == (reading.gap is not None), (what, signal)
        allowed = {base, *LESS, "telemetry-broken"} if what in BROKEN else {base, *LESS}
        assert name_of(verdict) in allowed, (what, verdict.sentence)


@pytest.mark.parametrize("name", RECORDED)
def test_odd_pages_of_a_recording_make_no_other_cause(name):
    check_oddities(recorded(name))


@pytest.mark.parametrize("name", WELL)
def test_odd_pages_of_a_server_that_is_well_make_no_cause(name):
    check_oddities(WELL[name]())


def test_pages_that_come_in_any_order_and_twice_give_the_same_numbers():
    window = recorded("queue-two-seats")
    mixed = Window.of(random.Random(2).sample([*window.snapshots, *window.snapshots], 2 * len(window.snapshots)))
    assert compute(mixed, SETTINGS) == compute(window, SETTINGS)


def test_an_empty_window_is_undetermined_and_nothing_is_0():
    verdict, readings = diagnose(Window.of([]), SETTINGS), compute(Window.of([]), SETTINGS)
    assert verdict.outcome is Outcome.UNDETERMINED
    known = {name for name, reading in readings.items() if reading.value is not None}
    assert known <= {"pages", "window_seconds", "restarts", "core_families_missing"}


def test_a_window_of_failures_only_is_undetermined():
    server = Server()
    for _ in range(10):
        server.fail()
    verdict = diagnose(server.window(), SETTINGS)
    assert verdict.outcome in {Outcome.UNDETERMINED, Outcome.CAUSE}
    assert name_of(verdict) in {"undetermined", "telemetry-broken"}


def test_a_model_that_changes_with_the_process_is_two_scopes():
    server = Server()
    for i in range(8):
        healthy(server, i)
        server.page()
    server.restart()
    moved = {
        Series(k.name, tuple((n, "other" if n == "model" else v) for n, v in k.labels)): 0.0 for k in server.values
    }
    server.values = {k: v for k, v in server.values.items() if not k.label("model")} | {
        k: v for k, v in moved.items() if k.label("model")
    }
    for _ in range(8):
        server.page()
    found = scopes(server.pages)
    assert set(found) == {("made", "m"), ("made", "other")}
    # whose 20 requests were cut off is told of a restart; the other had nobody inside
    assert name_of(diagnose(found["made", "m"], SETTINGS)) == "rollout-and-probes"
    assert name_of(diagnose(found["made", "other"], SETTINGS)) in {"healthy", "undetermined", "no-traffic"}


def test_a_gap_of_a_newer_exporter_is_read_as_missing():
    def newer(k: Series, v: float) -> float:
        return v

    window = without(run(8, healthy), "llm_request_tpot_seconds")
    sample = Series(
        "llm_family_gap", (("family", "llm_request_tpot_seconds"), ("gap", "eaten"), ("reason", "by a dog"))
    )
    told_so = Window.of(replace(s, samples={**s.samples, sample: 1.0}) for s in changed(window, newer).snapshots)
    gap = compute(told_so, SETTINGS)["tpot_harm_p"].gap
    assert gap is not None
    assert gap.kind is GapKind.MISSING


def test_every_family_of_the_made_server_is_canonical():
    window = run(3, healthy)
    assert all(family_of(name) for name in window.names())
    for snapshot in window.snapshots:
        for key in snapshot.samples:
            found = family_of(key.name)
            assert found is not None
            assert set(dict(key.labels)) - {"le"} <= {"instance", "model", "engine", "rank", *found.labels}
    assert set(families(window)) <= set(BY_NAME)
