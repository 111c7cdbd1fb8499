"""Snapshots of many targets become one window per scope: what a verdict is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import Origin, origin_of
from llmvitals.series import Labels, Series, Snapshot, Window

HTTP = "llm_http_requests_total"
_SEVERAL = "HTTP answers carry no model, and this server has several"

Scope = tuple[str, str]
"""(instance, model); the model is '' for a target that never showed one."""


def _owner(key: Series) -> Scope:
    instance = model = ""
    for name, value in key.labels:
        if name == "instance":
            instance = value
        elif name == "model":
            model = value
    return instance, model


def _part(snapshot: Snapshot, owners: dict[Labels, Scope], scope: Scope, *, several: bool) -> Snapshot:
    """What of a page belongs to a scope; where one server has ``several`` models, HTTP answers belong to none of them."""
    wanted = {scope, (scope[0], "")}
    samples = {key: v for key, v in snapshot.samples.items() if owners[key.labels] in wanted}
    if several and any(key.name == HTTP for key in samples):
        samples = {key: v for key, v in samples.items() if key.name != HTTP}
        samples[family_gap(HTTP, GapKind.UNSUPPORTED, _SEVERAL, instance=scope[0])] = 1.0
    return Snapshot(snapshot.t, samples, snapshot.detail)


_OF_A_MACHINE = frozenset({Origin.GPU, Origin.HOST})


def _machines_only(snapshot: Snapshot, instance: str, owners: dict[Labels, Scope]) -> bool:
    return all(
        origin_of(key.label("family") or key.name) in _OF_A_MACHINE
        for key in snapshot.samples
        if owners[key.labels][0] == instance
    )


def scopes(snapshots: Iterable[Snapshot]) -> dict[Scope, Window]:
    """:func:`each_scope` as a dictionary."""
    return dict(each_scope(snapshots))


def each_scope(snapshots: Iterable[Snapshot]) -> Iterator[tuple[Scope, Window]]:
    """One window per (instance, model), in the order in which they were first seen; each is made when its turn comes.

    A scope holds the samples with its model and those of its instance without a model (HTTP, process, GPU and the target
    itself), which all models of the instance share; but not HTTP answers of a server with several models, which would be
    read as each model's own. Data-parallel ranks stay inside one scope. A failed scrape belongs to
    every model of its instance. A target that never showed a model gets the model ''. A machine is no target: where an
    exporter's page shows its GPUs that serve nobody, there is nothing to judge.
    """
    owners: dict[Labels, Scope] = {}
    pages: dict[str, list[tuple[Snapshot, bool]]] = {}  # by instance; whether it is alone on that page
    models: dict[str, dict[str, None]] = {}
    for snapshot in snapshots:
        instances: dict[str, None] = {}
        for key in snapshot.samples:
            owner = owners.get(key.labels)
            if owner is None:
                owner = owners[key.labels] = _owner(key)
            instances[owner[0]] = None
            models.setdefault(owner[0], {})[owner[1]] = None
        for instance in instances:
            pages.setdefault(instance, []).append((snapshot, len(instances) == 1))
    for instance, shown in pages.items():
        named = [model for model in models[instance] if model]
        if not named and all(_machines_only(page, instance, owners) for page, _ in shown):
            continue
        named = named or [""]
        for model in named:
            scope = (instance, model)
            pages_of = (
                page if alone and len(named) == 1 else _part(page, owners, scope, several=len(named) > 1)
                for page, alone in shown
            )
            yield scope, Window.of(pages_of)
