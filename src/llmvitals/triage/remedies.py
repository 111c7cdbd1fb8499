"""How to see what a triage could not: for each kind of gap and each kind of series, what brings it.

What a page says of itself is more than a table can: a gap whose reason names a flag or a version is turned into that step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmvitals.gaps import GapKind

NOTHING = "Nothing brings it: what is watched here cannot show it."
"""Where no way is known."""


@dataclass(frozen=True, slots=True)
class Way:
    """Series whose name begins so, in a gap of this kind (None: any): what to do."""

    prefix: str
    kind: GapKind | None
    text: str


_ENGINE_SHOWS = (
    "It belongs on the engine's own page: see that statistics are on (vLLM without --disable-log-stats, SGLang with "
    "--enable-metrics), that no relabelling drops it, and that one process answers for all."
)

WAYS: tuple[Way, ...] = (
    Way(
        "llm_gpu_*",
        None,
        "Run the exporter on the engine's machine, which reads the driver, or name the page of a dcgm-exporter "
        "as gpu_url of the "
        "target (docs/node.md).",
    ),
    Way(
        "llm_gpu_sm_active",
        None,
        "It takes profiling counters: DCGM_FI_PROF_SM_ACTIVE in dcgm-exporter's list of fields, or the driver's "
        "GPM on Hopper and newer.",
    ),
    Way(
        "llm_gpu_tensor_active",
        None,
        "It takes profiling counters: DCGM_FI_PROF_PIPE_TENSOR_ACTIVE in dcgm-exporter's list of fields, or the "
        "driver's GPM on Hopper "
        "and newer.",
    ),
    Way(
        "llm_gpu_dram_active",
        None,
        "It takes profiling counters: DCGM_FI_PROF_DRAM_ACTIVE in dcgm-exporter's list of fields, or the "
        "driver's GPM on Hopper and newer.",
    ),
    Way(
        "llm_gpu_",
        None,
        "Add its field to dcgm-exporter's list, or run the exporter on the engine's machine (docs/node.md says "
        "what each card can show).",
    ),
    Way(
        "llm_host_*",
        None,
        "Run the exporter on the engine's machine, with a view of its processes (docs/node.md).",
    ),
    Way(
        "llm_host_",
        None,
        "The exporter on the engine's machine reads it where it may see that process: root or SYS_PTRACE, the "
        "host's processes and "
        "network, and in a cluster the pod's own state (docs/node.md).",
    ),
    Way(
        "llm_process_",
        None,
        "Run the exporter on the engine's machine: it reads the processes where the page does not tell.",
    ),
    Way(
        "llm_gateway_*",
        None,
        "Name the gateway beside the engine: a target of its own in the settings, and gateway of the engine's "
        "target (docs/sources.md).",
    ),
    Way(
        "llm_gateway_",
        None,
        "This needs a gateway that counts it: see docs/support-matrix.md for those that do; gateways in Python "
        "get it from the kit "
        "(docs/gateway-kit.md).",
    ),
    Way(
        "llm_span_",
        None,
        "Let the engine or the gateway send traces to the exporter: spans in the settings, "
        "--otlp-traces-endpoint at vLLM "
        "(docs/requests.md).",
    ),
    Way("llm_slo_", None, "Let the engine or the gateway send traces to the exporter (docs/requests.md)."),
    Way("llm_probe_", None, "Set probe_seconds on the target: a small request of our own is then sent that often."),
    Way("llm_target_", None, "See why its page does not come: address, credentials and time limit of the scrape."),
    Way("", GapKind.TOO_SHORT, "Watch longer, or scrape more often: the window holds too few pages for it."),
    Way("", GapKind.STALE, "Ask again in a minute: nothing has moved that it could be told from."),
    Way(
        "",
        GapKind.CENSORED,
        "Ask again when those in flight have ended, or let traces tell every request (docs/requests.md).",
    ),
    Way("", GapKind.MISSING, _ENGINE_SHOWS),
)
"""The first that fits counts."""

_NEEDS = re.compile(r"it shows only with (.+)")
_SINCE = re.compile(r"(?P<who>\S+) \S+ does not show it \(\S+ (?:V\d )?(?P<version>\d+(?:\.\d+)+)\+")


def remedy(series: str, why: str) -> str:
    """What brings a series that a triage lacked, by the reason that is given (``kind: sentence``)."""
    kind, _, told = why.partition(": ")
    if newer := _SINCE.search(told):
        return f"{newer['who']} shows it from {newer['version']} on: upgrade."
    if (needs := _NEEDS.search(told)) and not needs[1].startswith("a GPU page"):
        return f"It shows only with {needs[1].rstrip('.')}: where that is not in use, nothing is missing."
    own = "llm_gpu_*" if needs else series
    fits = (way.text for way in WAYS if own.startswith(way.prefix) and (way.kind is None or way.kind.value == kind))
    return next(fits, NOTHING)
