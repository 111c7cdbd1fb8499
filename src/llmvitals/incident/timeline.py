"""What happened, in order of time: restarts, pages that failed, versions and configurations that changed, checks that fired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llmvitals.incident.configuration import CONFIGURED, infos
from llmvitals.schema import BY_NAME
from llmvitals.series import Series, Snapshot
from llmvitals.sources import Observed
from llmvitals.sources.recording import Recording
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.course import Course, began
from llmvitals.triage.units import with_unit

START = "llm_process_start_time_seconds"
UP = "llm_target_up"
INFO = "llm_target_info"
_SAME_START = 2.0
"""Seconds by which the start of one process may be told differently from page to page (it is computed from ticks)."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``t`` (unix seconds). ``key``: which text tells it, with these ``values``."""

    t: float
    key: str
    values: Mapping[str, object] = field(default_factory=dict)


def events(seen: Iterable[Observed], recording: Recording) -> tuple[Event, ...]:
    """What the pages tell, in order of time."""
    found = [event for one in seen if not one.engines for event in _of_target(one)]
    found += [event for one in recording.targets for event in _of_pages(one.name, one.pages)]
    once = {(event.t, event.key, tuple(sorted(map(str, event.values.items())))): event for event in found}
    return tuple(sorted(once.values(), key=lambda event: event.t))


def fired(course: Course) -> tuple[Event, ...]:
    """When the checks that hold now began to, and how the outcome went."""
    found = [Event(t, "outcome-is", {"outcome": outcome}) for t, outcome in course.outcomes[1:]]
    for cause, one in began(course).items():
        key = "began-before" if one.before else "began-broken" if one.broken else "began"
        found.append(Event(one.t, key, {"cause": cause, "broken": one.broken}))
    return tuple(sorted(found, key=lambda event: event.t))


def _of_target(one: Observed) -> Iterator[Event]:
    before: dict[Series, float] = {}
    up: bool | None = None
    version = ""
    for page in one.snapshots:
        answers = any(value == 1.0 for key, value in page.samples.items() if key.name == UP)
        if up is not None and answers is not up:
            yield Event(page.t, "up" if answers else "down", {"name": one.name})
        up = answers
        if not answers:
            continue
        if any(abs(value - before.get(key, value)) > _SAME_START for key, value in _starts(page)):
            yield Event(page.t, "restarted", {"name": one.name})
        told = next((key.label("version") for key in page.samples if key.name == INFO and key.label("version")), "")
        if version and told and told != version:
            yield Event(page.t, "version", {"name": one.name, "before": version, "after": told})
        version = told or version
        for key, value in page.samples.items():
            if key.name in CONFIGURED and before.get(key, value) != value:
                shown = [with_unit(v, BY_NAME[key.name].unit) for v in (before[key], value)]
                values = {"name": one.name, "what": key.name, "before": shown[0], "after": shown[1]}
                yield Event(page.t, "configured", values)
        before.update({key: v for key, v in page.samples.items() if key.name in CONFIGURED or key.name == START})


def _starts(page: Snapshot) -> Iterator[tuple[Series, float]]:
    return ((key, value) for key, value in page.samples.items() if key.name == START)


def _of_pages(name: str, pages: Sequence[RawPage]) -> Iterator[Event]:
    """Changes of what an engine's own page says of its configuration (``cache_config_info``)."""
    before: dict[str, dict[str, str]] = {}
    for page in pages:
        shown = dict(infos(page.body or b""))
        for metric, labels in shown.items():
            old = before.get(metric, labels)
            for label in labels:
                if old.get(label, labels[label]) != labels[label]:
                    values = {"name": name, "what": label, "before": old[label], "after": labels[label]}
                    yield Event(page.t, "configured", values)
        before.update(shown)
