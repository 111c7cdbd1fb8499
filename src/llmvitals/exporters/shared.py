"""Answers that cost something, made once per cycle for all who ask the same, one at a time, beside the event loop."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from llmvitals.exporters.cycle import Cycle

KEPT_BYTES = 32 * 1024 * 1024
"""Answers of one kind that are kept, beside the newest."""

WAITING = 16
"""Who waits for answers of one kind beyond this is told to come again."""


class BusyError(Exception):
    """Too many wait already."""


@dataclass(slots=True)
class _Kind:
    """Answers of one kind: those of the cycle, and who makes the next one."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    made: OrderedDict[object, bytes] = field(default_factory=OrderedDict)


class Shared:
    """Used by the server's thread only; ``make`` runs in another one."""

    def __init__(self) -> None:
        self._serial: int | None = None
        self._kinds: dict[str, _Kind] = {}

    def of(self, cycle: Cycle | None) -> None:
        """Forget what was made of another cycle than this."""
        serial = cycle.serial if cycle is not None else None
        if serial != self._serial:
            self._serial = serial
            for kind in self._kinds.values():
                kind.made.clear()

    async def answer(self, kind: str, cycle: Cycle, key: object, make: Callable[[], bytes]) -> bytes:
        """What ``make`` gives for ``key`` in this cycle. Raises :class:`BusyError`, and whatever ``make`` raises."""
        self.of(cycle)
        mine = self._kinds.setdefault(kind, _Kind())
        if key in mine.made:
            return mine.made[key]
        async with self._turn(mine):
            if cycle.serial == self._serial and key in mine.made:  # somebody before asked the same
                return mine.made[key]
            made = await run_in_threadpool(make)
            if cycle.serial == self._serial:
                mine.made[key] = made
                while len(mine.made) > 1 and sum(map(len, mine.made.values())) > KEPT_BYTES:
                    mine.made.popitem(last=False)
        return made

    @staticmethod
    @asynccontextmanager
    async def _turn(kind: _Kind) -> AsyncIterator[None]:
        if kind.waiting >= WAITING:
            raise BusyError
        kind.waiting += 1
        try:
            async with kind.turn:
                yield
        finally:
            kind.waiting -= 1
