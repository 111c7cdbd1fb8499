"""A histogram of which a page holds a part is a gap; whole ones beside it are read."""

from __future__ import annotations

from llmvitals.telemetry.ingest import Ingest, RawPage
from support.hostile import vllm_page

TTFT = "llm_request_ttft_seconds"


def read(page: bytes):
    samples = Ingest(instance="a", kind="vllm").snapshot(RawPage(0.0, 0.01, 200, page)).samples
    gaps = {key.label("family"): key.label("reason") for key in samples if key.name == "llm_family_gap"}
    return {key.name for key in samples}, gaps


def without(*words: bytes) -> bytes:
    return b"".join(x for x in vllm_page().splitlines(keepends=True) if not all(word in x for word in words))


def test_a_whole_one_is_read():
    names, gaps = read(vllm_page())
    assert {f"{TTFT}_bucket", f"{TTFT}_sum", f"{TTFT}_count"} <= names
    assert TTFT not in gaps


def test_without_its_highest_bucket_it_is_a_gap():
    names, gaps = read(without(b"vllm:time_to_first_token", b'le="+Inf"'))
    assert not {name for name in names if name.startswith(TTFT)}
    assert gaps[TTFT] == "the page holds only a part of the histogram"
    assert "llm_generation_tokens_total" in names


def test_without_its_count_the_highest_bucket_is_the_count():
    page = without(b"time_to_first_token_seconds_count")
    samples = Ingest(instance="a", kind="vllm").snapshot(RawPage(0.0, 0.01, 200, page)).samples
    assert [value for key, value in samples.items() if key.name == f"{TTFT}_count"] == [100.0]  # 1,000 tokens, 10 each
    assert not read(page)[1].get(TTFT)


def test_one_model_s_half_takes_nothing_from_another():
    other = vllm_page(model="other").split(b"# TYPE vllm:time_to_first")[1]
    lines = [x for x in other.splitlines(keepends=True)[1:] if b"+Inf" not in x]
    page = Ingest(instance="a", kind="vllm").snapshot(RawPage(0.0, 0.01, 200, vllm_page() + b"".join(lines)))
    assert {key.label("model") for key in page.samples if key.name == f"{TTFT}_bucket"} == {"m"}
    assert {key.label("model") for key in page.samples if key.label("family") == TTFT} == {"other"}
