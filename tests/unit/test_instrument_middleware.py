"""Calls as they pass: nothing is held back or changed, each is counted once, and nothing that was said is kept."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from llmvitals.instrument import Expired, Full, Gateway, Middleware, Open
from support.asgi import JSON, STREAMED, App, Client, Message, answering, asked, begin, more, piece, usage

STREAM = (piece("a"), piece("b"), piece("c"), usage(100, 3))


class Kit:
    """A kit and what it counted, by the family's name without its ends."""

    def __init__(self, **settings: object) -> None:
        self.gateway = Gateway("g", **settings)  # type: ignore[arg-type]

    def serve(self, app: App, *clients: Client, **settings: Any) -> None:
        around = Middleware(app, kit=self.gateway, **settings)

        async def all_of_them() -> None:
            for client in clients or (Client(),):
                await client.call(around)

        asyncio.run(asyncio.wait_for(all_of_them(), 5))

    def count(self, family: str, **labels: str) -> float:
        found = self.gateway.store.counters[f"llm_gateway_{family}_total"]
        return next(value for each, value in found.items() if dict(each) == labels)

    def observed(self, family: str, **labels: str) -> int:
        return sum(self.gateway.store.histograms[f"llm_gateway_{family}"][tuple(labels.items())].counts)

    def amount(self, family: str) -> dict[tuple[tuple[str, str], ...], float]:
        asked_for = self.gateway.store.gauges[f"llm_gateway_{family}"]
        return {labels: value for ask in asked_for for labels, value in ask()}


def test_a_stream_passes_as_it_is_and_is_counted() -> None:
    kit, client = Kit(), Client(split=7)
    kit.serve(answering(*STREAM), client)
    assert [m.get("body") for m in client.got[1:]] == [*STREAM, b""]
    assert client.got[0]["headers"] == STREAMED
    assert kit.count("calls") == kit.count("requests", status="200") == 1
    assert kit.count("tokens") == 103
    assert kit.count("prompt_tokens") == 100
    assert kit.observed("ttft_seconds", size="small") == kit.observed("tpot_seconds") == 1
    assert kit.observed("request_seconds") == 1
    assert not kit.gateway.calls.live


def test_no_chunk_waits_for_another() -> None:
    """Each chunk has reached the client when the application's own send returns."""
    kit, client, reached = Kit(), Client(), []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        await begin(send)
        for chunk in STREAM:
            await more(send, chunk)
            reached.append(client.got[-1]["body"])
        await more(send, b"", last=True)

    kit.serve(app, client)
    assert reached == list(STREAM)


def test_times_are_from_the_arrival_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [50.0]
    for module in ("passage", "stream"):
        monkeypatch.setattr(f"llmvitals.instrument.{module}.now", lambda: moment[0])
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        moment[0] += 1.5
        await begin(send)
        for _ in range(11):
            await more(send, piece())
            moment[0] += 0.04
        await more(send, usage(2000, 11))
        await more(send, b"", last=True)
        moment[0] += 100.0  # what it does after its last byte is no part of the call

    kit.serve(app, Client(asked("word " * 2000)))
    histograms = kit.gateway.store.histograms
    assert histograms["llm_gateway_ttft_seconds"][(("size", "large"),)].sum == pytest.approx(1.5)
    assert histograms["llm_gateway_tpot_seconds"][()].sum == pytest.approx(0.04)
    assert histograms["llm_gateway_request_seconds"][()].sum == pytest.approx(1.5 + 11 * 0.04)


def test_overhead_is_what_neither_queue_nor_engine_took(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [50.0]
    monkeypatch.setattr("llmvitals.instrument.passage.now", lambda: moment[0])
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        kit.gateway.calls.counts.waited(kit.gateway.current(), 2.0)
        kit.gateway.upstream("a").connect_error(0.25)
        kit.gateway.upstream("a").answered(200, 4.0)
        moment[0] += 6.75
        await answering()(scope, receive_nothing, send)

    kit.serve(app)
    assert kit.gateway.store.histograms["llm_gateway_overhead_seconds"][()].sum == pytest.approx(0.5)
    assert kit.gateway.store.histograms["llm_gateway_upstream_seconds"][(("upstream", "a"),)].sum == 4.0


def test_other_paths_methods_and_protocols_are_none_of_its_business() -> None:
    kit, seen = Kit(), []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    around = Middleware(app, kit=kit.gateway)
    for scope in (
        {"type": "http", "path": "/v1/models", "method": "POST"},
        {"type": "http", "path": "/v1/completions", "method": "GET"},
        {"type": "lifespan"},
        {"type": "websocket", "path": "/v1/completions"},
    ):
        asyncio.run(around(scope, None, None))  # type: ignore[arg-type]
    assert len(seen) == 4
    assert kit.count("calls") == 0


def test_answers_that_come_whole() -> None:
    kit = Kit()
    body = b'{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":7,"completion_tokens":5}}'
    kit.serve(answering(body[:20], body[20:], headers=JSON), Client(asked(stream=False)))
    assert kit.count("tokens") == 12
    assert kit.observed("ttft_seconds", size="small") == 0, "whole answers have no first token to see"


# -- how calls end ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", [200, 400, 404, 429, 503, 504])
def test_statuses_are_those_that_the_client_got(status: int) -> None:
    kit = Kit()
    kit.serve(answering(status=status, headers=JSON))
    assert kit.count("requests", status=str(status)) == 1


def test_a_status_of_ones_own_counts_by_its_class() -> None:
    kit = Kit()
    kit.serve(answering(status=599, headers=JSON), Client())
    assert kit.count("requests", status="5xx") == 1


def test_an_application_that_fails_answers_500() -> None:
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        kit.serve(app)
    assert kit.count("requests", status="500") == 1
    assert kit.count("streams_cut", reason="upstream") == 0
    assert not kit.gateway.calls.live
    assert kit.gateway.current() is None


@pytest.mark.parametrize(
    ("refused", "status", "code"),
    [(Full("x", retry_after=1.2), 503, b"full"), (Expired("x"), 504, b"ttl"), (Open("x"), 503, b"breaker")],
)
def test_refusals_that_nobody_caught_are_answered(refused: Exception, status: int, code: bytes) -> None:
    kit, client = Kit(), Client()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        raise refused

    kit.serve(app, client)
    assert client.status == status
    assert b'"code": "' + code + b'"' in client.answer
    assert ((b"retry-after", b"2") in client.got[0]["headers"]) == isinstance(refused, Full)
    assert kit.count("requests", status=str(status)) == 1


def test_refusals_inside_of_starlette_are_answered_too() -> None:
    async def serve(request: Request) -> Response:
        await request.json()
        raise Full("no room", retry_after=3.0)

    kit, client = Kit(), Client()
    app = Starlette(routes=[Route("/v1/chat/completions", serve, methods=["POST"])])
    app.add_middleware(Middleware, kit=kit.gateway)
    asyncio.run(client.call(app))  # type: ignore[arg-type]
    assert client.status == 503
    assert (b"retry-after", b"3") in client.got[0]["headers"]
    assert kit.count("requests", status="503") == 1


def test_starlettes_streams_pass_one_by_one() -> None:
    async def serve(request: Request) -> Response:
        await request.json()

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in STREAM:
                yield chunk

        return StreamingResponse(chunks(), media_type="text/event-stream")

    kit, client = Kit(), Client()
    app = Starlette(routes=[Route("/v1/chat/completions", serve, methods=["POST"])])
    app.add_middleware(Middleware, kit=kit.gateway)
    asyncio.run(client.call(app))  # type: ignore[arg-type]
    assert [m["body"] for m in client.got[1:]] == [*STREAM, b""]
    assert kit.count("tokens") == 103


@pytest.mark.parametrize(
    ("error", "reason"), [(ConnectionResetError(), "upstream"), (TimeoutError(), "timeout"), (Expired("x"), "timeout")]
)
def test_streams_that_break_off(error: Exception, reason: str) -> None:
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        await begin(send)
        await more(send, piece())
        raise error

    if isinstance(error, Expired):
        kit.serve(app)
    else:
        with pytest.raises(type(error)):
            kit.serve(app)
    assert kit.count("streams_cut", reason=reason) == 1
    assert kit.count("streams_cut", reason={"upstream": "timeout", "timeout": "upstream"}[reason]) == 0
    assert kit.count("requests", status="200") == 1, "that is what its client got"
    assert kit.count("disconnects") == 0


def test_what_broke_off_before_the_answer_began_was_tried_again() -> None:
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        kit.gateway.upstream("a").cut("upstream")
        kit.gateway.retried()
        await answering(*STREAM)(scope, receive_nothing, send)

    kit.serve(app)
    assert kit.count("streams_cut", reason="upstream") == 0
    assert kit.count("retries", by="gateway") == 1


async def receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_an_answer_that_is_never_finished_is_cut() -> None:
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        await begin(send)
        await more(send, piece())

    kit.serve(app)
    assert kit.count("streams_cut", reason="upstream") == 1


# -- clients that leave -----------------------------------------------------------------------------------------------
def leaving(at: int, then: Callable[[Any], Any]) -> tuple[App, Client]:
    """A client that leaves after so many chunks, of an application that then waits for what is awaited in ``then``."""
    client = Client()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        await begin(send)
        for _ in range(at):
            await more(send, piece())
        client.left.set()
        await then(receive)
        await more(send, usage(1, 2))
        await more(send, b"", last=True)

    return app, client


def test_a_client_that_leaves_is_noticed_though_nobody_asks() -> None:
    kit = Kit()

    async def wait(receive: Any) -> None:
        call = kit.gateway.current()
        assert call is not None
        await call.until_left()

    app, client = leaving(3, wait)
    kit.serve(app, client)
    assert kit.count("disconnects") == kit.count("requests", status="499") == 1
    assert kit.count("streams_cut", reason="upstream") == 0


def test_the_application_hears_of_it_as_ever() -> None:
    kit, heard = Kit(), []

    async def listen(receive: Any) -> None:
        heard.append((await receive())["type"])
        heard.append((await receive())["type"])

    app, client = leaving(1, listen)
    kit.serve(app, client)
    assert heard == ["http.disconnect", "http.disconnect"]
    assert kit.count("disconnects") == 1


def test_a_client_that_is_gone_when_something_is_sent() -> None:
    kit = Kit()

    def gone(message: Message) -> None:
        if message.get("body"):
            raise OSError("the socket is closed")

    with pytest.raises(OSError, match="closed"):
        kit.serve(answering(*STREAM), Client(on_send=gone))
    assert kit.count("requests", status="499") == kit.count("disconnects") == 1


def test_a_client_that_is_gone_at_the_last_byte() -> None:
    kit = Kit()

    def gone(message: Message) -> None:
        if message["type"] == "http.response.body" and not message["more_body"]:
            raise OSError("the socket is closed")

    with pytest.raises(OSError, match="closed"):
        kit.serve(answering(*STREAM), Client(on_send=gone))
    assert kit.count("requests", status="499") == kit.count("disconnects") == 1


def test_an_engine_that_is_cut_off_for_a_client_that_left_is_no_stream_cut() -> None:
    kit = Kit()

    async def cut(receive: Any) -> None:
        await receive()
        kit.gateway.upstream("a").cut("upstream", 0.1)

    app, client = leaving(1, cut)
    kit.serve(app, client)
    assert kit.count("disconnects") == 1
    assert kit.count("streams_cut", reason="upstream") == 0


def test_what_is_done_after_the_last_byte_is_not_cancelled() -> None:
    kit, client, done = Kit(), Client(), []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await answering(*STREAM)(scope, receive, send)
        client.left.set()
        for _ in range(5):
            await asyncio.sleep(0)
        done.append(True)

    kit.serve(app, client, cancel=True)
    assert done == [True]


def test_a_client_that_leaves_while_it_sends() -> None:
    kit = Kit()

    class Leaves(Client):
        async def call(self, app: App) -> None:
            messages = [{"type": "http.request", "body": b'{"mod', "more_body": True}, {"type": "http.disconnect"}]

            async def receive() -> Message:
                return messages.pop(0)

            async def send(message: Message) -> None:
                self.got.append(message)

            await app({"type": "http", "method": "POST", "path": self.path, "headers": []}, receive, send)

    async def app(scope: Message, receive: Any, send: Any) -> None:
        assert [(await receive())["type"] for _ in range(2)] == ["http.request", "http.disconnect"]

    kit.serve(app, Leaves())
    assert kit.count("requests", status="499") == 1


def test_the_application_is_cancelled_where_that_is_asked_for() -> None:
    kit, cancelled = Kit(), []

    async def endless(receive: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    app, client = leaving(1, endless)
    kit.serve(app, client, cancel=True)
    assert cancelled == [True]
    assert kit.count("disconnects") == 1


def test_a_client_that_leaves_after_the_last_byte_has_not_left() -> None:
    kit = Kit()
    client = Client()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await answering(*STREAM)(scope, receive, send)
        client.left.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    kit.serve(app, client)
    assert kit.count("disconnects") == 0
    assert kit.count("requests", status="200") == 1


def test_a_call_that_leaves_the_queue_because_its_client_left() -> None:
    kit = Kit()
    queue = kit.gateway.queue(limit=4, ttl=60, concurrency=0)
    client = Client()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        asyncio.get_running_loop().call_soon(client.left.set)
        async with queue.enter():
            raise AssertionError("there is no place")

    kit.serve(app, client)
    assert kit.count("queue_dropped", reason="left") == 1
    assert kit.count("disconnects") == kit.count("requests", status="499") == 1
    assert client.got == [], "nobody is there to be answered"


# -- retries, repeats, sessions, users' requests ----------------------------------------------------------------------
def test_the_same_body_after_a_failure_is_a_retry_and_one_failure_explains_one() -> None:
    kit = Kit()
    for status in (200, 503, 200, 200, 503, 503, 200, 200, 200):
        kit.serve(answering(*STREAM, status=status))
    #           first, again (no failure before), retry, no, no, retry, retry, no, no
    assert kit.count("retries") == 3


def test_another_body_or_another_tenant_repeats_nothing() -> None:
    kit = Kit()
    who = ["a"]
    kit.serve(answering(status=503), tenant=lambda _: who[0])
    kit.serve(answering(), Client(asked("other")), tenant=lambda _: who[0])
    who[0] = "b"
    kit.serve(answering(), tenant=lambda _: who[0])
    assert kit.count("retries", tenant="other") == 0
    who[0] = "a"
    kit.serve(answering(), tenant=lambda _: who[0])
    assert kit.count("retries", tenant="a") == 1


def test_a_failure_is_remembered_for_a_while_only() -> None:
    moment = [0.0]
    kit = Kit(clock=lambda: moment[0], retry_seconds=30)
    kit.serve(answering(status=500))
    moment[0] += 31
    kit.serve(answering())
    assert kit.count("retries") == 0


@pytest.mark.parametrize(
    ("headers", "again"),
    [
        ([(b"idempotency-key", b"k")], 1),
        ([(b"x-stainless-retry-count", b"0")], 0),
        ([(b"x-stainless-retry-count", b"2")], 2),
        ([(b"x-stainless-retry-count", b"many")], 0),
    ],
)
def test_clients_that_say_so(headers: list[tuple[bytes, bytes]], again: int) -> None:
    kit = Kit()
    for text in ("one", "two"):
        kit.serve(answering(), Client(asked(text), headers=headers))
    assert kit.count("retries") == again


def test_a_retry_that_says_so_and_has_the_same_body_is_one() -> None:
    kit = Kit()
    kit.serve(answering(status=503))
    kit.serve(answering(), Client(headers=[(b"x-stainless-retry-count", b"1")]))
    assert kit.count("retries") == 1


def test_a_body_too_long_to_be_read_is_compared_all_the_same() -> None:
    kit, long = Kit(), asked("long " * 1000)
    kit.serve(answering(status=503), Client(long, split=100), body_limit=1000)
    kit.serve(answering(), Client(long, split=333), body_limit=1000)
    assert kit.count("retries") == 1
    assert kit.count("exact_repeats") == 0


def test_repeats_and_shared_prefixes() -> None:
    kit = Kit()
    text = "the same instructions for everyone, at some length. " * 40
    for question in ("one", "one", "two"):
        kit.serve(answering(*STREAM), Client(asked(text + question)))
    assert kit.count("exact_repeats") == 1
    assert 100 < kit.count("shared_prefix_tokens") < 200
    assert kit.count("prompt_tokens") == 300


def test_sessions_of_the_last_minute() -> None:
    moment, who = [1000.0], ["a"]
    kit = Kit(clock=lambda: moment[0])
    for name, calls in (("a", 7), ("b", 2), ("c", 1)):
        who[0] = name
        for _ in range(calls):
            kit.serve(answering(), session=lambda _: who[0])
    assert list(kit.amount("session_calls_peak").values()) == [7]
    assert list(kit.amount("session_calls_median").values()) == [2]
    moment[0] += 61
    assert list(kit.amount("session_calls_peak").values()) == [0]


def agent(number: int, arguments: str) -> dict[str, object]:
    tool = {"id": f"call-{number}", "type": "function", "function": {"name": "look", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "find it"},
        {"role": "assistant", "content": None, "tool_calls": [tool]},
        {"role": "tool", "tool_call_id": f"call-{number}", "content": "nothing"},
    ]
    return asked(messages=messages)


def test_one_tool_with_the_same_arguments() -> None:
    kit = Kit()
    for number in range(5):
        kit.serve(answering(), Client(agent(number, '{"where": "here"}')), session=lambda _: "s")
    kit.serve(answering(), Client(agent(9, '{"where": "there"}')), session=lambda _: "s")
    kit.serve(answering(), Client(agent(4, '{"where": "here"}')), session=lambda _: "s")  # the same call told again
    assert list(kit.amount("session_repeats_peak").values()) == [4]


def test_a_users_request_counts_with_its_first_call() -> None:
    kit, which = Kit(), [""]
    for name in ("r1", "r1", "r2", "r1", ""):
        which[0] = name
        kit.serve(answering(), user_request=lambda _: which[0])
    assert kit.count("user_requests") == 3, "r1, r2, and the call that names none"
    assert kit.count("calls") == 5


def test_a_retry_that_names_no_request_is_no_new_one() -> None:
    kit = Kit()
    for tries in (b"0", b"1"):
        kit.serve(answering(), Client(headers=[(b"x-stainless-retry-count", tries)]), user_request=lambda _: None)
    assert kit.count("user_requests") == 1


def test_a_function_of_the_gateway_that_fails_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    kit, client = Kit(), Client()

    def broken(scope: Message) -> str:
        raise KeyError("x-tenant")

    kit.serve(answering(*STREAM), client, tenant=broken)
    assert client.status == 200
    assert "broken failed" in caplog.text


# -- tokens set aside -------------------------------------------------------------------------------------------------
def test_tokens_are_set_aside_until_the_call_ends() -> None:
    kit, seen = Kit(token_limit=1000), []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        kit.gateway.reserve()
        seen.append((kit.amount("reserved_tokens"), kit.amount("tenant_sequences"), kit.gateway.tokens_left))
        await answering(*STREAM)(scope, receive_nothing, send)

    kit.serve(app, Client(asked("x" * 95, max_tokens=50, n=4)), tenant=lambda _: "a")
    (reserved, sequences, left) = seen[0]
    assert reserved[(("tenant", "a"),)] == (25 + 50) * 4, "100 characters with its role and its line: 25 tokens"
    assert sequences[(("tenant", "a"),)] == 4
    assert left == 700
    assert set(kit.amount("reserved_tokens").values()) == {0}
    assert kit.gateway.tokens_left == 1000
    assert kit.amount("token_limit") == {(): 1000}


def test_a_call_that_does_not_fit_is_refused_and_takes_nothing() -> None:
    kit, client = Kit(token_limit=100), Client(asked(max_tokens=200))

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        kit.gateway.reserve()

    kit.serve(app, client)
    assert client.status == 503
    assert b'"code": "tokens"' in client.answer
    assert kit.gateway.tokens_left == 100


def test_what_is_sent_on_without_asking_is_set_aside_too() -> None:
    kit, seen = Kit(token_limit=100), []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        kit.gateway.upstream("a").sending()
        seen.append((kit.gateway.calls.budget.reserved, kit.gateway.tokens_left, kit.amount("calls_running")))

    kit.serve(app, Client(asked(max_tokens=200)))
    assert seen[0][0] > 200
    assert seen[0][1:] == (0, {(): 1})


def test_characters_of_a_token_are_learned_from_usage() -> None:
    kit, seen = Kit(token_limit=10**6), []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        call = kit.gateway.current()
        assert call is not None
        seen.append(kit.gateway.calls.counts.prompt_tokens(call))
        await answering(piece(), usage(500, 2))(scope, receive_nothing, send)

    for _ in range(2):
        kit.serve(app, Client(asked("\u4e2d" * 495)))
    assert seen == [125, 500]


# -- usage ------------------------------------------------------------------------------------------------------------
def test_tokens_are_withheld_where_answers_tell_no_usage(caplog: pytest.LogCaptureFixture) -> None:
    kit = Kit()
    kit.serve(answering(*STREAM))
    assert not list(kit.gateway.calls.counts.gaps())
    kit.serve(answering(piece(), piece()))
    told = {dict(labels)["family"] for labels, _ in kit.gateway.calls.counts.gaps()}
    assert "llm_gateway_tokens_total" in told
    assert kit.gateway.calls.counts.without_usage == 1
    assert "include_usage" in caplog.text
    kit.serve(answering(*STREAM), *(Client() for _ in range(30)))
    assert not list(kit.gateway.calls.counts.gaps())


def test_a_cached_answer_took_no_tokens() -> None:
    kit = Kit()

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        kit.gateway.cached()
        await answering(*STREAM)(scope, receive_nothing, send)

    kit.serve(app)
    assert kit.count("cache_hits") == 1
    assert kit.count("tokens") == 0


# -- privacy ----------------------------------------------------------------------------------------------------------
SECRET = "xyzzy-plover-4711"


def test_nothing_that_was_said_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A secret in prompt, tool call and answer is in no page, no log, and in no object that the kit holds on to."""
    caplog.set_level(logging.DEBUG)
    kit = Kit()
    body = agent(1, f'{{"key": "{SECRET}"}}')
    body["messages"].append({"role": "user", "content": f"my password is {SECRET}"})  # type: ignore[attr-defined]
    for status in (503, 200):
        kit.serve(
            answering(piece(SECRET), piece(SECRET)[:-20], *STREAM, status=status),
            Client(body, split=11),
            tenant=lambda _: "team",
            session=lambda _: SECRET,
            user_request=lambda _: SECRET,
        )
    assert SECRET not in kit.gateway.page.render()[0].decode()
    assert SECRET not in caplog.text
    assert not list(holding(kit.gateway, SECRET))


def holding(root: object, text: str) -> list[object]:
    """Strings and bytes that can be reached from an object and hold a text."""
    seen: set[int] = set()
    found: list[object] = []
    stack = [root]
    while stack:
        each = stack.pop()
        if id(each) in seen or isinstance(each, type | type(gc)):
            continue
        seen.add(id(each))
        plain = isinstance(each, str | bytes | bytearray)
        if plain and (text if isinstance(each, str) else text.encode()) in each:
            found.append(each)
        elif not callable(each) or hasattr(each, "__self__") or hasattr(each, "__closure__"):
            stack.extend(r for r in gc.get_referents(each) if not (isinstance(r, dict) and "__builtins__" in r))
    return found


def test_the_search_for_what_is_held_finds_it() -> None:
    assert holding({"a": [(f"it is {SECRET}",)]}, SECRET)
    assert not holding({"a": [("it is",)]}, SECRET)
