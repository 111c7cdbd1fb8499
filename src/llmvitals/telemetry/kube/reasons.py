"""What ended a container, from what the runtime wrote down of it."""

from __future__ import annotations

OOM, ERROR, PROBE, ROLLOUT, UNKNOWN = "oom", "error", "probe", "rollout", "unknown"

REASONS = (OOM, ERROR, PROBE, ROLLOUT, UNKNOWN)
"""Values of the label ``reason`` of ``llm_host_restarts_total``."""

_BY_REASON = {
    "OOMKilled": OOM,
    "ContainerCannotRun": ERROR,
    "StartError": ERROR,
    "ContainerStatusUnknown": UNKNOWN,  # the kubelet lost sight of it, and writes 137 for that
    "Completed": UNKNOWN,  # it ended by itself, or took a signal well: nothing tells the two apart
}
"""Reasons that say it, whatever the exit code. ``Error`` is any exit code but 0 and says nothing by itself."""

_BY_CODE = {0: UNKNOWN, 137: PROBE, 143: PROBE}
"""128 + SIGKILL and 128 + SIGTERM: somebody ended it. In a pod that goes on, that is the kubelet for a failed probe."""


def reason_of(reason: str, exit_code: int | None) -> str:
    """One of :data:`REASONS` for a container that ended with this reason and exit code.

    Sources: the kubelet's and containerd's container states (``reason``); exit codes above 128 as POSIX shells write signals.
    A node that runs out of memory as a whole, and a person with ``kill -9``, write 137 as well: the container's status cannot
    tell them from a probe.
    """
    told = _BY_REASON.get(reason)
    if told is not None:
        return told
    if exit_code is None:
        return UNKNOWN
    return _BY_CODE.get(exit_code, ERROR)
