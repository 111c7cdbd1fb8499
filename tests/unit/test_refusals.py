"""What is no metrics page, and what to do then: other paths for a server's answer, the file for a saved one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmvitals.errors import LlmvitalsError
from llmvitals.sources.page_file import read_page_file
from llmvitals.telemetry.ingest import Ingest, RawPage, page_url

ELSEWHERE = ("/api/ps (Ollama)", "/stats/prometheus (Envoy)", "/prometheus/metrics (TensorRT-LLM")


def refused(page: RawPage) -> LlmvitalsError:
    with pytest.raises(LlmvitalsError) as caught:
        Ingest(instance="here").read(page)
    return caught.value


@pytest.mark.parametrize(
    ("status", "body"), [(404, b"not found"), (200, b"<html></html>"), (200, b'{"a": 1}'), (200, b"hello\n")]
)
def test_a_server_without_a_page_at_this_path_may_have_one_at_another(status: int, body: bytes) -> None:
    told = refused(RawPage(1.0, 0.1, status, body)).remedy
    assert all(path in told for path in ELSEWHERE)
    assert "most pages are at /metrics" in told


@pytest.mark.parametrize("content", [b"", b"<html></html>", b'{"a": 1}', b"hello\n"])
def test_a_file_that_is_no_page_has_no_url_to_check(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(LlmvitalsError) as caught:
        read_page_file(file)
    assert "file" in caught.value.remedy
    assert not any(word in str(caught.value) for word in ("URL", "answered", "port", "/metrics"))


def test_each_kind_has_its_page_where_it_answers() -> None:
    assert page_url("h:1", "trtllm-disagg") == "http://h:1/prometheus/metrics"
    assert page_url("h:1", "envoy") == "http://h:1/stats/prometheus"
