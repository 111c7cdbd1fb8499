"""Every text that a page may show and that is not written in a page itself: those of tables, and the forms of sentences.

Families' names, series, reasons of adapters, settings and slugs have no translation: they are looked up elsewhere by their name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmvitals.app import fleet_stored, matrix, people, quadrant, services
from llmvitals.app.forms import FORMS
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.triage import binding, checks, expected, flags, outliers, remedies, view
from llmvitals.triage.judge import WHOLE
from llmvitals.triage.model import STEPS
from llmvitals.triage.replica import ACTIVITY, QUADRANTS


def texts() -> tuple[str, ...]:
    """All of them, each once, in an order that stays."""
    return tuple(dict.fromkeys(text for text in _all() if any(map(str.isalpha, text))))


def _all() -> Iterator[str]:
    yield "Language"
    yield from (signal.title for signal in SIGNALS)
    yield from STEPS
    yield from WHOLE.values()
    for check in checks.CHECKS:
        yield from (check.title, view.cause_title(check.cause), check.remedy.text, check.note, check.needs)
        if check.remedy.already is not None:
            yield check.remedy.already[1]
        if check.proof is not None:
            yield check.proof.note
    for found in expected.EXPECTED.values():
        yield from (found.effect, found.also)
    yield from (expected.CONFIG, expected.RESTART, expected.OUTSIDE, *(what for what, _ in expected.PROMISES.values()))
    yield from (remedies.NOTHING, *(way.text for way in remedies.WAYS))
    yield from _settings()
    yield from (row.why for row in binding.ROWS)
    yield from (said for *_, said in outliers.REASONS.values())
    for quarter in QUADRANTS:
        yield from (quarter.title, quarter.hint)
    yield from ACTIVITY.values()
    yield from _badges()
    yield from people.SENTENCES
    yield from matrix.VIEWS.values()
    for group in matrix.GROUPS:
        yield from (*matrix.heads(group), group.title)
    yield from (quadrant.UNKNOWN, quadrant.UNTOLD, *quadrant.JOINS.values())
    yield from (*fleet_stored.WHY.values(), fleet_stored.NOT_TOLD, fleet_stored.SILENT)
    yield from view.WORDS
    yield from FORMS


def _settings() -> Iterator[str]:
    """Settings in plain words, and the remedies that mention them so: what is shown of an engine that names them otherwise."""
    for setting in flags.SETTINGS.values():
        yield setting.words
    for check in checks.CHECKS:
        if " " in check.remedy.setting:  # in words: a name in the field has none
            yield check.remedy.setting
        if check.remedy.setting in flags.SETTINGS:
            setting = flags.SETTINGS[check.remedy.setting]
            yield flags.rewritten(check.remedy.text, setting, setting.words)


def _badges() -> Iterator[str]:
    tables: tuple[Iterable[view.Badge], ...] = (
        view.OUTCOMES.values(),
        view.STATES.values(),
        view.NOTICES.values(),
        matrix.HOW.values(),
        (matrix.NO, matrix.NO_MATCH),
        services.MARKS,
        view.BADGES,
    )
    yield from (badge.word for table in tables for badge in table)
