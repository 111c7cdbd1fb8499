"""Profiling counters of Hopper and newer (GPM): what lies between the sample of the read before and a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmvitals.telemetry.gpu.nvml.asking import Asking, Refused
from llmvitals.telemetry.gpu.nvml.codes import GPM_SECONDS, GPM_VERSION, Code, Metric
from llmvitals.telemetry.gpu.nvml.device import Card, Device, Profile

Values = Mapping[tuple[int, int], float | Refused]


def metrics(asking: Asking, device: Device, card: Card, ids: list[int], now: float) -> Values:
    """Profiling metrics between the sample of the read before and a new one, by id."""
    pairs = [(id, 0) for id in ids]
    if not pairs:
        return {}
    if card.profiled is not None:
        return dict.fromkeys(pairs, card.profiled)
    profile = device.profile = device.profile or _samples(asking)
    if isinstance(profile, Refused):
        device.profile = None
        return dict.fromkeys(pairs, profile)
    taken = _take(asking, device, card, profile)
    if isinstance(taken, Refused):
        return dict.fromkeys(pairs, taken)
    if profile.at is not None and now - profile.at <= GPM_SECONDS:
        return dict.fromkeys(pairs, Refused(Code.NO_SECOND, ""))  # the earlier sample stays: this one is too near
    first = profile.at is None
    answer = Refused(Code.NO_SECOND, "") if first else _between(asking, profile, ids)
    profile.earlier, profile.later, profile.at = profile.later, profile.earlier, now
    return dict.fromkeys(pairs, answer) if isinstance(answer, Refused) else answer


def _samples(asking: Asking) -> Any:  # noqa: ANN401  # a Profile or a refusal
    samples = [asking("nvmlGpmSampleAlloc") for _ in range(2)]
    return next((sample for sample in samples if isinstance(sample, Refused)), None) or Profile(*samples)


def _take(asking: Asking, device: Device, card: Card, profile: Profile) -> Any:  # noqa: ANN401  # what NVML returns
    if device.instance is None:
        return asking("nvmlGpmSampleGet", device.handle, profile.later)
    return asking("nvmlGpmMigSampleGet", card.handle, device.instance, profile.later)


def _between(asking: Asking, profile: Profile, ids: list[int]) -> Values | Refused:
    ask = asking.library.c_nvmlGpmMetricsGet_t()
    ask.version, ask.numMetrics = GPM_VERSION, len(ids)
    ask.sample1, ask.sample2 = profile.earlier, profile.later
    for position, id in enumerate(ids):
        ask.metrics[position].metricId = id
    answer = asking("nvmlGpmMetricsGet", ask)
    if isinstance(answer, Refused):
        return answer
    found: dict[tuple[int, int], float | Refused] = {}
    for position, id in enumerate(ids):
        item = ask.metrics[position]
        found[id, 0] = item.value if item.nvmlReturn == 0 else Refused(item.nvmlReturn, Metric(id).name)
    return found
