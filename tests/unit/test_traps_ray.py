"""What Ray Serve makes of vLLM's names (``ray_vllm_*``), with a small page for each trap."""

from __future__ import annotations

from llmvitals.telemetry.ingest import Ingest
from support.page_text import read, values

RAY = 'Component="core_worker",NodeAddress="10.0.0.7",SessionName="s",Version="2.52.0"'


def sample(
    name: str, value: float, *, replica: str = "r1", worker: str = "w1", engine: str = "0", more: str = ""
) -> str:
    one = f'ReplicaId="{replica}",' if replica else ""
    return f'ray_vllm_{name}{{{RAY},{one}WorkerId="{worker}",engine="{engine}",{more}model_name="m"}} {value}\n'


def test_t8_a_colon_that_became_an_underscore_behind_ray_s_prefix_is_read() -> None:
    snapshot = read(sample("num_requests_running", 3) + sample("kv_cache_usage_perc", 0.5))
    assert values(snapshot, "llm_requests_running", engine="vllm", model="m") == [3.0]
    assert values(snapshot, "llm_kv_usage_ratio") == [0.5]


def test_replicas_stand_side_by_side_and_none_overwrites_another() -> None:
    page = sample("num_requests_running", 3) + sample("num_requests_running", 4, replica="r2", worker="w2")
    snapshot = read(page)
    assert values(snapshot, "llm_requests_running", rank="r1") == [3.0]
    assert values(snapshot, "llm_requests_running", rank="r2") == [4.0]


def test_before_there_was_a_replica_id_the_process_tells_replicas_apart() -> None:
    page = sample("num_requests_running", 3, replica="") + sample("num_requests_running", 4, replica="", worker="w2")
    assert values(read(page), "llm_requests_running") == [3.0, 4.0]


def test_ranks_of_one_replica_stay_apart() -> None:
    page = sample("num_requests_running", 3) + sample("num_requests_running", 4, engine="1")
    snapshot = read(page)
    assert values(snapshot, "llm_requests_running", rank="r1") == [3.0]
    assert values(snapshot, "llm_requests_running", rank="r1/1") == [4.0]


def test_a_counter_with_and_without_total_counts_once() -> None:
    both = "".join(
        sample(f"{name}{suffix}", value)
        for suffix in ("", "_total")
        for name, value in (
            ("prompt_tokens", 500),
            ("mooncake_num_failed_transfers", 3),
            ("mooncake_num_failed_recvs", 2),
        )
    )
    snapshot = read(both)
    assert values(snapshot, "llm_prompt_tokens_total") == [500.0]
    assert values(snapshot, "llm_kv_transfer_failures_total") == [5.0], "sends and receives are added, names are not"


def test_blocks_of_a_replica_are_not_shared_out_over_the_others() -> None:
    config = 'block_size="16",num_gpu_blocks="101",'
    page = sample("cache_config_info", 1, more=config) + sample(
        "cache_config_info", 1, more=config, replica="r2", worker="w2"
    )
    page += sample("prefix_cache_queries_total", 1) + sample("num_requests_running", 1)
    snapshot = read(page)
    assert values(snapshot, "llm_kv_blocks", rank="r1") == [100.0]
    assert values(snapshot, "llm_kv_capacity_tokens", rank="r2") == [1600.0]


def test_adapters_are_told_replica_by_replica() -> None:
    def info(replica: str, running: str, t: float) -> str:
        more = f'max_lora="4",running_lora_adapters="{running}",waiting_lora_adapters="",'
        return sample("lora_requests_info", t, replica=replica, worker=replica, more=more)

    snapshot = read(info("r1", "a,b", 10) + info("r1", "a", 20) + info("r2", "a,b,c", 5) + sample("prompt_tokens", 1))
    assert values(snapshot, "llm_lora_running_adapters", rank="r1") == [1.0], "the newest of this replica"
    assert values(snapshot, "llm_lora_running_adapters", rank="r2") == [3.0]


def test_what_was_never_touched_is_no_defect_of_the_page() -> None:
    gaps = {
        s.label("family"): s.label("gap")
        for s in read(sample("num_requests_running", 0)).samples
        if s.name == "llm_family_gap"
    }
    assert gaps["llm_request_ttft_seconds"] == "no-traffic"
    assert "missing" not in gaps.values()


def test_another_spelling_after_an_upgrade_is_read_on() -> None:
    ingest = Ingest(instance="i")
    read(sample("mooncake_num_failed_recvs", 2) + sample("prompt_tokens", 1), ingest)
    later = read(sample("mooncake_num_failed_recvs_total", 7) + sample("prompt_tokens_total", 9), ingest)
    assert values(later, "llm_kv_transfer_failures_total") == [7.0]
    assert values(later, "llm_prompt_tokens_total") == [9.0]
