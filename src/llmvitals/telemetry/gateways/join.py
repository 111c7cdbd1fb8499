"""What a gateway saw, joined to the engine or the service that stands behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import Kind, Origin, family_of, origin_of
from llmvitals.series import Series, Snapshot

EVERY = "llm_gateway_*"

BEHIND = frozenset(
    {
        "llm_gateway_breaker_open",
        "llm_gateway_connect_errors_total",
        "llm_gateway_upstream_requests_total",
        "llm_gateway_upstream_seconds",
        "llm_gateway_upstream_up",
    }
)
"""What a gateway says of what stands behind it. Of all but the first of several gateways in a row only this is taken: the
others see the very calls that the first has counted.
"""

WHOLE = BEHIND | {
    "llm_gateway_concurrency_limit",
    "llm_gateway_connection_limit",
    "llm_gateway_connections",
    "llm_gateway_queue_limit",
    "llm_gateway_tenant_weight",
    "llm_gateway_token_limit",
}
"""What is a gateway's own, whatever models it serves."""

ENDED = "llm_span_requests_total"
SERVED = frozenset({"ok", "error"})
"""Ends of calls that somebody tried to serve. A model of which no call ever ended so is a name that callers made up: a misspelt one
must not make a gateway one of several models.
"""

_TOGETHER = "the gateway serves several models and does not say for which of them"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of a gateway's numbers belong to a scope.

    ``models``: the models taken, each with the label that it gets ('' for none); None takes every number as it stands.
    ``several``: the gateway serves other models too, so that what names none is not this scope's. ``why``: what is wrong where
    no model could be chosen.
    """

    models: Mapping[str, str] | None = None
    several: bool = False
    why: str = ""


def choose(gateway: Iterable[Snapshot], engines: frozenset[str], model: str = "") -> Choice:
    """What of a gateway's pages is about the models of ``engines``, or about ``model`` where the settings name one.

    A gateway that shows one model calls it as it likes; of several the one is taken that is called alike. Calls for a model that
    it does not serve are that one's where it serves one: its page counts them among all others, too.
    """
    shown, made_up = _models(gateway)
    if not (shown or made_up) or not (engines or model):
        return Choice()
    wanted = {name for name in shown if name == model} or {name for name in shown if name in engines}
    if not wanted and len(shown) > 1:
        called = model or ", ".join(sorted(engines))
        return Choice({}, several=True, why=f"it serves {', '.join(sorted(shown))}, and none is called {called}")
    taken = {name: model or name for name in wanted} or dict.fromkeys(shown, model)
    if len(taken) < len(shown):
        return Choice(taken, several=True)
    if not taken:  # nobody was served yet
        return Choice(dict.fromkeys(made_up, model or (min(engines) if len(engines) == 1 else "")))
    labels = {*taken.values()}
    return Choice({**dict.fromkeys(made_up, labels.pop()), **taken} if len(labels) == 1 else taken)


def _models(gateway: Iterable[Snapshot]) -> tuple[frozenset[str], frozenset[str]]:
    """The models that a gateway serves, and other names that its callers asked for."""
    named, served = set(), set()
    for page in gateway:
        for key, value in page.samples.items():
            model = "" if key.name.endswith("_bucket") else _model(key)  # a histogram's is on its count, too
            if model:
                named.add(model)
                told = origin_of(key.name) is Origin.SPANS
                if not told or (key.name == ENDED and value > 0 and key.label("ended") in SERVED):
                    served.add(model)
    return frozenset(served), frozenset(named - served)


def join_gateway(
    engine: Snapshot, gateway: Snapshot, *, instance: str, name: str, choice: Choice | None = None, first: bool = True
) -> Snapshot:
    """The engine's snapshot with what the gateway ``name`` saw: its ``llm_gateway_*`` samples, and its calls as its traces
    tell them, with the ``instance`` of the scope, and the gaps of such families that it does not show. How the gateway itself
    was reached is not the engine's.

    ``first``: users call this one; of the others :data:`BEHIND` is taken. A page of no gateway becomes a gap.
    """
    chosen = choice or Choice()
    samples, exemplars = dict(engine.samples), dict(engine.exemplars)
    mine = [key for key in gateway.samples if of_calls(key)]
    if not mine:
        why = gateway.detail or "its page shows nothing of a gateway"
        samples[family_gap(EVERY, GapKind.MISSING, f"{name}: {why}", instance=instance)] = 1.0
    left_out: dict[str, str] = {}
    taken: dict[Series, float] = {}
    for key in mine:
        family = _family(key.name)
        if not first and family not in BEHIND:
            continue
        model = _model(key)
        if chosen.several and not model and family not in WHOLE:
            left_out[family] = chosen.why or _TOGETHER
        elif not model or chosen.models is None or model in chosen.models:
            label = model if chosen.models is None else chosen.models.get(model, "")
            moved = _moved(key, instance, name, label)
            value = gateway.samples[key]
            taken[moved] = _together(moved, taken[moved], value) if moved in taken else value
            newest = gateway.exemplars.get(key)
            if newest is not None and (moved not in exemplars or exemplars[moved].t < newest.t):
                exemplars[moved] = newest
        elif chosen.why:
            left_out[family] = chosen.why
    samples.update(taken)
    shown = {_family(key.name) for key in samples}
    for family, why in left_out.items():
        if family not in shown:
            samples[family_gap(family, GapKind.UNSUPPORTED, f"{name}: {why}", instance=instance)] = 1.0
    for key in gateway.samples if first else ():
        family = key.label("family")
        if key.name == "llm_family_gap" and origin_of(family) is Origin.GATEWAY and family not in shown:
            told = key.label("gap")
            kind = GapKind(told) if told in set(GapKind) else GapKind.MISSING
            samples[family_gap(family, kind, key.label("reason"), instance=instance)] = 1.0
    return replace(engine, samples=samples, exemplars=exemplars)


def _together(key: Series, one: float, other: float) -> float:
    """Two models' samples under one label: counts add up, of gauges the highest stands."""
    family = family_of(key.name)
    return max(one, other) if family is not None and family.kind is Kind.GAUGE else one + other


def of_calls(key: Series) -> bool:
    """Whether a sample is about a gateway's calls: of its page, or of its traces."""
    origin = origin_of(key.name)
    return origin is Origin.GATEWAY or (origin is Origin.SPANS and key.label("vantage") == "gateway")


def _family(name: str) -> str:
    found = family_of(name)
    return found.name if found is not None else name


def _model(key: Series) -> str:
    return key.label("model") if of_calls(key) else ""


def _moved(key: Series, instance: str, name: str, model: str) -> Series:
    own = {"gateway": name} if origin_of(key.name) is Origin.GATEWAY else {}
    labels = {**dict(key.labels), **own, "instance": instance, "model": model}
    return Series(key.name, tuple(sorted((label, text) for label, text in labels.items() if text)))
