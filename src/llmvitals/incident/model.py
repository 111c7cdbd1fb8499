"""What a report tells, as frozen values: made of the recording that goes with it, and of nothing else that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmvitals import __version__
from llmvitals.app.answer import meant
from llmvitals.app.past import Past
from llmvitals.app.promql import judge, key_of, windows_of
from llmvitals.errors import PageError
from llmvitals.exporters.watch import limits_of
from llmvitals.incident import configuration, timeline
from llmvitals.incident.lines import Lines, lines
from llmvitals.incident.timeline import Event
from llmvitals.settings import Settings
from llmvitals.sources.recording import Recording, seen_of
from llmvitals.triage.verdict import Verdict


@dataclass(frozen=True, slots=True)
class About:
    """What goes into a report beside the recording. ``origin``: in words; ``scope``: (instance, model), '' for the worst one.

    ``made``: unix seconds; ``notes``: what is to be said of how this came about; ``secrets``: how many were taken out.
    """

    origin: str
    made: float
    note: str = ""
    scope: tuple[str, str] = ("", "")
    notes: tuple[str, ...] = ()
    anonymised: bool = False
    secrets: int = 0
    past: Past | None = None
    language: str = "en"
    version: str = __version__


@dataclass(frozen=True, slots=True)
class Incident:
    """``verdicts``: of every scope, the worst first; ``main``: the one that is told at length."""

    about: About
    verdicts: tuple[Verdict, ...]
    main: Verdict
    lines: Lines
    events: tuple[Event, ...]
    shown: tuple[configuration.Row, ...]
    settings: Settings
    pages: int
    targets: int


def incident(recording: Recording, settings: Settings, about: About) -> Incident:
    """The incident that a recording shows, judged as ``llmvitals triage`` judges it.

    Raises :class:`PageError` where there is nothing to judge, and where the scope asked for is not there.
    """
    if recording.judged is not None:
        settings = recording.judged.settings(settings)
    limits = limits_of(settings)
    seen = seen_of(recording, limits, settings.services)
    verdicts = judge(seen, settings)
    main = _main(verdicts, about.scope)
    cut = recording.judged is not None and recording.judged.start is not None
    whole = seen_of(recording, limits, settings.services, whole=True) if cut else seen
    key = key_of(main)
    judged = next(window for own, _, window in windows_of(seen) if own == key)
    known = next((window for own, _, window in windows_of(whole) if own == key), judged)
    drawn = lines(known, judged, main, settings)
    if about.past is not None and any(len(trace.times) > 1 for trace in about.past.traces.values()):
        drawn = Lines({**about.past.traces}, about.past.course or drawn.course, judged.seconds, whole=True)
    return Incident(
        about,
        tuple(verdicts),
        main,
        drawn,
        timeline.events(whole, recording),
        configuration.shown(recording, seen),
        settings,
        recording.pages,
        len(recording.targets),
    )


def _main(verdicts: Sequence[Verdict], scope: tuple[str, str]) -> Verdict:
    if not verdicts:
        raise PageError(
            "holds nothing to judge", place="the recording", remedy="Name the URL of an engine or of an exporter."
        )
    if not any(scope):
        return verdicts[0]
    by_key = {key_of(one): one for one in verdicts}
    key = meant(dict(zip(("instance", "model"), scope, strict=True)), by_key)
    if key is None:
        named = " · ".join(filter(None, scope))
        raise PageError(f"holds nothing of {named}", place="the recording", remedy="Choose another scope or moment.")
    return by_key[key]
