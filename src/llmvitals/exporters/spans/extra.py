"""Whether what the receivers need is installed: an extra, so that an exporter without them does without it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from llmvitals.errors import SettingsError, install
from llmvitals.settings import Spans

_MESSAGES = ("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "google.rpc.error_details_pb2")
NEEDED: Mapping[str, tuple[str, ...]] = {"http": _MESSAGES, "grpc": ("grpc", *_MESSAGES)}
"""What each of the settings needs."""


def check(config: Spans) -> None:
    """Raises :class:`SettingsError` where the settings ask for a receiver that cannot be had."""
    for key, modules in NEEDED.items():
        if not getattr(config, key):
            continue
        for module in modules:
            try:
                import_module(module)
            except ImportError:
                thing = f"needs {module.partition('.')[0]}, which is not installed"
                raise SettingsError(thing, place=f"spans.{key}", remedy=install("otel")) from None
