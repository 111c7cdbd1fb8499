"""Whether the thing itself is there, for causes that count even while nobody is hurt. Told by what the simulator knows."""

from __future__ import annotations

from llmvitals.lab.truth import Facts


def thrash(f: Facts) -> bool:
    """Requests are thrown out all the time: for every fourth answer one, and one in twelve seconds at least."""
    return f.preemptions > max(5 * f.minutes, f.finished / 4)


def wasted(f: Facts) -> bool:
    """Two fifths of what was generated reached nobody."""
    return f.wasted > 0.4


def runaway_answers(f: Facts) -> bool:
    """Answers that nobody limited ran on for more than three times as long as the usual one."""
    return f.runaway >= max(3, 0.02 * f.calls)


def restarted(f: Facts) -> bool:
    """The process ended and came back."""
    return f.restarts > 0


def broke(f: Facts) -> bool:
    """The card or its memory reported an error."""
    return f.events > 0


def loops(f: Facts) -> bool:
    """One session repeats a call, every six seconds and more often."""
    return f.loops > 10 * f.minutes


def refused(f: Facts) -> bool:
    """Requests were refused at the door."""
    return f.rejected >= 10


def spoiled(f: Facts) -> bool:
    """The telemetry is what is wrong, whatever the server does."""
    return True
