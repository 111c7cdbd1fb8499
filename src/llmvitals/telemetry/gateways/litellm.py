"""LiteLLM's proxy 1.80 and on: calls by status and tenant, and its deployments.

Label sets are the operator's (``prometheus_metrics_config``) and may hold user data: of all labels only the alias of a team or,
without one, of a key becomes a tenant, and one that looks like a mail address does not. Models are no label here: some families
know the name that was asked for, others the deployment's.

A deployment has up to two states: one under its own model's name, set by each failure and success, and, from its first cooldown on,
one under the name that was asked for, which stays at 2 for good. The better one is the deployment's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.series import Series
from llmvitals.telemetry.gateways.litellm_rows import (
    ALIVE,
    ANSWERED,
    CANNOT,
    FAILED,
    LIMIT,
    REFUSED,
    ROWS,
    SERVED,
    STATE,
    TOKENS,
    UNUSED,
    WAIT,
)
from llmvitals.telemetry.gateways.workers import add_to, place
from llmvitals.telemetry.mapping import Derived, Entry, FamilyGap, Parts
from llmvitals.telemetry.simple import gateway, source

KIND = "litellm"

_NOTHING = frozenset({"", "None"})
_ALIASES = ("team_alias", "api_key_alias")
_NO_DEPLOYMENT = "RouterRateLimitError"
# Exceptions without a status, and what the proxy answers: "no deployments available" becomes a 429.
_ANSWERS: Mapping[str, str] = {_NO_DEPLOYMENT: "429"}
_PROMPT = "litellm_input_tokens_metric"
_CACHE = "litellm_cache_hits_metric"
_UNUSABLE = "the page holds no usable number: NaN, infinite or negative"


def _tenant(entry: Entry) -> dict[str, str]:
    """The alias of the team, or of the key: names that an operator gave. None that could be a person's address."""
    named = (entry.source.get(label, "") for label in _ALIASES)
    found = next((name for name in named if name not in _NOTHING and "@" not in name), "")
    return {"tenant": found} if found else {}


def _status(entry: Entry, told: str) -> dict[str, str]:
    """The status of an answer; of one without, that of its exception; none where the label was configured away."""
    if told not in entry.source:
        return {}
    code = entry.source[told]
    return {"status": _ANSWERS.get(entry.source.get("exception_class", ""), "error") if code in _NOTHING else code}


def _deployment(entry: Entry) -> str:
    """The deployment's id, or its host; '' for calls that never came to one."""
    named = entry.source.get("model_id", "")
    return named if named not in _NOTHING else place(entry.source.get("api_base", ""))


def _upstream(entry: Entry) -> dict[str, str] | None:
    named = _deployment(entry)
    refused = entry.source.get("exception_class") == _NO_DEPLOYMENT
    return {"upstream": named, **_status(entry, "exception_status")} if named and not refused else None


_LABELS: Mapping[str, Callable[[Entry], dict[str, str] | None]] = {
    ANSWERED: lambda entry: {**_tenant(entry), **_status(entry, "status_code")},
    FAILED: lambda entry: {**_tenant(entry), **_status(entry, "exception_status")},
    TOKENS: _tenant,
    WAIT: _tenant,
    SERVED: _upstream,
    REFUSED: _upstream,
}
"""By kind of row: the labels of its sample; None where it is no sample."""


def _told_elsewhere(entry: Entry, *, why: bool) -> bool:
    """Whether another series counts the same calls: those without a status are failures too, which tell ``why``."""
    kind = entry.row.special
    if kind == ANSWERED:
        return why and entry.source.get("status_code", "200") in _NOTHING
    return kind == FAILED and not (why and entry.source.get("exception_status", "") in _NOTHING)


def _deployments(parts: Parts) -> None:
    """Whether each deployment is fit for calls: the better of its states is 0."""
    states: dict[str, dict[str, float]] = {}
    for entry, raw in parts.specials:
        named = _deployment(entry) if entry.row.special == STATE and 0.0 <= raw < math.inf else ""
        if named:
            model = entry.source.get("litellm_model_name", "")
            by_model = states.setdefault(named, {})
            by_model[model] = max(by_model.get(model, 0.0), raw)  # processes may differ: one that saw a failure counts
    for named, by_model in states.items():
        up = 1.0 if min(by_model.values()) == 0.0 else 0.0
        parts.put("llm_gateway_upstream_up", up, {"gateway": KIND, "upstream": named})


def _derive(parts: Parts) -> None:
    why = any(entry.row.special == FAILED and "exception_status" in entry.source for entry, _ in parts.specials)
    for entry, raw in parts.specials:
        kind, family = entry.row.special, entry.row.family
        if kind == ALIVE:
            continue
        if kind == LIMIT and raw == math.inf:
            parts.gaps.append(FamilyGap(family, GapKind.UNSUPPORTED, "no limit is in force"))
        elif not 0.0 <= raw < math.inf:
            parts.gaps.append(FamilyGap(family, GapKind.MISSING, _UNUSABLE))
        elif kind == LIMIT:
            parts.samples[entry.series] = raw
        elif kind != STATE and not _told_elsewhere(entry, why=why):
            labels = _LABELS[kind](entry)
            if labels is not None:
                add_to(parts, entry.series.name, entry, raw, labels)
            if entry.row.source == _PROMPT:
                add_to(parts, "llm_gateway_prompt_tokens_total", entry, raw, {})
    _deployments(parts)
    if _CACHE in parts.marks:  # declared and never counted: no answer came from a cache
        series = Series("llm_gateway_cache_hits_total", tuple(sorted({**parts.identity, "gateway": KIND}.items())))
        parts.samples.setdefault(series, 0.0)


ADAPTER = source(
    KIND,
    "LiteLLM",
    ROWS,
    claims=(b"litellm_",),
    versions=">=1.80",
    none_found="Point at the proxy's /metrics/ and set callbacks: [prometheus] in litellm_settings.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND),
    derive=_derive,
    derived=(
        Derived(
            "llm_gateway_prompt_tokens_total", _PROMPT, "", "input tokens of calls that succeeded, all tenants together"
        ),
    ),
    unused=UNUSED,
    rank=30,
    cannot=CANNOT,
)
