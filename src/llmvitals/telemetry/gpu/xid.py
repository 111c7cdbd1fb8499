"""XID errors of a dcgm-exporter's pages, counted as they come: what a page shows is the last code, which stays.

Of each GPU the best that its page has is taken: the exporter's own count (TOTAL, since 4.8.3); else rises of its count within a
moving window, which sees a repeat of the same code; else changes of the last code. The first page gives what it shows: a
code that is there from the beginning is no event of the window. An event that leaves the moving window while another comes
is not seen, nor a repeat where only the last code is shown, so the counts are the least that came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llmvitals.series import Series
from llmvitals.telemetry.mapping import Parts, nearest_last, usable

LAST, WINDOW, TOTAL = "xid", "xid-window", "xid-total"
KINDS = frozenset({LAST, WINDOW, TOTAL})

_MOST_CODES = 256
"""Codes that are counted of one GPU; the driver knows fewer."""

_MOST_GPUS = 1024
"""GPUs that are remembered: more than a machine holds, slices included."""

Found = dict[Series, dict[str, float]]
"""For each GPU (its series without a code) the codes and a number of each."""


@dataclass(slots=True)
class _Seen:
    """What is remembered of one GPU: the events counted so far, the counts of its moving window, its last code."""

    counts: dict[str, float] = field(default_factory=dict)
    window: dict[str, float] = field(default_factory=dict)
    last: str = ""

    def count(self, last: str, window: dict[str, float] | None) -> None:
        """Add what is new: rises within the window, or a code that is not the last one."""
        came = {last: 1.0} if last and last != self.last else {}
        if window is not None:
            came = {code: rise for code, count in window.items() if (rise := count - self.window.get(code, 0.0)) > 0.0}
            if last and last not in self.counts:
                came.setdefault(last, 1.0)  # it came before the window
        for code, count in came.items():
            if code in self.counts or len(self.counts) < _MOST_CODES:
                self.counts[code] = self.counts.get(code, 0.0) + count
        self.window, self.last = window or {}, last


class XidCounts:
    """The counts of one target, from page to page. A GPU that a page lacks is remembered: its return is no event."""

    def __init__(self) -> None:
        self._seen: dict[Series, _Seen] = {}

    def __call__(self, parts: Parts) -> None:
        """Count what is new on a page and put the counts among its samples."""
        found = _found(parts)
        gpus = {gpu for by_gpu in found.values() for gpu in by_gpu}
        if len(self._seen) > _MOST_GPUS:
            self._seen = {gpu: seen for gpu, seen in self._seen.items() if gpu in gpus}
        for gpu in gpus:
            last = next(iter(found[LAST].get(gpu, ())), "")
            seen = self._seen.setdefault(gpu, _Seen())
            seen.count(last, found[WINDOW].get(gpu))
            if gpu in found[TOTAL]:
                seen.counts = {**({last: 1.0} if last else {}), **found[TOTAL][gpu]}
            parts.samples[gpu] = 0.0  # the field is there, whether or not a code ever came
            for code, count in seen.counts.items():
                parts.samples[gpu.plus(xid=code)] = count


def _found(parts: Parts) -> dict[str, Found]:
    """What the page shows, by kind. A number that cannot be is a gap."""
    found: dict[str, Found] = {kind: {} for kind in KINDS}
    for entry, raw in nearest_last(parts.specials):
        if entry.row.special not in KINDS:
            continue
        code = entry.series.label("xid")
        gpu = Series(entry.series.name, tuple(label for label in entry.series.labels if label[0] != "xid"))
        if not usable(parts, entry, raw):
            continue
        codes = found[entry.row.special].setdefault(gpu, {})
        if entry.row.special == LAST:
            found[LAST][gpu] = {f"{raw:.0f}": 1.0} if raw > 0.0 else {}
        elif code and raw > 0.0:
            codes[code] = raw
    return found
