"""From an incident to the blocks of its report, in the order in which they are read: verdict, action, doubt, then evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from llmvitals.alerts.conditions import Fires
from llmvitals.alerts.firing import rules_of, seconds_of_wait, wait_of
from llmvitals.alerts.policy import ALERTS
from llmvitals.incident import configuration, timeline
from llmvitals.incident.blocks import Banner, Block, Code, Figure, Figures, Heading, Para, Quote, Report, Table
from llmvitals.incident.model import Incident
from llmvitals.incident.timeline import Event
from llmvitals.incident.wording import Words
from llmvitals.triage.chart import Chart, leading_charts, vital_charts
from llmvitals.triage.course import began
from llmvitals.triage.report import scope_name, services_first
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Change, Evidence, LookAlike, Outcome, State
from llmvitals.triage.view import OUTCOMES, STATES, Card, binds, cause_title, clock, limit_text, present, row, trust

Section = Callable[[Incident, Words], Iterator[Block]]


def report(found: Incident) -> Report:
    """The whole report."""
    words = Words(found.about.language)
    blocks = (block for section in SECTIONS for block in section(found, words))
    return Report(words("title", scope=scope_name(found.main)), words.spoken, tuple(blocks))


def _banner(found: Incident, words: Words) -> Iterator[Block]:
    verdict, view = found.main, present(found.main)
    trusted = ""
    if verdict.leading is not None:
        number = with_unit(verdict.leading.confidence, "ratio")
        trusted = words("confidence", number=number, word=trust(verdict.leading.confidence))
    engines = verdict.scope.get("engines") or ()
    told = f" ({words('engines', names=', '.join(map(str, engines)))})" if engines else ""
    facts = [
        (words("scope"), f"{scope_name(verdict)}{told}"),
        (words("window"), view.window),
        (words("hurt"), words("hurt-yes" if verdict.hurt else "hurt-no")),
        (words("source"), found.about.origin),
        (words("made"), words("made-by", clock=clock(found.about.made), version=found.about.version)),
    ]
    if verdict.outcome in (Outcome.UNDETERMINED, Outcome.NO_TRAFFIC):
        facts.pop(2)
    if verdict.binding.why:
        facts.insert(3, (words("binds"), f"{binds(verdict.binding.resource)}: {verdict.binding.why}"))
    yield Banner(view.badge, view.title, view.sentence, trusted, tuple(facts))
    if found.about.note.strip():
        yield Heading(words("note"))
        yield Quote(found.about.note.strip())
    yield from (Para(f"{words('left-out')}: {note}", quiet=True) for note in found.about.notes)


def _action(found: Incident, words: Words) -> Iterator[Block]:
    leading, view = found.main.leading, present(found.main)
    if leading is None or view.leading is None:
        return
    yield Heading(words("action"))
    yield from _advice(view.leading)
    if leading.action.effect:
        yield Para(f"{words('effect')}: {leading.action.effect}")
    if leading.action.verify:
        yield Para(f"{words('verify')}: {leading.action.verify}")


def _advice(card: Card) -> Iterator[Block]:
    if card.setting:
        yield Code(card.setting)
    yield Para(card.advice)
    if card.note:
        yield Para(card.note, quiet=True)


def _changes(found: Incident, words: Words) -> Iterator[Block]:
    if found.main.changes:
        yield Heading(words("changes"))
        heads = (words("head-signal"), words("head-now"), words("head-at"), words("head-then"))
        yield Table(heads, tuple(_change(one, words) for one in found.main.changes))


def _change(one: Change, words: Words) -> tuple[str, ...]:
    now = "–" if one.value is None else with_unit(one.value, one.unit)
    at = words("change-row", op=one.op, bound=with_unit(one.bound, one.unit))
    return (one.title, now, at, cause_title(one.cause) if one.cause else _outcome(one.outcome))


def _outcome(slug: str) -> str:
    return OUTCOMES[Outcome(slug)].word if slug in set(Outcome) else slug


def _lookalikes(found: Incident, words: Words) -> Iterator[Block]:
    if found.main.lookalikes:
        yield Heading(words("lookalikes"))
        heads = (words("head-cause"), words("head-why"), words("head-decides"))
        yield Table(heads, tuple(_lookalike(one) for one in found.main.lookalikes))


def _lookalike(one: LookAlike) -> tuple[str, ...]:
    return cause_title(one.cause), one.why, _measured(one.evidence) if one.evidence is not None else ""


def _measured(evidence: Evidence) -> str:
    shown = row(evidence)
    return f"{shown.title}: {shown.value}" + (f", limit {shown.limit}" if shown.limit else "")


def _timeline(found: Incident, words: Words) -> Iterator[Block]:
    yield Heading(words("timeline"))
    course, window = found.lines.course, found.main.window
    marks = [Event(t, key) for key in ("start", "end") if isinstance(t := window.get(key), (int, float))]
    named = {"start": "window-begins", "end": "window-ends"}
    told = [*found.events, *(Event(m.t, named[m.key]) for m in marks), *(timeline.fired(course) if course else ())]
    yield Table(
        (words("head-time"), words("head-what")),
        tuple((_time(event.t), _happened(event, words)) for event in sorted(told, key=lambda event: event.t)),
    )
    if not found.events:
        yield Para(words("timeline-nothing"), quiet=True)
    if course is not None:
        moments = next((len(trace.times) for trace in found.lines.traces.values()), 0)
        yield Para(
            words(
                "course-note",
                seconds=with_unit(course.seconds, "seconds"),
                count=moments,
                start=_time(course.start),
                end=_time(course.end),
            ),
            quiet=True,
        )


def _happened(event: Event, words: Words) -> str:
    values = dict(event.values)
    if "cause" in values:
        values["cause"] = cause_title(str(values["cause"]))
    if "outcome" in values:
        values["outcome"] = _outcome(str(values["outcome"]))
    return words(event.key, **values)


def _time(t: float) -> str:
    return f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S}"


def _alerts(found: Incident, words: Words) -> Iterator[Block]:
    firing = {c.cause for step in found.main.steps for c in step.checks if c.state is State.FIRING}
    since = began(found.lines.course) if found.lines.course else {}
    end = found.main.window.get("end")
    rows = []
    for alert in ALERTS:
        if alert.cause not in firing or not isinstance(alert.when, Fires):
            continue
        wait = wait_of(alert, rules_of(alert, found.settings)[0])
        told, one = words("told-unknown"), since.get(alert.cause)
        if one is not None and isinstance(end, (int, float)):
            over = end - one.t >= seconds_of_wait(wait)
            if one.before and over:
                told = words("told-at-least")
            elif not one.before:
                told = words("told-yes" if over else "told-no", clock=_time(one.t))
        rows.append((alert.name, str(alert.severity), wait, told))
    if rows:
        yield Heading(words("alerts"), 3)
        yield Table(tuple(words(key) for key in ("head-alert", "head-severity", "head-for", "head-told")), tuple(rows))
        yield Para(words("alerts-note"), quiet=True)


def _evidence(found: Incident, words: Words) -> Iterator[Block]:
    since = began(found.lines.course) if found.lines.course else {}
    charts = leading_charts(found.main, found.lines.traces, since)
    if charts:
        yield Heading(words("evidence"))
        yield Figures(tuple(_figure(chart, "evidence", words) for chart in charts))
        if not found.lines.whole and any(chart.moves for chart in charts):
            yield Para(words("line-note", seconds=with_unit(found.lines.seconds, "seconds")), quiet=True)


def _figure(chart: Chart, kind: str, words: Words) -> Figure:
    told = {"title": chart.row.title, "value": chart.row.value, "limit": chart.bound_text}
    alt = words("figure-limit" if chart.bound_text else "figure", **told)
    return Figure(f"{kind}-{chart.row.signal}.svg", chart, alt)


def _classes(found: Incident, words: Words) -> Iterator[Block]:
    rows = present(found.main).classes
    if rows:
        yield Heading(words("classes"))
        told = ((r.name, r.requests, r.goodput, r.objective, r.ttft, r.tpot, r.budget, r.seen) for r in rows)
        yield Table(words.heads("class-head"), tuple(told))


def _vitals(found: Incident, words: Words) -> Iterator[Block]:
    charts = vital_charts(found.main, found.lines.traces)
    if charts:
        yield Heading(words("vitals"))
        yield Figures(tuple(_figure(chart, "vital", words) for chart in charts))


def _also(found: Incident, words: Words) -> Iterator[Block]:
    cards = present(found.main).contributing
    if cards:
        yield Heading(words("also"))
    for card in cards:
        yield Heading(f"{card.title} ({with_unit(card.confidence, 'ratio')})", 3)
        yield from _advice(card)
        heads = tuple(words(key) for key in ("head-signal", "head-value", "head-limit", "head-says"))
        yield Table(heads, tuple((r.title, r.value, r.limit, r.badge.word) for r in card.rows))


def _scopes(found: Incident, words: Words) -> Iterator[Block]:
    if len(found.verdicts) > 1:
        yield Heading(words("scopes"))
        rows = (
            (
                scope_name(one),
                OUTCOMES[one.outcome].word,
                cause_title(one.leading.cause) if one.leading else "–",
                one.sentence,
            )
            for one in services_first(found.verdicts)
        )
        yield Table(words.heads("scopes-head"), tuple(rows))


def _walk(found: Incident, words: Words) -> Iterator[Block]:
    yield Heading(words("walk"))
    for step in found.main.steps:
        yield Heading(f"{step.step}. {step.title}", 3)
        rows = ((cause_title(c.cause), STATES[c.state].word, _why(c.reason, c.evidence)) for c in step.checks)
        yield Table(words.heads("walk-head"), tuple(rows))


def _why(reason: str, evidence: tuple[Evidence, ...]) -> str:
    if reason:
        return reason
    told = (f"{e.title} {with_unit(e.value, e.unit)} ({limit_text(e)})" for e in evidence if e.value is not None)
    return "; ".join(told)


def _blind(found: Incident, words: Words) -> Iterator[Block]:
    yield Heading(words("blind"))
    if not found.main.blind:
        yield Para(words("blind-nothing"))
        return
    rows = tuple((spot.what, spot.why, spot.remedy or spot.series) for spot in found.main.blind)
    yield Table(words.heads("blind-head"), rows)


def _configuration(found: Incident, words: Words) -> Iterator[Block]:
    yield Heading(words("configuration"))
    if found.shown:
        yield Heading(words("shown"), 3)
        yield Table(words.heads("shown-head"), found.shown)
    yield Heading(words("used"), 3)
    rows = (
        (name, value, words("used-own", default=default) if default else "")
        for name, value, default in configuration.used(found.settings)
    )
    yield Table(words.heads("used-head"), tuple(rows))


def _replay(found: Incident, words: Words) -> Iterator[Block]:
    yield Heading(words("replay"))
    yield Para(words("replay-text", pages=found.pages, targets=found.targets))
    yield Code("llmvitals triage capture/")
    if found.about.anonymised:
        yield Para(words("anonymised"), quiet=True)
    if found.about.secrets:
        text = "secret-out" if found.about.secrets == 1 else "secrets-out"
        yield Para(words(text, count=found.about.secrets), quiet=True)


SECTIONS: tuple[Section, ...] = (
    _banner,
    _action,
    _changes,
    _lookalikes,
    _evidence,
    _timeline,
    _alerts,
    _vitals,
    _classes,
    _also,
    _scopes,
    _walk,
    _blind,
    _configuration,
    _replay,
)
