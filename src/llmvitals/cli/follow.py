"""Follows the exporter's verdicts in the terminal until a signal comes: a live screen, or a line for each change."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from llmvitals.exporters.cycle import Cycle
from llmvitals.triage.printed import WORDS, headline, report
from llmvitals.triage.report import scope_name, services_first, worst
from llmvitals.triage.verdict import Verdict

REFRESH_SECONDS = 0.5
NEWS_SHARE = 0.1
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Signals = queue.SimpleQueue[int]


@contextmanager
def endings() -> Iterator[Signals]:
    """Ctrl-C, SIGTERM and a closed terminal become entries of a queue, so that the end is always an orderly one."""
    heard: Signals = queue.SimpleQueue()  # put() may run inside a signal handler

    def hear(number: int, frame: FrameType | None) -> None:
        heard.put(number)

    before = {number: signal.signal(number, hear) for number in ENDINGS}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ended(heard: Signals, seconds: float) -> bool:
    """Wait up to ``seconds`` for a signal; True when one came."""
    try:
        heard.get(timeout=seconds)
    except queue.Empty:
        return False
    return True


def verdicts(cycle: Cycle | None) -> list[Verdict]:
    """Every scope's verdict with its scope written in: services first, then worst first."""
    if cycle is None:
        return []
    named = [
        replace(s.verdict, scope={**s.verdict.scope, "instance": s.instance, "model": s.model})
        for s in cycle.scopes
        if s.verdict is not None
    ]
    return services_first(worst(named))


def line(verdict: Verdict) -> str:
    """A verdict as one line of a log."""
    cause = f" {verdict.leading.cause}" if verdict.leading is not None else ""
    return f"{WORDS[verdict.outcome][1]}{cause}  {scope_name(verdict)}: {verdict.sentence}"


def is_news(before: Verdict, now: Verdict) -> bool:
    """Whether a line should say so: another outcome, another cause, or a computed value that is off by over a tenth."""
    if before.outcome is not now.outcome or before.leading is None or now.leading is None:
        return before.outcome is not now.outcome or (before.leading is None) is not (now.leading is None)
    if before.leading.cause != now.leading.cause:
        return True
    old, new = before.leading.action.value, now.leading.action.value
    if old is None or new is None:
        return old is not new
    return abs(new - old) > abs(old) * NEWS_SHARE


def follow(
    newest: Callable[[], Cycle | None], heard: Signals, console: Console, head: Callable[[], Sequence[str]]
) -> None:
    """Show the newest verdicts until a signal comes. ``head``: the lines above them."""
    if console.is_terminal:
        _on_screen(newest, heard, console, head)
    else:
        _by_lines(newest, heard, console, head)


def _on_screen(
    newest: Callable[[], Cycle | None], heard: Signals, console: Console, head: Callable[[], Sequence[str]]
) -> None:
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as screen:
        while True:
            screen.update(_screen(newest(), head()), refresh=True)
            if ended(heard, REFRESH_SECONDS):
                return


def _screen(cycle: Cycle | None, head: Sequence[str]) -> RenderableType:
    parts: list[RenderableType] = [Text(text, style="bold" if i == 0 else "") for i, text in enumerate(head)]
    found = verdicts(cycle)
    parts.append(Text())
    if cycle is None or not found:
        parts.append(Text("waiting for the first page", style="dim"))
    else:
        parts.append(report(found[0], steps=False))
        parts.extend(headline(other) for other in found[1:])
        parts.append(Text(f"  {time.time() - cycle.ended:.0f} s ago; Ctrl-C ends", style="dim"))
    return Group(*parts)


def _by_lines(
    newest: Callable[[], Cycle | None], heard: Signals, console: Console, head: Callable[[], Sequence[str]]
) -> None:
    said: dict[str, Verdict] = {}
    told: list[str] = []
    while True:
        for text in head():
            if text not in told:
                told.append(text)
                console.print(text, soft_wrap=True, markup=False)
        for verdict in verdicts(newest()):
            before = said.get(scope_name(verdict))
            if before is None or is_news(before, verdict):
                said[scope_name(verdict)] = verdict
                stamp = time.strftime("%H:%M:%S")
                console.print(f"{stamp} {line(verdict)}", soft_wrap=True, markup=False)
        console.file.flush()
        if ended(heard, REFRESH_SECONDS):
            return
