"""Real pages, read with the client library beside us: every value of every mapped histogram and counter agrees."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"

# What stands on a 0.32 page and what it must be called; written apart from the mapping table.
NAMES = {
    "vllm:time_to_first_token_seconds": "llm_request_ttft_seconds",
    "vllm:inter_token_latency_seconds": "llm_request_inter_token_seconds",
    "vllm:request_time_per_output_token_seconds": "llm_request_tpot_seconds",
    "vllm:e2e_request_latency_seconds": "llm_request_e2e_seconds",
    "vllm:request_queue_time_seconds": "llm_request_queue_seconds",
    "vllm:request_prefill_time_seconds": "llm_request_prefill_seconds",
    "vllm:request_decode_time_seconds": "llm_request_decode_seconds",
    "vllm:request_inference_time_seconds": "llm_request_inference_seconds",
    "vllm:request_prompt_tokens": "llm_request_prompt_tokens",
    "vllm:request_generation_tokens": "llm_request_generation_tokens",
    "vllm:iteration_tokens_total": "llm_iteration_tokens",
    "vllm:num_requests_running": "llm_requests_running",
    "vllm:num_requests_waiting": "llm_requests_waiting",
    "vllm:kv_cache_usage_perc": "llm_kv_usage_ratio",
    "vllm:prompt_tokens": "llm_prompt_tokens_total",
    "vllm:generation_tokens": "llm_generation_tokens_total",
    "vllm:num_preemptions": "llm_preemptions_total",
    "vllm:prefix_cache_queries": "llm_prefix_cache_query_tokens_total",
    "vllm:prefix_cache_hits": "llm_prefix_cache_hit_tokens_total",
}


def beside(text: str) -> dict[tuple[str, str, float], float]:
    """The page as the client library reads it: canonical name, rank and edge (inf without one) to value."""
    found = {}
    for metric in text_string_to_metric_families(text):
        if metric.name not in NAMES:
            continue
        for sample in metric.samples:
            suffix = sample.name.removeprefix(metric.name).replace("_total", "")
            edge = float(sample.labels.get("le", "nan"))
            found[NAMES[metric.name] + suffix, sample.labels["engine"], edge if edge == edge else -1.0] = sample.value
    return found


def ours(snapshot: Snapshot) -> dict[tuple[str, str, float], float]:
    names = tuple(NAMES.values())
    return {
        (s.name, s.label("rank"), float(s.label("le", "-1"))): value
        for s, value in snapshot.samples.items()
        if s.name.startswith(names) and not s.name.startswith(("llm_requests_waiting_by", "llm_prompt_tokens_by"))
        and not s.name.startswith(("llm_prompt_tokens_cached", "llm_prompt_tokens_recomputed"))
    }  # fmt: skip


def captures(root: Path) -> list[Path]:
    return sorted(found.parent for found in root.glob("*/capture.json"))


def check(capture: Path) -> int:
    target = json.loads((capture / "capture.json").read_text(encoding="utf-8"))["targets"][0]
    ingest = Ingest(instance=target["name"], kind=target["kind"])
    last = [scrape for scrape in target["scrapes"] if scrape["file"]][-1]
    read = 0
    for scrape in target["scrapes"]:
        body = (capture / scrape["file"]).read_bytes() if scrape["file"] else None
        snapshot = ingest.snapshot(
            RawPage(scrape["t"], scrape["took"], scrape["status"], body, scrape.get("error") or "")
        )
        up = next(value for series, value in snapshot.samples.items() if series.name == "llm_target_up")
        assert up == (1.0 if body else 0.0)
        if body is None:
            continue
        read += 1
        assert ingest.notes == ()
        kinds = {s.label("gap") for s in snapshot.samples if s.name == "llm_family_gap"}
        assert kinds <= {"unsupported", "no-traffic"}
        if scrape in (target["scrapes"][0], last):  # the library takes long
            assert ours(snapshot) == beside(gzip.decompress(body).decode())
    return read


def test_committed_recordings_agree_with_the_client_library(ran_recording) -> None:
    for capture in captures(FIXTURES):
        assert check(capture) > 0
        ran_recording(capture)


def test_all_recordings_agree_with_the_client_library(shared: Path, ran_recording) -> None:
    found = captures(shared / "captures")
    assert len(found) >= 20
    for capture in found:
        assert check(capture) > 0
        ran_recording(capture)


@pytest.mark.parametrize("name", ["lora-one-slot"])
def test_adapters_of_a_real_page(shared: Path, name: str) -> None:
    """The newest of four label sets at the end names ad2 in both lists: one runs, none waits."""
    page = sorted((shared / "captures" / name).glob("*.prom.gz"))[-1]
    snapshot = Ingest(instance="i").read(RawPage(1.0, None, 200, page.read_bytes()))
    found = {s.name: v for s, v in snapshot.samples.items() if s.name.startswith("llm_lora_")}
    assert found == {"llm_lora_slots": 1.0, "llm_lora_running_adapters": 1.0, "llm_lora_waiting_adapters": 0.0}
