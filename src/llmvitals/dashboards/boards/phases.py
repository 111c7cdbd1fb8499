"""Where the time of finished requests goes, as bands that add up whatever is selected: replicas of several engines among it.

Each band is its seconds over the requests whose whole time is known, so that a replica counts by what it finished, and one that
does not tell its phases apart has its time in a band of its own.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, rate
from llmvitals.dashboards.model import BLUE, GREY, ORANGE, PURPLE, SKY, Query

_QUEUE, _PREFILL, _DECODE, _WHOLE = (
    rate(f"llm_request_{phase}_seconds_sum") for phase in ("queue", "prefill", "decode", "e2e")
)
_TIMED = f"({rate('llm_request_e2e_seconds_count')} > 0)"
_REQUESTS = f"sum by () {_TIMED}"
_BOTH = f"({_PREFILL} + {_DECODE})"
_ENGINE = f"({_WHOLE} - ({_QUEUE} or 0 * {_WHOLE}))"
"""By replica, what is not the queue."""


def _band(seconds: str) -> str:
    """Seconds of each replica as a mean over all requests; absent where no replica tells them."""
    return f"sum by () ({seconds} and on (instance, model) {_TIMED}) / {_REQUESTS}"


_UNDIVIDED = f"sum by () ({_ENGINE} and on (instance, model) {_TIMED} unless on (instance, model) {_BOTH})"


def bands(front: str) -> tuple[Query, ...]:
    """The bands from the bottom up; ``front``: what the time outside queue and engine is called."""
    return (
        all_of("queue", ORANGE, _band(_QUEUE)),
        all_of("prefill", SKY, _band(_PREFILL)),
        all_of("decode", BLUE, _band(_DECODE)),
        all_of(front, PURPLE, _band(f"clamp_min({_ENGINE} - {_BOTH}, 0)")),
        all_of("not told apart", GREY, f"({_UNDIVIDED} or 0 * {_REQUESTS}) / {_REQUESTS}"),
    )
