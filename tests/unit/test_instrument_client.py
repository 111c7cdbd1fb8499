"""The transport around a gateway's httpx client: what it counts, what it passes on as it comes, and when it lets go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from llmvitals.instrument import Gateway, Left, Middleware
from llmvitals.instrument.call import now
from support.asgi import Client

UP = (("upstream", "e"),)


class Pieces(httpx.AsyncByteStream):
    """An answer that comes as ``make`` gives it. ``closed``: whether it was let go."""

    def __init__(self, make: Callable[[], AsyncIterator[bytes]]) -> None:
        self._make = make
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._make()

    async def aclose(self) -> None:
        self.closed = True


class Inner(httpx.AsyncBaseTransport):
    """Answers each request by ``answer``; ``requests``: those that came."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.requests: list[httpx.Request] = []
        self._answer = answer
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        found = self._answer()
        return await found if asyncio.iscoroutine(found) else found

    async def aclose(self) -> None:
        self.closed = True


def count(kit: Gateway, family: str) -> float:
    return sum(kit.store.counters.get(f"llm_gateway_{family}", {}).values())


def times(kit: Gateway) -> int:
    return sum(sum(each.counts) for each in kit.store.histograms["llm_gateway_upstream_seconds"].values())


def inside(kit: Gateway, do: Callable[[], Any], client: Client | None = None) -> Client:
    """Run ``do`` in the hands of one call of the kit."""
    client = client or Client()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await do()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    asyncio.run(asyncio.wait_for(client.call(Middleware(app, kit=kit)), 5))
    return client


def refusing(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


def test_pieces_are_passed_on_one_by_one_as_they_are():
    made: list[bytes] = []

    async def pieces() -> AsyncIterator[bytes]:
        for i in range(3):
            made.append(b"%d" % i)
            yield made[-1]

    kit, body = Gateway("g"), Pieces(pieces)

    async def run() -> None:
        transport = kit.transport("e", Inner(lambda: httpx.Response(200, stream=body)))
        async with httpx.AsyncClient(transport=transport) as client, client.stream("GET", "http://e/") as answer:
            seen = []
            async for piece in answer.aiter_raw():
                seen.append(piece)
                assert made == seen
                assert times(kit) == 0, "it has not ended"
            assert seen == [b"0", b"1", b"2"]

    asyncio.run(run())
    assert (count(kit, "upstream_requests_total"), times(kit), body.closed) == (1, 1, True)


@pytest.mark.parametrize("status", [200, 429, 500])
def test_every_answer_counts_with_its_status(status):
    kit = Gateway("g")

    async def run() -> None:
        async with httpx.AsyncClient(
            transport=kit.transport("e", httpx.MockTransport(lambda _: httpx.Response(status)))
        ) as c:
            await c.get("http://e/")

    asyncio.run(run())
    shown = kit.store.counters["llm_gateway_upstream_requests_total"]
    assert {dict(labels)["status"]: n for labels, n in shown.items() if n} == {str(status): 1}
    assert times(kit) == 1


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (httpx.ConnectError("refused"), 1),
        (httpx.ConnectTimeout("no answer to SYN"), 1),
        (httpx.PoolTimeout("all connections are in use"), 0),
        (httpx.ReadTimeout("silence"), 0),
        (httpx.RemoteProtocolError("closed"), 0),
    ],
)
def test_only_connections_that_could_not_be_made_are_connect_errors(error, counted):
    kit = Gateway("g")

    async def run() -> None:
        async with httpx.AsyncClient(transport=kit.transport("e", Inner(refusing(error)))) as client:
            with pytest.raises(type(error)):
                await client.get("http://e/")

    asyncio.run(run())
    assert count(kit, "connect_errors_total") == counted
    assert count(kit, "upstream_requests_total") == 0
    assert times(kit) == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (httpx.ReadTimeout("silence"), "timeout"),
        (httpx.ReadError("reset"), "upstream"),
        (httpx.RemoteProtocolError("closed"), "upstream"),
    ],
)
def test_an_answer_that_breaks_off_says_whose_doing_it_was(error, reason):
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise error

    kit, body, cut = Gateway("g"), Pieces(pieces), []

    async def do() -> None:
        transport = kit.transport("e", Inner(lambda: httpx.Response(200, stream=body)))
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises(type(error)):
                await client.get("http://e/")
        call = kit.current()
        assert call is not None
        cut.append(call.cut)

    inside(kit, do)
    assert cut == [reason]
    assert (count(kit, "upstream_requests_total"), times(kit), body.closed) == (1, 0, True)


@pytest.mark.parametrize("begun", [False, True])
def test_a_client_that_leaves_ends_what_is_asked_of_the_engine_while_it_is_silent(begun):
    kit, client, ended = Gateway("g"), Client(), []

    async def forever() -> None:
        client.left.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await forever()

    body = Pieces(pieces)

    async def answer() -> httpx.Response:
        if not begun:
            await forever()
        return httpx.Response(200, stream=body)

    async def do() -> None:
        async with httpx.AsyncClient(transport=kit.transport("e", Inner(answer))) as asks:
            with pytest.raises(Left):
                await asks.get("http://e/")
            call = kit.current()
            assert call is not None
            assert call.left
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0, "the gateway's own task goes on, to tidy up"
            await asyncio.sleep(0)

    inside(kit, do, client)
    assert ended == ["cancelled"]
    assert count(kit, "upstream_requests_total") == int(begun)
    assert times(kit) == 0
    assert body.closed is begun
    assert count(kit, "disconnects_total") == 1


@pytest.mark.parametrize("leaves", [False, True])
def test_a_gateway_that_is_cancelled_stays_so_whether_or_not_its_client_leaves_meanwhile(leaves):
    kit, client, cancelled = Gateway("g"), Client(), []

    async def do() -> None:
        began = asyncio.Event()

        async def answer() -> httpx.Response:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with httpx.AsyncClient(transport=kit.transport("e", Inner(answer))) as asks:
            task = asyncio.create_task(asks.get("http://e/"))
            await began.wait()
            if leaves:
                call = kit.current()
                assert call is not None
                call.gone()
            task.cancel()
            await asyncio.wait([task])
            cancelled.append(task.cancelled())

    inside(kit, do, client)
    assert cancelled == [True]


def test_what_takes_no_notice_of_being_cancelled_is_let_go_all_the_same():
    kit, client = Gateway("g"), Client()

    async def answer() -> httpx.Response:
        client.left.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return httpx.Response(200)
        raise AssertionError

    inner = Inner(answer)

    async def do() -> None:
        async with httpx.AsyncClient(transport=kit.transport("e", inner)) as asks:
            with pytest.raises(Left):
                await asks.get("http://e/")
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            await asyncio.sleep(0)
            with pytest.raises(Left):
                await asks.get("http://e/")
            assert len(inner.requests) == 1, "nothing more is asked for somebody who has left"

    inside(kit, do, client)
    assert count(kit, "upstream_requests_total") == 0


def test_an_answer_that_is_let_go_half_read_has_no_last_byte():
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    kit, body = Gateway("g"), Pieces(pieces)

    async def run() -> None:
        transport = kit.transport("e", Inner(lambda: httpx.Response(200, stream=body)))
        async with httpx.AsyncClient(transport=transport) as client, client.stream("GET", "http://e/") as answer:
            async for _ in answer.aiter_raw():
                break

    asyncio.run(run())
    assert (count(kit, "upstream_requests_total"), times(kit), body.closed) == (1, 0, True)


@pytest.mark.parametrize("sampled", [True, False])
def test_the_calls_span_is_the_parent_and_what_the_client_said_of_its_own_is_replaced(sampled):
    provider = TracerProvider() if sampled else TracerProvider(ALWAYS_OFF)
    kit, inner, spans = Gateway("g", tracer_provider=provider), Inner(lambda: httpx.Response(200)), []

    async def do() -> None:
        call = kit.current()
        assert call is not None
        assert call.span is not None
        spans.append(call.span.get_span_context())
        async with httpx.AsyncClient(transport=kit.transport("e", inner)) as client:
            await client.get(
                "http://e/", headers={"traceparent": f"00-{'c' * 32}-{'d' * 16}-01", "tracestate": "vendor=1"}
            )

    inside(kit, do)
    (span,) = spans
    headers = inner.requests[0].headers
    (told,) = headers.get_list("traceparent")
    assert told[:-2] == f"00-{span.trace_id:032x}-{span.span_id:016x}-"
    assert int(told[-2:], 16) & 1 == sampled
    assert "tracestate" not in headers


def test_the_engines_time_is_taken_from_the_gateways_once_for_each_attempt():
    async def pieces() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.02)
        yield b"one"

    answers = [refusing(httpx.ConnectError("refused")), lambda: httpx.Response(200, stream=Pieces(pieces))]
    kit, took = Gateway("g"), []

    def answer() -> httpx.Response:
        return answers.pop(0)()

    async def do() -> None:
        began = now()
        async with httpx.AsyncClient(transport=kit.transport("e", Inner(answer))) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://e/")
            await client.get("http://e/")
        call = kit.current()
        assert call is not None
        took.extend([call.upstream_seconds, now() - began])

    inside(kit, do)
    assert 0.02 <= took[0] <= took[1]


def test_outside_of_a_call_nothing_is_added_to_a_request():
    kit, inner = Gateway("g"), Inner(lambda: httpx.Response(200))

    async def run() -> None:
        async with httpx.AsyncClient(transport=kit.transport("e", inner)) as client:
            await client.get("http://e/health")

    asyncio.run(run())
    assert "traceparent" not in inner.requests[0].headers
    assert inner.closed
    assert count(kit, "upstream_requests_total") == 1
