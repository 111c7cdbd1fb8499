"""One call of NVML, its answer or its refusal, and the union that a field value is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmvitals.gaps import GapKind
from llmvitals.telemetry.gpu.nvml.codes import OVER, REASONS, Code, Field
from llmvitals.telemetry.gpu.nvml.library import Handle, Library


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is no number: NVML's return code or one of ours; ``what`` was asked for."""

    code: int
    what: str

    @property
    def kind(self) -> GapKind:
        """The kind of gap."""
        return REASONS.get(self.code, (GapKind.MISSING, ""))[0]

    @property
    def reason(self) -> str:
        """A sentence for people."""
        text = REASONS.get(self.code, (GapKind.MISSING, f"the driver answered with code {self.code}"))[1]
        return f"{self.what}: {text}" if self.what else text


class Over(Exception):  # noqa: N818  # the session's end, which the reader turns into an error of ours
    """The connection to the driver has ended; nothing that was got from it may be used again."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"NVML return code {code}")


@dataclass(frozen=True, slots=True)
class Asking:
    """Calls by name: a function that is absent is a refusal like any other."""

    library: Library

    def __call__(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401  # what NVML returns
        """What the function returns, or :class:`Refused`. Raises :class:`Over` where the driver is gone."""
        function = getattr(self.library, name, None)
        if function is None:
            return Refused(Code.FUNCTION_NOT_FOUND, name)
        try:
            return function(*arguments)
        except self.library.NVMLError as error:
            code = int(getattr(error, "value", Code.UNKNOWN))
            if code in OVER:
                raise Over(code) from error
            return Refused(code, name)

    def fields(self, handle: Handle, wanted: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], float | Refused]:
        """Field values by id and scope, all in one call; each has a return code of its own."""
        pairs = list(wanted)
        if not pairs:
            return {}
        found = self("nvmlDeviceGetFieldValues", handle, pairs)
        if isinstance(found, Refused):
            return dict.fromkeys(pairs, found)
        return {pair: _value(pair[0], item) for pair, item in zip(pairs, found, strict=True)}


_PARTS: Mapping[int, str] = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
"""``nvmlValueType_t`` to the member of the union that holds the value."""
_WIDE = frozenset({0, 2, 3, 4})
COUNTERS_OF_BYTES = frozenset(
    {
        *(Field.NVLINK_THROUGHPUT_DATA_TX, Field.NVLINK_THROUGHPUT_DATA_RX),
        *(Field.NVLINK_COUNT_XMIT_BYTES, Field.NVLINK_COUNT_RCV_BYTES),
        *(Field.PCIE_COUNT_TX_BYTES, Field.PCIE_COUNT_RX_BYTES),
    }
)
"""Fields whose value must be 64 bits wide: 2^32 of their units pass between two reads."""


def _value(field: int, item: Any) -> float | Refused:  # noqa: ANN401  # a ctypes structure, or what stands in for it
    if item.nvmlReturn != 0:
        return Refused(item.nvmlReturn, Field(field).name)
    part = _PARTS.get(item.valueType)
    if part is None:
        return Refused(Code.UNUSABLE, Field(field).name)
    if field in COUNTERS_OF_BYTES and item.valueType not in _WIDE:
        return Refused(Code.SHORT_COUNTER, Field(field).name)
    return float(getattr(item.value, part))
