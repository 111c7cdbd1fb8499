"""Ollama's documents: what is its list of models in memory, what is not, and how a target of host and port reaches it."""

from __future__ import annotations

import pytest

from llmvitals.errors import LlmvitalsError, PageError
from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage, page_url
from support.page_text import values

ONE = b'{"models":[{"name":"m:1b","model":"m:1b","size":2000,"size_vram":500,"digest":"d","context_length":4096}]}'


def read(body: bytes, kind: str = "auto") -> Snapshot:
    return Ingest(instance="h:11434", kind=kind).read(RawPage(10.0, 0.01, 200, body))


@pytest.mark.parametrize("kind", ["auto", "ollama"])
def test_models_in_memory_become_bytes_and_their_context(kind: str) -> None:
    snapshot = read(ONE, kind)
    assert values(snapshot, "llm_model_bytes", model="m:1b", engine="ollama") == [2000.0]
    assert values(snapshot, "llm_model_vram_bytes", model="m:1b") == [500.0]
    assert values(snapshot, "llm_max_model_tokens", model="m:1b") == [4096.0]


def test_nothing_that_ollama_does_not_say_is_zero() -> None:
    names = {series.name for series in read(ONE).samples}
    assert not names & {
        "llm_requests_running",
        "llm_requests_waiting",
        "llm_generation_tokens_total",
        "llm_kv_usage_ratio",
    }
    gaps = {s.label("family"): s.label("reason") for s in read(ONE).samples if s.name == "llm_family_gap"}
    assert "no metrics page" in gaps["llm_requests_waiting"]
    assert "probe" in gaps["llm_request_ttft_seconds"]


@pytest.mark.parametrize("body", [b'{"models":[]}', b'{"models":null}\n'])
def test_no_model_in_memory_is_a_server_that_is_up(body: bytes) -> None:
    snapshot = read(body)
    assert values(snapshot, "llm_target_up") == [1.0]
    assert not values(snapshot, "llm_model_bytes")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"Ollama is running", "greeting"),
        (b'{"models":[{"name":"m","model":"m","size":1,"digest":"d","details":{}}]}', "stored"),
    ],
)
def test_its_other_answers_say_where_to_ask(body: bytes, word: str) -> None:
    with pytest.raises(PageError, match=word) as refused:
        read(body)
    assert "/api/ps" in refused.value.remedy
    assert refused.value.place == "h:11434"


@pytest.mark.parametrize(
    "body",
    [
        b'{"models":[1,2]}',
        b'{"models":{"a":1}}',
        b'{"models":[{"size_vram":1}',
        b'{"object":"list","models":"none"}',
        b'{"models":[{"name":"x"}]}',
        b'{"models":' + b"[" * 9000,
    ],
)
def test_documents_that_are_not_its_own_are_refused_as_json(body: bytes) -> None:
    with pytest.raises(LlmvitalsError):
        read(body)


@pytest.mark.parametrize("size", ["null", '"big"', "true", "-1", "1e400"])
def test_a_size_that_is_no_number_is_a_gap_and_not_zero(size: str) -> None:
    body = f'{{"models":[{{"model":"m","size":{size},"size_vram":7}}]}}'.encode()
    try:
        snapshot = read(body)
    except LlmvitalsError:
        return  # what no JSON reader takes
    assert not values(snapshot, "llm_model_bytes")
    assert values(snapshot, "llm_model_vram_bytes") == [7.0]


def test_a_model_s_name_may_hold_anything() -> None:
    snapshot = read(rb'{"models":[{"model":"a\"b\\c\nd","size":1,"size_vram":1}]}')
    assert values(snapshot, "llm_model_bytes", model='a"b\\c\nd') == [1.0]


@pytest.mark.parametrize("given", ["h:11434", "http://h:11434", "http://h:11434/"])
def test_host_and_port_reach_the_list_of_models(given: str) -> None:
    assert page_url(given, "ollama") == "http://h:11434/api/ps"
    assert page_url(given) == "http://h:11434/metrics"


def test_a_path_that_was_given_stays() -> None:
    assert page_url("http://h:1/behind/api/ps", "ollama") == "http://h:1/behind/api/ps"
