"""Names and units in OTLP, chosen so that names come back unchanged where OTLP becomes Prometheus again.

A name stays as it is on the page, ``_total`` included. Translators (Prometheus' own OTLP receiver, the Collector's exporters
``prometheus`` and ``prometheusremotewrite``: github.com/prometheus/otlptranslator) append a counter's ``_total`` and the
unit's word where they are not there, and ``_ratio`` to a gauge of unit 1. So a unit is told where the name already ends
with its word, a count of things is an annotation (``{token}``), which they pass over, and everything else has none.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.schema import Kind

_UCUM: Mapping[str, str] = {
    "seconds": "s",
    "bytes": "By",
    "watts": "W",
    "celsius": "Cel",
    "hertz": "Hz",
    "joules": "J",
}
"""Base units of the page's names, in UCUM as translators know them."""

_THINGS: Mapping[str, str] = {"tokens": "{token}", "cores": "{core}"}


def unit_of(name: str, kind: Kind, unit: str = "") -> str:
    """The UCUM unit of a family. ``unit``: the base unit that is known of it, '' goes by the name alone."""
    last = name.removesuffix("_total").rpartition("_")[2]
    if last == "ratio":
        return "1" if kind is Kind.GAUGE else ""
    return _UCUM.get(last, "") or _THINGS.get(unit or last, "")
