"""What is told of one page: states, sources, samples, strangers, and warnings with the line they are about."""

from __future__ import annotations

import json

import pytest

from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.telemetry.ingest import Limits, RawPage
from llmvitals.telemetry.ingest.check import FamilyState, PageReport, check

ONE = 'engine="0",model_name="m"'
PAGE = f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{ONE}}} 3
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{ONE}}} 50
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{{ONE},le="0.1"}} 4
vllm:time_to_first_token_seconds_bucket{{{ONE},le="+Inf"}} 9
vllm:time_to_first_token_seconds_sum{{{ONE}}} 2.5
vllm:time_to_first_token_seconds_count{{{ONE}}} 9
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100"}} 1
# TYPE python_info gauge
python_info{{version="3.12"}} 1
"""


def look(text: str | bytes, **options: object) -> PageReport:
    body = text.encode() if isinstance(text, str) else text
    return check(RawPage(1.0, None, 200, body), place="there", **options)  # type: ignore[arg-type]


def state(report: PageReport, family: str) -> FamilyState:
    (found,) = [told for told in report.families if told.family == family]
    return found


def warned(report: PageReport) -> list[tuple[str, int]]:
    return [(told.family, told.line) for told in report.warnings]


def test_a_whole_page_is_mapped_and_every_family_of_its_kind_has_a_state_and_a_reason() -> None:
    report = look(PAGE)
    assert (report.kind, report.format, report.refused, report.whole) == ("vllm", "prometheus", "", True)
    assert {f.family for f in report.families} >= {f.name for f in FAMILIES if origin_of(f.name) is Origin.ENGINE}
    assert {f.state for f in report.families} <= {"mapped", "derived", "unsupported", "missing"}
    assert all(f.why for f in report.families if not f.samples)
    assert [unused.name for unused in report.known_unused] == ["python_info"]


def test_samples_come_with_their_source_and_a_histogram_with_its_count() -> None:
    report = look(PAGE)
    running = state(report, "llm_requests_running")
    assert (running.state, running.source) == ("mapped", "vllm:num_requests_running")
    assert [(dict(s.labels), s.value) for s in running.samples] == [
        ({"engine": "vllm", "model": "m", "rank": "0"}, 3.0)
    ]
    first = state(report, "llm_request_ttft_seconds")
    assert first.source == "vllm:time_to_first_token_seconds"
    assert [s.value for s in first.samples] == [9.0]
    assert "le" not in dict(first.samples[0].labels)
    capacity = state(report, "llm_kv_capacity_tokens")
    assert (capacity.state, [s.value for s in capacity.samples]) == ("derived", [1600.0])


def test_what_is_not_there_says_whether_it_should_be() -> None:
    report = look(PAGE)
    assert state(report, "llm_request_e2e_seconds").state == "missing"
    assert state(report, "llm_model_bytes").state == "unsupported"
    unborn = look(PAGE + "# TYPE vllm:num_preemptions_total counter\n")
    declared = state(unborn, "llm_preemptions_total")
    assert (declared.state, declared.samples) == ("mapped", ())
    assert "no value yet" in declared.why


def test_a_stranger_is_told_and_makes_the_page_partly_understood() -> None:
    report = look(PAGE + "# TYPE vllm:brand_new_seconds histogram\n" 'vllm:brand_new_seconds_bucket{le="+Inf"} 1\n'
                  "vllm:brand_new_seconds_count 1\nvllm:other_new_total 4\nvllm:declared_new 1\n")  # fmt: skip
    assert report.unknown == ("vllm:brand_new_seconds", "vllm:other_new_total", "vllm:declared_new")
    assert not report.whole
    assert not report.refused


LAST = len(PAGE.splitlines())
HALF = f"vllm:kv_cache_usage_perc{{{ONE}}} "


@pytest.mark.parametrize(
    ("more", "family", "line", "words"),
    [
        ("vllm:num_requests_waiting{engine=\"0 1\n", "vllm:num_requests_waiting", LAST + 1, "cannot be read"),
        (f"vllm:num_requests_waiting{{{ONE}}}\n", "vllm:num_requests_waiting", LAST + 1, "cannot be read"),
        (f"vllm:num_requests_waiting{{{ONE}}} many\n", "vllm:num_requests_waiting", LAST + 1, "'many' is no number"),
        (f"{HALF}NaN\n", "vllm:kv_cache_usage_perc", LAST + 1, "no data"),
        (f"{HALF}+Inf\n", "vllm:kv_cache_usage_perc", LAST + 1, "infinite"),
        (f"{HALF}-0.39\n", "vllm:kv_cache_usage_perc", LAST + 1, "-0.39 is negative: it is not taken as llm_kv_usage_ratio"),
        (f"{HALF}39\n", "vllm:kv_cache_usage_perc", LAST + 1, "outside its range"),
        ("# TYPE vllm:num_requests_running gauge\n", "vllm:num_requests_running", LAST + 1,
         "second TYPE line, the first is line 1"),
        (f"vllm:num_requests_waiting{{{ONE}}} 1\n# TYPE vllm:num_requests_waiting gauge\n", "vllm:num_requests_waiting", LAST + 2,
         f"begin in line {LAST + 1}"),
        (f"# TYPE vllm:num_preemptions gauge\nvllm:num_preemptions{{{ONE}}} 1\n", "vllm:num_preemptions", LAST + 2,
         "says gauge, and llm_preemptions_total is a counter"),
        (f"# TYPE vllm:e2e_request_latency_seconds summary\nvllm:e2e_request_latency_seconds_sum{{{ONE}}} 1\n",
         "vllm:e2e_request_latency_seconds", LAST + 2, "says summary"),
        ("# TYPE vllm:num_requests_waiting gorge\n", "vllm:num_requests_waiting", LAST + 1, "names no type"),
        (f"vllm:num_requests_running{{{ONE}}} 4\n", "vllm:num_requests_running", LAST + 1, "stands in line 2 already"),
        ('vllm:num_requests_running{model_name="m",engine="0",new="1"} 4\n', "vllm:num_requests_running", LAST + 1,
         "same llm_requests_running as line 2"),
        (f'vllm:num_requests_waiting{{engine="0",model_name="{"y" * 5000}"}} 1\n', "vllm:num_requests_waiting", LAST + 1,
         "5000 bytes"),
        ("vllm:num_requests_waiting{" + "y" * 300_000 + "} 1\n", "vllm:num_requests_waiting", LAST + 1, "262144 bytes"),
        (f"vllm:num_requests_waiting{{{ONE}}} 1", "vllm:num_requests_waiting", LAST + 1, "may be cut"),
        (f"vllm:num_requests_waiting{{{ONE}}} 1 1700000000000\n", "", LAST + 1, "timestamps"),
        (f"# EOF\nvllm:num_requests_waiting{{{ONE}}} 1\n", "vllm:num_requests_waiting", LAST + 2,
         f"after # EOF in line {LAST + 1}"),
    ],
)  # fmt: skip
def test_each_oddity_is_told_with_its_family_and_line(more: str, family: str, line: int, words: str) -> None:
    report = look(PAGE + more)
    found = [told for told in report.warnings if told.line == line and told.family == family]
    assert any(words in told.what for told in found), report.warnings
    assert not report.whole
    running = state(report, "llm_requests_running").samples
    assert [s.value for s in running] in ([3.0], [4.0])


def test_many_of_one_kind_are_one_warning_with_their_number() -> None:
    report = look(PAGE + "".join(f'vllm:num_requests_waiting{{engine="{n} 1\n' for n in range(500)))
    (told,) = report.warnings
    assert (told.line, told.what.endswith("(and 499 more like it)")) == (LAST + 1, True)


def test_an_odd_number_of_a_family_that_nobody_takes_is_no_warning() -> None:
    assert look(PAGE + 'python_gc_seconds{quantile="0.5"} NaN\n').whole


def test_a_partial_loss_is_told_beside_the_samples() -> None:
    report = look(PAGE + 'vllm:num_requests_running{engine="1",model_name="m"} NaN\n')
    told = state(report, "llm_requests_running")
    assert [s.value for s in told.samples] == [3.0]
    assert "no usable number" in told.why


@pytest.mark.parametrize(
    ("body", "form", "words"),
    [
        (b"<html>Sign in</html>", "html", "HTML"),
        (b'{"detail": "Not Found"}', "json", "JSON"),
        (b"Service is healthy", "text", "no metric"),
        (b"my_metric 1\nmy_metric 1\n", "prometheus", "no engine"),
        (b"", "", "empty"),
    ],
)
def test_what_is_refused_says_why_in_one_line_that_names_the_place(body: bytes, form: str, words: str) -> None:
    report = look(body)
    assert (report.kind, report.format, report.families) == ("", form, ())
    assert report.refused.startswith("there: ")
    assert words in report.refused
    assert "\n" not in report.refused


def test_a_page_of_no_engine_is_refused_with_the_lines_that_are_odd() -> None:
    assert warned(look("# TYPE a gauge\na 1\n# TYPE a gauge\n")) == [("a", 3)]


def test_a_page_without_its_engines_own_series_is_refused_by_kind_and_still_told() -> None:
    report = look("# TYPE vllm:gibberish gauge\nvllm:gibberish 1\nprocess_open_fds 4\n")
    assert (report.kind, bool(report.refused), report.unknown) == ("vllm", True, ("vllm:gibberish",))


def test_another_kind_than_asked_for_is_refused() -> None:
    assert "no page of dcgm-exporter" in look(PAGE, kind="dcgm").refused


def test_openmetrics_is_told_by_its_end() -> None:
    assert look(PAGE + "# EOF\n").format == "openmetrics"


def test_limits_that_do_not_bound_are_said_to_be_so() -> None:
    text = PAGE.replace("vllm:", "vllm_") + 'vllm_kv_cache_usage_perc{engine="0"} 0.5\n'
    assert look(text).kind == "vllm"
    report = look(
        'llm_target_up{instance="e"} 1\n'
        'llm_gateway_concurrency_limit{gateway="g",instance="e"} +Inf\nllm_gateway_queue_waiting{gateway="g",instance="e"} NaN\n'
    )
    limit = state(report, "llm_gateway_concurrency_limit")
    assert (limit.state, limit.samples) == ("unsupported", ())
    assert "nothing bounds it" in limit.why
    assert state(report, "llm_gateway_queue_waiting").state == "missing"
    assert [told.family for told in report.warnings] == ["llm_gateway_queue_waiting"]


def test_limits_of_what_is_read_hold_here_as_well() -> None:
    assert "larger than" in look(PAGE * 3, limits=Limits(max_page_bytes=100)).refused


def test_the_document_has_exactly_its_keys_and_no_number_that_json_lacks() -> None:
    text = PAGE + f"{HALF}NaN\nvllm:strange 1\nvllm:num_requests_waiting{{{ONE}}} +Inf\n"
    made = look(text).document()
    assert list(made) == ["kind", "format", "refused", "families", "known_unused", "unknown", "warnings"]
    assert list(made["families"][0]) == ["family", "state", "source", "why", "samples"]
    assert {key for told in made["warnings"] for key in told} == {"family", "line", "what"}
    assert made["refused"] is None
    assert made["unknown"] == ["vllm:strange"]
    assert made["known_unused"] == ["python_info"]
    json.dumps(made, allow_nan=False)
    refused = look(b"").document()
    assert (refused["kind"], refused["format"], refused["families"]) == (None, None, [])
