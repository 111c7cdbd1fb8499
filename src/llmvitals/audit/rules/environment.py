"""Environment variables that cost speed or hide something, and those that no release reads."""

from __future__ import annotations

from llmvitals.audit import flags
from llmvitals.audit.defaults import V1_BY_DEFAULT, V1_ONLY
from llmvitals.audit.model import Rule, Values
from llmvitals.audit.rules.common import NO, NOTE, WARNING, holds, truthy
from llmvitals.audit.subject import Subject

_OURS = "VLLM_"
_INJECTED = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_ADDR", "_PROTO", "_TCP")
"""Ends of the variables that Kubernetes sets for a service of the name."""
SLOW: tuple[tuple[str, str, str], ...] = (
    ("CUDA_LAUNCH_BLOCKING", "1", "every kernel is waited for"),
    ("VLLM_TRACE_FUNCTION", "1", "every Python call is written down"),
    ("VLLM_LOGGING_LEVEL", "DEBUG", "the API process writes a line for much that it does"),
    ("TORCH_USE_CUDA_DSA", "1", "kernels check themselves"),
    ("NCCL_DEBUG", "TRACE", "every collective is written down"),
)
"""Variable, its value, and what that does: all are for finding faults."""


def _unread(s: Subject) -> tuple[Values, ...]:
    found: list[Values] = []
    for name in s.setup.env:
        if name.startswith(_OURS) and not flags.ever(name) and not name.endswith(_INJECTED):
            near = flags.near(name, s.version)
            if near and near not in s.setup.env:
                found.append({"name": name, "near": near})
    return tuple(found)


def _gone(s: Subject) -> tuple[Values, ...]:
    return tuple(
        {"name": name, "release": s.release, "last": flags.spell(flags.ever(name)[-1].last)}
        for name in s.setup.env
        if name.startswith(_OURS) and flags.ever(name) and flags.ever(name)[-1].last < s.version
    )


def _slow(s: Subject) -> tuple[Values, ...]:
    env = s.setup.env
    return tuple({"name": n, "value": v, "what": what} for n, v, what in SLOW if env.get(n, "").upper() == v)


def _peers(s: Subject) -> tuple[Values, ...]:
    return holds(truthy(s.setup.env, "NCCL_P2P_DISABLE") and s.tensor_parallel > 1, parallel=s.tensor_parallel)


def _old_engine(s: Subject) -> tuple[Values, ...]:
    chosen = s.setup.env.get("VLLM_USE_V1", "") == "0" and V1_BY_DEFAULT <= s.version < V1_ONLY
    return holds(chosen, release=s.release)


def _key(s: Subject) -> tuple[Values, ...]:
    given = any(g.name == "api-key" and g.value and "$" not in g.value for g in s.given)
    return holds(given) if s.setup.words else NO


RULES: tuple[Rule, ...] = (
    Rule(
        "slow-by-variable",
        WARNING,
        "api-server-bound",
        "{name}={value}: {what}",
        "It is meant for finding faults, and slows every step.",
        "unset {name}",
        _slow,
        "the variables' own documentation (CUDA, PyTorch, NCCL, vLLM)",
    ),
    Rule(
        "peers-apart",
        WARNING,
        "interconnect-bound",
        "NCCL_P2P_DISABLE=1 with {parallel} GPUs",
        "What the GPUs tell each other in every layer goes through host memory.",
        "unset NCCL_P2P_DISABLE",
        _peers,
        "NCCL's documentation; backpressure article, bottleneck 7",
    ),
    Rule(
        "unread-variable",
        WARNING,
        "",
        "No release of vLLM reads {name}",
        "It has no effect. {near} is spelt like it.",
        "{near}",
        _unread,
        "vllm/envs.py of the releases",
    ),
    Rule(
        "variable-gone",
        NOTE,
        "",
        "vLLM {release} no longer reads {name}",
        "It has no effect. Last seen in {last}.",
        "unset {name}",
        _gone,
        "vllm/envs.py of the releases",
    ),
    Rule(
        "old-engine",
        NOTE,
        "prefix-caching-off",
        "VLLM_USE_V1=0 chooses the old engine of vLLM {release}",
        "It caches no prefixes unless it is told to, and is gone from 0.11 on.",
        "unset VLLM_USE_V1",
        _old_engine,
        "EngineArgs of 0.8 to 0.10",
    ),
    Rule(
        "key-in-sight",
        NOTE,
        "",
        "The API key stands on the command line",
        "Every process of the machine can read it there. Take it from a secret, as a variable.",
        "VLLM_API_KEY (from a secret) instead of --api-key",
        _key,
        "vLLM's documentation, --api-key",
    ),
)
