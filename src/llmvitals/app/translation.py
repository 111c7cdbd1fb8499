"""Texts in another language: the catalogue of a language, looked up by the English text, as gettext keeps it.

Numbers, units, slugs, names of settings and series stay as they are in every language, so that what is read here can be searched
for in a terminal, in Grafana and in an engine's own documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from llmvitals.app.runbook import ENGLISH
from llmvitals.data import folder


def file_of(language: str) -> Path:
    """Where a language's catalogue lies (gettext's PO format)."""
    return folder("app") / "locale" / f"{language}.po"


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """English text to that of the language; what is not translated, or not sure (fuzzy), is left out. English has none."""
    if language == ENGLISH:
        return {}
    from babel.messages.pofile import read_po  # noqa: PLC0415 - half of a page's first paint, and of no use in English

    with file_of(language).open("rb") as file:
        found = read_po(file, locale=language, ignore_obsolete=True, abort_invalid=True)
    return {str(one.id): str(one.string) for one in found if one.id and one.string and not one.fuzzy}


def translated(text: str, language: str) -> str:
    """The text in the language, as it is where there is no translation."""
    return catalogue(language).get(text, text)
