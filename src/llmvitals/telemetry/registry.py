"""Every kind of page that is understood: each module of the three packages that holds an ``ADAPTER``.

A new source is therefore one file in ``engines/``, ``gateways/`` or ``gpu/``; nothing else names it.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.telemetry import engines as _engines
from llmvitals.telemetry import gateways, gpu
from llmvitals.telemetry.engines.support import engine_map
from llmvitals.telemetry.mapping import Adapter, EngineMap, How, Support, Unused

_SHOWN = (Origin.ENGINE, Origin.GATEWAY, Origin.GPU)
"""The order of the support matrix. A page of ours (any origin) is no source of its own."""

# Pages that are recognised only to say what they are.
FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"prometheus_tsdb_", "Prometheus itself"),
    (b"node_", "the node exporter"),
    (b"keda_", "KEDA"),
    (b"kube_", "kube-state-metrics"),
)

EVERYWHERE: tuple[Unused, ...] = (
    Unused("python_*", "the interpreter's own"),
    Unused("process_*", "the process's own"),
    Unused("go_*", "the Go runtime's own"),
    Unused("promhttp_*", "the metrics page's own"),
    Unused("*_created", "when a counter or histogram began"),
    Unused("target_info", "attributes of the OpenTelemetry resource"),
    Unused("otel_scope_info", "OpenTelemetry's instrumentation scope"),
    Unused("scrape_*", "a Prometheus' own"),
    Unused("up", "a Prometheus' own"),
)
"""Series that any page may hold and that nothing is taken from."""


def _found(*packages: ModuleType) -> tuple[Adapter, ...]:
    """The adapters of these packages, those first that must be asked first."""
    names = [f"{p.__name__}.{module.name}" for p in packages for module in pkgutil.iter_modules(p.__path__)]
    held = (getattr(importlib.import_module(name), "ADAPTER", None) for name in names)
    adapters = [adapter for adapter in held if isinstance(adapter, Adapter)]
    return tuple(sorted(adapters, key=lambda adapter: (adapter.rank, adapter.kind)))


ADAPTERS: tuple[Adapter, ...] = _found(_engines, gateways, gpu)
"""In the order in which a page is held against them."""

DOCUMENTS = tuple(adapter.document for adapter in ADAPTERS if adapter.document is not None)
"""What turns other documents (JSON, plain text) into pages of the kind that they are of."""


def speaks(body: bytes, start: bytes) -> bool:
    """Whether a sample's or a TYPE line's name starts like this."""
    return any(b"\n" + line in body or body.startswith(line) for line in (start, b"# TYPE " + start))


def claims(body: bytes, kind: str) -> Adapter | None:
    """The adapter that reads this page; with a kind other than ``auto`` only that one is asked."""
    for adapter in ADAPTERS:
        if kind in ("auto", adapter.kind) and any(speaks(body, start) for start in adapter.claims):
            return adapter
    return None


def path_of(kind: str) -> str:
    """Where a page of this kind is, for a target that names only host and port; for ``auto`` where most are."""
    return next((adapter.path for adapter in ADAPTERS if adapter.kind == kind), "/metrics")


def elsewhere() -> str:
    """The pages that are not at ``/metrics``, and whose: what to try where there is none."""
    found: dict[str, list[str]] = {}
    for adapter in sorted(ADAPTERS, key=lambda adapter: adapter.title.lower()):
        if adapter.path != "/metrics":
            found.setdefault(adapter.path, []).append(adapter.title)
    return ", ".join(f"{path} ({', '.join(titles)})" for path, titles in found.items())


def engines() -> tuple[EngineMap, ...]:
    """For each source, how every canonical family comes about: mapped, derived, or unsupported because of a reason."""
    return tuple(
        engine_map(adapter, families=[f for f in FAMILIES if origin_of(f.name) is origin])
        for origin in _SHOWN
        for adapter in sorted(ADAPTERS, key=lambda a: a.title.lower())
        if adapter.origin is origin and adapter.versions
    )


__all__ = [
    "ADAPTERS",
    "DOCUMENTS",
    "EVERYWHERE",
    "FOREIGN",
    "EngineMap",
    "How",
    "Support",
    "claims",
    "elsewhere",
    "engines",
    "path_of",
    "speaks",
]
