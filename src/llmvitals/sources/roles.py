"""What an engine does for a request, and what its page then says of users.

Where prompts and tokens are computed by different engines, a prefill worker ends each request with one token, and nobody
waits for that one; a decode worker computes no prompt, since its KV was sent to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import family_of
from llmvitals.series import Series, Snapshot, series

PREFILL, DECODE, BOTH = "prefill", "decode", "both"

NO_USERS = "a prefill worker's requests are not users'"
NO_PROMPTS = "a decode worker computes no prompts: prefill workers send it their KV"

OF_USERS = (
    "llm_request_ttft_seconds",
    "llm_request_inter_token_seconds",
    "llm_request_tpot_seconds",
    "llm_request_e2e_seconds",
    "llm_request_decode_seconds",
    "llm_request_generation_tokens",
    "llm_request_max_generation_tokens",
    "llm_request_max_tokens_param",
    "llm_requests_finished_total",
)
"""Families that would be read as what users asked for and got."""

_ROLE, _UP, _INFO = "llm_engine_role", "llm_target_up", "llm_target_info"
_PROMPTS = "llm_prompt_tokens_total"
_LOOKUPS = ("llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total")


def role_of(snapshot: Snapshot, configured: str = "") -> str:
    """What the target does: as configured, else as its page says of all its ranks; '' where neither does."""
    told = {key.label("role") for key in snapshot.samples if key.name == _ROLE}
    return configured or (BOTH if len(told) > 1 else next(iter(told), ""))


def with_role(snapshot: Snapshot, configured: str = "") -> Snapshot:
    """The page as it is to be read in that role; ``configured`` beats what the page says of itself.

    Of a prefill worker, families of users become gaps; of a decode worker, every prompt token is one that was found, as
    another server sent its KV. A page that could not be read stays as it is.
    """
    role = role_of(snapshot, configured)
    own = _own(snapshot.samples)
    if not role or own is None:
        return snapshot
    samples = dict(snapshot.samples)
    if configured:
        _tell(samples, own, role)
    if role == PREFILL:
        _without(samples, own, OF_USERS, NO_USERS)
    elif role == DECODE:
        _found(samples, own)
    return Snapshot(snapshot.t, samples, snapshot.detail)


def _own(samples: Mapping[Series, float]) -> dict[str, str] | None:
    """The labels that all samples of a readable page share; None where it is none."""
    return next((dict(key.labels) for key, value in samples.items() if key.name == _UP and value == 1.0), None)


def _tell(samples: dict[Series, float], own: Mapping[str, str], role: str) -> None:
    kind = next((key.label("engine") for key in samples if key.name == _INFO), "")
    for key in [k for k in samples if k.name == _ROLE or k.label("family") == _ROLE]:
        del samples[key]
    samples[series(_ROLE, **{**own, **({"engine": kind} if kind else {}), "rank": "0", "role": role})] = 1.0


def _without(samples: dict[Series, float], own: Mapping[str, str], families: tuple[str, ...], why: str) -> None:
    for key in list(samples):
        family = family_of(key.name)
        if (family is not None and family.name in families) or key.label("family") in families:
            del samples[key]
    for name in families:
        samples[family_gap(name, GapKind.UNSUPPORTED, why, **own)] = 1.0


def _found(samples: dict[Series, float], own: Mapping[str, str]) -> None:
    prompts = {key.labels: value for key, value in samples.items() if key.name == _PROMPTS}
    if not prompts:
        _without(samples, own, _LOOKUPS, NO_PROMPTS)
        return
    for key in [k for k in samples if k.name in _LOOKUPS or k.label("family") in _LOOKUPS]:
        del samples[key]
    samples |= {Series(name, labels): value for name in _LOOKUPS for labels, value in prompts.items()}
