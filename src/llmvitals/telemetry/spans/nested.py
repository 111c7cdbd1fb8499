"""One call that a process traced in several layers is one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from llmvitals.telemetry.spans.model import Ended, Request, Vantage

_DEEPEST = 4
"""Layers of one call in one process: a proxy, a router, a library, its HTTP client."""

_INHERITED = ("model", "tenant", "route", "prompt_tokens", "output_tokens")


def fold(requests: Sequence[Request], shells: Sequence[Request] = ()) -> list[Request]:
    """The requests of one process without those that tell of a call once more: the outermost span counts.

    A span is a layer of its parent's call when both are of one vantage, or both of LiteLLM, whose proxy traces a call in two spans.
    What the outer one does not tell, the last of the inner ones does. ``shells``: spans that are a request only where one inside
    tells of it.
    """
    if all(one.vantage is Vantage.ENGINE for one in requests):
        return list(requests)
    outer = {one.span_id: one for one in (*requests, *shells)}
    inside: dict[str, list[Request]] = {}
    kept: list[Request] = []
    for one in requests:
        top = _outermost(one, outer)
        if top is one:
            kept.append(one)
        else:
            inside.setdefault(top.span_id, []).append(one)
    held = [one for one in shells if one.span_id in inside and outer[one.span_id] is one]
    return [_joined(one, inside.pop(one.span_id, ())) for one in (*kept, *held)]


def _outermost(one: Request, outer: Mapping[str, Request]) -> Request:
    top = one
    for _ in range(_DEEPEST):
        parent = outer.get(top.parent_id)
        if parent is None or not _same_call(parent, top):
            return top
        top = parent
    return one  # deeper than calls go, or a ring


def _same_call(parent: Request, child: Request) -> bool:
    return (
        parent.trace_id == child.trace_id
        and parent.vantage is not Vantage.ENGINE
        and (parent.vantage is child.vantage or parent.dialect == child.dialect == "litellm")
    )


def _joined(one: Request, layers: Sequence[Request]) -> Request:
    if not layers:
        return one
    last = max(layers, key=lambda layer: layer.end)
    told = {name: getattr(last, name) for name in _INHERITED if getattr(one, name) in (None, "")}
    if one.ttft is None and last.ttft is not None:
        told["ttft"] = max(last.start - one.start, 0.0) + last.ttft
    if one.ended in (Ended.OK, Ended.ERROR) and last.ended is not Ended.OK:
        told["ended"] = last.ended  # it knows which
    return replace(one, sequences=max(one.sequences, last.sequences), **told)
