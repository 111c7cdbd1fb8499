"""What was observed on real servers and changes a number: each fact with a small page of its own."""

from __future__ import annotations

import pytest

from llmvitals import schema
from llmvitals.series import Snapshot
from llmvitals.telemetry.engines.versions import Fingerprint, Span, candidates, spell, version
from llmvitals.telemetry.engines.vllm import RELEASES
from llmvitals.telemetry.engines.vllm_rows import ROWS
from llmvitals.telemetry.ingest import Ingest, RawPage, reader
from llmvitals.telemetry.mapping import How
from llmvitals.telemetry.registry import engines
from support.page_text import read

ONE = 'engine="0",model_name="m"'
V1 = f"# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{{{ONE}}} 0\n"


def values(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    return [
        v for s, v in snapshot.samples.items() if s.name == name and all(s.label(k) == x for k, x in labels.items())
    ]


def test_http_requests_that_are_absent_are_not_zero() -> None:
    snapshot = read(V1 + "# TYPE http_requests_total counter\n")
    assert values(snapshot, "llm_http_requests_total") == []


def test_capacity_follows_the_blocks_and_not_the_reserved_memory() -> None:
    page = V1 + (
        'vllm:cache_config_info{block_size="128",engine="0",kv_cache_max_concurrency="1.03125",'
        'kv_cache_memory_bytes="1073741824",kv_cache_size_tokens="8448",num_gpu_blocks="66",num_gpu_blocks_override="66"} 1.0\n'
    )
    snapshot = read(page)
    assert values(snapshot, "llm_kv_capacity_tokens") == [8320.0]  # 8448 counts the null block of 128
    assert values(snapshot, "llm_kv_blocks") == [65.0]
    assert values(snapshot, "llm_max_model_tokens") == [8192.0]  # 8448 / 1.03125


def test_prefix_caching_off_is_a_setting_and_its_counters_are_still_there() -> None:
    page = (
        V1 + 'vllm:cache_config_info{block_size="16",enable_prefix_caching="False",engine="0",num_gpu_blocks="9"} 1\n'
    )
    snapshot = read(page)
    assert values(snapshot, "llm_prefix_caching_enabled") == [0.0]
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [0.0]


def test_eight_samples_of_one_request_finish_eight_times_and_ask_once() -> None:
    page = V1 + (
        f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} 8\n'
        f"vllm:request_params_n_count{{{ONE}}} 1\nvllm:request_params_n_sum{{{ONE}}} 8\n"
        f"vllm:request_max_num_generation_tokens_count{{{ONE}}} 1\nvllm:request_generation_tokens_count{{{ONE}}} 8\n"
    )
    snapshot = read(page)
    assert values(snapshot, "llm_requests_finished_total") == [8.0]
    assert values(snapshot, "llm_request_n_param_count") == [1.0]
    assert values(snapshot, "llm_request_max_generation_tokens_count") == [1.0]
    assert values(snapshot, "llm_request_generation_tokens_count") == [8.0]


def test_with_drafts_there_are_fewer_gaps_than_tokens() -> None:
    page = V1 + (
        f"vllm:inter_token_latency_seconds_count{{{ONE}}} 1871\nvllm:generation_tokens_total{{{ONE}}} 8320\n"
        f"vllm:spec_decode_num_accepted_tokens_total{{{ONE}}} 6500\n"
    )
    snapshot = read(page)
    assert values(snapshot, "llm_request_inter_token_seconds_count") == [1871.0]
    assert values(snapshot, "llm_generation_tokens_total") == [8320.0]
    assert values(snapshot, "llm_spec_accepted_tokens_total") == [6500.0]


@pytest.mark.parametrize(("awake", "asleep"), [(1, 0.0), (0, 1.0)])
def test_sleep_is_what_is_not_awake(awake: int, asleep: float) -> None:
    page = V1 + "".join(
        f'vllm:engine_sleep_state{{engine="0",model_name="m",sleep_state="{state}"}} {value}\n'
        for state, value in (("awake", awake), ("weights_offloaded", 1 - awake), ("discard_all", 0))
    )
    assert values(read(page), "llm_engine_asleep") == [asleep]


def test_failed_transfers_of_both_directions_are_added() -> None:
    page = V1 + (
        f"vllm:mooncake_num_failed_transfers_total{{{ONE}}} 2\nvllm:mooncake_num_failed_recvs_total{{{ONE}}} 3\n"
        f"vllm:nixl_num_failed_transfers_total{{{ONE}}} 7\n"
    )
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_failures_total", connector="mooncake") == [5.0]
    assert values(snapshot, "llm_kv_transfer_failures_total", connector="nixl") == [7.0]


def test_offload_bytes_by_old_and_new_names_count_once() -> None:
    old = "".join(
        f'vllm:kv_offload_total_bytes_total{{engine="0",model_name="m",transfer_type="{kind}"}} {value}\n'
        for kind, value in (("CPU_to_GPU", 100), ("GPU_to_CPU", 300))
    )
    assert values(read(V1 + old), "llm_kv_offload_bytes_total", direction="load") == [100.0]
    assert values(read(V1 + old), "llm_kv_offload_bytes_total", direction="store") == [300.0]
    both = read(V1 + old + f"vllm:kv_offload_load_bytes_total{{{ONE}}} 101\n")
    assert values(both, "llm_kv_offload_bytes_total", direction="load") == [101.0]


def test_a_hit_rate_before_any_lookup_is_no_number() -> None:
    page = 'vllm:num_requests_swapped{model_name="m"} 0\nvllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0\n'
    snapshot = read(page)
    family = next(row.family for row in ROWS if row.source == "vllm:gpu_prefix_cache_hit_rate")
    assert values(snapshot, family) == []
    assert values(snapshot, "llm_family_gap", family=family, gap="no-traffic") == [1.0]


def test_static_labels_and_the_answer_time_stand_on_the_samples() -> None:
    ingest = Ingest(instance="i", labels={"namespace": "prod"})
    snapshot = ingest.read(RawPage(10.0, 0.75, 200, V1.encode()))
    assert values(snapshot, "llm_target_answer_seconds", namespace="prod", instance="i") == [0.75]
    assert values(snapshot, "llm_prefix_cache_query_tokens_total", namespace="prod") == [0.0]


def test_a_page_of_unknown_age_and_status_invents_neither() -> None:
    snapshot = Ingest(instance="i").read(RawPage(10.0, None, None, V1.encode()))
    assert values(snapshot, "llm_target_answer_seconds") == []
    assert values(snapshot, "llm_target_status") == []
    assert values(snapshot, "llm_target_up") == [1.0]


def test_later_scrapes_parse_no_series_again(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Ingest(instance="i")
    target.read(RawPage(10.0, 0.01, 200, V1.encode()))

    def never(_text: bytes) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(reader, "parse_series", never)
    snapshot = target.read(RawPage(15.0, 0.01, 200, V1.replace("} 0", "} 12").encode()))
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [12.0]


# -- releases ------------------------------------------------------------------------------------------------------
def test_releases_are_placed_by_what_is_shown_and_what_is_lacking() -> None:
    releases = tuple(version(text) for text in ("0.1.0", "0.2.0", "0.3.0", "0.4.0"))
    prints = (
        Fingerprint("old", Span("0.1.0..0.3.0"), Span("0.1.0..0.2.0")),
        Fingerprint("new", Span("0.3.0"), Span("0.3.0")),
        Fingerprint("flag", Span("0.2.0"), None),
    )
    assert spell(candidates(releases, prints, frozenset({"old"})), releases[-1]) == "0.1-0.2"
    assert spell(candidates(releases, prints, frozenset({"old", "flag"})), releases[-1]) == "0.2"
    assert spell(candidates(releases, prints, frozenset({"new"})), releases[-1]) == ">=0.3"
    assert spell(candidates(releases, prints, frozenset({"new", "old"})), releases[-1]) == "0.3"
    assert spell((), releases[-1]) == "unknown"


def test_spans_of_the_table_are_releases_that_were_read() -> None:
    for row in ROWS:
        for text in (row.v0, row.v1):
            if text:
                span = Span(text)
                assert span.first in RELEASES, row.source
                assert span.last is None or span.last in RELEASES, row.source


# -- the support matrix --------------------------------------------------------------------------------------------
def test_every_canonical_family_is_answered_by_each_kind_of_page() -> None:
    by_kind = {found.kind: found for found in engines()}
    told = {o: {f.name for f in schema.FAMILIES if schema.origin_of(f.name) is o} for o in schema.Origin}
    assert {row.family for row in by_kind["dcgm"].support} == told[schema.Origin.GPU]
    assert {row.family for row in by_kind["vllm"].support} == told[schema.Origin.ENGINE]
    assert "llm_gpu_memory_utilization_setting" in told[schema.Origin.ENGINE]
    of_cards = {f.name for f in schema.FAMILIES if "gpu" in f.labels}
    assert of_cards | {"llm_tensor_parallel_size"} == told[schema.Origin.GPU]
    assert all(f.layer is schema.Layer.META for f in schema.FAMILIES if f.name in told[schema.Origin.TARGET])
    for found in by_kind.values():
        assert len({row.family for row in found.support}) == len(found.support)
        for row in found.support:
            assert row.source if row.how is not How.UNSUPPORTED else row.note, row.family


def test_versions_in_the_matrix_span_all_names_of_a_family() -> None:
    rows = {row.family: row for found in engines() if found.kind == "vllm" for row in found.support}
    assert rows["llm_kv_usage_ratio"].versions == "V0 0.4.1-0.11.0, V1 0.7.1+"  # under two names
    assert rows["llm_prompt_tokens_recomputed_total"].versions == "V1 0.16.0-0.19.1"
    assert rows["llm_requests_swapped"].versions == "V0 0.4.1-0.9.0.1"


def test_every_row_names_a_family_of_the_schema() -> None:
    unknown = {row.family for row in ROWS if row.family} - set(schema.BY_NAME)
    assert unknown == set()
