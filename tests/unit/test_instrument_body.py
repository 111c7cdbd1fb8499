"""Bodies of calls: what is asked for is read where it can be, and nothing that a client sends stops a call."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.instrument import body
from llmvitals.instrument.deadlines import seconds_left
from llmvitals.instrument.repeats import Repeats


def read(**asked: object) -> body.Asked:
    found = body.read(json.dumps(asked).encode())
    assert found is not None
    return found


def test_a_chat_call() -> None:
    asked = read(
        model="m",
        stream=True,
        n=3,
        max_completion_tokens=70,
        max_tokens=5,
        messages=[
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        ],
    )
    assert (asked.model, asked.stream, asked.choices, asked.sequences, asked.max_tokens) == ("m", True, 3, 3, 70)
    assert asked.texts == ("system\nbe kind", "user\nhi")


@pytest.mark.parametrize(
    ("prompt", "sequences", "texts"),
    [
        ("one", 2, ("one",)),
        (["one", "two"], 4, ("one", "two")),
        ([1, 2, 3], 2, ("[1,2,3]",)),
        ([[1], [2]], 4, ("[1]", "[2]")),
    ],
)
def test_a_completion(prompt: object, sequences: int, texts: tuple[str, ...]) -> None:
    asked = read(model="m", prompt=prompt, n=2)
    assert (asked.choices, asked.sequences, asked.texts) == (2, sequences, texts)


@pytest.mark.parametrize(("limit", "read_as"), [(None, None), (-1, None), (0, 0), ("16", 16)])
def test_limits_as_engines_take_them(limit: object, read_as: int | None) -> None:
    assert read(model="m", max_tokens=limit).max_tokens == read_as


def test_pictures_and_tools_are_part_of_what_is_asked() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    one = read(messages=[{"role": "user", "content": [picture]}], tools=[{"type": "function"}])
    other = read(
        messages=[{"role": "user", "content": [{**picture, "image_url": {"url": "x"}}]}], tools=[{"type": "function"}]
    )
    assert one.texts[0] == other.texts[0] == '[{"type": "function"}]'
    assert one.texts[1] != other.texts[1]


def test_tools_that_the_latest_answer_called() -> None:
    def call(number: int) -> dict[str, object]:
        return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": {"name": "f", "arguments": "{}"}}]}

    done = {"role": "tool", "content": "ok"}
    assert read(messages=[call(1), done, call(2), done]).tool_calls == (("c2", "f\n{}"),)
    assert read(messages=[call(1), done, {"role": "user", "content": "and now?"}]).tool_calls == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"[]",
        b'{"model": 3}',
        b'{"messages": "x"}',
        b'{"n": 1e400}',
        b'{"max_tokens": ' + b"9" * 400 + b"}",
        b'{"prompt": ' + b"[" * 200_000,
        b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b"\xff\xfe",
        b'{"model": "\xff"}',
    ],
)
def test_what_is_no_call_is_none(data: bytes) -> None:
    assert body.read(data) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    "model",
    "messages",
    "prompt",
    "tools",
    "stream",
    "n",
    "max_tokens",
    "role",
    "content",
    "tool_calls",
    "function",
    "text",
)


@given(st.dictionaries(st.sampled_from(KEYS), anything | st.lists(st.dictionaries(st.sampled_from(KEYS), anything))))
def test_whatever_a_client_sends_is_read_or_is_none(asked: dict[str, object]) -> None:
    for text in (json.dumps(asked), json.dumps(asked, ensure_ascii=False)):
        found = body.read(text.encode("utf-8", "surrogatepass"))
        if found is not None:
            repeats = Repeats(64, 64)
            assert 0 <= repeats.asked(found.model, found.texts)[1] <= 1
            assert found.chars >= 0
            assert found.sequences >= 1


@pytest.mark.parametrize(
    ("header", "value", "seconds"),
    [
        (b"x-request-timeout-ms", b"1500", 1.5),
        (b"x-envoy-expected-rq-timeout-ms", b"250", 0.25),
        (b"grpc-timeout", b"2S", 2.0),
        (b"grpc-timeout", b"500m", 0.5),
        (b"grpc-timeout", b"1H", 3600.0),
        (b"x-request-timeout-ms", b"-5", -0.005),
        *[(b"x-request-timeout-ms", value, None) for value in (b"", b"soon", b"nan", b"inf", b"1e30", b"\xff")],
        *[(b"grpc-timeout", value, None) for value in (b"", b"2", b"S", b"2x")],
        (b"other", b"3", None),
    ],
)
def test_deadlines(header: bytes, value: bytes, seconds: float | None) -> None:
    assert seconds_left({"headers": [(header, value)]}) == seconds


def test_a_deadline_as_a_moment() -> None:
    left = seconds_left({"headers": [(b"x-request-deadline", str(time.time() + 30).encode())]})
    assert left == pytest.approx(30, abs=1)


def test_of_two_deadlines_the_first_that_can_be_read_counts() -> None:
    headers = [(b"grpc-timeout", b"3S"), (b"x-request-timeout-ms", b"soon")]
    assert seconds_left({"headers": headers}) == 3.0
