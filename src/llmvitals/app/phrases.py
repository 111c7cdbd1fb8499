"""Sentences that the triage made, in another language.

A sentence is put together from texts of tables and from numbers. It is taken apart the same way: a whole text that is known, a
known text with ``{places}`` whose contents are told in turn, a sentence after the other, one part of a list after the other.
What is not known stays English, as do numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest

from llmvitals.app.forms import FORMS
from llmvitals.app.translation import catalogue

_PLACE = re.compile(r"\{([a-z_]*)\}")
_LEAST = 4
"""Letters that a text with places must have besides: with fewer it would fit anything."""

_DEEPEST = 8
_SENTENCE = re.compile(r"(?<=[.?!]) +(?=[A-Z0-9\"'])")
_INSIDE = re.compile(r" \((?P<inside>.+)\)(?P<end>[.:]?)", re.DOTALL)
_BRACKETS = re.compile(r"(?P<before>.+?) \((?P<inside>.+)\)(?P<end>[.:]?)", re.DOTALL)
_MEASURED = re.compile(r"(?P<what>.*?[^\s(]) (?P<number>(?:[<>≤≥]=? )?-?[\d.,]+(?:e-?\d+)?(?: ?[^\s\d]\S*)?)")
BESIDE = " · "
_BETWEEN = (": ", " and ")
_NUMBER = r"((?:< )?-?[\d.,]+(?:e-?\d+)?(?: ?[^\s\d,;:.]+)?)"
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("value", "share", "span", "lowest", "highest"), _NUMBER),
    **dict.fromkeys(("count", "all", "pages", "seconds", "waiting"), r"([\d.,]+)"),
    **dict.fromkeys(("cause", "other"), r"([\w-]+)"),
    "series": r"(\S+[^\s:])",
    "limit": r"([<>≤≥]=? .*[^.\s])",
}
"""Places that take only what their names say; any other takes any text."""

_LOWER: Mapping[str, str] = {"İ": "i", "I": "ı"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with places: how it is found, their names, how it is said, its longest fixed part, how many fixed letters it has."""

    found: re.Pattern[str]
    names: tuple[str, ...]
    said: str
    literal: str
    letters: int
    whole: bool


@lru_cache(maxsize=8192)
def told(text: str, language: str) -> str:
    """The text in the language (``en``: as it is)."""
    return _told(text, language, 0) if catalogue(language) else text


def _told(text: str, language: str, depth: int) -> str:
    found = _known(text, language)
    if found or depth > _DEEPEST or not any(map(str.isalpha, text)):
        return found or text
    if BESIDE in text:
        return BESIDE.join(_told(piece, language, depth + 1) for piece in text.split(BESIDE))
    if said := _fitting(text, language, depth, whole=True):
        return said
    pieces = _SENTENCE.split(text)
    if len(pieces) > 1:
        return " ".join(_told(piece, language, depth + 1) for piece in pieces)
    if bracketed := _bracketed(text, language, depth):
        return bracketed
    if "; " in text:
        return "; ".join(_told(piece, language, depth + 1) for piece in text.split("; "))
    if said := _fitting(text, language, depth, whole=False):
        return said
    if text.endswith("."):
        return f"{_told(text[:-1], language, depth + 1)}."
    if match := _BRACKETS.fullmatch(text):
        before, inside = (_told(match[part], language, depth + 1) for part in ("before", "inside"))
        return f"{before} ({inside}){match['end']}"
    return _parted(text, language, depth)


def _fitting(text: str, language: str, depth: int, *, whole: bool) -> str:
    """The text by a form that fits it; ``whole``: only forms that have more than one sentence or part in them."""
    for pattern in patterns(language):
        if pattern.whole is whole and pattern.literal in text and (match := pattern.found.fullmatch(text)):
            parts = {f"p{i}": _told(part, language, depth + 1) for i, part in enumerate(match.groups())}
            return pattern.said.format_map(parts)
    return ""


def _bracketed(text: str, language: str, depth: int) -> str:
    """A known text with something in brackets behind it; the text may have brackets of its own."""
    at = text.rfind(" (")
    while at > 0:
        match = _INSIDE.fullmatch(text, at)
        if match and (said := _known(text[:at], language)):
            return f"{said} ({_told(match['inside'], language, depth + 1)}){match['end']}"
        at = text.rfind(" (", 0, at)
    return ""


def _parted(text: str, language: str, depth: int) -> str:
    """A text that is a list: parts with numbers, then whatever stands between parts."""
    if measured := _measured(text, language):
        return measured
    if headed := _headed(text, language, depth):
        return headed
    if ", " in text:
        return ", ".join(_listed(text.split(", "), language, depth + 1))
    for between in _BETWEEN:
        if between in text:
            said = [_told(piece, language, depth + 1) for piece in text.split(between)]
            word = _known(between.strip(), language)
            if word and said == text.split(between):
                break  # nothing of it is known, and one word of another language in it helps nobody
            return (f" {word} " if word else between).join(said)
    match = _MEASURED.fullmatch(text)
    return f"{_told(match['what'], language, depth + 1)} {match['number']}" if match else text


def _headed(text: str, language: str, depth: int) -> str:
    """A known text, a colon, and what is said of it; the text may hold a colon or a comma of its own."""
    at = text.rfind(": ")
    while at > 0:
        head = text[:at]
        if " " in head and (said := _known(head, language)):
            return f"{said}: {_told(text[at + 2 :], language, depth + 1)}"
        at = text.rfind(": ", 0, at)
    return ""


def _listed(pieces: Sequence[str], language: str, depth: int) -> Iterator[str]:
    """The parts of a list, of which one may hold the comma that separates them: the longest that is known is one part."""
    at = 0
    while at < len(pieces):
        for end in range(min(len(pieces), at + 4), at + 1, -1):
            whole = ", ".join(pieces[at:end])
            if said := _known(whole, language) or _measured(whole, language):
                yield said
                at = end
                break
        else:
            yield _told(pieces[at], language, depth + 1)
            at += 1


def _measured(text: str, language: str) -> str:
    """A known text with its number behind it."""
    match = _MEASURED.fullmatch(text)
    said = _known(match["what"], language) if match else ""
    return f"{said} {match['number']}" if match and said else ""


def _known(text: str, language: str) -> str:
    return catalogue(language).get(text) or _small(language).get(text, "")


@cache
def patterns(language: str) -> tuple[Pattern, ...]:
    """The forms that have places, those with most fixed text first."""
    known = catalogue(language)
    made = [_pattern(text, known[text]) for text in FORMS if text in known and _PLACE.search(text)]
    kept = [one for one in made if one.letters >= _LEAST]
    return tuple(sorted(kept, key=lambda one: len(one.found.pattern) - 6 * one.found.groups, reverse=True))


def _pattern(text: str, said: str) -> Pattern:
    fixed = _PLACE.split(text)[::2]
    names = tuple(_PLACE.findall(text))
    inside = (_KINDS.get(name, "(.+?)") for name in names)
    found = "".join(part for pair in zip_longest(map(re.escape, fixed), inside, fillvalue="") for part in pair)
    where = {name: f"{{p{i}}}" for i, name in enumerate(names)}
    return Pattern(
        found=re.compile(found, re.DOTALL),
        names=names,
        said=_PLACE.sub(lambda m: where.get(m[1], m[0]), said),
        literal=max(fixed, key=len),
        letters=sum(map(str.isalpha, "".join(fixed))),
        whole=bool(_SENTENCE.search(text) or "; " in text),
    )


@cache
def _small(language: str) -> Mapping[str, str]:
    """Texts as they stand inside a sentence, with a small first letter."""
    return {
        text[0].lower() + text[1:]: _lower(said)
        for text, said in catalogue(language).items()
        if text[:1].isupper() and not text[:2].isupper()
    }


def _lower(text: str) -> str:
    if text[:2].isupper():
        return text
    return _LOWER.get(text[0], text[0].lower()) + text[1:]
