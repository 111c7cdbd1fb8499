"""From a source to the recording that a report is made of, and what else the source tells of the scope."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from llmvitals.app.answer import Answer, Member
from llmvitals.app.ask import ask
from llmvitals.app.past import PAST_SECONDS, Past, ask_past, drawn
from llmvitals.app.promql import key_of, members_of, read
from llmvitals.errors import PageError, UnreachableError
from llmvitals.exporters.watch import limits_of
from llmvitals.incident.wording import Words
from llmvitals.settings import Service, Settings, Source
from llmvitals.sources import Observed
from llmvitals.sources.assemble import Feed
from llmvitals.sources.capture import INDEX, Judged, RawTarget
from llmvitals.sources.exporter import fetch_bytes, root_url
from llmvitals.sources.page_file import contents, read_page_file
from llmvitals.sources.place import fronts, without_secrets
from llmvitals.sources.recording import Recording, of_capture, of_feeds, of_observed, of_zip
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Verdict

CAPTURE_SECONDS = 60.0
"""How long an exporter may take to pack its window: it is as large as all that it watches."""

FEW = 8
"""Of so many targets the minutes before are read as well; of more, what was judged alone."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """``origin``: where the recording comes from, in words; ``scope``: which is meant; ``past``: how it went before."""

    recording: Recording
    origin: str
    scope: tuple[str, str] = ("", "")
    notes: tuple[str, ...] = ()
    past: Past | None = None

    def judged_by(self, settings: Settings) -> Gathered:
        """The same, to be judged by these promises and thresholds instead of those that it brings."""
        own = self.recording.judged or Judged()
        judged = msgspec.structs.replace(own, slo=settings.slo, thresholds=settings.thresholds)
        return replace(self, recording=replace(self.recording, judged=judged))


def from_path(path: Path, settings: Settings) -> Gathered:
    """A recording, or one saved page. Raises :class:`CaptureError` and :class:`PageError`."""
    if path.is_dir() or path.name == INDEX or not path.exists():
        return Gathered(of_capture(path), Words()("from-recording"))
    limits = limits_of(settings)
    read_page_file(path, limits=limits)  # what is no page is told now
    body, t = contents(path, limits)
    return Gathered(
        Recording((RawTarget(path.name, "auto", (RawPage(t, None, None, body),)),)), Words()("from-recording")
    )


def from_feeds(feeds: Sequence[Feed], services: Sequence[Service], seconds: float) -> Gathered:
    """What was watched live for so many seconds."""
    return Gathered(of_feeds(feeds, services), Words()("from-live", seconds=with_unit(seconds, "seconds")))


def from_source(source: Source, scope: tuple[str, str], at: float | None, settings: Settings) -> Gathered:
    """What a source of the app shows of one scope (the worst one without a name), over the window of its verdict.

    Raises :class:`LlmvitalsError`.
    """
    answer = ask(source, dict(zip(("instance", "model"), scope, strict=True)), at, settings)
    if not isinstance(answer, Answer):
        raise UnreachableError(answer.thing, place=answer.place, remedy=answer.remedy)
    key = key_of(answer.verdict)
    if source.kind == "exporter":
        return _of_exporter(source, key, (key[0],), answer.verdict, answer.members, settings)
    seconds = settings.exporter.window_seconds
    end = time.time() if at is None else at
    return from_prometheus(source, end, seconds, settings, scope=key)


def from_exporter(source: Source, settings: Settings) -> Gathered:
    """The whole window of an exporter, as far as it hands it out at once. Raises :class:`LlmvitalsError`."""
    answer = ask(source, {}, None, settings)
    if not isinstance(answer, Answer):
        raise UnreachableError(answer.thing, place=answer.place, remedy=answer.remedy)
    return _of_exporter(source, key_of(answer.verdict), (), answer.verdict, answer.members, settings)


def _of_exporter(
    source: Source,
    key: tuple[str, str],
    names: tuple[str, ...],
    verdict: Verdict,
    members: Sequence[Member],
    settings: Settings,
) -> Gathered:
    place = without_secrets(f"{root_url(source.url)}/capture")
    try:
        body = fetch_bytes(source, "/capture", {"instance": names} if names else {}, timeout_s=CAPTURE_SECONDS)
    except UnreachableError as error:
        if "404" not in error.thing:
            raise
        raise PageError(
            "hands out no recording (404)", place=place, remedy="Bring the exporter to the version of this reader."
        ) from None
    recording = of_zip(body, place=place)
    there = {one.name for one in recording.targets} | {one.name for one in recording.services}
    left = sum(one.instance not in there for one in members)
    notes = (f"{left} other targets of the exporter are not in the recording",) if left else ()
    past = ask_past(source, key, drawn(verdict), None, settings)
    return Gathered(recording, Words()("from-exporter"), key, notes, past)


def from_prometheus(
    source: Source,
    end: float,
    seconds: float,
    settings: Settings,
    *,
    scope: tuple[str, str] = ("", ""),
    selector: str = "",
) -> Gathered:
    """What a PromQL endpoint stored in the ``seconds`` up to ``end`` (unix seconds), of few targets with the minutes before.

    Raises :class:`LlmvitalsError`.
    """
    seen, services = _stored(source, end, seconds, settings, scope[0], selector)
    if not seen:
        raise PageError(
            f"holds nothing of {scope[0] or 'any instance'} in these {seconds:g} s",
            place=without_secrets(source.url),
            remedy="Choose another scope or another moment.",
        )
    moments = [page.t for one in seen for page in one.snapshots]
    judged = Judged(slo=settings.slo, thresholds=settings.thresholds)
    if len(seen) <= FEW:
        judged = Judged(slo=judged.slo, thresholds=judged.thresholds, start=min(moments), end=max(moments))
        names = {one.name for one in seen}
        before, _ = _stored(source, end, seconds + PAST_SECONDS, settings, scope[0], selector)
        seen = tuple(one for one in before if one.name in names)
    recording = of_observed(seen, services, fronts(settings.targets))
    return Gathered(replace(recording, judged=judged), Words()("from-prometheus"), scope)


def _stored(
    source: Source, end: float, seconds: float, settings: Settings, only: str, selector: str
) -> tuple[tuple[Observed, ...], tuple[Service, ...]]:
    if selector:
        return read(source, selector, end, seconds, settings).observed, settings.services
    return members_of(source, end, seconds, settings, only=only)
