"""What a simulated engine says in each dialect is what is read back: its own state, in the populations of that engine."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from llmvitals.cli.simulate import command
from llmvitals.errors import SettingsError
from llmvitals.series import Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.simulator import exposition
from llmvitals.simulator.config import EngineConfig, Preemption, Speculation, Transfer
from llmvitals.simulator.dialect import COUNTING
from llmvitals.simulator.exposition import llamacpp
from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import scenario
from llmvitals.simulator.serve import Served
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.sources.capture import read_capture
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.ingest.check import check
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


# -- engines that count less ------------------------------------------------------------------------------------------
KINDS = {name: {"vllm-v0": "vllm", "ray": "vllm"}.get(name, name) for name in exposition.DIALECTS}


def checked(dialect: str, name: str = "preemption", after: float = 60.0) -> tuple[Live, Snapshot]:
    """The engine and what is read of its page, by the adapter of its kind alone."""
    live = server(dialect, name)
    ingest = Ingest(instance="sim", kind=KINDS[dialect])
    return live, ingest.snapshot(RawPage(ORIGIN + after, 0.01, 200, live.page_at(ORIGIN + after)))


def lines(live: Live, after: float) -> dict[str, float]:
    found = re.findall(r"^([^#\s]\S*) (\S+)$", live.page_at(ORIGIN + after).decode(), re.M)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("dialect", exposition.DIALECTS)
@pytest.mark.parametrize("after", [0.0, 60.0])
def test_each_page_is_known_for_what_it_is_and_holds_nothing_unknown(dialect: str, after: float) -> None:
    body = server(dialect).page_at(ORIGIN + after)
    report = check(RawPage(ORIGIN + after, 0.01, 200, body), place="sim")
    if dialect == "tgi" and not after:
        assert report.kind in {"tgi", ""}  # its budget alone
        return
    assert report.kind == KINDS[dialect]
    assert report.refused == ""
    assert list(report.unknown) == []
    assert list(report.warnings) == []
    assert [state.family for state in report.families if state.state == "missing"] == []


def test_tgi_counts_prompts_as_they_come_and_answers_when_they_have_ended() -> None:
    live, snapshot = checked("tgi", "kv-full")
    c = live.engine.counters
    assert total(snapshot, "llm_request_prompt_tokens_sum") == c.came_prompt.sum > c.request_prompt.sum
    assert total(snapshot, "llm_request_generation_tokens_sum") == c.request_generated.sum
    assert total(snapshot, "llm_request_queue_seconds_sum") == pytest.approx(c.queue.sum)
    assert total(snapshot, "llm_request_inference_seconds_count") == c.e2e.count > 0
    assert total(snapshot, "llm_requests_finished_total") == c.e2e.count
    assert total(snapshot, "llm_requests_waiting") == live.engine.gauges.waiting > 0
    page = lines(live, 60.0)
    assert page["tgi_request_count"] == 2 * live.engine.arrived
    whole = page["tgi_request_mean_time_per_token_duration_sum"]  # all requests say 200 tokens: their mean is the sum's
    assert whole == pytest.approx(c.inference.sum / 200)
    assert not [s for s in snapshot.samples if "ttft" in s.name]


def test_tgi_s_batch_holds_what_it_may_grow_to_and_never_more_than_the_budget() -> None:
    live = server("tgi")  # where vLLM throws work out
    for after in range(15, 60, 5):
        page = lines(live, float(after))
        assert (
            page["tgi_batch_current_max_tokens"] <= page["tgi_batch_max_total_tokens"] == live.engine.config.pool_tokens
        )
    assert live.engine.counters.evicted == 0
    running = live.engine.state.running
    most = sum(s.request.prompt + s.asked for s in running)
    assert most <= page["tgi_batch_current_max_tokens"] < most + 16 * len(running)  # in whole blocks


def test_tgi_s_edges_are_a_series_of_one_and_a_half_and_a_hundred_equal_steps() -> None:
    _, snapshot = checked("tgi", "healthy")

    def edges(family: str) -> list[float]:
        found = {float(s.label("le")) for s in snapshot.samples if s.name == f"{family}_bucket"}
        return sorted(found - {float("inf")})

    times = edges("llm_request_queue_seconds")
    assert len(times) == 35
    assert times[0] == pytest.approx(0.00015)
    assert times[-1] == pytest.approx(145.6, rel=1e-3)
    lengths = edges("llm_request_generation_tokens")
    assert (len(lengths), lengths[0], lengths[-1]) == (100, 81.92, 8192.0)


def test_trtllm_counts_all_of_a_request_when_it_ends() -> None:
    live, snapshot = checked("trtllm", "kv-full")
    c = live.engine.counters
    assert total(snapshot, "llm_request_ttft_seconds_count") == c.e2e.count < c.first_token.count
    assert total(snapshot, "llm_request_ttft_seconds_sum") == pytest.approx(c.ended_first_token.sum)
    assert total(snapshot, "llm_prompt_tokens_total") == c.request_prompt.sum < c.prompt_tokens
    assert total(snapshot, "llm_generation_tokens_total") == c.request_generated.sum < c.generated_tokens
    assert total(snapshot, "llm_kv_capacity_tokens") == live.engine.config.pool_tokens
    assert total(snapshot, "llm_target_first_token_at_end") == 1.0
    edges = {float(s.label("le")) for s in snapshot.samples if s.name == "llm_request_prefill_seconds_bucket"}
    assert len(edges) == 19  # it has other edges than first tokens
    assert 0.025 in edges


def test_trtllm_s_gauges_keep_the_last_iteration_for_ever() -> None:
    one = replace(CHAT, rate=0.0, clients=1, think=1e9, prompt=Lengths(100), output=Lengths(50), prefix_tokens=0)
    live = of(EngineConfig(), one, "trtllm")
    read(live, 60.0)
    assert live.engine.in_flight == 0
    assert live.engine.gauges.running == 0
    ingest = Ingest(instance="sim", kind="trtllm")
    snapshot = ingest.snapshot(RawPage(ORIGIN + 600, 0.01, 200, live.page_at(ORIGIN + 600)))
    assert total(snapshot, "llm_requests_running") == 1.0
    assert total(snapshot, "llm_requests_finished_total") == 1.0


def test_triton_s_numbers_are_in_microseconds_and_milliseconds_and_its_queue_is_in_the_backend() -> None:
    live, snapshot = checked("triton", "kv-full")
    c, page = live.engine.counters, lines(live, 60.0)
    own = 'model="tensorrt_llm",version="1"'
    assert page[f"nv_inference_request_duration_us{{{own}}}"] == pytest.approx(c.e2e.sum * 1e6, abs=1)
    assert page[f"nv_inference_first_response_histogram_ms_sum{{{own}}}"] == pytest.approx(c.first_token.sum * 1e3)
    assert f'nv_inference_first_response_histogram_ms_bucket{{le="2000",{own}}}' in page
    assert page[f"nv_inference_pending_request_count{{{own}}}"] == 0
    assert total(snapshot, "llm_request_e2e_seconds_sum") == pytest.approx(c.e2e.sum, abs=1e-5)
    assert total(snapshot, "llm_request_ttft_seconds_sum") == pytest.approx(c.first_token.sum)
    assert total(snapshot, "llm_requests_waiting") > 0
    edges = {float(s.label("le")) for s in snapshot.samples if s.name == "llm_request_ttft_seconds_bucket"}
    assert edges == {0.1, 0.5, 2.0, 5.0, float("inf")}


def test_llama_cpp_s_numbers_have_six_digits_and_count_when_a_slot_is_given_back() -> None:
    live, snapshot = checked("llamacpp")
    c, page = live.engine.counters, lines(live, 60.0)
    assert page["llamacpp:tokens_predicted_total"] == float(f"{c.request_generated.sum:.6g}") > 1e4
    assert c.generated_tokens > c.request_generated.sum
    assert page["llamacpp:prompt_tokens_total"] == pytest.approx(c.prompt_tokens - c.cached_tokens, rel=1e-5)
    assert page["llamacpp:n_tokens_max"] == c.most_tokens
    assert [llamacpp.stream(n) for n in (7, 0.25, 123456.7, 1234567)] == ["7", "0.25", "123457", "1.23457e+06"]
    assert total(snapshot, "llm_requests_waiting") == live.engine.gauges.waiting > 0
    assert not [s for s in snapshot.samples if s.name.endswith("_bucket")]


def test_ollama_says_what_it_holds_and_nothing_else() -> None:
    live, snapshot = checked("ollama", "kv-full")
    machine, config = live.engine.config.machine, live.engine.config
    size = machine.weight_bytes + config.pool_tokens * machine.kv_bytes_per_token
    assert total(snapshot, "llm_model_vram_bytes") == size
    assert total(snapshot, "llm_max_model_tokens") == config.max_model_len
    assert not [s for s in snapshot.samples if s.name.startswith(("llm_request", "llm_generation"))]


def test_dynamo_s_front_end_sees_the_calls_and_takes_prefill_for_a_queue() -> None:
    live, snapshot = checked("dynamo", "kv-full")
    c, page = live.engine.counters, lines(live, 60.0)
    assert total(snapshot, "llm_gateway_requests_total", status="2xx") == c.e2e.count > 0
    assert total(snapshot, "llm_gateway_ttft_seconds_count") == c.first_token.count
    assert total(snapshot, "llm_gateway_calls_running") == live.engine.outlet.held
    assert page['dynamo_frontend_queued_requests{model="sim-8b"}'] >= live.engine.gauges.waiting
    assert not [s for s in snapshot.samples if s.name == "llm_gateway_queue_waiting"]


def test_ray_s_page_holds_vllm_s_numbers_and_no_process() -> None:
    (live, ray), (other, plain) = checked("ray"), checked("vllm")
    assert live.engine.counters.generated_tokens == other.engine.counters.generated_tokens
    for family in ("llm_request_ttft_seconds_sum", "llm_generation_tokens_total", "llm_requests_running"):
        assert total(ray, family) == total(plain, family)
    assert not [s for s in ray.samples if s.name.startswith(("llm_process", "llm_http"))]
    assert b"ReplicaId=" in live.page_at(ORIGIN + 60)


@pytest.mark.parametrize("dialect", ["tgi", "trtllm", "triton", "llamacpp", "ollama", "dynamo", "ray"])
def test_the_same_requests_are_served_whatever_page_tells_of_them(dialect: str) -> None:
    live, plain = server(dialect, "healthy"), server("vllm", "healthy")
    for one in (live, plain):
        one.advance(ORIGIN + 60.0)
    assert live.world.clients.log == plain.world.clients.log


@pytest.mark.parametrize(
    ("dialect", "page", "claims", "extra"),
    [
        ("trtllm", "dynamo/trtllm-2026-01.prom", "trtllm_", set()),
        ("dynamo", "dynamo/run-0.8.1-fe-light.prom", "dynamo_frontend_", set()),
        ("triton", "triton/tensorrtllm_backend-readme-inflight.prom", "nv_", {"reason"}),
    ],
)
def test_labels_are_those_of_a_recorded_page(dialect: str, page: str, claims: str, extra: set[str]) -> None:
    real = SHARED / "reference" / "pages" / page
    if not real.exists():
        pytest.skip(f"no recorded page at {real}; LLMVITALS_SHARED locates the recordings")

    def labels(text: str) -> dict[str, set[str]]:
        found = re.findall(rf"^({claims}\w+)\{{(.*)\}} \S+$", text, re.M)
        return {name: set(re.findall(r'(\w+)="', inner)) for name, inner in found}

    def types(text: str) -> dict[str, str]:
        return dict(re.findall(rf"^# TYPE ({claims}\w+) (\w+)$", text, re.M))

    mine = server(dialect, "kv-full").page_at(ORIGIN + 60).decode()
    told, shown = labels(real.read_text()), labels(mine)
    both = set(told) & set(shown)
    assert len(both) >= 4
    assert {name for name in both if told[name] - extra != shown[name] - extra} == set()
    said = types(real.read_text())
    assert {name for name, kind in types(mine).items() if said.get(name, kind) != kind} == set()


@pytest.mark.parametrize("dialect", exposition.DIALECTS)
def test_a_recording_in_each_dialect_is_read_as_one_target(dialect: str, tmp_path: Path) -> None:
    words = ["healthy", "--dialect", dialect, "--for", "9s", "-o", str(tmp_path / "demo")]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    seen = read_capture(tmp_path / "demo")
    assert seen[0].kind == KINDS.get({"dynamo": "vllm"}.get(dialect, dialect))
    assert all(s.label("instance") for shot in seen[0].snapshots for s in shot.samples)
    gateways = {s.label("gateway") for shot in seen[0].snapshots for s in shot.samples} - {""}
    assert gateways == ({"dynamo-0"} if dialect == "dynamo" else set())


@pytest.mark.parametrize(
    ("dialect", "path", "kind"),
    [
        ("ollama", "/api/ps", "application/json"),
        ("trtllm", "/prometheus/metrics", "text/plain"),
        ("tgi", "/metrics", "text/plain"),
    ],
)
def test_a_page_is_served_where_the_engine_has_it(dialect: str, path: str, kind: str) -> None:
    with Served(server(dialect, "healthy"), clock=lambda: ORIGIN + 5, sleep=lambda _: None) as served:
        assert served.page_url == served.url + path
        with urlopen(served.page_url, timeout=10) as answer:
            assert answer.headers["content-type"].startswith(kind)
            assert answer.read()
