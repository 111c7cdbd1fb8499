"""A dcgm-exporter page: GPU activity, memory, power, clocks, links, throttling, errors and pods in base units.

Its fields are in :mod:`llmvitals.telemetry.gpu.dcgm_rows`. Fields the GPU cannot give used to come as DCGM's blank numbers,
which are dropped. Series of switches and of the host's processors name no GPU and are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.telemetry.gpu.dcgm_labels import pod_of, tell
from llmvitals.telemetry.gpu.dcgm_made import TOTAL, make
from llmvitals.telemetry.gpu.dcgm_rows import BASE_UNITS, ROWS, UNUSED
from llmvitals.telemetry.gpu.xid import XidCounts
from llmvitals.telemetry.mapping import Adapter, Derived, FamilyGap, Parts, Whose, plain_name

VERSIONS: tuple[tuple[frozenset[str], str], ...] = (
    (BASE_UNITS, "4.9+"),
    (frozenset({"label:hostname"}), "4.8.3+"),
    (frozenset({"label:Hostname"}), "2.x-4.8.2"),
)
"""What on a page tells the exporter's releases apart: names of DCGM 4.7, and how the label of the host is spelled."""
_ANY = "2.x-4.9"


def _identity(source: Mapping[str, str]) -> Whose | None:
    """One GPU, or one MIG instance of it. Series that repeat a GPU for a pod stand in for the device's own."""
    gpu = source.get("UUID") or source.get("uuid") or source.get("gpu_uuid")
    if not gpu:
        return None
    instance = source.get("GPU_I_ID")
    labels = {"gpu": f"{gpu}/{instance}" if instance else gpu}
    return Whose(labels, stand_in=pod_of(source) is not None)


def _derive(parts: Parts) -> None:
    """What several fields make together, and what the labels tell."""
    make(parts)
    tell(parts)


# -- what the page cannot say ------------------------------------------------------------------------------------------
DERIVED: tuple[Derived, ...] = (
    Derived("llm_gpu_info", "modelName, GPU_I_PROFILE, DCGM_FI_DRIVER_VERSION", "", "labels of every series"),
    Derived(
        "llm_gpu_pod", "namespace, pod, container", "", "labels, also as exported_pod or pod_name; one for each holder"
    ),
    Derived(
        TOTAL,
        "DCGM_FI_DEV_FB_TOTAL",
        "",
        "else used, free and reserved added, to a MiB each, where all three are there",
    ),
)
_BY_PAGE = frozenset(told.family for told in DERIVED)

CANNOT: Mapping[str, str] = {
    "llm_gpu_process_memory_bytes": "no field of dcgm-exporter tells the memory of a process",
    "llm_gpu_memory_other_bytes": "no field of dcgm-exporter tells the memory of a process",
    "llm_gpu_peer_link": "no field of dcgm-exporter tells over which link GPUs reach each other",
    "llm_tensor_parallel_size": "it is the engine's: its settings, its arguments or the GPUs joined to it tell",
}


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    version = next((version for told, version in VERSIONS if told & marks), _ANY)
    asked = (f.name for f in FAMILIES if origin_of(f.name) is Origin.GPU and f.name not in _BY_PAGE)
    return version, tuple(gap for name in asked if (gap := _gap(name, marks)) is not None)


def _gap(family: str, marks: frozenset[str]) -> FamilyGap | None:
    """Why this page has none of a family; None where it has.

    What a list of fields or a card may well lack is UNSUPPORTED: no verdict waits for it.
    """
    rows = [row for row in ROWS if row.family == family]
    if any(plain_name(row.source) in marks for row in rows):
        return None
    if not rows:
        return FamilyGap(family, GapKind.UNSUPPORTED, CANNOT.get(family, "no field of dcgm-exporter says it"))
    first = next((row for row in rows if not row.needs), rows[0])
    reason = f"{first.source} is not among this exporter's fields"
    kind = GapKind.UNSUPPORTED if all(row.needs for row in rows) else GapKind.MISSING
    return FamilyGap(family, kind, f"{reason}; it needs {first.needs}" if first.needs else reason)


def _hint(keyword: str, name: str, text: str) -> str:
    return ""


ADAPTER = Adapter(
    kind="dcgm",
    title="dcgm-exporter",
    claims=(b"DCGM_FI_",),
    rows=ROWS,
    prefixes=(),
    identity=_identity,
    derive=_derive,
    static=_static,
    hint=_hint,
    none_found="Point at dcgm-exporter's port, 9400 by default.",
    telling=("Hostname", "hostname"),
    origin=Origin.GPU,
    versions=_ANY,
    derived=DERIVED,
    cannot=CANNOT,
    unused=UNUSED,
    counting=XidCounts,
)

__all__ = ["ADAPTER", "ROWS"]
