"""``llmvitals engines --check`` as it is typed: files of every form, a live page, exit codes, and JSON alone on stdout."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from llmvitals.cli.engines import command
from support.answers import Answer, Answers

PAGE = (
    b'vllm:num_requests_running{engine="0",model_name="m"} 3\nvllm:num_requests_waiting{engine="0",model_name="m"} 7\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout, done.stderr


def checked(*words: object) -> tuple[int, dict[str, Any]]:
    code, out, err = run("--check", *words, "--json")
    assert err == ""
    return code, json.loads(out)


def waiting(document: dict[str, Any]) -> list[float]:
    return [s["value"] for f in document["families"] if f["family"] == "llm_requests_waiting" for s in f["samples"]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("page.prom", PAGE),
        ("page.prom.gz", gzip.compress(PAGE, mtime=0)),
        ("page.http", HEAD + PAGE),
        ("page.http", HEAD + gzip.compress(PAGE, mtime=0)),
        (
            "curl.http",
            b"> GET /metrics HTTP/1.1\n> Host: a\n\n< HTTP/1.1 200 OK\n< content-type: text/plain\n\n" + PAGE,
        ),
        (
            "redirect.http",
            b"> GET /metrics HTTP/1.1\n\n< HTTP/1.1 307 Temporary Redirect\n< location: http://a/metrics/\n"
            b"< content-length: 0\n\n> GET /metrics/ HTTP/1.1\n\n< HTTP/1.1 200 OK\n\n" + PAGE,
        ),
        ("beside.http", b"< HTTP/1.1 200 OK\n< content-encoding: gzip\n\n(body: body.prom.gz)\n"),
        ("beside.http", b"< HTTP/1.1 200 OK\n\n(body: body.prom.gz; a proxy dropped the header)\n"),
    ],
    ids=["plain", "gzip", "http-gzip", "http", "curl", "redirect", "beside", "beside-without-header"],
)
def test_saved_pages_of_every_form_are_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "body.prom.gz").write_bytes(gzip.compress(PAGE))
    (tmp_path / name).write_bytes(content)
    code, document = checked(tmp_path / name)
    assert (code, document["kind"], document["format"], waiting(document)) == (0, "vllm", "prometheus", [7.0])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"< HTTP/1.1 307 Temporary Redirect\n< location: http://b/metrics\n\n", "redirect"),
        (b"< HTTP/1.1 200 OK\n\n", "empty"),
        (b"< HTTP/1.1 503 Service Unavailable\n\nbusy", "503"),
        (b"< HTTP/1.1 200 OK\n\n(body: ../secret)\n", "no metric"),
        (b"< HTTP/1.1 200 OK\n\n(body: absent.prom)\n", "not beside it"),
        (b"<html></html>", "HTML"),
    ],
)
def test_what_is_no_page_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "saved.http"
    file.write_bytes(content)
    code, document = checked(file)
    assert code == 3
    assert words in document["refused"]
    assert document["families"] == []
    code, out, err = run("--check", file)
    assert (code, err) == (3, document["refused"] + "\n")
    assert "Known" not in out


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    code, document = checked(tmp_path / "absent.prom")
    assert code == 3
    assert "No such file" in document["refused"]


def test_a_live_page_is_fetched_its_redirect_followed_and_a_closed_port_told() -> None:
    pages = {
        "/metrics": Answer(b"", 307, {"location": "/metrics/"}),
        "/metrics/": Answer(PAGE + b"vllm:new_thing 1\n"),
    }
    with Answers(pages) as answers:
        code, document = checked(answers.url)
    assert (code, document["unknown"], waiting(document)) == (2, ["vllm:new_thing"], [7.0])
    code, document = checked(answers.url)
    assert code == 3
    assert "refused the connection" in document["refused"]
    code, document = checked("http://[bad")
    assert code == 3
    assert "is not a URL" in document["refused"]


def test_people_see_the_same(tmp_path: Path) -> None:
    file = tmp_path / "page.prom"
    file.write_bytes(PAGE + b'vllm:kv_cache_usage_perc{engine="0"} -1\nvllm:new_thing 1\npython_info 1\n')
    code, out, _ = run("--check", file)
    assert code == 2
    words = " ".join(out.split())
    for told in (
        "vLLM (vllm, prometheus)",
        "Known and unused (1)",
        "python_info",
        "vllm:new_thing",
        "line 3",
        "is negative",
    ):
        assert told in words
    assert run("--check", file, "--kind", "vllm")[0] == 2
    assert run("--check", file, "--kind", "dcgm")[0] == 3


def test_piped_a_name_is_never_cut_so_that_it_can_be_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "page.prom"
    long = "vllm:" + "_".join(["a_name_that_nobody_has_heard_of"] * 6)
    file.write_bytes(PAGE + f"{long} 1\n".encode())
    words = run("--check", file)[1]
    assert long in words
    rows = [line.split() for line in words.splitlines()]
    assert ["llm_requests_waiting", "mapped", "vllm:num_requests_waiting", "7"] in [row[:4] for row in rows]
    assert any(row[0] == "llm_request_computed_prompt_tokens" for row in rows if row)


def test_words_of_what_is_no_metrics_page_are_no_families(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("dear reader\nthis is no page\n")
    code, found = checked(file)
    assert code == 3
    assert [(w["family"], w["line"]) for w in found["warnings"]] == [("", 1), ("", 2)]
    assert "'reader' is no number" in found["warnings"][0]["what"]
    file.write_text("something_else_entirely 1\nsomething_else_entirely 2\n")
    assert [w["family"] for w in checked(file)[1]["warnings"]] == ["something_else_entirely"]


def test_options_that_go_together() -> None:
    assert json.loads(run("--json")[1]) == json.loads(run("--format", "json")[1])
    with pytest.raises(click.UsageError):
        run("--kind", "vllm")
    with pytest.raises(click.BadParameter, match="Did you mean 'sglang'"):
        run("--check", "x", "--kind", "sgalng")


def test_host_and_port_alone_mean_the_page_of_the_kind_that_is_named():
    body = b"trtllm_request_queue_time_seconds_count 3\n"
    with Answers({"/prometheus/metrics": Answer(body)}) as server:
        run("--check", server.url, "--kind", "trtllm", "--json")
        assert [asked.path for asked in server.asked] == ["/prometheus/metrics"]


@pytest.mark.parametrize("name", ["gone.prom", "folder", "a\nb.prom", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_not_spoken_of_as_a_server(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    code, found = checked(tmp_path / name)
    assert code == 3
    assert "cannot be read" in found["refused"]
    assert "permissions" in found["refused"]
    assert "server" not in found["refused"]
    assert "\n" not in found["refused"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless device here")
def test_what_goes_on_without_end_is_refused_at_the_limit() -> None:
    code, found = checked("/dev/zero")
    assert code == 3
    assert "larger than 16 MiB" in found["refused"]


def test_a_family_of_many_names_does_not_widen_the_table(tmp_path: Path) -> None:
    page = tmp_path / "gpus.prom"
    page.write_text('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 9\n')
    _, out, _ = run("--check", page)
    assert "DCGM_FI_DEV_POWER_VIOLATION, DCGM_FI_DEV_THERMAL_VIOLATION and " in out
    assert "DCGM_FI_DEV_SYNC_BOOST_VIOLATION" not in out
    _, document = checked(page)
    assert "DCGM_FI_DEV_SYNC_BOOST_VIOLATION" in json.dumps(document)
