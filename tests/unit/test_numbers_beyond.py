"""What fuzzing found of single lines: each costs its own series, its family is named, and what stands beside it reads as before."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from llmvitals.exporters.cycle import replay
from llmvitals.settings import Settings, Target
from llmvitals.signals import catalogue
from llmvitals.signals.reading import Reading
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.ingest.check import check

PAGE = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} %s
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 3
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",le="1.0"} 1
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} %s
vllm:time_to_first_token_seconds_sum{model_name="m"} 1
vllm:time_to_first_token_seconds_count{model_name="m"} %s
"""


def read(text: bytes) -> dict[str, float]:
    page = RawPage(1.0, 0.1, 200, PAGE % (text, b"2", b"2"))
    return {series.name: value for series, value in Ingest(instance="i", kind="vllm").snapshot(page).samples.items()}


@pytest.mark.parametrize("text", [b"1e308", b"18446744073709551616", b"9" * 300])
def test_a_number_that_no_counter_holds_is_none(text: bytes) -> None:
    samples = read(text)
    assert "llm_requests_running" not in samples
    assert samples["llm_requests_waiting"] == 3.0
    told = check(RawPage(1.0, 0.1, 200, PAGE % (text, b"2", b"2")), place="i", kind="vllm")
    assert [w.what for w in told.warnings if "more than a counter can hold" in w.what]


def test_the_largest_one_that_a_counter_holds_is_one() -> None:
    assert read(b"18446744073709549568")["llm_requests_running"] == 18446744073709549568.0


def test_counts_of_any_size_are_judged_at_once() -> None:
    """A histogram that grows by 2^60 between two pages: the odds of so many breaches are not summed one by one."""
    pages = [RawPage(1000.0 + 15 * i, 0.1, 200, PAGE % (b"1", n, n)) for i, n in enumerate((b"1", b"%d" % 2**60))]
    *_, last = replay(pages, Settings(), target=Target(url="http://e:1", name="e", kind="vllm"))
    assert [one.ok for one in last.collected if one.collector == "triage"] == [True]
    assert last.scopes[0].readings["harm_p"].value is not None


def test_what_is_divided_by_next_to_nothing_is_no_number() -> None:
    """A gauge of the smallest number that a float holds: times the batch was replaced would be infinite."""
    text = b'vllm:num_requests_running{model_name="m"} 5e-324\nvllm:request_success_total{model_name="m"} %d\n'
    pages = [RawPage(1000.0 + 15 * i, 0.1, 200, text % (100 * i)) for i in range(3)]
    *_, last = replay(pages, Settings(), target=Target(url="http://e:1", name="e", kind="vllm"))
    reading = last.scopes[0].readings["turnover_ratio"]
    assert reading.gap is not None
    assert "too large or too small" in reading.gap.why
    assert [line for line in last.page.splitlines() if line.lower().endswith((b" inf", b"+inf", b" nan"))] == []


@pytest.mark.parametrize("label", [b' ="2"', b'\xc2\x85="2"'])
def test_a_label_without_a_name_costs_its_own_series(label: bytes) -> None:
    """The client library fails on such a one by an error that is none of its own."""
    text = b'vllm:num_requests_running{model_name="m",%s} 2\nvllm:num_requests_waiting{model_name="m"} 3\n' % label
    snapshot = Ingest(instance="i", kind="vllm").snapshot(RawPage(1.0, 0.1, 200, text))
    assert [value for series, value in snapshot.samples.items() if series.name == "llm_requests_waiting"] == [3.0]
    assert "llm_requests_running" not in {series.name for series in snapshot.samples}
    assert snapshot.detail == ""


def test_what_is_rounded_on_the_way_to_a_number_is_none_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """One signal whose arithmetic overflows is a gap; the others and the verdict stand."""
    text = b'vllm:num_requests_running{model_name="m"} 1\n'
    signals = tuple(
        replace(signal, derive=lambda c: Reading(float(math.ceil(math.inf))))
        if signal.id == "turnover_ratio"
        else signal
        for signal in catalogue.SIGNALS
    )
    monkeypatch.setattr(catalogue, "SIGNALS", signals)
    pages = [RawPage(1000.0 + 15 * i, 0.1, 200, text) for i in range(3)]
    *_, last = replay(pages, Settings(), target=Target(url="http://e:1", name="e", kind="vllm"))
    assert [one.ok for one in last.collected if one.collector == "triage"] == [True]
    gap = last.scopes[0].readings["turnover_ratio"].gap
    assert gap is not None
    assert "too large or too small" in gap.why


def test_a_histogram_whose_median_lies_below_an_edge_of_0_has_no_spread_and_costs_no_verdict() -> None:
    name = b'vllm:request_prompt_tokens_%s{model_name="m"%s} %d\n'
    rows = ((b"bucket", b',le="0.0"', 9), (b"bucket", b',le="1.0"', 10), (b"bucket", b',le="+Inf"', 10))
    rows += ((b"count", b"", 10), (b"sum", b"", 10))
    texts = [b"".join(name % (what, le, n * turn) for what, le, n in rows) for turn in range(3)]
    pages = [RawPage(1000.0 + 15 * i, 0.1, 200, PAGE % (b"1", b"2", b"2") + text) for i, text in enumerate(texts)]
    *_, last = replay(pages, Settings(), target=Target(url="http://e:1", name="e", kind="vllm"))
    assert [one.ok for one in last.collected if one.collector == "triage"] == [True]
    reading = last.scopes[0].readings["prompt_spread"]
    assert (reading.value, reading.gap is not None) == (None, True)
