"""Answers are read as they pass, however they are cut into chunks, and nothing in their text is taken for numbers."""

from __future__ import annotations

import json
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.instrument import stream
from llmvitals.instrument.call import Call
from support.asgi import JSON, STREAMED, piece, usage


def seen(chunks: list[bytes], headers: list[tuple[bytes, bytes]]) -> Call:
    """A call whose answer passed in these chunks, at 1, 2, 3, ... for each look at the clock."""
    call = Call(0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "now", count(1).__next__)
        eyes = stream.eyes(call, headers, lambda _: None)
        assert eyes is not None
        for chunk in chunks:
            eyes.see(chunk)
        eyes.end()
    return call


def parts(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
TRICKY = piece('he said "usage":{"prompt_tokens":9,"completion_tokens":9}\n\ndata: [DONE]\n\n')


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    whole = b": ping\n\n" + ROLE + piece("a") + TRICKY + piece("\u00e4\u4e2d") + usage(12, 34)
    call = seen(parts(whole, cuts), STREAMED)
    assert (call.prompt_tokens, call.output_tokens) == (12, 34)
    assert call.first_token is not None


@given(st.lists(st.integers(0, 10_000), max_size=10))
def test_a_whole_answer_cut_anywhere(cuts: list[int]) -> None:
    answer = {"choices": [{"message": {"content": '{"usage": {"prompt_tokens": 7}}'}}], "usage": TOLD}
    call = seen(parts(json.dumps(answer).encode(), cuts), JSON)
    assert (call.prompt_tokens, call.output_tokens) == (5, 6)


TOLD = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens": 6, "total_tokens": 11}


def test_the_first_token_is_no_role_and_no_comment() -> None:
    call = seen([b": ping\n\n", ROLE, piece(), piece(), piece(), usage(1, 3)], STREAMED)
    assert call.first_token == 1
    assert call.last_token == 3


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
    ],
)
def test_every_kind_of_token_is_one(delta: dict[str, object]) -> None:
    event = b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"
    assert seen([ROLE, event], STREAMED).first_token == 1


def test_completions_hold_text() -> None:
    empty, text = (b"data: " + json.dumps({"choices": [{"text": t}]}).encode() + b"\r\n\r\n" for t in ("", "x"))
    assert seen([empty], STREAMED).first_token is None
    assert seen([empty, text], STREAMED).first_token == 1


def test_usage_that_each_chunk_tells_and_usage_that_is_null() -> None:
    chunks = [
        b'data: {"choices":[{"delta":{"content":"x"}}],"usage":null}\n\n',
        b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":4,"completion_tokens":1}}\n\n',
        b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":4,"completion_tokens":2}}\n\n',
    ]
    call = seen(chunks, STREAMED)
    assert (call.prompt_tokens, call.output_tokens) == (4, 2)
    assert (call.first_token, call.last_token) == (1, 3)


@pytest.mark.parametrize(
    "chunk",
    [
        b"data: {not json}\n\n",
        b'data: {"choices": 3}\n\n',
        b'data: {"usage": {"prompt_tokens": -4, "completion_tokens": 1e99}}\n\n',
        b'data: {"usage": {"prompt_tokens": ' + b"9" * 400 + b"}}\n\n",
        b'data: {"choices":[{"delta":{"content":' + b"[" * 100_000 + b"\n\n",
        b"data: \xff\xfe{\n\n",
        b"data: " + b"x" * 500_000,
        b"\n\n\n\n\n",
        b"",
    ],
)
def test_what_is_no_event_says_nothing_and_stops_nothing(chunk: bytes) -> None:
    assert seen([chunk], STREAMED).prompt_tokens is None
    assert seen([chunk, b"\n\n", piece(), usage(3, 4)], STREAMED).prompt_tokens == 3


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"usage": 3}', b'{"usage": {"prompt_tokens": "x"}}', b'{"a": 1, "usage": {']
)
def test_whole_answers_that_tell_no_usage(body: bytes) -> None:
    assert seen([body], JSON).prompt_tokens is None


def test_an_answer_of_any_length_is_kept_by_its_end_alone() -> None:
    call, total = Call(0.0), 0
    eyes = stream.eyes(call, JSON, lambda _: None)
    assert isinstance(eyes, stream.Whole)
    for chunk in (b'{"choices": ["', *[b"y" * 100_000] * 50, b'"], "usage": ' + json.dumps(TOLD).encode() + b"}"):
        total += len(chunk)
        eyes.see(chunk)
        assert len(eyes._tail) <= 16_384
    eyes.end()
    assert total > 5_000_000
    assert call.output_tokens == 6
    assert eyes._tail == b""


def test_an_event_without_end_is_kept_up_to_a_bound() -> None:
    eyes = stream.eyes(Call(0.0), STREAMED, lambda _: None)
    assert isinstance(eyes, stream.Stream)
    for _ in range(100):
        eyes.see(b"data: " + b"z" * 10_000)
        assert len(eyes._rest) <= 65_536


@pytest.mark.parametrize(
    "headers", [[(b"content-encoding", b"gzip"), *STREAMED], [(b"content-type", b"text/html")], []]
)
def test_answers_that_nobody_can_read(headers: list[tuple[bytes, bytes]]) -> None:
    assert stream.eyes(Call(0.0), headers, lambda _: None) is None
