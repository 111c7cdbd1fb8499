"""A family that is taken away never makes another cause lead: the verdict says less, not something else.

Where a whole source is not there, what only it shows cannot be told; what the cause brings about may lead then.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llmvitals.lab.play import SETTINGS, Job
from llmvitals.lab.scenario import Scenario
from llmvitals.lab.scenarios import SCENARIOS
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose
from support.lab import ALONE, EVERYTHING, FULL, graded, less, names_of, watched

SEED = 3

KNOWN: frozenset[tuple[str, str, str]] = frozenset(
    {
        # scrapes did fail: without what says why, that they failed is all there is to say
        ("vram-headroom", "llm_gpu_memory_free_bytes", "telemetry-broken"),
        ("vram-headroom", "llm_gpu_memory_used_bytes", "telemetry-broken"),
        ("rollout-and-probes", "llm_host_restarts_total", "telemetry-broken"),
        # two processes that take turns look like one that restarts, where none says when it started
        ("two-behind-one-address", "llm_process_start_time_seconds", "rollout-and-probes"),
        # GPUs that are busy with neither memory nor arithmetic may wait for a link of which nothing is known
        ("prefill-decode-interference", "llm_gpu_link_limit_bytes_per_second", "interconnect-bound"),
        ("prefill-decode-interference", "llm_gpu_nvlink_bytes_per_second", "interconnect-bound"),
        # of two causes at once, what both bring about
        ("heat+seats", "llm_gpu_sm_clock_max_hertz", "unbounded-queue"),
    }
)
"""What is not held yet: (scenario, family taken away, the cause that then leads wrongly)."""


def looks(row: Scenario) -> tuple[tuple[str, str], ...]:
    """(severity, level of telemetry): a fault that is clear by the engine's page alone, a severe one with all there is."""
    return (("clear", ALONE), ("severe", FULL)) if graded(row.kind) else (("clear", ALONE), ("clear", FULL))


def leading(verdict: Verdict) -> str:
    return verdict.leading.cause if verdict.leading is not None else ""


def brought_about(row: Scenario) -> set[str]:
    """What the injected causes explain, by the table."""
    checks = [BY_CAUSE[cause] for cause in row.causes]
    return {cause for c in checks for cause in (*c.explains, *(c.proof.explains if c.proof else ()))}


def wrong(row: Scenario, severity: str, level: str) -> Iterator[str]:
    """What leads wrongly once something is missing: neither what was injected nor what led before."""
    run = watched(Job(row.name, SEED, 0, severity))
    window = run.window(run.last, level)
    before = leading(diagnose(window, SETTINGS))
    for what, names in names_of(window).items():
        after = leading(diagnose(less(window, names), SETTINGS))
        symptoms = brought_about(row) if what.startswith(EVERYTHING) else set()
        if what.startswith(EVERYTHING) and any(what.endswith(source) for source in row.shown_by - {"engine"}):
            symptoms.add(row.mimics)  # what tells a look-alike from what it mimics is gone
        if (row.name, what, after) in KNOWN:
            continue
        if after and after not in {before, *row.causes, *symptoms}:
            yield f"{row.name} {severity} {run.dialect} {level}: without {what}, {after} leads, not {before or 'nothing'}"


@pytest.mark.parametrize("row", SCENARIOS, ids=lambda row: row.name)
def test_without_any_one_input_no_other_cause_leads(row):
    found = [line for severity, level in looks(row) for line in wrong(row, severity, level)]
    assert not found, "\n".join(found)


def test_a_window_without_a_family_is_the_one_that_never_had_it():
    """The short way of taking a family away is the same as building the window anew."""
    run = watched(Job("batch-too-small", SEED, 0, "clear"))
    window = run.window(run.last, FULL)
    for names in names_of(window).values():
        short = less(window, names)
        anew = type(short).of(short.snapshots, start=short.start, end=short.end)
        assert short.names() == anew.names() == window.names() - names
        assert all(set(short.tracks(name)) == set(anew.tracks(name)) for name in anew.names())
