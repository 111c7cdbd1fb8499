"""What probes saw: small requests of our own, from outside. Few, and the same for every engine, whatever its page tells."""

from __future__ import annotations

import math

from llmvitals.gaps import GapKind
from llmvitals.settings import PROBE_CLASS
from llmvitals.signals.context import TTFT, Context
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.measure import binomial_tail, growth_by
from llmvitals.signals.reading import Reading, Standing

PROBES = "llm_probe_requests_total"
TIMES = {name: f"llm_probe_{name}_seconds" for name in ("ttft", "tpot", "e2e")}
AROUND = "llm_span_frontend_seconds"
BY_PROBES = "from probes, small requests of our own"

LEAST_PROBES = 5.0
"""Probes from which on they say something of users: three late ones of five break an objective of 95 % beyond chance (0.001)."""

NO_FIRST_TOKEN = ("timeout",)
"""Outcomes of probes that waited for a first token and got none: later than any threshold, for sure."""

FAILED = ("timeout", "unreachable", "cut", "empty", "error", "429")
"""Outcomes besides 5xx for which the server is to blame. Other statuses, and no model to ask for, are a fault of the probe."""


def _outcomes(c: Context) -> dict[str, float] | Reading:
    """Probes of the window by how they ended, those left out that were asked wrongly."""
    found = growth_by(c.good, PROBES, "outcome")
    if found is None:
        return missing(c, PROBES)
    kept = {k: n for k, n in found.items() if n > 0 and (k == "ok" or _failed(k))}
    if kept:
        return kept
    wrong = sorted(k for k, n in found.items() if n > 0)
    if wrong:
        return absent(GapKind.UNSUPPORTED, f"every probe is refused as it is asked ({', '.join(wrong)})", PROBES)
    return no_traffic("probe that ended")


def _failed(outcome: str) -> bool:
    return outcome in FAILED or outcome.startswith("5")


def probe_failure_ratio(c: Context) -> Reading:
    """Share of the probes that got no answer; those that were asked wrongly (4xx but 429) are left out."""
    found = _outcomes(c)
    if isinstance(found, Reading):
        return found
    return number(sum(n for k, n in found.items() if _failed(k)) / sum(found.values()))


def probe_silent_failures(c: Context) -> Reading:
    """Failed probes of the window when nobody got a first token at all; 0 otherwise. Where the page times none, all of them."""
    found = _outcomes(c)
    if isinstance(found, Reading):
        return found
    return number(0.0 if c.first_tokens > 0 else sum(n for k, n in found.items() if _failed(k)))


def harm(c: Context, objective: str) -> Reading | None:
    """Chance of so many late probes if the objective were just met (binomial tail); None for fewer than 5 that count."""
    h, outcomes = c.hist(TIMES[objective]), growth_by(c.good, PROBES, "outcome") or {}
    if h is None:
        return None
    never = sum(outcomes.get(o, 0.0) for o in NO_FIRST_TOKEN) if objective == "ttft" else 0.0
    limit = c.settings.slo.ttft_seconds if objective == "ttft" else c.settings.slo.tpot_seconds
    late, asked = h.total - h.at_most(limit)[1] + never, h.total + never
    if asked < LEAST_PROBES:
        return None
    chance = binomial_tail(math.floor(late), round(asked), 1 - c.settings.slo.objective)
    return number(chance, Standing.ESTIMATE, BY_PROBES)


def answered(c: Context) -> Reading | None:
    """Probes that ended, where enough of them stand in for what the page does not count; None for fewer than 5."""
    found = _outcomes(c)
    asked = 0.0 if isinstance(found, Reading) else sum(found.values())
    return number(asked, Standing.ESTIMATE, BY_PROBES) if asked >= LEAST_PROBES else None


def probe_gap_seconds(c: Context) -> Reading:
    """What a small request of our own waits around the engine (seconds): the front end and the network. By the probes' own
    traces where the engine sends its, on average; else at least what the lower edge of the probes' median TTFT exceeds the
    upper edge of the engine's by, whose users ask for more.
    """
    traced = {part: c.growth(f"{AROUND}_{part}", slo_class=PROBE_CLASS) or 0.0 for part in ("sum", "count")}
    if traced["count"] >= LEAST_PROBES:
        return number(traced["sum"] / traced["count"], note=f"by the traces of {traced['count']:.0f} probes")
    h, engine = c.hist(TIMES["ttft"]), c.hist(TTFT)
    if h is None or engine is None:
        return missing(c, TIMES["ttft"] if h is None else TTFT)
    if h.total < LEAST_PROBES:
        return absent(GapKind.TOO_SHORT, f"fewer than {LEAST_PROBES:.0f} probes in the window", TIMES["ttft"])
    outside, inside = h.bucket(0.5), engine.bucket(0.5)
    if outside is None or inside is None:
        return no_traffic("first tokens")
    return number(max(0.0, outside[0] - inside[1]), Standing.ESTIMATE)
