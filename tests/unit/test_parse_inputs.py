"""Pages that misled others, in our own words: what of each is kept, what is refused, and what is said about it.

Each class of trouble has a page made here. Where LLMVITALS_SHARED holds the collected ones, those are read as well.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmvitals.cli.engines import command
from llmvitals.series import Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.telemetry.ingest import Fetcher, Ingest, RawPage
from llmvitals.telemetry.ingest.check import PageReport, check
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose
from support.answers import Answer, Answers

ROOT = Path(__file__).resolve().parents[2]
INPUTS = Path(os.environ.get("LLMVITALS_SHARED") or ROOT.parent / "shared") / "incidents" / "inputs"


def read(text: str | bytes, t: float = 100.0) -> Snapshot:
    body = text.encode() if isinstance(text, str) else text
    return Ingest(instance="i").read(RawPage(t, 0.02, 200, body))


def look(text: str | bytes) -> PageReport:
    return check(RawPage(0.0, None, 200, text.encode() if isinstance(text, str) else text), place="there")


def values(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    return [
        v for s, v in snapshot.samples.items() if s.name == name and all(s.label(k) == x for k, x in labels.items())
    ]


def reasons(snapshot: Snapshot, family: str) -> str:
    found = [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == family]
    return "; ".join(f"{s.label('gap')}: {s.label('reason')}" for s in found)


# -- the way ---------------------------------------------------------------------------------------------------------
VLLM = b'vllm:num_requests_waiting{engine="0",model_name="m"} 7\n'


def test_a_redirect_to_the_same_host_is_followed_and_what_it_leads_to_is_read() -> None:
    with Answers({"/metrics": Answer(b"", 307, {"location": "/metrics/"}), "/metrics/": Answer(VLLM)}) as there:
        page = Fetcher().fetch(there.url, timeout_s=5)
    assert values(Ingest(instance="i").read(page), "llm_requests_waiting") == [7.0]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (Answer(b"", 307, {"location": "/metrics"}), "redirects more than 3 times"),
        (Answer(b"", 307), "a redirect that leads elsewhere"),
        (Answer(b"", 307, {"location": "http://elsewhere.example/metrics"}), "another host (elsewhere.example)"),
        (Answer(b"", 200), "empty"),
    ],
)
def test_an_empty_answer_is_not_a_server_without_load(first: Answer, words: str) -> None:
    with Answers({"/metrics": first}) as there:
        page = Fetcher().fetch(there.url, timeout_s=5)
    snapshot = Ingest(instance="i").snapshot(page)
    assert values(snapshot, "llm_target_up") == [0.0]
    assert words in snapshot.detail


def test_gzip_is_asked_for_and_known_by_its_first_bytes() -> None:
    packed = gzip.compress(VLLM)
    with Answers({"/a": Answer(packed, 200, {"content-encoding": "gzip"}), "/b": Answer(packed)}) as there:
        pages = [Fetcher().fetch(there.url + path, timeout_s=5) for path in ("/a", "/b")]
        assert {asked.headers["accept-encoding"] for asked in there.asked} == {"gzip"}
    assert [values(Ingest(instance="i").read(page), "llm_requests_waiting") for page in pages] == [[7.0], [7.0]]


# -- the format ------------------------------------------------------------------------------------------------------
TWO_WRITERS = """\
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a"} 1410
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 63
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b"} 1395
"""


def test_two_writers_pages_in_one_are_merged_and_the_second_type_line_told() -> None:
    assert sorted(values(read(TWO_WRITERS), "llm_gpu_sm_clock_hertz")) == [1.395e9, 1.41e9]
    assert [(w.family, w.line) for w in look(TWO_WRITERS).warnings] == [("DCGM_FI_DEV_SM_CLOCK", 5)]


# -- values ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "blank", ["9223372036854775794", "9223372036854775792", "140737488355328.0", "1.40737488355328e+16"]
)
@pytest.mark.parametrize("field", ["DEV_GPU_UTIL", "PROF_SM_ACTIVE", "DEV_FB_USED", "DEV_POWER_USAGE"])
def test_a_blank_of_the_driver_is_no_number(field: str, blank: str) -> None:
    text = f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-a"}} 40\nDCGM_FI_{field}{{gpu="0",UUID="GPU-a"}} {blank}\n'
    report = look(text)
    assert [(w.family, w.line) for w in report.warnings] == [(f"DCGM_FI_{field}", 2)]
    given = {f.family for f in report.families if f.samples}
    assert given == {"llm_gpu_temperature_celsius"}


def test_a_share_above_one_is_none() -> None:
    snapshot = read('DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 37\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 37\n')
    assert values(snapshot, "llm_gpu_sm_active_ratio") == []
    assert values(snapshot, "llm_gpu_busy_ratio") == [0.37]


def test_a_negative_share_is_unknown_for_its_engine_alone() -> None:
    snapshot = read(
        'vllm:kv_cache_usage_perc{engine="3",model_name="m"} -0.3875\nvllm:kv_cache_usage_perc{engine="2",model_name="m"} 0.5\n'
        'vllm:num_requests_running{engine="3",model_name="m"} 12\n'
    )
    assert values(snapshot, "llm_kv_usage_ratio") == [0.5]
    assert reasons(snapshot, "llm_kv_usage_ratio").startswith("missing: the page holds no usable number")
    assert values(snapshot, "llm_requests_running", rank="3") == [12.0]


def test_an_infinite_limit_is_no_limit_and_nan_is_no_data() -> None:
    at = '{gateway="g",instance="e"}'
    text = f'llm_target_up{{instance="e"}} 1\nllm_gateway_queue_limit{at} +Inf\nllm_gateway_queue_waiting{at} NaN\n'
    snapshot = read(text)
    assert values(snapshot, "llm_gateway_queue_limit") == values(snapshot, "llm_gateway_queue_waiting") == []
    assert reasons(snapshot, "llm_gateway_queue_limit") == "unsupported: nothing bounds it: the page says +Inf"
    assert reasons(snapshot, "llm_gateway_queue_waiting").startswith("missing")
    assert "NaN" not in json.dumps([s["samples"] for s in look(text).document()["families"]], allow_nan=False)


# -- labels ----------------------------------------------------------------------------------------------------------
def test_slices_of_a_gpu_stay_apart_and_their_missing_use_is_not_idleness() -> None:
    snapshot = read(
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"} 0.93\n'
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="12"} 0.02\n'
    )
    assert values(snapshot, "llm_gpu_engine_active_ratio", gpu="GPU-a/1") == [0.93]
    assert values(snapshot, "llm_gpu_engine_active_ratio", gpu="GPU-a/12") == [0.02]
    assert values(snapshot, "llm_gpu_busy_ratio") == []
    assert reasons(snapshot, "llm_gpu_busy_ratio")


def test_a_field_that_a_release_no_longer_shows_is_not_known_rather_than_zero() -> None:
    temperature = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 40\n'
    before = read(temperature + 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 0\n')
    after = read(temperature)
    assert values(before, "llm_gpu_xid_events_total") == [0.0]
    assert values(after, "llm_gpu_xid_events_total") == []
    assert "not among this exporter's fields" in reasons(after, "llm_gpu_xid_events_total")


def test_a_gpu_that_is_repeated_for_its_pods_is_one() -> None:
    at = 'gpu="0",UUID="GPU-a",Hostname="w"'
    snapshot = read(
        f'DCGM_FI_DEV_GPU_UTIL{{{at},exported_pod="old"}} 12\nDCGM_FI_DEV_GPU_UTIL{{{at},exported_pod="new"}} 88\n'
        f"DCGM_FI_DEV_GPU_UTIL{{{at}}} 88\n"
    )
    assert values(snapshot, "llm_gpu_busy_ratio") == [0.88]


@pytest.mark.parametrize(
    "text",
    [
        'vllm:num_requests_waiting{engine="%s",model_name="m"} %s\n',
        'sglang:num_queue_reqs{engine_type="unified",model_name="m",dp_rank="%s",tp_rank="0"} %s\n',
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_data_parallel_ranks_are_each_kept_whichever_comes_last(text: str, order: tuple[int, int]) -> None:
    snapshot = read("".join(text % (rank, (57, 0)[rank]) for rank in order))
    assert values(snapshot, "llm_requests_waiting", rank="0") == [57.0]
    assert values(snapshot, "llm_requests_waiting", rank="1") == [0.0]


# -- time ------------------------------------------------------------------------------------------------------------
def test_gauges_frozen_while_no_token_comes_are_no_saturation() -> None:
    """After every client left at once the engine takes no step, and its gauges stay where they were."""
    at = '{engine="0",model_name="m"}'
    text = (
        f"vllm:kv_cache_usage_perc{at} 0.99\nvllm:num_requests_running{at} 64\nvllm:num_requests_waiting{at} 0\n"
        f"vllm:generation_tokens_total{at} 900100\nvllm:prompt_tokens_total{at} 400\n"
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5000\n'
    )
    ((_, window),) = scopes([read(text, 100.0 + 3.0 * n) for n in range(31)]).items()
    verdict = diagnose(window, Settings())
    saturated = {"kv-cache-saturation", "preemption-thrash", "batch-too-small", "batch-too-large", "unbounded-queue"}
    assert verdict.outcome is not Outcome.HEALTHY
    assert verdict.leading is None or verdict.leading.cause not in saturated, verdict.sentence


# -- the collected ones ----------------------------------------------------------------------------------------------
# file: exit code of the check (None: 0 or 2), kind, and words that must be in what it says
COLLECTED: tuple[tuple[str, int | None, str | None, tuple[str, ...]], ...] = (
    ("IN07-second-type.prom", 3, None, ("second TYPE line", '"line": 8')),
    ("IN08-dcgm-sentinels.prom", 2, "dcgm", ("9223372036854775792", "140737488355328.0", "slurm_job_utilization_gpu")),
    ("IN11-mig.prom", 0, "dcgm", ("GPU-0/1", "GPU-0/12")),
    ("IN12b-dcgm-4.5.prom", 0, "dcgm", ("DCGM_FI_DEV_XID_ERRORS is not among",)),
    ("IN13-pod-relabel.prom", 0, "dcgm", ('"value": 0.88',)),
    ("IN14-dp-engines.prom", 0, "vllm", ('"value": 57.0', '"value": 0.991')),
    ("IN14-sglang-dp-ranks.prom", 0, "sglang", ('"value": 40.0',)),
    ("IN15-negative-kv.prom", 2, "vllm", ("-0.3875395987328405 is negative", '"value": 12.0')),
    ("IN16-scrape1.prom", 2, "vllm", ("sglang:gen_throughput",)),
    ("IN18-small-sample.prom", None, "vllm", ('"value": 2.0',)),  # whether the giant label is known is vLLM's table
    ("IN23-nan-inf.prom", 2, "litellm", ("request_queue_seconds",)),
    ("IN26a-body.prom.gz", 0, "vllm", ('"value": 7.0',)),
    ("IN26b-headers-labelled.http", 0, "vllm", ('"value": 7.0',)),
    ("IN26c-headers-unlabelled.http", 0, "vllm", ('"value": 7.0',)),
)


@pytest.mark.skipif(not INPUTS.is_dir(), reason=f"no collected pages at {INPUTS} (LLMVITALS_SHARED)")
@pytest.mark.parametrize(("name", "code", "kind", "words"), COLLECTED, ids=[row[0] for row in COLLECTED])
def test_a_collected_page_is_told_as_it_should_be(
    name: str, code: int, kind: str | None, words: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(command, ["--check", str(INPUTS / name), "--json"], standalone_mode=False)
    assert done.exception is None
    assert code in (None, done.return_value), done.stdout[-1500:]
    assert json.loads(done.stdout)["kind"] == kind
    for word in words:
        assert word in done.stdout
    assert "NaN" not in json.dumps([f["samples"] for f in json.loads(done.stdout)["families"]])
