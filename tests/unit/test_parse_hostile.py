"""Pages that are broken, odd or hostile: what is kept, what is refused, and that nothing raises from ``snapshot``."""

from __future__ import annotations

import gzip
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.errors import PageError, SettingsError, UnreachableError
from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import KINDS, Ingest, Limits, RawPage

ONE = 'engine="0",model_name="m"'
GOOD = f"vllm:num_requests_running{{{ONE}}} 3\nvllm:generation_tokens_total{{{ONE}}} 50\n".encode()


def page(body: bytes | None, status: int | None = 200, error: str = "") -> RawPage:
    return RawPage(100.0, 0.25, status, body, error)


def read(body: bytes, **options: object) -> Snapshot:
    return Ingest(instance="engine-1", **options).read(page(body))  # type: ignore[arg-type]


def values(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    return [
        v for s, v in snapshot.samples.items() if s.name == name and all(s.label(k) == x for k, x in labels.items())
    ]


def gaps(snapshot: Snapshot, family: str) -> list[tuple[str, str]]:
    found = [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == family]
    return [(s.label("gap"), s.label("rank")) for s in found]


# -- what is no page -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("raw", "kind", "thing"),
    [
        (page(b"<!DOCTYPE html><html><body>Sign in</body></html>"), PageError, "HTML"),
        (page(b"\n  <html>"), PageError, "HTML"),
        (page(b'{"detail":"Not Found"}'), PageError, "JSON"),
        (page(b"[]"), PageError, "JSON"),
        (page(b""), PageError, "empty"),
        (page(b" \n\n"), PageError, "empty"),
        (page(b"Service is healthy"), PageError, "no metric"),
        (page(b"# just a comment\n"), PageError, "no metric"),
        (page(b"node_load1 0.5\n"), PageError, "node exporter"),
        (page(b"keda_scaler_active 1\n"), PageError, "KEDA"),
        (page(b'{"a": ' + b"[" * 100_000), PageError, "JSON"),
        (page(b"my_metric 1\n"), PageError, "no engine"),
        (page(gzip.compress(GOOD)[:-9]), PageError, "cut short"),
        (page(None, 401), UnreachableError, "401"),
        (page(b"forbidden", 403), UnreachableError, "403"),
        (page(b"nope", 404), UnreachableError, "404"),
        (page(b"", 307), UnreachableError, "redirect"),
        (page(b"oops", 500), UnreachableError, "500"),
        (page(b"wait", 503), UnreachableError, "503"),
        (page(None, None, "refused the connection"), UnreachableError, "refused"),
        (page(None, None), UnreachableError, "no answer"),
    ],
)
def test_what_is_no_page_names_thing_place_and_remedy(raw: RawPage, kind: type[Exception], thing: str) -> None:
    ingest = Ingest(instance="engine-1")
    with pytest.raises(kind) as raised:
        ingest.read(raw)
    message = str(raised.value)
    assert thing in message
    assert message.startswith("engine-1: ")
    assert raised.value.remedy  # type: ignore[attr-defined]
    assert "\n" not in message
    snapshot = ingest.snapshot(raw)
    assert snapshot.detail == message
    assert values(snapshot, "llm_target_up") == [0.0]
    assert values(snapshot, "llm_target_status") == [float(raw.status or 0)]
    assert values(snapshot, "llm_target_answer_seconds") == [0.25]


def test_a_kind_that_was_asked_for_is_not_replaced_by_another() -> None:
    with pytest.raises(PageError, match="no page of dcgm-exporter"):
        read(GOOD, kind="dcgm")
    with pytest.raises(SettingsError, match="unknown kind") as caught:
        Ingest(instance="i", kind="vlm")
    assert "Did you mean 'vllm'?" in caught.value.remedy
    assert {"auto", "vllm", "sglang", "dcgm", "llmvitals"} <= set(KINDS)


def test_a_page_without_vllms_own_series_says_how_to_get_them() -> None:
    only_server = (
        b'# TYPE vllm:nothing gauge\nhttp_requests_total{handler="/v1/completions",method="POST",status="2xx"} 1\n'
    )
    with pytest.raises(PageError, match="--disable-log-stats"):
        read(only_server + b"process_open_fds 4\n")


def test_a_router_that_borrows_vllms_names_is_no_engine() -> None:
    with pytest.raises(PageError, match="no series of vLLM"):
        read(b'vllm:num_requests_running{server="http://a:8000"} 4\nprocess_open_fds 4\n')


# -- what is kept of an odd page -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "body",
    [
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        gzip.compress(GOOD),
        GOOD + b"# EOF",
        GOOD.replace(b" 3\n", b"  3 \n").replace(b" 50\n", b"\t50\n"),
        GOOD.replace(b" 3\n", b" 3 1700000000000\n").replace(b" 50\n", b" 5e1 1700000000000\n"),
        b"\n\n# a note with numbers 1 2 3\n" + GOOD + b"# EOF\n",
        GOOD.replace(b",", b", ").replace(b"{", b"{ ").replace(b"}", b", }"),
        b"# TYPE vllm:num_requests_running gauge\n" * 2 + GOOD,
        GOOD + b"# HELP vllm:num_requests_running Late.\n# TYPE vllm:num_requests_running counter\n",
        GOOD + b"garbage\n{}\nvllm:num_requests_waiting\n= 3\n",
        GOOD + b'vllm:num_requests_waiting{engine="0 1\n',
        GOOD + b'other_metric{x="\xff\xfe"} 1\n',
    ],
)
def test_odd_spellings_say_the_same(body: bytes) -> None:
    ingest = Ingest(instance="i")
    for _ in range(2):  # the second time from memory
        snapshot = ingest.read(page(body))
        assert values(snapshot, "llm_requests_running", model="m", rank="0") == [3.0]
        assert values(snapshot, "llm_generation_tokens_total", model="m", rank="0") == [50.0]


def test_lines_that_cannot_be_read_are_told_and_name_their_family() -> None:
    ingest = Ingest(instance="i")
    for _ in range(2):
        snapshot = ingest.read(page(GOOD + b'vllm:num_requests_waiting{engine="0 1\n'))
        assert len(ingest.notes) == 1
        assert "vllm:num_requests_waiting" in ingest.notes[0]
        assert "llm_requests_waiting" in ingest.notes[0]
        assert gaps(snapshot, "llm_requests_waiting") == [("missing", "")]
    snapshot = ingest.read(page(GOOD))
    assert ingest.notes == ()
    assert "could not be read" not in reason(snapshot, "llm_requests_waiting")


def reason(snapshot: Snapshot, family: str) -> str:
    found = [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == family]
    return " ".join(s.label("reason") for s in found)


@pytest.mark.parametrize("cut", range(1, len(b"vllm:generation_tokens_total{") + len(ONE) + len("} 50")))
def test_a_page_cut_within_its_last_line_does_not_pass_half_a_number_as_one(cut: int) -> None:
    """`50` cut to `5` is a number, and the wrong one."""
    snapshot = Ingest(instance="i").read(page(GOOD[:-1][:-cut]))
    assert values(snapshot, "llm_requests_running") == [3.0]
    assert values(snapshot, "llm_generation_tokens_total") == []
    if cut < len(ONE) + len("} 50"):  # the name stands whole
        assert "the page ends within a line of it" in reason(snapshot, "llm_generation_tokens_total")


def test_a_sum_that_lacks_a_part_is_withheld_because_it_would_look_like_a_reset() -> None:
    """HTTP requests are counted per method, and one method's number is no number."""
    at = 'http_requests_total{handler="/v1/completions",method="%s",status="2xx"} %s\n'
    whole = GOOD + (at % ("POST", 40) + at % ("GET", 2)).encode()
    assert values(read(whole), "llm_http_requests_total") == [42.0]
    for bad in ("NaN", "-1", "x", "+Inf", "1e308"):
        snapshot = read(GOOD + (at % ("POST", 40) + at % ("GET", bad)).encode())
        assert values(snapshot, "llm_http_requests_total") == []
        assert "no usable number" in reason(snapshot, "llm_http_requests_total")
    snapshot = read(whole + b'http_requests_total{handler="/v1/completions",method="PUT",status="2xx 1\n')
    assert values(snapshot, "llm_http_requests_total") == []
    assert "could not be read" in reason(snapshot, "llm_http_requests_total")
    assert values(read(whole + (at % ("PUT", "1e15")).encode() * 2), "llm_http_requests_total") == [1e15 + 42.0]


def test_one_series_spelled_in_two_ways_is_added_once() -> None:
    body = GOOD + (
        b'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 40\n'
        b'http_requests_total{status="2xx", method="POST", handler="/v1/completions"} 41\n'
    )
    assert values(read(body), "llm_http_requests_total") == [41.0]


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:num_requests_waiting" + b" " * 200_000,
        b"vllm:num_requests_waiting" + b" " * 200_000 + b"x x x",
        b'vllm:num_requests_waiting{a="' + b'\\"' * 100_000 + b'"} 1',
        b"vllm:num_requests_waiting{" + b'a="",' * 50_000 + b"} 1",
        b"vllm:num_requests_waiting{" + b'"' * 200_001,
        b"vllm:num_requests_waiting 1" + b" 1" * 100_000,
        b"vllm:num_requests_waiting 1 # {" + b'"' * 200_000,
        b"# TYPE " + b"x" * 200_000,
    ],
)
def test_no_line_takes_more_than_a_moment(line: bytes) -> None:
    """Forty of them would be minutes where any part of the reading takes the square of a line's length."""
    ingest = Ingest(instance="i")
    began = time.process_time()
    snapshot = ingest.read(page(b"".join(line + b"%d\n" % n for n in range(40)) + GOOD))
    assert time.process_time() - began < 5.0
    assert values(snapshot, "llm_requests_running") == [3.0]


@pytest.mark.parametrize("label", ['a "b" c', "a\\b", "a,b} 7 # x", "line\nbreak", "ünïcode", "{}", "trailing "])
def test_label_values_are_unescaped_once(label: str) -> None:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    body = f'vllm:num_requests_running{{engine="0",model_name="{escaped}"}} 3\n'.encode()
    assert values(read(body), "llm_requests_running", model=label) == [3.0]


def test_invalid_utf8_in_a_label_does_not_lose_the_page() -> None:
    snapshot = read(GOOD + b'vllm:num_requests_running{engine="1",model_name="m\xff"} 9\n')
    assert sorted(values(snapshot, "llm_requests_running")) == [3.0, 9.0]


@pytest.mark.parametrize("number", ["NaN", "nan", "-1", "-Inf", "+Inf", "Inf", "-0.3875395987328405", "abc", ""])
def test_numbers_that_cannot_be_are_gaps_of_their_rank_and_the_rest_stays(number: str) -> None:
    """A KV share of -0.39 is unknown, not empty; the other rank's is fine."""
    body = (
        f'vllm:kv_cache_usage_perc{{engine="3",model_name="m"}} {number}\n'
        f'vllm:kv_cache_usage_perc{{engine="2",model_name="m"}} 0.5\n'
        f'vllm:num_requests_running{{engine="3",model_name="m"}} 12\n'
    ).encode()
    snapshot = read(body)
    assert values(snapshot, "llm_kv_usage_ratio") == [0.5]
    assert values(snapshot, "llm_requests_running", rank="3") == [12.0]
    if number not in ("", "abc"):
        assert gaps(snapshot, "llm_kv_usage_ratio") == [("missing", "3")]
    assert all(math.isfinite(value) for value in snapshot.samples.values())


def test_a_negative_counter_is_a_gap() -> None:
    snapshot = read(GOOD + f"vllm:prompt_tokens_total{{{ONE}}} -5\n".encode())
    assert values(snapshot, "llm_prompt_tokens_total") == []
    assert gaps(snapshot, "llm_prompt_tokens_total") == [("missing", "0")]


def test_a_series_that_stands_twice_counts_once_and_the_last_wins() -> None:
    assert values(read(GOOD + f"vllm:num_requests_running{{{ONE}}} 4\n".encode()), "llm_requests_running") == [4.0]
    http = b'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} '
    assert values(read(GOOD + http + b"5\n" + http + b"6\n"), "llm_http_requests_total") == [6.0]


@pytest.mark.parametrize(("spelled", "canonical"), [("1", "1"), ("1.0", "1"), ("2.5", "2.5"), ("1e-3", "0.001"),
                                                    ("16384.0", "16384"), ("1e+06", "1000000"), ("+Inf", "+Inf"),
                                                    ("inf", "+Inf")])  # fmt: skip
def test_edges_have_one_spelling(spelled: str, canonical: str) -> None:
    bucket = "vllm:time_to_first_token_seconds_bucket"
    body = f'{bucket}{{{ONE},le="+Inf"}} 3\n{bucket}{{{ONE},le="{spelled}"}} 3\n'.encode()
    assert values(read(body), "llm_request_ttft_seconds_bucket", le=canonical) == [3.0]


def test_each_rank_stays_apart() -> None:
    body = "".join(
        f'vllm:{name}{{engine="{rank}",model_name="m1"}} {value}\n'
        for name, pair in (("num_requests_running", (31, 0)), ("num_requests_waiting", (57, 0)))
        for rank, value in enumerate(pair)
    ).encode()
    snapshot = read(body)
    assert values(snapshot, "llm_requests_waiting", rank="0") == [57.0]
    assert values(snapshot, "llm_requests_waiting", rank="1") == [0.0]


def test_series_of_others_on_the_page_are_left_out() -> None:
    snapshot = read(GOOD + b'lmcache:num_hit_tokens_total{worker_id="0"} 3000\nsglang:gen_throughput 812.4\n')
    assert {s.name for s in snapshot.samples} <= {
        "llm_requests_running", "llm_generation_tokens_total", "llm_family_gap", "llm_target_up", "llm_target_status",
        "llm_target_answer_seconds", "llm_target_info",
    }  # fmt: skip


# -- limits --------------------------------------------------------------------------------------------------------
def test_a_giant_label_is_skipped_and_told_and_the_rest_is_read() -> None:
    giant = b'vllm:model_config_info{engine="0",hf_config="' + b"x" * 500_000 + b'"} 1.0\n'
    wide = f'vllm:num_requests_waiting{{engine="0",model_name="{"y" * 5000}"}} 1\n'.encode()
    many = ("vllm:num_requests_swapped{" + ",".join(f'l{n}="1"' for n in range(70)) + "} 1\n").encode()
    ingest = Ingest(instance="i")
    for _ in range(2):
        snapshot = ingest.read(page(giant + wide + many + GOOD))
        assert values(snapshot, "llm_requests_running") == [3.0]
        assert values(snapshot, "llm_requests_waiting") == []
        assert values(snapshot, "llm_requests_swapped") == []
        assert "longer or more than allowed" in ingest.notes[0]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("more", [b"# xxxxxxxx\n" * 150_000, b"# " + b"x" * 5_000_000])
def test_a_page_over_the_limit_is_refused_before_it_is_unpacked_whole(pack: type, more: bytes) -> None:
    """Too many lines, or lines so long that nobody waits for their end."""
    with pytest.raises(PageError, match=r"larger than 1 MiB.*max_page_bytes"):
        read(pack(GOOD + more), limits=Limits(max_page_bytes=1024 * 1024))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("first", [True, False])
def test_a_page_that_giant_labels_swell_beyond_the_limit_is_still_read(pack: type, first: bool) -> None:
    """21 MB of configuration in three labels, and the series beside them."""
    giant = b"".join(
        b'vllm:model_config_info{engine="%d",hf_config="%s"} 1.0\n' % (n, b"x" * 7_000_000) for n in range(3)
    )
    ingest = Ingest(instance="i")
    for _ in range(2):
        snapshot = ingest.read(page(pack(giant + GOOD if first else GOOD + giant)))
        assert values(snapshot, "llm_requests_running") == [3.0]
        assert values(snapshot, "llm_generation_tokens_total") == [50.0]
        assert "3 series were left out because their labels are longer" in ingest.notes[0]


def test_labels_that_are_too_long_name_the_family_on_every_page() -> None:
    wide = f'vllm:num_requests_waiting{{engine="0",model_name="{"y" * 5000}"}} 1\n'.encode()
    ingest = Ingest(instance="i")
    for _ in range(2):
        assert "longer or more" in reason(ingest.read(page(GOOD + wide)), "llm_requests_waiting")


def test_too_many_samples_are_refused() -> None:
    body = "".join(f'vllm:num_requests_running{{engine="{n}",model_name="m"}} 1\n' for n in range(11)).encode()
    with pytest.raises(PageError, match=r"more than 10 samples.*max_samples"):
        read(body, limits=Limits(max_samples=10))


def test_churning_labels_do_not_grow_the_memory_for_ever() -> None:
    limits = Limits(max_samples=50)
    ingest = Ingest(instance="i", limits=limits)
    for step in range(100):
        churn = "".join(f'http_requests_total{{handler="/x/{step}/{n}"}} 1\n' for n in range(40))
        snapshot = ingest.read(page(GOOD + churn.encode()))
        assert values(snapshot, "llm_generation_tokens_total") == [50.0]
    reader = ingest._reader
    assert len(reader._known) <= 4 * limits.max_samples + 50


def test_a_page_may_become_another_kind_and_come_back() -> None:
    ingest = Ingest(instance="i")
    gpu = b'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1"} 300\n'
    assert values(ingest.snapshot(page(GOOD)), "llm_requests_running") == [3.0]
    assert values(ingest.snapshot(page(gpu)), "llm_gpu_power_watts") == [300.0]
    assert values(ingest.snapshot(page(b"<html>")), "llm_target_up") == [0.0]
    assert values(ingest.snapshot(page(GOOD)), "llm_requests_running") == [3.0]


def test_our_own_page_passes_through_with_its_identities() -> None:
    text = (
        b'# TYPE llm_target_up gauge\nllm_target_up{instance="e1"} 1.0\nllm_target_up{instance="e2"} 0.0\n'
        b'llm_requests_running{engine="vllm",instance="e1",model="m",rank="0"} 4\n'
        b'llm_request_ttft_seconds_bucket{engine="vllm",instance="e1",le="2.5",model="m",rank="0"} 7\n'
        b'llm_request_ttft_seconds_bucket{engine="vllm",instance="e1",le="+Inf",model="m",rank="0"} 9\n'
        b'llm_kv_usage_ratio{engine="vllm",instance="e1",model="m",rank="0"} 0.5\n'
        b'llm_ttft_p95{instance="e1",model="m",window="60s"} 1.2\n'
    )
    snapshot = Ingest(instance="exporter").read(page(text))
    assert values(snapshot, "llm_target_up", instance="e1") == [1.0]
    assert values(snapshot, "llm_target_up", instance="e2") == [0.0]
    assert values(snapshot, "llm_requests_running", instance="e1", model="m", engine="vllm") == [4.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="2.5") == [7.0]
    assert values(snapshot, "llm_kv_usage_ratio") == [0.5]
    assert values(snapshot, "llm_ttft_p95") == []
    assert values(snapshot, "llm_target_up", instance="exporter") == []


# -- anything at all -----------------------------------------------------------------------------------------------
FRAGMENTS = st.sampled_from(
    [b"vllm:num_requests_running", b"vllm_prompt_tokens_total", b"# TYPE ", b"# HELP ", b"{", b"}", b'"', b"\\", b"=",
     b",", b" ", b"\n", b"\r", b"\t", b"1", b"-", b"NaN", b"+Inf", b"engine", b"model_name", b"le", b"# EOF", b"\xff",
     b"\x00", b"\x1f\x8b", b"DCGM_FI_DEV_GPU_UTIL", b"llm_target_up", b"<html>", b"_bucket", GOOD]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=40), st.sampled_from(KINDS))
def test_no_bytes_make_a_snapshot_raise(parts: list[bytes], kind: str) -> None:
    ingest = Ingest(instance="i", kind=kind)
    for body in (b"".join(parts), GOOD + b"\n" + b"".join(parts), b"".join(parts)):
        snapshot = ingest.snapshot(page(body))
        assert all(math.isfinite(value) and value >= 0 for value in snapshot.samples.values())
        assert snapshot.t == 100.0
        up = values(snapshot, "llm_target_up")
        assert up[:1] == [0.0] if snapshot.detail else True
