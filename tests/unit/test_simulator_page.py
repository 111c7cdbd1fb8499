"""The simulated pages: what a real vLLM page shows, readable, consistent, and never going back."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from llmvitals.errors import SettingsError
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import token_bounds
from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import SCENARIOS, scenario
from llmvitals.simulator.serve import Served
from llmvitals.simulator.setup import Setup

ORIGIN = 1_767_225_600.0
SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))


def samples(page: bytes) -> dict[tuple[str, tuple], float]:
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(page.decode())
        for s in family.samples
    }


def total(page: bytes, name: str, **labels: str) -> float:
    found = [v for (n, have), v in samples(page).items() if n == name and labels.items() <= dict(have).items()]
    assert found, name
    return sum(found)


def live(name: str = "preemption") -> Live:
    return scenario(name).live(origin=ORIGIN)


def test_the_page_has_the_families_of_a_real_one():
    # Read off a page of vLLM 0.32; python_gc_* left out, which say nothing about the engine.
    text = live().page_at(ORIGIN + 30).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    kinds = {name: kind for name, kind in kinds.items() if not name.endswith("_created")}
    assert kinds["vllm:iteration_tokens_total"] == "histogram"
    assert kinds["vllm:num_preemptions_total"] == "counter"
    assert sum(1 for name in kinds if name.startswith("vllm:")) == 39
    assert sum(1 for kind in kinds.values() if kind == "histogram") == 18
    own = {name: labels for (name, labels) in samples(text.encode()) if name.startswith("vllm:")}
    assert ("engine", "0") in own["vllm:num_requests_running"]
    assert ("model_name", "sim-8b") in own["vllm:num_requests_running"]
    assert not {"model_name"} & dict(own["vllm:cache_config_info"]).keys()
    assert not {"engine"} & dict(own["vllm:admission_rejections_total"]).keys()


def test_the_page_is_shaped_like_a_recorded_one():
    real = SHARED / "reference" / "vllm-0.32.0-fresh.prom"
    if not real.exists():
        pytest.skip(f"no recorded page at {real}; LLMVITALS_SHARED locates the recordings")

    def shape(text: str) -> set[str]:
        lines = (line for line in text.splitlines() if not line.startswith(("#", "python_", "http_")))
        plain = (re.sub(r'model_name="[^"]*"|\d+\.\d+e\+\d\d$| \S+$', "", line) for line in lines)
        return {re.sub(r"cache_config_info\{.*\}", "cache_config_info", line) for line in plain}

    config = EngineConfig(max_model_len=8192)
    mine = shape(Live(Setup(config), origin=ORIGIN).page_at(ORIGIN).decode())
    assert mine == shape(real.read_text())


def test_token_buckets_depend_on_the_longest_context():
    assert token_bounds(8192) == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    assert token_bounds(10) == (1, 2, 5, 10)


def test_cache_config_counts_the_null_block():
    page = live().page_at(ORIGIN)
    (labels,) = [dict(have) for (name, have) in samples(page) if name == "vllm:cache_config_info"]
    assert (labels["num_gpu_blocks"], labels["block_size"], labels["kv_cache_size_tokens"]) == ("1025", "16", "16400")
    assert float(labels["kv_cache_max_concurrency"]) * 2048 == pytest.approx(16400)


@pytest.mark.parametrize("row", SCENARIOS, ids=lambda row: row.name)
def test_counters_never_go_back_and_histograms_agree_with_themselves(row):
    server = row.live(origin=ORIGIN)
    before: dict = {}
    for tick in range(13):
        now = samples(server.page_at(ORIGIN + 3.0 * tick))
        assert not before.keys() - now.keys()
        for key, value in before.items():
            if key[0].endswith(("_total", "_bucket", "_count", "_sum")):
                assert now[key] >= value, key
        for (name, labels), value in now.items():
            if name.endswith("_count") and (f"{name[:-6]}_sum", labels) in now and "size_bytes" not in name:
                edges = [
                    (float(dict(have)["le"]), seen)
                    for (other, have), seen in now.items()
                    if other == f"{name[:-6]}_bucket" and tuple(x for x in have if x[0] != "le") == labels
                ]
                assert [v for _, v in sorted(edges)] == sorted(v for _, v in edges)
                assert max(edges)[1] == value
        before = now


def test_what_the_page_says_of_one_moment_fits_together():
    page = live().page_at(ORIGIN + 45)
    finished = total(page, "vllm:request_success_total")
    assert finished == total(page, "vllm:e2e_request_latency_seconds_count")
    assert finished == total(page, "http_requests_total", status="2xx")
    assert total(page, "vllm:num_requests_waiting") == total(page, "vllm:num_requests_waiting_by_reason")
    assert total(page, "vllm:prompt_tokens_total") == total(page, "vllm:prompt_tokens_by_source_total")
    assert total(page, "vllm:prompt_tokens_cached_total") == total(page, "vllm:prompt_tokens_cached_by_source_total")
    assert total(page, "vllm:time_to_first_token_seconds_count") > finished
    assert total(page, "vllm:generation_tokens_total") > total(page, "vllm:request_generation_tokens_sum")
    usage = total(page, "vllm:kv_cache_usage_perc")
    assert usage * 1024 == pytest.approx(round(usage * 1024))
    assert total(page, "process_start_time_seconds") == ORIGIN - 600


def test_requests_that_nobody_answered_yet_are_absent_and_not_zero():
    page = live().page_at(ORIGIN)
    assert "http_requests_total{" not in page.decode()
    assert total(page, "vllm:request_success_total") == 0


def test_gauges_are_those_of_the_last_step_and_stay_while_nothing_happens():
    server = live("queue")
    at_step_end = samples(server.page_at(ORIGIN + 20.0))
    again = samples(server.page_at(ORIGIN + 19.0))
    assert again == at_step_end  # an earlier moment gives the present


def test_pages_do_not_depend_on_how_often_one_asks():
    often, once = live(), live()
    for tick in range(200):
        often.page_at(ORIGIN + tick * 0.17)
        often.gpu_page_at(ORIGIN + tick * 0.17)
    assert often.page_at(ORIGIN + 40) == once.page_at(ORIGIN + 40)
    assert often.gpu_page_at(ORIGIN + 40) == once.gpu_page_at(ORIGIN + 40)


def gpu(name: str, after: float) -> dict[str, float]:
    page = live(name).gpu_page_at(ORIGIN + after)
    return {key[0].removeprefix("DCGM_FI_"): value for key, value in samples(page).items()}


def test_the_gpu_follows_the_steps():
    idle, light, loaded = gpu("idle", 30), gpu("healthy", 30), gpu("preemption", 40)
    assert (idle["PROF_SM_ACTIVE"], idle["PROF_DRAM_ACTIVE"], idle["DEV_POWER_USAGE"]) == (0.0, 0.0, 75.0)
    assert 0 < light["PROF_DRAM_ACTIVE"] < loaded["PROF_DRAM_ACTIVE"] + 0.2
    for page in (light, loaded):
        # Decoding moves bytes; the tensor pipes have little to do, and nothing is above its peak.
        assert 0 < page["PROF_PIPE_TENSOR_ACTIVE"] < page["PROF_DRAM_ACTIVE"] < page["PROF_SM_ACTIVE"] <= 1
        assert page["DEV_GPU_UTIL"] == round(100 * page["PROF_GR_ENGINE_ACTIVE"])
    # 141 GB in MiB, all of it accounted for but for what rounding drops.
    assert idle["DEV_FB_FREE"] + idle["DEV_FB_USED"] + idle["DEV_FB_RESERVED"] == pytest.approx(141e9 / 2**20, abs=3)


@pytest.mark.prometheus
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_reads_both_pages():
    server = live()
    for page in (server.page_at(ORIGIN + 30), server.gpu_page_at(ORIGIN + 30)):
        run = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
        # 0: fine; 3: readable, with remarks on names. The real pages get the same ones.
        assert run.returncode in {0, 3}, run.stderr.decode()
        remarks = run.stderr.decode().splitlines()
        odd = [line for line in remarks if "should not contain ':'" not in line and "'camelCase'" not in line]
        assert all(line.startswith(("vllm:iteration_tokens_total ", "DCGM_FI_DEV_")) for line in odd), odd


def test_a_served_engine_answers_on_its_port_and_frees_it():
    clock = iter([ORIGIN + 30.0, ORIGIN + 30.0, ORIGIN + 31.0])
    with Served(live(), clock=lambda: next(clock)) as served:
        page = requests.get(f"{served.url}/metrics", timeout=5)
        assert page.content == live().page_at(ORIGIN + 30)
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b"DCGM_FI_PROF_SM_ACTIVE" in requests.get(served.gpu_url, timeout=5).content
        assert requests.get(f"{served.url}/health", timeout=5).status_code == 200
        port = int(served.url.rsplit(":", 1)[1])
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port}: cannot be listened on .*Choose another port"):
            Served(live(), port=port)
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{served.url}/health", timeout=1)
    with Served(live(), port=port):
        pass
