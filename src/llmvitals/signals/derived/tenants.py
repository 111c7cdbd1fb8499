"""Who takes how much: one tenant's tokens against its weight, and what the others suffer meanwhile.

Service is compared per weight, as the virtual token counter of "Fairness in Serving Large Language Models" (Sheng et al.,
OSDI 2024) does: in a fair share of the engine every tenant's tokens over its weight are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.derived.gateway import CALLS, REFUSED
from llmvitals.signals.measure import binomial_tail, growth_by, hist
from llmvitals.signals.reading import Reading

TOKENS = "llm_gateway_tokens_total"
WAIT = "llm_gateway_queue_seconds"

REST = "other"
"""Under this name gateways add up the tenants that they do not list: it is many, so no quota would fit it."""

LEAST_CALLS = 10
"""Calls that the others must have made together: fewer say nothing of what they suffer."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The tenant that took most beyond its weight. ``share``: of all tokens; ``fair``: its share by weight; ``excess``: its
    tokens per weight over those of the others together; ``surplus``: what it took beyond that, as a share of all tokens.
    """

    tenant: str
    total: float
    share: float
    fair: float
    excess: float
    surplus: float


def _weights(c: Context, tenants: set[str]) -> dict[str, float]:
    """Weights as they stand; a tenant without one counts as the mean of the others, and all alike where none has one."""
    given = {t.label("tenant"): t.values[-1] for t in c.good.tracks("llm_gateway_tenant_weight") if t.values[-1] > 0}
    known = [given[t] for t in tenants if t in given]
    usual = sum(known) / len(known) if known else 1.0
    return {t: given.get(t, usual) for t in tenants}


def largest(c: Context) -> Largest | Reading:
    """The tenant whose surplus over its weight is the largest among those active in the window, or why none is."""
    tokens, calls = growth_by(c.good, TOKENS, "tenant"), growth_by(c.good, CALLS, "tenant")
    if tokens is None or calls is None:
        return missing(c, TOKENS if tokens is None else CALLS)
    total = sum(tokens.values())
    if total <= 0:
        return no_traffic("tokens at the gateway")
    active = {t for t in {*tokens, *calls} if tokens.get(t, 0.0) > 0 or calls.get(t, 0.0) > 0}
    if len(active) < 2:
        return no_traffic("traffic of a second tenant")
    weights = _weights(c, active)
    weighed = sum(weights.values())
    found = []
    for tenant in sorted(active - {"", REST}):  # calls without a name of their own: they are others to each
        mine, weight = tokens.get(tenant, 0.0), weights[tenant]
        others, rest = total - mine, weighed - weight
        fair = weight * others / rest
        found.append(
            Largest(tenant, total, mine / total, weight / weighed, mine / max(fair, 1.0), max(0.0, mine - fair) / total)
        )
    if not found:
        return no_traffic("traffic of a tenant with a name of its own")
    top = max(found, key=lambda x: x.surplus)
    if sum(n for tenant, n in calls.items() if tenant != top.tenant) < LEAST_CALLS:
        return no_traffic(f"{LEAST_CALLS} calls of other tenants")
    return top


def tenant_excess(c: Context) -> Reading:
    """The largest tenant's tokens per weight over those of all others together; 1 is its fair share."""
    found = largest(c)
    return found if isinstance(found, Reading) else number(found.excess, note=f"tenant {found.tenant}")


def tenant_surplus_ratio(c: Context) -> Reading:
    """Share of all tokens that the largest tenant took beyond what the others took per weight: what a quota would free."""
    found = largest(c)
    return found if isinstance(found, Reading) else number(found.surplus, note=f"tenant {found.tenant}")


def tenant_share_ratio(c: Context) -> Reading:
    """The largest tenant's share of all tokens at the gateway."""
    found = largest(c)
    return found if isinstance(found, Reading) else number(found.share, note=f"tenant {found.tenant}")


def fair_tokens_per_minute(c: Context) -> Reading:
    """Tokens per minute that the largest tenant's weight gives it of all that are served now (tokens/minute)."""
    found = largest(c)
    if isinstance(found, Reading):
        return found
    if c.good.seconds <= 0:
        return absent(GapKind.TOO_SHORT, "one page only")
    return number(found.fair * found.total * 60.0 / c.good.seconds, note=f"tenant {found.tenant}")


def others_queue_harm_p(c: Context) -> Reading:
    """Chance that so many calls of the other tenants wait in the gateway for longer than the whole TTFT threshold, if
    the objective were just met (binomial tail). Small = the others are hurt.
    """
    found = largest(c)
    if isinstance(found, Reading):
        return found
    h = hist(c.good, WAIT, lambda track: track.label("tenant") != found.tenant)
    if h is None:
        return missing(c, WAIT)
    if h.total <= 0:
        return no_traffic("waits of other tenants")
    late = h.total - h.at_most(c.settings.slo.ttft_seconds)[1]
    return number(binomial_tail(math.floor(late), round(h.total), 1 - c.settings.slo.objective))


def others_refused_ratio(c: Context) -> Reading:
    """Share of the other tenants' calls that were refused (429, 503)."""
    found = largest(c)
    if isinstance(found, Reading):
        return found
    refused = [growth_by(c.good, CALLS, "tenant", {"status": status}) or {} for status in REFUSED]
    calls = growth_by(c.good, CALLS, "tenant") or {}
    turned_away = sum(n for by in refused for tenant, n in by.items() if tenant != found.tenant)
    return number(turned_away / sum(n for tenant, n in calls.items() if tenant != found.tenant))
