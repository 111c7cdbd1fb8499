"""Result files of each tool: what is read from them, and what is said of files that hold nothing."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from llmvitals.loadtest import texts
from llmvitals.loadtest.model import LoadTestError, exactly
from llmvitals.loadtest.read import read_contents, read_paths

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "loadtest"


def content(document):
    return json.dumps(document).encode()


def detailed(**changes):
    """A result of ``vllm bench serve --save-detailed`` with a request in time, one of one token, and a failed one."""
    return {
        "model_id": "m",
        "num_prompts": 3,
        "request_rate": "inf",
        "max_concurrency": 2,
        "duration": 10.0,
        "completed": 2,
        "failed": 1,
        "request_throughput": 0.2,
        "total_input_tokens": 30,
        "total_output_tokens": 5,
        "input_lens": [10, 20, 30],
        "output_lens": [4, 1, 0],
        "ttfts": [0.5, 0.25, 0.0],
        "itls": [[0.1, 0.2, 0.3], [], []],
        "errors": ["", "", "Internal Server Error"],
        **changes,
    }


def plain(**changes):
    """The same without ``--save-detailed``."""
    lists = ("input_lens", "output_lens", "ttfts", "itls", "errors")
    told = {
        "mean_ttft_ms": 375.0,
        "median_ttft_ms": 375.0,
        "p99_ttft_ms": 497.5,
        "mean_tpot_ms": 200.0,
        "p99_tpot_ms": 200.0,
    }
    return {key: value for key, value in detailed().items() if key not in lists} | told | changes


def one(*files):
    (run,) = read_contents(files).runs
    return run


def test_vllm_requests_are_read_one_by_one():
    run = one(("a.json", content(detailed())))
    assert (run.tool, run.concurrency, run.rate, run.duration) == ("vllm bench serve", 2, None, 10.0)
    first, second, third = run.requests
    assert first.ttft == exactly(0.5)
    assert first.tpot == pytest.approx(exactly(0.2))  # 0.6 s for the three tokens after the first
    assert second.tpot == (0, 0)  # no second token, no pace to miss
    assert third.failed
    assert (run.succeeded, run.failed) == (2, 1)


def test_a_latency_counts_before_the_sum_of_the_gaps():
    run = one(("a.json", content(detailed(latencies=[2.0, 0.25, 0.0]))))
    assert run.requests[0].tpot == pytest.approx(exactly(0.5))


def test_an_older_release_that_counts_no_failures():
    document = plain()
    del document["failed"]
    run = one(("a.json", content(document)))
    assert (run.succeeded, run.failed) == (2, 1)
    assert texts.FAILED_BY_DIFFERENCE in [note.text for note in run.notes]


def test_vllm_percentiles_are_seconds():
    run = one(("a.json", content(plain())))
    assert run.requests is None
    assert run.ttft.points == ((0.5, 0.375), (0.99, 0.4975))


def test_a_sweeps_table_tells_the_servers_settings_and_not_its_warm_up():
    rows = [plain(run_number=n, **{"max_num_seqs": seats}) for n, seats in ((-1, 64), (0, 64), (0, 128))]
    text = io.StringIO()
    writer = csv.DictWriter(text, ["", *rows[0]])
    writer.writeheader()
    writer.writerows(rows)
    runs = read_contents([("summary.csv", text.getvalue().encode())]).runs
    assert [dict(run.server) for run in runs] == [{"max_num_seqs": 64}, {"max_num_seqs": 128}]


def test_appended_results_are_several_runs():
    two = content(detailed()) + b"\n" + content(detailed(max_concurrency=4))
    assert [run.concurrency for run in read_contents([("a.json", two)]).runs] == [2, 4]


def test_a_copy_is_left_out_and_told():
    results = read_contents([("a.json", content(detailed())), ("copy.json", content(detailed()))])
    assert len(results.runs) == 1
    assert str(results.notes[0]) == "copy.json holds the same run as a.json and is left out."


@pytest.mark.parametrize("file", ["guidellm-0.2.1.json", "guidellm-0.5.0.json"])
def test_guidellm_reports_hold_a_run_per_benchmark(file):
    document = json.loads((FIXTURES / file).read_text())
    runs = read_paths([FIXTURES / file]).runs
    assert [run.concurrency for run in runs] == [2, 4, 8]
    for run, told in zip(runs, document["benchmarks"], strict=True):
        good = told["requests"]["successful"]
        assert run.model == "llama"
        assert (run.succeeded, run.failed) == (len(good), 1)
        assert run.requests[0].ttft == pytest.approx(exactly(good[0]["time_to_first_token_ms"] / 1000))
        assert run.requests[0].tpot == pytest.approx(exactly(good[0]["inter_token_latency_ms"] / 1000))


def test_of_a_guidellm_report_that_keeps_a_sample_only_percentiles_by_request_are_used():
    for run in read_paths([FIXTURES / "guidellm-0.5.0-sampled.json"]).runs:
        assert run.requests is None
        assert run.succeeded == 11
        assert len(run.ttft.points) > 5
        assert run.tpot.points == ()  # weighted by tokens there
        assert run.tpot.high is not None
        assert texts.SAMPLED in [note.text for note in run.notes]


def test_guidellm_yaml():
    report = json.loads((FIXTURES / "guidellm-0.5.0-sampled.json").read_text())
    assert len(read_contents([("benchmarks.yaml", content(report))]).runs) == 3  # JSON is YAML


def test_aiperf_records_and_their_summary_are_one_run():
    folder = FIXTURES / "aiperf-0.13.0"
    results = read_paths([folder])
    (run,) = results.runs
    assert (run.tool, run.concurrency, run.version) == ("AIPerf", 4, "0.13.0")
    assert (run.succeeded, run.failed) == (19, 1)
    assert texts.WARM_UP in [note.text for note in run.notes]
    assert [note.text for note in results.notes] == [texts.JOINED]
    (told,) = read_paths([folder / "profile_export_aiperf.json"]).runs
    times = sorted(request.ttft[0] for request in run.requests if not request.failed)
    assert told.ttft.low == pytest.approx(times[0])
    assert told.ttft.high == pytest.approx(times[-1])


def test_aiperf_records_alone_do_not_tell_the_load():
    (run,) = read_paths([FIXTURES / "aiperf-0.13.0" / "profile_export.jsonl"]).runs
    assert run.concurrency is None
    assert 2 < run.in_flight <= 4  # four workers, of which some had ended before the last
    assert texts.NO_LEVEL in [note.text for note in run.notes]


def chunk(text, **more):
    return {"response": f"data: {json.dumps({'choices': [{'delta': {'content': text}}], **more})}\n\n"}


def genai(usage):
    """``profile_export.json``: a role first, three chunks of text 0.1 s apart from 0.5 s on."""
    outputs = [chunk(""), chunk("a"), chunk("b c"), chunk("d", **usage), {"response": "data: [DONE]\n\n"}]
    request = {
        "timestamp": 1_000_000_000,
        "request_inputs": {"payload": json.dumps({"max_tokens": 21})},
        "response_timestamps": [1_100_000_000, 1_500_000_000, 1_600_000_000, 1_700_000_000, 1_800_000_000],
        "response_outputs": outputs,
    }
    silent = {"timestamp": 1_000_000_000, "request_inputs": {}, "response_timestamps": [], "response_outputs": []}
    return {"experiments": [{"experiment": {"mode": "concurrency", "value": 7}, "requests": [request, silent]}]}


def test_genai_perf_chunks_bound_the_pace():
    run = one(("profile_export.json", content(genai({}))))
    first, silent = run.requests
    assert run.concurrency == 7
    assert first.ttft == pytest.approx(exactly(0.5))  # the role alone is no token
    assert first.tpot == pytest.approx((0.01, 0.1))  # 20 tokens more at most, 2 at least, in 0.2 s
    assert silent.failed


def test_genai_perf_with_usage_knows_the_pace():
    run = one(("profile_export.json", content(genai({"usage": {"completion_tokens": 5, "prompt_tokens": 9}}))))
    assert run.requests[0].tpot == pytest.approx(exactly(0.05))
    assert run.requests[0].prompt_tokens == 9


def test_genai_perf_summary():
    """The form that genai_perf/export_data/json_exporter.py writes, with its stimulus."""
    document = {
        "request_throughput": {"unit": "requests/sec", "avg": 2.0},
        "request_latency": {"unit": "ms", "avg": 1000.0, "std": 100.0, "p50": 990.0},
        "request_count": {"unit": "count", "avg": 40},
        "time_to_first_token": {"unit": "ms", "avg": 200.0, "min": 100.0, "max": 900.0, "p50": 150.0, "p99": 800.0},
        "inter_token_latency": {"unit": "ms", "avg": 20.0, "min": 10.0, "max": 30.0},
        "input_config": {"perf_analyzer": {"stimulus": {"concurrency": 3}}},
    }
    run = one(("profile_export_genai_perf.json", content(document)))
    assert (run.tool, run.concurrency, run.duration, run.succeeded) == ("GenAI-Perf", 3, 20.0, 40)
    assert run.in_flight == pytest.approx(2.0)
    assert (run.ttft.low, run.ttft.high) == (0.1, 0.9)


@pytest.mark.parametrize(
    ("name", "body", "thing"),
    [
        ("a.json", b"", "is empty"),
        ("a.json", b"\xff\xfe\x00", "is no text"),
        ("a.json", b'{"completed": 1', "is no JSON"),
        ("a.json", b"[1, 2]", "no result of a load test"),
        ("a.json", b"[" * 100_000, "is no JSON"),
        ("a.yaml", b"a: [", "is no YAML"),
        ("a.json", content({"hello": 1}), "no result of a load test"),
        ("a.json", content(detailed(ttfts=[0.5])), "is not whole"),
        ("a.json", content(detailed(duration=10**400)), "has no duration"),
        ("a.json", content(detailed(duration=0)), "took no time"),
        ("a.json", content(detailed(ttfts=[None, 0.25, 0.0])), "has no time to first token"),
        ("a.json", content({"benchmarks": []}), "has no benchmarks"),
        ("a.json", content({"experiments": []}), "has no experiments"),
        ("a.json", content({**plain(), "total_input_sequences": 3}), "is a test of embeddings"),
        (
            "a.json",
            content({"benchmarks": [{"metrics": {"request_totals": 7}, "duration": 3, "requests": 9}]}),
            "no number of",
        ),
    ],
)
def test_a_file_that_holds_nothing_is_told_in_one_line(name, body, thing):
    with pytest.raises(LoadTestError, match=thing) as caught:
        read_contents([(name, body)])
    assert caught.value.place.startswith(name)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_folder_gives_its_results_and_passes_over_the_rest(tmp_path):
    (tmp_path / "a.json").write_bytes(content(detailed()))
    (tmp_path / "a.pytorch.json").write_bytes(content([{"benchmark": {}, "metric": {}}]))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_bytes(content(detailed(max_concurrency=4)))
    assert len(read_paths([tmp_path]).runs) == 2


def test_paths_that_are_not_there(tmp_path):
    with pytest.raises(LoadTestError, match="cannot be read"):
        read_paths([tmp_path / "none.json"])
    with pytest.raises(LoadTestError, match="holds no result"):
        read_paths([tmp_path])


def test_little_s_law_places_a_test_at_a_rate():
    run = one(("a.json", content(plain(request_rate=2.0, max_concurrency=None, mean_e2el_ms=5000.0))))
    assert run.level == pytest.approx(2 * 5.0 / 10.0)  # two requests of 5 s each in 10 s
    assert replace(run, in_flight=None).level is None
    assert not math.isnan(run.level)
