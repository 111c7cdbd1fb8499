"""The rows of the table put to one device: every question at most once, every refusal a value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from llmvitals.telemetry.gpu.nvml.asking import Asking, Refused
from llmvitals.telemetry.gpu.nvml.codes import FOR_GOOD, LOST, Code
from llmvitals.telemetry.gpu.nvml.device import Card, Device
from llmvitals.telemetry.gpu.nvml.profile import metrics
from llmvitals.telemetry.gpu.nvml.rows import ROWS, How, Row

Found = dict[tuple[str, str], tuple[Row, float | Refused]]

_CLOCK_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_MASKS: Mapping[str, int] = {row.reason: row.mask for row in ROWS if row.how is How.BITS}
_ROUNDING = 1.01
"""A ratio may lie this far above 1: percentages are rounded, and two clocks are divided."""


BLANK = frozenset({2.0**32 - 1, 2.0**64 - 1})
"""-1 in an unsigned number, which stands for "not available" (NVML_VALUE_NOT_AVAILABLE)."""


class Lost(Exception):  # noqa: N818  # a state of the card, which the reader tells as gaps
    """The card is gone or needs a reset: nothing more is asked of it in this read."""

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        super().__init__(refused.reason)


def measure(asking: Asking, device: Device, card: Card, rows: Iterable[Row], now: float) -> Found:
    """The number of each family, or why there is none. ``now``: seconds of the reader's clock.

    Raises :class:`Lost` where the card is.
    """
    wanted = [row for row in rows if device.settled.get(row.key, row) is row and (card.links or not row.linked)]
    answers = _Answers(asking, device, card, wanted, now)
    found: Found = {}
    for row in wanted:
        if row.key in found and not isinstance(found[row.key][1], Refused):
            continue
        value = device.gone.get(row) or _number(row, answers.of(row))
        if isinstance(value, Refused):
            if value.code in LOST:
                raise Lost(value)
            if value.code in FOR_GOOD:
                device.gone[row] = value
        elif row.key not in device.settled:
            device.settled[row.key] = row
        known = found.get(row.key)
        # of several refusals the first is told, unless a later way only needs time
        if known is None or not isinstance(value, Refused) or value.code == Code.NO_SECOND:
            found[row.key] = (row, value)
    return found


class _Answers:
    """What one device says in one read: what several rows need is asked once."""

    def __init__(self, asking: Asking, device: Device, card: Card, rows: list[Row], now: float) -> None:
        self._asking, self._device, self._card, self._now = asking, device, card, now
        self._calls: dict[tuple[str, tuple[int, ...]], Any] = {}
        self._fields = asking.fields(device.handle, self._ids(rows, How.FIELDS))
        self._metrics = metrics(asking, device, card, [id for id, _ in self._ids(rows, How.METRICS)], now)
        self._bits: int | Refused | None = None

    def _ids(self, rows: list[Row], how: How) -> list[tuple[int, int]]:
        live = (row for row in rows if row.how is how and row not in self._device.gone)
        return list(dict.fromkeys(pair for row in live for pair in row.ids))

    def of(self, row: Row) -> float | Refused:
        """The row's answer in NVML's own unit."""
        if row.how is How.CALL:
            return self._call(row)
        if row.how is How.BITS:
            return self._held(row)
        values = [(self._fields if row.how is How.FIELDS else self._metrics)[pair] for pair in row.ids]
        for value in values:
            if isinstance(value, Refused):
                return value
        numbers = [value for value in values if not isinstance(value, Refused)]
        total = max(numbers) if row.largest else sum(numbers)
        return self._growth(row, total) if row.growth else total

    def _call(self, row: Row) -> float | Refused:
        key = (row.name, row.arguments)
        if key not in self._calls:
            self._calls[key] = self._device.first(self._asking, (row.name,), *row.arguments)
        answer = self._calls[key]
        if isinstance(answer, Refused):
            return answer
        return float(getattr(answer, str(row.part)) if row.part else answer)

    def _growth(self, row: Row, total: float) -> float | Refused:
        before = self._device.before.get(row)
        self._device.before[row] = (self._now, total)
        if before is None or self._now <= before[0]:
            return Refused(Code.NO_SECOND, "")
        if total < before[1]:
            return Refused(Code.WENT_BACK, "")
        return (total - before[1]) / (self._now - before[0])

    def _held(self, row: Row) -> float | Refused:
        """An estimate: between two reads that both saw the bit it is taken to have been set all the time, else not at all."""
        if self._bits is None:
            self._bits = self._device.first(self._asking, _CLOCK_REASONS)
            if not isinstance(self._bits, Refused):
                self._add(self._bits)
        return self._bits if isinstance(self._bits, Refused) else self._device.held.get(row.reason, 0.0)

    def _add(self, bits: int) -> None:
        device = self._device
        if device.bits is not None:
            passed, both = max(0.0, self._now - device.bits[0]), bits & device.bits[1]
            for reason, mask in _MASKS.items():
                device.held[reason] = device.held.get(reason, 0.0) + (passed if both & mask else 0.0)
        device.bits = (self._now, bits)


def _number(row: Row, value: float | Refused) -> float | Refused:
    """In base units and inside its range."""
    if isinstance(value, Refused):
        return value
    if value in BLANK:
        return Refused(Code.UNUSABLE, "")
    scaled = value * row.scale
    if row.positive and value == 0.0:
        return Refused(Code.ZERO, "")
    if not math.isfinite(scaled) or not 0.0 <= scaled <= row.ceiling * _ROUNDING:
        return Refused(Code.UNUSABLE, "")
    return min(scaled, row.ceiling)
