"""Plays jobs over several processes: the results come in the order of the jobs, whatever the number of processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Protocol, TypeVar

from llmvitals.errors import LlmvitalsError
from llmvitals.lab.result import Played

MOST_IN_A_CHUNK = 8
"""Jobs that travel to a process together: few, since they last differently and the slowest process ends the score."""
CHUNKS_PER_PROCESS = 8


class LabError(LlmvitalsError):
    """A scenario could not be played, or its truth not be read."""


class Job(Protocol):
    """What the runner needs to know of a job; it travels to another process."""

    @property
    def scenario(self) -> str: ...
    @property
    def seed(self) -> int: ...


J = TypeVar("J", bound=Job)
Play = Callable[[J, tuple[str, ...] | None], Played]
"""Plays a job with the sources of telemetry given (None: every level). A function of a module, pure."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """A job that raised: exceptions with arguments of their own do not travel between processes."""

    scenario: str
    seed: int
    what: str


def cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_all(
    jobs: Sequence[J],
    play: Play[J],
    *,
    telemetry: tuple[str, ...] | None = None,
    processes: int | None = None,
    on_played: Callable[[Played], None] = lambda _: None,
) -> tuple[Played, ...]:
    """Play every job, over all cores unless ``processes`` says otherwise; ``on_played`` hears of each as it ends.

    Raises :class:`LabError` with the scenario and the seed of a job that raised; the others are then given up.
    """
    several = min(processes or cores(), len(jobs))
    if several <= 1:
        return tuple(_here(play, job, telemetry, on_played) for job in jobs)
    size = max(1, min(MOST_IN_A_CHUNK, len(jobs) // (several * CHUNKS_PER_PROCESS)))
    chunks = [jobs[at : at + size] for at in range(0, len(jobs), size)]
    others = running()
    pool = spawned(several)
    try:
        waiting = {pool.submit(_chunk, play, chunk, telemetry): at for at, chunk in enumerate(chunks)}
        played: dict[int, list[Played]] = {}
        for done in as_completed(waiting):
            played[waiting[done]] = _heard(done.result(), on_played)
    except BrokenProcessPool:
        raise LabError(
            "a process of the score was ended from outside",
            place="llmvitals score",
            remedy="It may have been short of memory; use fewer processes (--jobs).",
        ) from None
    except KeyboardInterrupt:  # it may have reached this process alone
        end_all_but(others)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return tuple(one for at in range(len(chunks)) for one in played[at])


def spawned(processes: int) -> ProcessPoolExecutor:
    """Processes that end at Ctrl-C."""
    # spawned, not forked: a fork copies the threads' locks (progress bar) and differs between platforms
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_end_at_once)


def running() -> frozenset[BaseProcess]:
    """The processes that this one has started and that still run."""
    return frozenset(multiprocessing.active_children())


def end_all_but(others: Collection[BaseProcess]) -> None:
    """End the processes that this one has started since it had ``others``."""
    for child in running() - frozenset(others):
        child.terminate()


def _end_at_once() -> None:
    """Ctrl-C reaches every process of a terminal: these end without a traceback, and without doing out what they were given."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _here(play: Play[J], job: J, telemetry: tuple[str, ...] | None, on_played: Callable[[Played], None]) -> Played:
    """In this process, so that ``--debug`` shows where it went wrong."""
    try:
        one = play(job, telemetry)
    except Exception as error:
        raise _complaint(_failed(job, error)) from error
    on_played(one)
    return one


def _chunk(play: Play[J], jobs: Sequence[J], telemetry: tuple[str, ...] | None) -> list[Played | _Failed]:
    """In another process."""
    found: list[Played | _Failed] = []
    for job in jobs:
        try:
            found.append(play(job, telemetry))
        except Exception as error:
            return [*found, _failed(job, error)]
    return found


def _heard(results: Sequence[Played | _Failed], on_played: Callable[[Played], None]) -> list[Played]:
    found = []
    for one in results:
        if isinstance(one, _Failed):
            raise _complaint(one)
        on_played(one)
        found.append(one)
    return found


def _failed(job: Job, error: Exception) -> _Failed:
    return _Failed(job.scenario, job.seed, f"{type(error).__name__}: {error}")


def _complaint(failed: _Failed) -> LabError:
    return LabError(
        f"could not be played ({failed.what})",
        place=f"scenario '{failed.scenario}', seed {failed.seed}",
        remedy="'llmvitals --debug score --jobs 1' with the same options shows where it went wrong.",
    )
