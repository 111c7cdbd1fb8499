"""A cycle's values as OTLP: each kind, names and units that survive the way back, starts, what is left out, sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.judge import Scoped
from llmvitals.exporters.otlp.model import Bars, Metric, Number
from llmvitals.exporters.otlp.parts import parts, size_of
from llmvitals.exporters.otlp.starts import FORGET_SECONDS, NS, Starts
from llmvitals.exporters.otlp.units import unit_of
from llmvitals.exporters.otlp.values import Values
from llmvitals.exporters.otlp.wire import data_of
from llmvitals.exporters.promises import NAMES as PROMISES
from llmvitals.exporters.selfmetrics import NAMES
from llmvitals.gaps import Gap, GapKind
from llmvitals.schema import FAMILIES, Kind
from llmvitals.series import Exemplar, Series, Snapshot, series
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.reading import Reading, Standing

EMPTY = Engine(Settings(), clock=lambda: 100.0).step()
WHO = {"instance": "a", "model": "m"}
TTFT = "llm_request_ttft_seconds"


def cycle(samples: Mapping[Series, float], *, t: float = 100.0, **given: object) -> Cycle:
    """A finished cycle that shows these samples of one target."""
    exemplars = given.pop("exemplars", {})
    return replace(EMPTY, ended=t, snapshots=(Snapshot(t, samples, exemplars=exemplars),), **given)  # type: ignore[arg-type]


def metric(found: list[Metric], name: str) -> Metric:
    (one,) = [m for m in found if m.name == name]
    return one


def histogram(buckets: Mapping[str, float], *, total: float | None = None, count: float | None = None, **labels: str):
    """Samples of one classic histogram."""
    found = {series(f"{TTFT}_bucket", **WHO, **labels, le=le): value for le, value in buckets.items()}
    if total is not None:
        found[series(f"{TTFT}_sum", **WHO, **labels)] = total
    if count is not None:
        found[series(f"{TTFT}_count", **WHO, **labels)] = count
    return found


# -- names and units ---------------------------------------------------------------------------------------------------
_WORDS = {"s": "seconds", "By": "bytes", "W": "watts", "Cel": "celsius", "Hz": "hertz", "J": "joules", "1": "", "": ""}


def translated(name: str, unit: str, kind: Kind) -> str:
    """A name as Prometheus' translator for OTLP makes it, with suffixes and underscores (its default)."""
    tokens = [token for token in name.split("_") if token]
    word = "" if "{" in unit else _WORDS[unit]
    if word and word not in tokens:
        tokens.append(word)
    if kind is Kind.COUNTER:
        tokens = [token for token in tokens if token != "total"] + ["total"]
    if unit == "1" and kind is Kind.GAUGE:
        tokens = [token for token in tokens if token != "ratio"] + ["ratio"]
    return "_".join(tokens)


def translated_as_it_is(name: str, unit: str, kind: Kind) -> str:
    """The same with suffixes and without escaping: a suffix that is there is taken off and put on again."""
    last = "_total" if kind is Kind.COUNTER else "_ratio" if unit == "1" and kind is Kind.GAUGE else ""
    name = name.removesuffix(last)
    word = "" if "{" in unit else _WORDS[unit]
    return (name if not word or name.endswith(word) else f"{name}_{word}") + last


ALL = [
    *((family.name, family.kind, family.unit) for family in FAMILIES),
    *((f"llm_{signal.id}", Kind.GAUGE, signal.unit) for signal in SIGNALS),
    *((name, Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, "") for name in NAMES),
    *((name, Kind.GAUGE, "") for name in ("llm_signal_gap", "llm_triage_leading", "process_resident_memory_bytes")),
    *((name, Kind.COUNTER, "") for name in (*PROMISES, "process_cpu_seconds_total")),
]


@pytest.mark.parametrize("way", [translated, translated_as_it_is])
def test_every_name_comes_back_unchanged_where_otlp_becomes_prometheus_again(way):
    changed = {name: got for name, kind, unit in ALL if (got := way(name, unit_of(name, kind, unit), kind)) != name}
    assert changed == {}


@pytest.mark.parametrize(
    ("name", "kind", "base", "unit"),
    [
        (TTFT, Kind.HISTOGRAM, "seconds", "s"),
        ("llm_gpu_energy_joules_total", Kind.COUNTER, "joules", "J"),
        ("llm_gpu_memory_total_bytes", Kind.GAUGE, "bytes", "By"),
        ("llm_generation_tokens_total", Kind.COUNTER, "tokens", "{token}"),
        ("llm_kv_usage_ratio", Kind.GAUGE, "ratio", "1"),
        ("llm_requests_running", Kind.GAUGE, "", ""),
        ("llm_gpu_pcie_bytes_per_second", Kind.GAUGE, "bytes/second", ""),
        ("llm_prompt_length_cv", Kind.GAUGE, "ratio", ""),
        ("llmvitals_cycle_age_seconds", Kind.GAUGE, "", "s"),
    ],
)
def test_units_are_ucum_where_the_name_ends_with_their_word(name, kind, base, unit):
    assert unit_of(name, kind, base) == unit


# -- kinds -------------------------------------------------------------------------------------------------------------
def test_a_gauge_has_no_start_and_a_counter_is_cumulative():
    told = {series("llm_requests_running", **WHO): 3.0, series("llm_preemptions_total", **WHO): 7.0}
    found = Values().of(cycle(told))
    gauge, counter = metric(found, "llm_requests_running"), metric(found, "llm_preemptions_total")
    assert gauge.points == [Number((("instance", "a"), ("model", "m")), 0, 3.0)]
    assert counter.points == [Number((("instance", "a"), ("model", "m")), 100 * NS, 7.0)]
    assert (gauge.kind, counter.kind, counter.at) == (Kind.GAUGE, Kind.COUNTER, 100 * NS)
    assert counter.help == "Running requests that were evicted to make room."


def test_a_histogram_has_its_own_bounds_and_counts_of_each_bucket():
    told = histogram({"10.0": 5.0, "+Inf": 6.0, "0.5": 2.0, "2": 4.0}, total=21.5, count=6.0)
    (point,) = metric(Values().of(cycle(told)), TTFT).points
    assert point == Bars((("instance", "a"), ("model", "m")), 100 * NS, 6, 21.5, (0.5, 2.0, 10.0), (2, 2, 1, 1))


def test_a_histogram_without_its_last_bucket_goes_by_its_count_and_one_without_edges_has_a_single_bucket():
    (point,) = metric(Values().of(cycle(histogram({"1": 2.0}, total=3.0, count=5.0))), TTFT).points
    assert (point.bounds, point.counts, point.count) == ((1.0,), (2, 3), 5)
    (point,) = metric(Values().of(cycle(histogram({}, total=3.0, count=5.0))), TTFT).points
    assert (point.bounds, point.counts, point.count, point.total) == ((), (5,), 5, 3.0)


def test_a_histogram_without_a_sum_has_none_rather_than_zero():
    values = Values()
    found = values.of(cycle(histogram({"1": 2.0, "+Inf": 2.0})))
    assert metric(found, TTFT).points[0].total is None
    (request,) = [encode_metrics(data_of(part, {})) for part in parts(found)]
    sent = request.resource_metrics[0].scope_metrics[0].metrics[0]
    assert not sent.histogram.data_points[0].HasField("sum")
    assert not sent.histogram.data_points[0].HasField("min")


def test_ranks_and_targets_are_points_of_one_metric():
    told = {**histogram({"+Inf": 1.0}, rank="0"), **histogram({"+Inf": 2.0}, rank="1")}
    assert [p.count for p in metric(Values().of(cycle(told)), TTFT).points] == [1, 2]


def test_names_that_are_not_in_the_schema_are_not_sent():
    assert Values().of(cycle({series("llm_no_such", **WHO): 1.0, series("some_other_total"): 2.0})) == []


@pytest.mark.parametrize(
    "told",
    [
        {series("llm_requests_running", **WHO): math.nan},
        {series("llm_preemptions_total", **WHO): math.nan},
        {series("llm_preemptions_total", **WHO): math.inf},
        {series("llm_preemptions_total", **WHO): -1.0},
        histogram({"1": 3.0, "2": 2.0, "+Inf": 5.0}),
        histogram({"1": 3.0, "+Inf": 2.0}),
        histogram({"1": 0.5, "+Inf": 2.0}),
        histogram({"1": math.nan, "+Inf": 2.0}),
        histogram({"1": 1.0, "+Inf": math.inf}),
        histogram({"1": 1.0, "+Inf": 2.0}, total=math.nan),
        histogram({"1": 1.0}),
        histogram({}, total=4.0),
    ],
)
def test_what_cannot_be_said_is_left_out_and_counted(told):
    values = Values()
    rest = {series("llm_requests_waiting", **WHO): 1.0}
    assert [m.name for m in values.of(cycle({**told, **rest}))] == ["llm_requests_waiting"]
    assert values.left_out == 1
    values.of(cycle(rest))
    assert values.left_out == 0, "it is of the newest cycle"


def test_an_infinite_gauge_is_a_number():
    found = Values().of(cycle({series("llm_requests_running", **WHO): math.inf}))
    assert metric(found, "llm_requests_running").points[0].value == math.inf


@given(
    below=st.lists(st.integers(0, 1000), max_size=12),
    bounds=st.lists(st.floats(-1e6, 1e6), max_size=12, unique=True),
    rest=st.integers(0, 1000),
)
def test_buckets_taken_apart_add_up_to_what_they_were(below, bounds, rest):
    size = min(len(below), len(bounds))
    edges, counts = sorted(bounds[:size]), sorted(below[:size])
    last = (counts[-1] if counts else 0) + rest
    told = histogram({**{repr(e): float(c) for e, c in zip(edges, counts, strict=True)}, "+Inf": float(last)})
    (point,) = metric(Values().of(cycle(told)), TTFT).points
    assert point.count == last
    assert list(point.bounds) == edges
    assert [sum(point.counts[: i + 1]) for i in range(len(point.counts))] == [*counts, last]


# -- signals and the exporter's own ------------------------------------------------------------------------------------
def test_signals_and_gaps_are_sent_as_the_page_shows_them():
    readings = {
        "running_max": Reading.of(4.0, Standing.ESTIMATE)
        if hasattr(Reading, "of")
        else Reading(4.0, standing=Standing.ESTIMATE),
        "activity": Reading(None, gap=Gap(GapKind.MISSING, "the page has none")),
    }
    found = Values().of(cycle({}, scopes=(Scoped("a", "m", readings, None),)))
    (point,) = metric(found, "llm_running_max").points
    assert (dict(point.attributes)["window"], point.value) == ("60s", 4.0)
    (gap,) = metric(found, "llm_signal_gap").points
    assert dict(gap.attributes) == {**WHO, "signal": "activity", "gap": GapKind.MISSING.value}
    assert "llm_activity" not in {m.name for m in found}, "a gap is never a number"


def test_own_counters_and_gauges_keep_the_names_that_a_scraper_sees():
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Counter("llmvitals_made", "Made.", ["path"], registry=registry).labels("/x").inc(2)
    Gauge("llmvitals_there", "There.", registry=registry).set(1.5)
    values = Values()
    found = {m.name: m for m in values.own(registry.collect(), 100.0)}
    assert found["llmvitals_made_total"].kind is Kind.COUNTER
    assert found["llmvitals_made_total"].points == [Number((("path", "/x"),), 100 * NS, 2.0)]
    assert found["llmvitals_there"].points == [Number((), 0, 1.5)]
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= set(found)
    assert not any(name.endswith("_created") for name in found)


# -- starts ------------------------------------------------------------------------------------------------------------
NAME = series("llm_preemptions_total", **WHO)
START = series("llm_process_start_time_seconds", **WHO)


def starts(*seen: tuple[float, Mapping[Series, float]], name: str = NAME.name) -> list[int]:
    """The start of the one series of a family in one cycle after another."""
    values = Values()
    return [metric(values.of(cycle(told, t=t)), name).points[0].start for t, told in seen]


def seconds(*moments: int) -> list[int]:
    return [moment * NS for moment in moments]


def after(moment: int) -> int:
    return moment * NS + 1


def test_what_was_counted_before_it_was_seen_began_at_first_sight_and_stays_there():
    assert starts((100, {NAME: 5.0}), (115, {NAME: 5.0}), (130, {NAME: 9.0})) == seconds(100, 100, 100)


def test_the_process_says_since_when_its_engine_counts():
    assert starts((100, {NAME: 5.0, START: 40.0}), (115, {NAME: 6.0, START: 40.0})) == seconds(40, 40)


def test_what_others_count_goes_not_by_the_engine_s_process():
    probes = series("llm_probe_requests_total", **WHO, outcome="ok")
    assert starts((100, {probes: 5.0, START: 40.0}), name=probes.name) == seconds(100)


def test_several_processes_that_started_at_different_times_say_nothing():
    other = START.plus(rank="1")
    assert starts((100, {NAME: 5.0, START: 40.0, other: 41.0})) == seconds(100)


def test_a_counter_that_fell_has_a_start_of_its_own_after_the_point_before():
    """Even where that point was the first, whose start is its own moment."""
    assert starts((100, {NAME: 5.0}), (115, {NAME: 2.0}), (130, {NAME: 3.0})) == [100 * NS, after(100), after(100)]


def test_a_reset_between_later_points_starts_after_the_one_before():
    seen = [(100, {NAME: 5.0}), (115, {NAME: 6.0}), (130, {NAME: 2.0}), (145, {NAME: 3.0})]
    assert starts(*seen) == [*seconds(100, 100), after(115), after(115)]


def test_a_restart_that_the_page_tells_begins_when_it_says_even_if_more_was_counted_since():
    seen = [(100, {NAME: 5.0, START: 40.0}), (115, {NAME: 8.0, START: 110.0}), (130, {NAME: 9.0, START: 110.0})]
    assert starts(*seen) == seconds(40, 110, 110)


def test_a_restart_that_the_page_dates_before_the_last_point_begins_after_it():
    """A clock that is behind: starts never lie before a point of the time before."""
    assert starts((100, {NAME: 5.0, START: 40.0}), (115, {NAME: 1.0, START: 90.0})) == [40 * NS, after(100)]


def test_a_clock_that_is_ahead_gives_no_start_in_the_future():
    assert starts((100, {NAME: 5.0, START: 500.0})) == seconds(100)


def test_histograms_restart_too():
    seen = [(100, histogram({"+Inf": 5.0})), (115, histogram({"+Inf": 7.0})), (130, histogram({"+Inf": 1.0}))]
    assert starts(*seen, name=TTFT) == [*seconds(100, 100), after(115)]


def test_a_series_that_comes_back_is_what_it_was_unless_it_was_away_for_long():
    values, other = Values(), {series("llm_requests_waiting", **WHO): 1.0}
    values.of(cycle({NAME: 5.0}, t=100))
    values.of(cycle(other, t=115))
    assert metric(values.of(cycle({NAME: 6.0}, t=130)), NAME.name).points[0].start == 100 * NS
    values.of(cycle(other, t=131 + FORGET_SECONDS))
    late = 200 + FORGET_SECONDS
    assert metric(values.of(cycle({NAME: 6.0}, t=late)), NAME.name).points[0].start == late * NS


def test_a_series_that_vanished_is_not_sent():
    values = Values()
    values.of(cycle({NAME: 5.0}))
    assert values.of(cycle({series("llm_requests_waiting", **WHO): 1.0}, t=115))[0].name == "llm_requests_waiting"


def test_starts_go_on_through_a_reload():
    known = Starts()
    Values(known).of(cycle({NAME: 5.0}, t=100))
    assert metric(Values(known).of(cycle({NAME: 6.0}, t=115)), NAME.name).points[0].start == 100 * NS


# -- exemplars ---------------------------------------------------------------------------------------------------------
def test_exemplars_go_with_their_trace():
    told = histogram({"1": 2.0, "+Inf": 3.0})
    seen = {series(f"{TTFT}_bucket", **WHO, le="1"): Exemplar(0.7, 99.5, "4bf92f3577b34da6a3ce929d0e0e4736")}
    found = Values().of(cycle(told, exemplars=seen))
    sent = encode_metrics(data_of(found, {})).resource_metrics[0].scope_metrics[0].metrics[0]
    (exemplar,) = sent.histogram.data_points[0].exemplars
    assert (exemplar.as_double, exemplar.time_unix_nano) == (0.7, 99_500_000_000)
    assert exemplar.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert not any(exemplar.span_id), "no span is named"


# -- sizes -------------------------------------------------------------------------------------------------------------
def many(points: int, label: str = "x") -> list[Metric]:
    bars = [
        Bars((("instance", f"{label}-{i}"),), 1, 20, 1.0, tuple(map(float, range(19))), (1,) * 20)
        for i in range(points)
    ]
    numbers = [Number((("instance", f"{label}-{i}"), ("model", label)), 1, float(i)) for i in range(points)]
    return [Metric("llm_a", Kind.HISTOGRAM, "s", "A.", 5, bars), Metric("llm_b", Kind.GAUGE, "", "B.", 5, numbers)]


@pytest.mark.parametrize("label", ["x", "模型" * 50], ids=["short", "long"])
def test_exports_stay_below_the_limit_of_grpc_and_lose_no_point(label):
    told = many(9000, label)
    made = list(parts(told))
    sizes = [len(encode_metrics(data_of(part, {"service.name": "llmvitals"})).SerializeToString()) for part in made]
    assert len(made) > 1
    assert max(sizes) < 4 * 1024 * 1024
    assert min(sizes[:-1]) > 256 * 1024, "nor are they cut into crumbs"
    assert [p for part in made for m in part for p in m.points] == [p for m in told for p in m.points]


def test_the_reckoned_size_is_never_too_small():
    for point, kind in (
        (Number((), 2**62, 1.0), Kind.COUNTER),
        (Number((("a", "é" * 100),), 2**62, 1.0), Kind.COUNTER),
        (
            Bars((("a", "b"),), 2**62, 2**40, 1.0, (1.0, 2.0), (2**40,) * 3, (Exemplar(1.0, 1.0, "f" * 32),)),
            Kind.HISTOGRAM,
        ),
    ):
        empty = len(encode_metrics(data_of([Metric("n", kind, "", "", 2**62, [])], {})).SerializeToString())
        full = len(encode_metrics(data_of([Metric("n", kind, "", "", 2**62, [point])], {})).SerializeToString())
        assert 0 < full - empty <= size_of(point)


def test_a_point_that_is_larger_than_an_export_goes_alone():
    made = list(parts(many(3), most=10))
    assert [len(part[0].points) for part in made] == [1] * 6


def test_nothing_makes_no_export():
    assert list(parts([])) == []
    assert list(parts([Metric("n", Kind.GAUGE, "", "", 1, [])])) == []
