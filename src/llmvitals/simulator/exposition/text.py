"""Families of a metrics page and their text, as the Python client library writes it, and others (``number``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from llmvitals.simulator.counters import Counters, Histogram
from llmvitals.simulator.engine import Engine

Labels = tuple[tuple[str, str], ...]
Samples = list[tuple[Labels, float]]

COUNTER, GAUGE = "counter", "gauge"


@dataclass(frozen=True, slots=True)
class Simple:
    """A counter or gauge family; ``read`` gives its samples beside the labels that ``labelled`` stands for.

    The name of a counter is without ``_total``. ``when``: whether the engine is set up to show it.
    """

    name: str
    kind: str
    help: str
    read: Callable[[Engine], Samples]
    labelled: str = "engine"
    when: Callable[[Engine], bool] = lambda engine: True


@dataclass(frozen=True, slots=True)
class Bucketed:
    """A histogram family read from the engine's counters."""

    name: str
    help: str
    read: Callable[[Counters], Histogram]
    labelled: str = "engine"
    when: Callable[[Engine], bool] = lambda engine: True


def one(value: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    """One sample without labels of its own."""
    return lambda engine: [((), value(engine))]


def by(label: str, values: Callable[[Engine], Mapping[str, float]]) -> Callable[[Engine], Samples]:
    """One sample for each value of a label."""
    return lambda engine: [(((label, key),), value) for key, value in values(engine).items()]


def spell(labels: Labels) -> str:
    """Labels as they stand behind a name, in order."""
    if not labels:
        return ""
    escaped = (v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for _, v in sorted(labels))
    names = (k for k, _ in sorted(labels))
    return "{" + ",".join(f'{k}="{v}"' for k, v in zip(names, escaped, strict=True)) + "}"


def python(value: float) -> str:
    """A number as the Python client writes it: always a float."""
    return repr(float(value))


def plain(value: float) -> str:
    """A number as Rust's and C++'s libraries write it: a whole one without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def head(name: str, kind: str, text: str) -> Iterator[str]:
    """The HELP and TYPE lines of a family."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def simple(family: Simple, samples: Samples, own: Labels, *, created: float | None = None) -> Iterator[str]:
    """A counter or gauge; ``created``: the moment that its ``_created`` series show, None: there are none."""
    exposed = f"{family.name}_total" if family.kind == COUNTER else family.name
    yield from head(exposed, family.kind, family.help)
    for labels, value in samples:
        yield f"{exposed}{spell(own + labels)} {float(value)!r}"
    if family.kind == COUNTER and created is not None:
        yield from head(f"{family.name}_created", GAUGE, family.help)
        for labels, _ in samples:
            yield f"{family.name}_created{spell(own + labels)} {created!r}"


def scalar(
    name: str, kind: str, text: str, samples: Samples, own: Labels = (), *, number: Callable[[float], str] = python
) -> Iterator[str]:
    """A counter, gauge or summary under the name that it is exposed by; nothing where there is no sample."""
    if samples:
        yield from head(name, kind, text)
    for labels, value in samples:
        yield f"{name}{spell(own + labels)} {number(value)}"


def histogram(
    name: str,
    text: str,
    counted: Histogram,
    labels: Labels,
    *,
    created: float | None = None,
    number: Callable[[float], str] = python,
    scale: float = 1.0,
) -> Iterator[str]:
    """A histogram's buckets, count and sum; ``scale``: what its bounds and its sum are multiplied by (1000: milliseconds)."""
    yield from head(name, "histogram", text)
    edges = [number(b * scale) for b in counted.bounds]
    for edge, value in zip([*edges, "+Inf"], accumulate(counted.counts), strict=True):
        yield f"{name}_bucket{spell((*labels, ('le', edge)))} {number(value)}"
    yield f"{name}_count{spell(labels)} {number(counted.count)}"
    yield f"{name}_sum{spell(labels)} {number(counted.sum * scale)}"
    if created is not None:
        yield from head(f"{name}_created", GAUGE, text)
        yield f"{name}_created{spell(labels)} {created!r}"
