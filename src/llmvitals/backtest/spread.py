"""Work over several processes for as long as it comes: what is handed in early is done while the rest is still being fetched."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

from llmvitals.errors import LlmvitalsError
from llmvitals.lab.parallel import cores, end_all_but, running, spawned

J = TypeVar("J")
R = TypeVar("R")

AHEAD_PER_PROCESS = 3
"""Jobs that wait for each process: enough that none is idle, few enough that their pages fit into memory."""


class BacktestError(LlmvitalsError):
    """A replay could not be done, or not be finished."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """A job that raised: exceptions with arguments of their own do not travel between processes."""

    what: str


class Spread(Generic[J, R]):
    """Does ``work`` (a pure function of a module) on jobs, and gives each result to ``done`` as it comes, in any order.

    ``processes``: how many, one per core by default; 1 works in this process.
    """

    def __init__(self, work: Callable[[J], R], done: Callable[[R], None], *, processes: int | None = None) -> None:
        self._work, self._done = work, done
        self._processes = processes or cores()
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: set[Future[R | _Failed]] = set()
        self._others = running()

    def give(self, job: J, *, here: bool = False) -> None:
        """Hand a job in; waits while too many are ahead of it. ``here``: it is too small to start a process for.

        Raises :class:`BacktestError` for a job that raised in another process, or a process that was ended.
        """
        if self._processes == 1 or (here and self._pool is None):
            self._done(self._work(job))
            return
        if self._pool is None:
            self._pool = spawned(self._processes)
        self._waiting.add(self._pool.submit(_caught, self._work, job))
        self._collect(AHEAD_PER_PROCESS * self._processes)

    def finish(self) -> None:
        """Wait for all jobs that were handed in. Raises as :meth:`give`."""
        self._collect(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._pool is None:
            return
        if kind is not None:  # Ctrl-C may have reached this process alone
            end_all_but(self._others)
        self._pool.shutdown(cancel_futures=True)

    def _collect(self, most: int) -> None:
        try:
            while len(self._waiting) > most:
                ended, self._waiting = wait(self._waiting, return_when=FIRST_COMPLETED)
                for future in ended:
                    result = future.result()
                    if isinstance(result, _Failed):
                        raise BacktestError(
                            f"could not be judged ({result.what})",
                            place="llmvitals backtest",
                            remedy="'llmvitals --debug backtest --jobs 1' with the same options shows where it went wrong.",
                        )
                    self._done(result)
        except BrokenProcessPool:
            raise BacktestError(
                "a process of the replay was ended from outside",
                place="llmvitals backtest",
                remedy="It may have been short of memory; use fewer processes (--jobs).",
            ) from None


def _caught(work: Callable[[J], R], job: J) -> R | _Failed:
    """In another process."""
    try:
        return work(job)
    except Exception as error:
        return _Failed(f"{type(error).__name__}: {error}")
