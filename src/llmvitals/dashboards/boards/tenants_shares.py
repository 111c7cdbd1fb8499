"""Who takes how much of what the gateway gives, against what each is entitled to, and what the others get meanwhile."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import asked, gauge, grown, rate, share
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RANGE,
    SKY,
    VERMILLION,
    Kind,
    Panel,
    Row,
    q,
)
from llmvitals.signals.derived.gateway import LOST_LABELS

_NAMED = 'tenant!=""'
_TOKENS, _CALLS = "llm_gateway_tokens_total", "llm_gateway_requests_total"
_TENANT = ("instance", "model", "tenant")
_T, _S = ", ".join(_TENANT), "instance, model"
NO_TENANTS = "no traffic, or no gateway that counts by tenant"
SHOWN = 5
"""Tenants that a panel shows one by one: those that took most in the time shown, so that none comes and goes."""

_RATE = rate(_TOKENS, _T, _NAMED)
_TOP = f"topk by ({_S}) ({SHOWN}, {grown(_TOKENS, _T, _NAMED, RANGE)})"
_AMONG = f"and on ({_T}) {_TOP}"
_ALL = f"sum by ({_S}) ({_RATE})"


def _others(each: str, among: str, by: str) -> str:
    """What tenants that are not shown one by one have together; 0 where all are shown."""
    everybody, shown = f"sum by ({by}) ({each})", f"sum by ({by}) ({each} {among})"
    return f"clamp_min(({everybody} > 0) - ({shown} or 0 * {everybody}), 0)"


TOKENS = Panel(
    Kind.LINES,
    "Tokens by tenant",
    "suffix: tok/s",
    (
        asked("tokens", GREEN, f"{_RATE} {_AMONG} > 0", *_TENANT),
        asked("other tenants", GREY, _others(_RATE, _AMONG, _S), dashed=True),
    ),
    f"Prompt and generated tokens a second of the {SHOWN} tenants that took most in the time shown, as the gateway counts them,"
    " and of all others together; one that is called 'other' is what the gateway itself does not list. One line far above the"
    " rest while they wait: a quota for that one.",
    NO_TENANTS,
    causes=("noisy-tenant", "runaway-agent"),
    moved=("every-tenant-grew",),
)

_C, _AT = "instance, tenant", ("instance", "tenant")
_CALLED = rate(_CALLS, _C, _NAMED)
_CALLERS = f"topk by (instance) ({SHOWN}, {grown(_CALLS, _C, _NAMED, RANGE)})"
_CALLING = f"and on ({_C}) {_CALLERS}"

CALLS = Panel(
    Kind.LINES,
    "Calls by tenant",
    "reqps",
    (
        asked("calls", BLUE, f"{_CALLED} {_CALLING} > 0", *_AT),
        asked("other tenants", GREY, _others(_CALLED, _CALLING, "instance"), "instance", dashed=True),
    ),
    f"Calls a second of the {SHOWN} tenants that called most in the time shown, however they ended, and of all others together."
    " Many calls and few tokens: refused ones, or polling. Few calls and most tokens: long prompts, which a limit on calls does not"
    " hold.",
    NO_TENANTS,
    causes=("noisy-tenant", "runaway-agent", "retry-storm"),
    moved=("every-tenant-grew",),
    width=12,
)

_ACTIVE = f"{_RATE} > 0"
_GIVEN = f"{gauge('llm_gateway_tenant_weight', _T, 'max', _NAMED)} and on ({_T}) ({_ACTIVE})"
_USUAL = f"0 * ({_ACTIVE}) + on ({_S}) group_left () avg by ({_S}) ({_GIVEN})"
_WEIGHT = f"({_GIVEN} or on ({_T}) ({_USUAL}) or on ({_T}) 0 * ({_ACTIVE}) + 1)"

SHARES = Panel(
    Kind.LINES,
    "Share of tokens against the entitled share",
    "percentunit",
    (
        asked("takes", ORANGE, f"{_RATE} / on ({_S}) group_left () ({_ALL} > 0) {_AMONG}", *_TENANT),
        asked(
            "entitled",
            GREY,
            f"{_WEIGHT} / on ({_S}) group_left () (sum by ({_S}) {_WEIGHT} > 0) {_AMONG}",
            *_TENANT,
            dashed=True,
        ),
    ),
    "What each of the largest tenants takes of all tokens, and what its weight gives it among those that are active: equal shares"
    " where the gateway shows no weights, the mean of the others' where it shows none for one. Over its dashed line while others"
    " wait: it takes theirs. Over it while nobody waits: it uses what is free, which is well.",
    NO_TENANTS,
    causes=("noisy-tenant",),
    top=1,
    moved=("every-tenant-grew",),
)

EXCESS = Panel(
    Kind.LINES,
    "How far the largest tenant is over its share",
    "suffix: x",
    (
        q("tenant_excess", "tokens per weight, over the others'", ORANGE),
        q("tenant_surplus_ratio", "what a quota would free", PURPLE, dashed=True, unit="percentunit"),
        q("tenant_share_ratio", "its share of all tokens", GREY, dashed=True, unit="percentunit"),
    ),
    "The tokens of the largest tenant by its weight over those of all others together: 1 is its fair share. What it took beyond"
    " that is what a quota would give to the others (right axis, of all tokens). It is only a fault while the others are hurt:"
    " see what they get beside.",
    "no traffic of a second tenant, or no gateway that counts by tenant",
    causes=("noisy-tenant",),
    moved=("every-tenant-grew",),
)

_LOST = "|".join(LOST_LABELS)
_LOSING = rate(_CALLS, _C, f'status=~"{_LOST}",{_NAMED}')

OTHERS = Panel(
    Kind.LINES,
    "What each tenant gets: calls without an answer",
    "percentunit",
    (
        asked("lost", VERMILLION, f"{share(_LOSING, _CALLED)} {_CALLING}", *_AT),
        q("others_refused_ratio", "refused, of all but the largest", SKY, dashed=True),
    ),
    f"Share of its calls that were refused or failed, for the {SHOWN} tenants that call most, and the share refused of all but"
    " the one that takes most. Alike for all: the limit is everybody's, and the small ones pay for the large one. Only the"
    " large one's: its quota works.",
    NO_TENANTS,
    causes=("noisy-tenant",),
    moved=("every-tenant-grew", "shedding"),
    width=12,
)

FAIRNESS = Row("Tenants: who takes how much, and what the others get", (TOKENS, SHARES, EXCESS, CALLS, OTHERS))
