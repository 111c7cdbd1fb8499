"""What a simulated engine says in each dialect is what is read back: its own state, in the populations of that engine."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from llmvitals.errors import SettingsError
from llmvitals.series import Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.simulator import exposition
from llmvitals.simulator.config import EngineConfig, Preemption, Speculation, Transfer
from llmvitals.simulator.dialect import COUNTING
from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import scenario
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.walk import diagnose

ORIGIN = 1_767_225_600.0
SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))
DIALECTS = ("vllm", "vllm-v0", "sglang")
CHAT = Stream("chat", rate=4.0, prompt=Lengths(400, 0.5), output=Lengths(60, 0.5), max_tokens=512, prefix_tokens=128)


def server(dialect: str, name: str = "preemption") -> Live:
    row = scenario(name)
    return Live(Setup(row.config, row.workload), origin=ORIGIN, dialect=dialect)


def of(config: EngineConfig, stream: Stream, dialect: str) -> Live:
    return Live(Setup(config, Workload((stream,))), origin=ORIGIN, dialect=dialect)


def read(live: Live, after: float) -> Snapshot:
    return Ingest(instance="sim").read(RawPage(ORIGIN + after, 0.01, 200, live.page_at(ORIGIN + after)))


def total(snapshot: Snapshot, name: str, **labels: str) -> float:
    found = [
        v for s, v in snapshot.samples.items() if s.name == name and all(s.label(k) == w for k, w in labels.items())
    ]
    assert found, name
    return sum(found)


def version(snapshot: Snapshot) -> str:
    (info,) = [s for s in snapshot.samples if s.name == "llm_target_info"]
    return f"{info.label('engine')} {info.label('version')}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["healthy", "preemption", "kv-full"])
def test_what_the_engine_counts_is_read_back(dialect: str, name: str) -> None:
    live = server(dialect, name)
    snapshot = read(live, 60.0)
    counters, config = live.engine.counters, live.engine.config
    ended = sum(counters.finished.values())
    assert ended > 0
    for family, told in (
        ("llm_request_ttft_seconds_count", counters.first_token.count),
        ("llm_request_ttft_seconds_sum", counters.first_token.sum),
        ("llm_request_inter_token_seconds_count", counters.token_gap.count),
        ("llm_request_inter_token_seconds_sum", counters.token_gap.sum),
        ("llm_request_e2e_seconds_sum", counters.e2e.sum),
        ("llm_request_prompt_tokens_sum", counters.request_prompt.sum),
        ("llm_request_generation_tokens_sum", counters.request_generated.sum),
        ("llm_requests_finished_total", ended),
        ("llm_kv_capacity_tokens", config.pool_tokens),
        ("llm_kv_blocks", config.blocks),
        ("llm_kv_block_tokens", config.block_tokens),
    ):
        assert total(snapshot, family) == pytest.approx(told, rel=1e-9), family
    assert [
        s.label("family") for s in snapshot.samples if s.name == "llm_family_gap" and s.label("gap") == "missing"
    ] == []


@pytest.mark.parametrize(
    ("dialect", "spoken"), [("vllm", "vllm >=0.32"), ("vllm-v0", "vllm 0.7-0.7.3"), ("sglang", "sglang >=0.5.22")]
)
def test_the_page_is_taken_for_one_of_the_engine_that_it_speaks_as(dialect: str, spoken: str) -> None:
    assert version(read(server(dialect), 60.0)) == spoken


@pytest.mark.parametrize("dialect", DIALECTS)
def test_edges_are_the_engine_s_own(dialect: str) -> None:
    snapshot = read(server(dialect), 60.0)
    edges = {float(s.label("le")) for s in snapshot.samples if s.name == "llm_request_ttft_seconds_bucket"}
    assert edges == {*COUNTING[dialect].first_token, float("inf")}


@pytest.mark.parametrize("dialect", ["vllm", "vllm-v0"])
def test_gauges_of_vllm_are_those_of_the_last_step(dialect: str) -> None:
    live = server(dialect)
    snapshot = read(live, 45.0)
    gauges = live.engine.gauges
    assert total(snapshot, "llm_requests_running") == gauges.running > 0
    assert total(snapshot, "llm_requests_waiting") == gauges.waiting > 0
    assert total(snapshot, "llm_kv_usage_ratio") == gauges.usage


@pytest.mark.parametrize(("dialect", "field"), [("vllm", "preemptions"), ("vllm-v0", "evicted"), ("sglang", "evicted")])
def test_preemptions_are_counted_when_that_engine_counts_them(dialect: str, field: str) -> None:
    live = server(dialect)
    snapshot = read(live, 60.0)
    assert total(snapshot, "llm_preemptions_total") == getattr(live.engine.counters, field) > 0
    assert live.engine.counters.evicted >= live.engine.counters.preemptions


def test_sglang_tells_tokens_as_they_are_decoded_and_the_rest_when_requests_end() -> None:
    live = server("sglang")
    snapshot = read(live, 60.0)
    c = live.engine.counters
    assert total(snapshot, "llm_generation_tokens_total") == c.generated_tokens - c.first_token.count
    assert total(snapshot, "llm_prompt_tokens_total") == c.request_prompt.sum < c.prompt_tokens
    assert total(snapshot, "llm_request_queue_seconds_count") == c.waited.count > c.queue.count


def test_sglang_reports_at_prefills_and_every_forty_steps_and_once_it_is_idle() -> None:
    one = replace(CHAT, rate=0.0, clients=1, think=1e9, prompt=Lengths(100), output=Lengths(500), prefix_tokens=0)
    live = of(EngineConfig(), one, "sglang")
    early = read(live, 0.2)  # 20 of its steps or so: still the report of its prefill, in which nobody ran
    assert 0 < live.engine.counters.steps < 40
    assert total(early, "llm_requests_running") == 0.0
    later = read(live, 2.0)
    assert live.engine.counters.steps >= 40
    assert total(later, "llm_requests_running") == 1.0
    done = read(live, 20.0)
    assert live.engine.in_flight == 0
    assert total(done, "llm_requests_running") == 1.0  # nothing has been reported since
    assert total(read(live, 60.0), "llm_requests_running") == 0.0


def test_sglang_s_stale_gauges_are_no_stall() -> None:
    one = replace(CHAT, rate=2.0, end=30.0)
    live, ingest = of(EngineConfig(), one, "sglang"), Ingest(instance="sim")
    pages = [ingest.snapshot(RawPage(ORIGIN + t, 0.01, 200, live.page_at(ORIGIN + t))) for t in range(5, 60, 3)]
    ((_, window),) = scopes(pages).items()
    verdict = diagnose(window, Settings())
    assert verdict.leading is None


def test_sglang_s_page_holds_nothing_that_was_never_touched() -> None:
    fresh = of(EngineConfig(), CHAT, "sglang").page_at(ORIGIN).decode()
    assert "sglang:max_total_num_tokens" in fresh
    for name in (
        "prompt_tokens_total",
        "time_to_first_token_seconds",
        "num_aborted_requests",
        "http_responses",
        "process_",
    ):
        assert name not in fresh
    assert 'prefill_effective_tokens_total{engine_type="unified",mode="host_hit"' in fresh


def test_aborts_are_seen_by_each_engine_as_it_sees_them() -> None:
    leaving = replace(CHAT, leaves=0.5, output=Lengths(200), prefix_tokens=0)
    told = {}
    for dialect in DIALECTS:
        live = of(EngineConfig(), leaving, dialect)
        told[dialect] = read(live, 60.0), live.engine.counters
    snapshot, counters = told["sglang"]
    assert total(snapshot, "llm_requests_aborted_total") == counters.aborted > 10
    assert total(snapshot, "llm_requests_finished_total") == counters.e2e.count + counters.left_e2e.count
    assert counters.left_e2e.count > 10
    snapshot, counters = told["vllm"]
    assert total(snapshot, "llm_requests_finished_total") == counters.e2e.count
    assert not [s for s in snapshot.samples if s.name == "llm_requests_aborted_total"]


def test_refusals_are_a_counter_of_vllm_v1_and_a_status_of_sglang() -> None:
    config, flood = EngineConfig(max_num_seqs=2, max_queued=2), replace(CHAT, rate=20.0)
    for dialect in ("vllm", "sglang"):
        live = of(config, flood, dialect)
        snapshot = read(live, 30.0)
        rejected = live.engine.counters.rejected
        assert rejected > 50
        assert total(snapshot, "llm_requests_rejected_total") == rejected
        assert total(snapshot, "llm_http_requests_total", status="5xx") == rejected


def test_swapped_requests_do_not_wait_in_v0() -> None:
    row = scenario("preemption")
    live = Live(Setup(replace(row.config, preemption=Preemption.SWAP), row.workload), origin=ORIGIN, dialect="vllm-v0")
    seen = 0.0
    for after in range(20, 60):
        snapshot, gauges = read(live, float(after)), live.engine.gauges
        assert total(snapshot, "llm_requests_swapped") == gauges.swapped
        assert total(snapshot, "llm_requests_waiting") == gauges.waiting - gauges.swapped
        seen = max(seen, total(snapshot, "llm_requests_swapped"))
    assert seen > 0
    assert total(snapshot, "llm_kv_cpu_usage_ratio") >= 0.0


def test_v0_shows_its_own_hit_ratio_and_none_before_a_lookup() -> None:
    live = of(EngineConfig(), CHAT, "vllm-v0")
    first = read(live, 0.0)
    assert not [s for s in first.samples if s.name == "llm_prefix_cache_reported_hit_ratio"]
    later = read(live, 30.0)
    counters = live.engine.counters
    assert total(later, "llm_prefix_cache_reported_hit_ratio") == counters.hit_tokens / counters.query_tokens > 0


@pytest.mark.parametrize("dialect", ["vllm", "vllm-v0"])
def test_what_a_setting_brings_is_on_the_page_with_it(dialect: str) -> None:
    live = of(EngineConfig(speculation=Speculation(3, 0.6)), CHAT, dialect)
    snapshot = read(live, 30.0)
    counters = live.engine.counters
    assert total(snapshot, "llm_spec_draft_tokens_total") == counters.draft_tokens > 0
    assert total(snapshot, "llm_spec_accepted_tokens_total") == counters.accepted_tokens > 0
    plain = read(of(EngineConfig(), CHAT, dialect), 30.0)
    assert not [s for s in plain.samples if s.name.startswith("llm_spec_")]


def test_kv_that_comes_from_elsewhere_is_told_by_vllm_and_waited_for_in_sglang() -> None:
    config = EngineConfig(transfer=Transfer(bandwidth=2e8, failures=0.2, timeout=2.0))
    live = of(config, CHAT, "vllm")
    snapshot = read(live, 30.0)
    counters = live.engine.counters
    assert total(snapshot, "llm_kv_transfer_seconds_count", connector="nixl") == counters.kv_transfer.count > 0
    assert total(snapshot, "llm_kv_transfer_bytes_sum") == counters.kv_transfer_bytes.sum
    assert total(snapshot, "llm_kv_transfer_failures_total") == counters.kv_transfer_failures > 0
    other = of(config, CHAT, "sglang")
    waits = [
        total(read(other, float(t)), "llm_requests_waiting_by_reason", reason="kv_transfer") for t in range(10, 40)
    ]
    assert max(waits) > 0
    assert total(read(other, 40.0), "llm_kv_transfer_failures_total") == other.engine.counters.kv_transfer_failures


def test_requests_that_wait_for_a_grammar_are_deferred_in_vllm_v1_and_in_sglang() -> None:
    slow = replace(CHAT, schemas=200, schema_seconds=3.0)
    for dialect in ("vllm", "sglang"):
        live = of(EngineConfig(), slow, dialect)
        deferred = [
            total(read(live, float(t)), "llm_requests_waiting_by_reason", reason="deferred") for t in range(10, 40)
        ]
        assert max(deferred) > 0, dialect


def test_adapters_pile_up_in_vllm_s_label_sets_and_the_newest_is_read() -> None:
    many = replace(CHAT, adapters=4)
    live = of(EngineConfig(max_loras=2), many, "vllm")
    page = live.page_at(ORIGIN + 30).decode()
    assert len(re.findall(r"^vllm:lora_requests_info\{", page, re.M)) > 1
    snapshot = read(live, 30.0)
    assert total(snapshot, "llm_lora_slots") == 2.0
    assert total(snapshot, "llm_lora_running_adapters") == len(live.engine.gauges.running_adapters)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pages_do_not_depend_on_how_often_one_asks(dialect: str) -> None:
    often, once = server(dialect), server(dialect)
    for tick in range(200):
        often.page_at(ORIGIN + tick * 0.2)
    assert often.page_at(ORIGIN + 40) == once.page_at(ORIGIN + 40)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("name", "cause"), [("healthy", None), ("kv-full", "kv-cache-saturation"), ("preemption", "preemption-thrash")]
)
def test_a_situation_gets_the_same_name_whatever_engine_shows_it(dialect: str, name: str, cause: str | None) -> None:
    live, ingest = server(dialect, name), Ingest(instance="sim")
    moments = [ORIGIN + 20 + 3 * i for i in range(25)]
    pages = [ingest.snapshot(RawPage(t, 0.01, 200, live.page_at(t))) for t in moments]
    ((_, window),) = scopes(pages).items()
    verdict = diagnose(window, Settings())
    assert (verdict.leading.cause if verdict.leading else None) == cause


def test_a_page_can_be_asked_for_in_another_dialect() -> None:
    live = server("sglang")
    live.advance(ORIGIN + 30)
    assert b"vllm:num_requests_running" in exposition.page(live.engine, ORIGIN, dialect="vllm")
    assert set(exposition.DIALECTS) == set(COUNTING)


def test_a_dialect_that_nobody_speaks_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"lmdeploy.*vllm, vllm-v0, ray, sglang, tgi"):
        EngineConfig(dialect="lmdeploy")


def test_sglang_s_page_has_the_labels_of_a_recorded_one() -> None:
    real = SHARED / "reference" / "pages" / "dynamo" / "sglang-2026-01.prom"
    if not real.exists():
        pytest.skip(f"no recorded page at {real}; LLMVITALS_SHARED locates the recordings")

    def labels(text: str) -> dict[str, set[str]]:
        found = re.findall(r"^(sglang:\w+)\{(.*)\} \S+$", text, re.M)
        return {name: set(re.findall(r'(\w+)="', inner)) for name, inner in found}

    told, mine = labels(real.read_text()), labels(server("sglang").page_at(ORIGIN + 40).decode())
    both = set(told) & set(mine)
    assert len(both) > 20
    later = {"is_streaming", "engine_type"}  # 0.5.17 and 0.5.12
    assert {name for name in both if told[name] - {"pid"} - later != mine[name] - later} == set()
