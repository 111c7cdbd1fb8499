"""From the word after ``--prometheus``, or a TARGET, to a source with what lets us in there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from llmvitals.cli.screen import remark
from llmvitals.errors import SettingsError
from llmvitals.settings import Settings, Source
from llmvitals.sources.access import exposed
from llmvitals.sources.place import is_url

ENDPOINT = "URL|NAME"
"""What commands call the value of ``--prometheus``."""

_KINDS = {"exporter": "It is a TARGET of 'llmvitals triage'.", "prometheus": "Name it after --prometheus."}


def endpoint(word: str, settings: Settings) -> tuple[str, Source | None]:
    """The address that a word after ``--prometheus`` means, and the source where it is the name of one in the settings.

    An address of a command line may hold a user and a password. Raises :class:`SettingsError` for a name of none.
    """
    found = named(word, settings, "prometheus")
    if found is None and settings.sources and not is_url(word):
        names = [one.name for one in settings.sources]
        near = difflib.get_close_matches(word, names, n=1, cutoff=0.0)[0]
        raise SettingsError(
            "is neither a URL nor a source of the settings",
            place=f"--prometheus {word}",
            remedy=f"Did you mean '{near}'? Write an address with http://.",
        )
    return (found.url, found) if found is not None else (word, None)


def named(word: str, settings: Settings, kind: str) -> Source | None:
    """The source of that name in the settings, None where there is none. Says where its secret goes in the clear.

    Raises :class:`SettingsError` where it is of another kind.
    """
    found = next((one for one in settings.sources if one.name == word), None)
    if found is None:
        return None
    if found.kind != kind:
        remedy = _KINDS.get(found.kind, "Write kind: exporter or prometheus.")
        raise SettingsError(f"is of the kind '{found.kind}', not '{kind}'", place=f"source '{word}'", remedy=remedy)
    if told := exposed(found.url, found.access):
        remark(f"source '{word}' {told}.")
    return found


def not_whole(place: str, told: Iterable[str]) -> None:
    """Say what a server told of answers that are not whole: samples may be missing behind them."""
    for one in told:
        remark(f"{place}: its answer may not be whole: {one}")
