"""Which flags and variables each vLLM release has: rows that ``tools/vllm_flags.py`` read from the releases' own sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

Version = tuple[int, ...]
_NUMBER = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_NEAR = 0.75
"""Share of likeness (difflib) from which a spelling is offered; less is a guess."""


@dataclass(frozen=True, slots=True)
class Row:
    """A flag in a run of releases. ``takes``: switch, value, list or optional; ``default`` '' where a start decides it."""

    name: str
    also: tuple[str, ...]
    first: Version
    last: Version
    takes: str
    choices: tuple[str, ...]
    default: str
    deprecated: bool


def number(text: str) -> Version | None:
    """``v0.6.3.post1`` as (0, 6, 3): what comes after a patch release changed no flag; None for what is no version."""
    found = _NUMBER.match(text.strip())
    return tuple(int(part or 0) for part in found.groups()) if found else None


def spell(version: Version) -> str:
    """``0.6.3``."""
    return ".".join(map(str, version))


@cache
def _text() -> str:
    return files("llmvitals.audit").joinpath("vllm_flags.tsv").read_text(encoding="utf-8")


@cache
def releases() -> tuple[Version, ...]:
    """The releases that were read, oldest first."""
    return tuple(n for n in map(number, _text().partition("\n")[0].split()[2:]) if n)


@cache
def table() -> Mapping[str, tuple[Row, ...]]:
    """Flag (without its dashes) or variable to its rows, oldest first."""
    found: dict[str, list[Row]] = {}
    for line in _text().splitlines()[2:]:
        name, also, first, last, takes, choices, default, state = line.split("\t")
        row = Row(
            name.lstrip("-"),
            tuple(also.split()),
            number(first) or (),
            number(last) or (),
            takes,
            tuple(choices.split()),
            default,
            state == "deprecated",
        )
        found.setdefault(row.name, []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def newest() -> Version:
    """The newest release that was read."""
    return releases()[-1]


def _sides(version: Version) -> tuple[Version | None, Version | None]:
    """The releases read that lie at or before, and at or after."""
    before = [r for r in releases() if r <= version]
    after = [r for r in releases() if r >= version]
    return (before[-1] if before else None), (after[0] if after else None)


def _at(name: str, release: Version | None) -> Row | None:
    if release is None:
        return None
    return next((row for row in table().get(name, ()) if row.first <= release <= row.last), None)


def row(name: str, version: Version) -> Row | None:
    """What a release says of a flag; between two that were read, what either has (the older one first)."""
    before, after = _sides(version)
    return _at(name, before) or _at(name, after)


def default(name: str, version: Version) -> str:
    """The default in a release; '' where none is written down, or where the releases on both sides differ."""
    before, after = _sides(version)
    both = {found.default for found in (_at(name, before), _at(name, after)) if found}
    return both.pop() if len(both) == 1 else ""


def missing(name: str, version: Version) -> bool:
    """Whether a release certainly has no such flag: it, or those read on both sides of it, lack it."""
    before, after = _sides(version)
    return before is not None and row(name, version) is None and (after is not None or version > newest())


def ever(name: str) -> tuple[Row, ...]:
    """All rows of a name, oldest first; none for one that no release has."""
    return table().get(name, ())


def written(short: str, version: Version) -> str:
    """The long name of a short spelling such as ``-tp``; '' where there is none."""
    for name in table():
        found = row(name, version)
        if found and short in found.also:
            return name
    return ""


def begun(start: str, version: Version) -> str:
    """The one flag whose name begins so, as argparse takes abbreviations; '' for none or several."""
    found = [name for name in table() if name.startswith(start) and name.islower() and row(name, version)]
    return found[0] if len(found) == 1 else ""


def near(name: str, version: Version) -> str:
    """The flag or variable of a release that is spelt most like this one; '' where none is near."""
    upper = name.isupper()
    among = [known for known in table() if known.isupper() is upper and row(known, version)]
    return next(iter(get_close_matches(name, among, n=1, cutoff=_NEAR)), "")
