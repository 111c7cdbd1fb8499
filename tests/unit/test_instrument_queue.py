"""The queue: in order, bounded, with a time to live; whoever gives up leaves no place taken."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from llmvitals.instrument.call import Call, State, now
from llmvitals.instrument.queue import Queue
from llmvitals.instrument.refusals import Expired, Full, Left


@dataclass
class Told:
    waits: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def waited(self, call: Call | None, seconds: float) -> None:
        self.waits.append(seconds)

    def dropped(self, call: Call | None, reason: str) -> None:
        self.reasons[reason] += 1


@dataclass
class Desk:
    """A queue, what it told, and the call that each task serves."""

    told: Told = field(default_factory=Told)
    calls: dict[object, Call] = field(default_factory=dict)

    def queue(self, **settings: object) -> Queue:
        return Queue(self.told, lambda: self.calls.get(asyncio.current_task()), **settings)  # type: ignore[arg-type]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 5))  # type: ignore[arg-type]


async def hold(queue: Queue, until: asyncio.Event, order: list[int] | None = None, number: int = 0) -> None:
    async with queue.enter():
        if order is not None:
            order.append(number)
        await until.wait()


def test_calls_go_in_the_order_in_which_they_came() -> None:
    async def test() -> None:
        desk, done, order = Desk(), asyncio.Event(), []
        queue = desk.queue(limit=10, concurrency=1)
        tasks = [asyncio.create_task(hold(queue, done, order, number)) for number in range(5)]
        await settle()
        assert (queue.running, queue.waiting, order) == (1, 4, [0])
        done.set()
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3, 4]
        assert (queue.running, queue.waiting) == (0, 0)
        assert len(desk.told.waits) == 5
        assert desk.told.waits[0] == 0, "one that need not wait waited 0"
        assert not desk.told.reasons

    run(test)


def test_a_full_queue_takes_nobody() -> None:
    async def test() -> None:
        desk, done = Desk(), asyncio.Event()
        queue = desk.queue(limit=1, ttl=9.0, concurrency=1)
        tasks = [asyncio.create_task(hold(queue, done)) for _ in range(2)]
        await settle()
        with pytest.raises(Full) as refused:
            await hold(queue, done)
        assert (refused.value.status, refused.value.reason) == (503, "full")
        assert desk.told.reasons == {"full": 1}
        done.set()
        await asyncio.gather(*tasks)
        assert len(desk.told.waits) == 2, "who could not enter did not leave"
        await hold(queue, done)

    run(test)


def test_a_wait_ends_with_its_time_to_live() -> None:
    async def test() -> None:
        desk, done = Desk(), asyncio.Event()
        queue = desk.queue(limit=4, ttl=0.02, concurrency=1)
        first = asyncio.create_task(hold(queue, done))
        await settle()
        with pytest.raises(Expired):
            await hold(queue, done)
        assert desk.told.reasons == {"ttl": 1}
        assert max(desk.told.waits) >= 0.02
        assert queue.waiting == 0
        done.set()
        await first
        await hold(queue, done)

    run(test)


def test_a_time_to_live_of_nothing_lets_pass_who_need_not_wait() -> None:
    async def test() -> None:
        desk, done = Desk(), asyncio.Event()
        queue = desk.queue(ttl=0.0, concurrency=1)
        first = asyncio.create_task(hold(queue, done))
        await settle()
        assert queue.running == 1
        with pytest.raises(Expired):
            await hold(queue, done)
        done.set()
        await first

    run(test)


@pytest.mark.parametrize(("seconds", "reason"), [(0.0, "ttl"), (0.02, "ttl")])
def test_a_deadline_ends_a_wait_before_the_queue_does(seconds: float, reason: str) -> None:
    async def test() -> None:
        desk, done = Desk(), asyncio.Event()
        queue = desk.queue(limit=4, ttl=60.0, concurrency=1)
        first = asyncio.create_task(hold(queue, done))
        await settle()
        desk.calls[asyncio.current_task()] = Call(now(), deadline=now() + seconds)
        with pytest.raises(Expired):
            await hold(queue, done)
        assert desk.told.reasons == {reason: 1}
        done.set()
        await first

    run(test)


def test_a_call_past_its_deadline_is_not_sent_on_though_a_place_is_free() -> None:
    async def test() -> None:
        desk = Desk()
        desk.calls[asyncio.current_task()] = Call(now(), deadline=now() - 1)
        queue = desk.queue(concurrency=1)
        with pytest.raises(Expired):
            await hold(queue, asyncio.Event())
        assert queue.running == 0

    run(test)


def test_who_leaves_gives_up_its_wait() -> None:
    async def test() -> None:
        desk, done = Desk(), asyncio.Event()
        queue = desk.queue(limit=4, ttl=60.0, concurrency=1)
        first = asyncio.create_task(hold(queue, done))
        await settle()
        call = Call(now())
        second = asyncio.create_task(hold(queue, done))
        desk.calls[second] = call
        await settle()
        assert (queue.waiting, call.state) == (1, State.WAITING)
        call.gone()
        with pytest.raises(Left):
            await second
        assert (queue.waiting, desk.told.reasons) == (0, {"left": 1})
        third = asyncio.create_task(hold(queue, done))
        desk.calls[third] = call
        with pytest.raises(Left):
            await third
        done.set()
        await first

    run(test)


def test_a_call_whose_client_left_is_not_sent_on_though_a_place_is_free() -> None:
    async def test() -> None:
        desk = Desk()
        queue = desk.queue(concurrency=1)
        call = desk.calls[asyncio.current_task()] = Call(now())
        call.gone()
        with pytest.raises(Left):
            await hold(queue, asyncio.Event())
        assert (queue.running, desk.told.reasons) == (0, {"left": 1})

    run(test)


def test_a_cancelled_wait_takes_no_place() -> None:
    """Cancelled in the very round in which its place comes free: the place goes to the next one."""

    async def test() -> None:
        for late in (False, True):
            desk, done, got = Desk(), asyncio.Event(), asyncio.Event()
            queue = desk.queue(concurrency=1)
            first = asyncio.create_task(hold(queue, done))
            await settle()
            second, third = (asyncio.create_task(hold(queue, got)) for _ in range(2))
            await settle()
            if late:
                done.set()
                await asyncio.sleep(0)
                second.cancel()
            else:
                second.cancel()
                done.set()
            await asyncio.wait({first, second})
            await settle()
            assert queue.running == 1
            got.set()
            await third
            assert (queue.running, queue.waiting) == (0, 0)
            assert desk.told.reasons == {"left": 1}

    run(test)


def test_a_gateways_own_semaphore() -> None:
    async def test() -> None:
        desk, own = Desk(), asyncio.Semaphore(1)
        queue = desk.queue(limit=1, ttl=0.02)
        await queue.wait(own.acquire, free=not own.locked())
        with pytest.raises(Expired):
            await queue.wait(own.acquire, free=not own.locked())
        waits = asyncio.create_task(queue.wait(own.acquire, free=False))
        await settle()
        with pytest.raises(Full):
            await queue.wait(own.acquire, free=not own.locked())
        own.release()
        await waits
        own.release()
        assert not own.locked(), "no place was lost"
        assert desk.told.reasons == {"ttl": 1, "full": 1}
        assert len(desk.told.waits) == 3

    run(test)


def test_a_bound_that_moves() -> None:
    async def test() -> None:
        desk, done, most = Desk(), asyncio.Event(), [1]
        queue = desk.queue(concurrency=lambda: most[0])
        tasks = [asyncio.create_task(hold(queue, done)) for _ in range(4)]
        await settle()
        assert (queue.running, queue.most) == (1, 1)
        most[0] = 3
        tasks.append(asyncio.create_task(hold(queue, done)))
        await settle()
        assert queue.running == 3
        done.set()
        await asyncio.gather(*tasks)

    run(test)


def test_several_loops_share_its_places() -> None:
    desk, most, lock = Desk(), [0, 0], threading.Lock()
    queue = desk.queue(concurrency=3)

    async def worker() -> None:
        async with queue.enter():
            with lock:
                most[0] += 1
                most[1] = max(most)
            await asyncio.sleep(0)
            with lock:
                most[0] -= 1

    async def many() -> None:
        await asyncio.gather(*(worker() for _ in range(100)))

    threads = [threading.Thread(target=run, args=(many,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (queue.running, queue.waiting) == (0, 0)
    assert 1 <= most[1] <= 3
    assert len(desk.told.waits) == 400
