"""Two looks at the same GPUs made one: a GPU exporter's page and the driver itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import Kind, family_of
from llmvitals.series import Series, Snapshot, series
from llmvitals.telemetry.identity.cards import INFO

GAP = "llm_family_gap"
COUNTED_BY_US = frozenset({"llm_gpu_xid_events_total"})
"""Counters that the second look has better: a page shows the last XID code, the driver gives every event."""

APART: Mapping[str, str] = {
    "llm_gpu_link_limit_bytes_per_second": "link",
    "llm_gpu_link_errors_total": "link",
    "llm_gpu_throttle_seconds_total": "reason",
}
"""Families of which each value of a label counts for itself: a page that shows the slot on PCIe says nothing of NVLink, and a
list of fields with the power violation alone nothing of heat.
"""

MAY_BE_NONE = frozenset({"llm_gpu_process_memory_bytes"})
"""Of a GPU that the driver shows without these and without a gap there are none: nothing runs on it."""

AWAY = "what counts it could not be read, and another counter of it would not go on from there"


def merged(primary: Snapshot, secondary: Snapshot) -> Snapshot:
    """The GPUs of ``primary`` (a page), and of ``secondary`` (the driver) what the page lacks, per family and GPU, some
    by kind of link or reason.

    GPUs are the same by their label ``gpu`` and keep the page's ``index``. A gap goes where the other look fills it; where both
    have none, the driver's reason stays, which speaks of the card and not of a list of fields. Counters never change sides
    from look to look, since two counters of one thing differ and a change would be growth: while the side that counts
    cannot be read there is a gap. The page's own samples and moment stay.
    """
    own, more = _by_gpu(primary), _by_gpu(secondary)
    samples: dict[Series, float] = {}
    lost: set[tuple[str, str]] = set()
    for gpu in {**own, **more}:
        first, second = own.get(gpu, {}), more.get(gpu, {})
        index = _index(first) or _index(second)
        for part in {**first, **second}:
            rows = _chosen(part, first, second, primary, secondary)
            if rows is None:
                lost.add((part[0], gpu))
            samples |= {_numbered(key, index): value for key, value in (rows or {}).items()}
    samples |= {key: value for key, value in primary.samples.items() if not _of_a_gpu(key) and key.name != GAP}
    samples |= _gaps(_told(primary), _told(secondary), more, samples, lost)
    return Snapshot(primary.t, samples, primary.detail if not own else "")


Rows = Mapping[Series, float]
Part = tuple[str, str]
"""A family, and the value of its label where each counts for itself."""


def _chosen(
    part: Part, first: Mapping[Part, Rows], second: Mapping[Part, Rows], page: Snapshot, driver: Snapshot
) -> Rows | None:
    """The side that gives a family of one GPU; None where that side could not be read this time."""
    family = part[0]
    if family == INFO:
        return _facts(first.get(part, {}), second.get(part, {}))
    known = family_of(family)
    if known is None or known.kind is not Kind.COUNTER:
        return first.get(part) or second.get(part)
    if family in COUNTED_BY_US:
        return second.get(part) or (None if driver.detail else first.get(part))
    return first.get(part) or (None if page.detail else second.get(part))


def _facts(first: Rows, second: Rows) -> Rows:
    """What a card is, of both: the page's word first, a row for each name that the driver has for it."""
    page = {name: text for key in first for name, text in key.labels if text}
    merged = [{**dict(key.labels), **page} for key in second] or [page]
    return {series(INFO, **labels): 1.0 for labels in merged}


def _gaps(
    page: Sequence[Series],
    driver: Sequence[Series],
    drivers: Collection[str],
    samples: Rows,
    lost: set[tuple[str, str]],
) -> dict[Series, float]:
    """What neither side gives, of what each tells. A gap of all GPUs becomes one of each that lacks the family.

    ``drivers``: the GPUs that the driver shows.
    """
    gpus = {key.label("gpu"): None for key in samples if _of_a_gpu(key)}
    shown = {(key.name, key.label("gpu")) for key in samples}
    said = {(key.label("family"), key.label("gpu")) for key in driver if not key.label("pid")}
    shown |= {(f, g) for f in MAY_BE_NONE for g in drivers if said.isdisjoint({(f, g), (f, "")})}
    told: dict[tuple[str, str], Series] = {}
    parts: dict[Series, float] = {}  # of one process each: beside what is known of the others
    every: dict[Series, float] = {}
    for key in (*page, *driver):  # the driver's last: its reason stands
        family = key.label("family")
        if key.label("pid"):
            parts[key] = 1.0
            continue
        for gpu in [key.label("gpu")] if key.label("gpu") else gpus:
            told[family, gpu] = key.plus(gpu=gpu)
        if not gpus:
            every[key] = 1.0
    for family, gpu in lost:
        told[family, gpu] = family_gap(family, GapKind.MISSING, AWAY, gpu=gpu)
    return {**every, **parts, **{key: 1.0 for where, key in told.items() if where not in shown}}


def _told(snapshot: Snapshot) -> list[Series]:
    """Gaps, those of all GPUs before those of one."""
    return sorted((key for key in snapshot.samples if key.name == GAP), key=lambda key: (key.label("gpu") != "", key))


def _of_a_gpu(key: Series) -> bool:
    return key.name.startswith("llm_gpu_") and bool(key.label("gpu"))


def _by_gpu(snapshot: Snapshot) -> dict[str, dict[Part, dict[Series, float]]]:
    found: dict[str, dict[Part, dict[Series, float]]] = {}
    for key, value in snapshot.samples.items():
        if _of_a_gpu(key):
            part = (key.name, key.label(APART[key.name]) if key.name in APART else "")
            found.setdefault(key.label("gpu"), {}).setdefault(part, {})[key] = value
    return found


def _index(parts: Mapping[Part, Rows]) -> str:
    return next((text for rows in parts.values() for key in rows if (text := key.label("index"))), "")


def _numbered(key: Series, index: str) -> Series:
    return key if key.label("index") == index else key.plus(index=index)
