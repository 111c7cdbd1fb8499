"""Sentences that the triage made, in another language.

A sentence is put together from texts of tables and from numbers. It is taken apart the same way: a whole text that is known, a
known text with ``{places}`` whose contents are told in turn, a sentence after the other, one part of a list after the other.
What is not known stays English, as do numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from llmvitals.app.translation import catalogue

_PLACE = re.compile(r"\{([a-z_]*)\}")
_LEAST = 4
"""Letters that a text with places must have besides: with fewer it would fit anything."""

_DEEPEST = 6
_SENTENCE = re.compile(r"(?<=[.?!]) +(?=[A-Z0-9\"'])")
_LISTS = ("; ", ", ", " and ")
_MEASURED = re.compile(r"(?P<what>.*?[^\s(]) (?P<number>(?:[<>≤≥]=? )?-?[\d.,]+(?:e-?\d+)?(?: ?[^\s\d]\S*)?)")
_LOWER: Mapping[str, str] = {"İ": "i", "I": "ı"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with places: how it is found, the names of its places, and how it is said. ``literal``: its longest fixed part."""

    found: re.Pattern[str]
    names: tuple[str, ...]
    said: str
    literal: str


@lru_cache(maxsize=8192)
def told(text: str, language: str) -> str:
    """The text in the language (``en``: as it is)."""
    return _told(text, language, 0) if catalogue(language) else text


def _told(text: str, language: str, depth: int) -> str:
    known = catalogue(language)
    if text in known:
        return known[text]
    if depth > _DEEPEST or not any(map(str.isalpha, text)):
        return text
    if found := _small(language).get(text):
        return found
    for pattern in patterns(language):
        if pattern.literal in text and (match := pattern.found.fullmatch(text)):
            parts = {f"p{i}": _told(part, language, depth + 1) for i, part in enumerate(match.groups())}
            return pattern.said.format_map(parts)
    pieces = _SENTENCE.split(text)
    if len(pieces) > 1:
        return " ".join(_told(piece, language, depth + 1) for piece in pieces)
    if text.endswith(".") and (found := known.get(text[:-1])):
        return f"{found}."
    for between in _LISTS:
        if between in text:
            joined = known.get(between.strip(), between.strip()) if between.strip().isalpha() else ""
            said = [_told(piece, language, depth + 1) for piece in text.split(between)]
            return (f" {joined} " if joined else between).join(said)
    if measured := _MEASURED.fullmatch(text):
        return f"{_told(measured['what'], language, depth + 1)} {measured['number']}"
    return text


@cache
def patterns(language: str) -> tuple[Pattern, ...]:
    """The texts with places, those with most fixed text first."""
    made = [_pattern(text, said) for text, said in catalogue(language).items() if _PLACE.search(text)]
    kept = [one for one in made if sum(map(str.isalpha, one.literal)) >= _LEAST]
    return tuple(sorted(kept, key=lambda one: len(one.found.pattern) - 6 * one.found.groups, reverse=True))


def _pattern(text: str, said: str) -> Pattern:
    fixed = _PLACE.split(text)[::2]
    names = tuple(_PLACE.findall(text))
    found = "(.+?)".join(map(re.escape, fixed))
    where = {name: f"{{p{i}}}" for i, name in enumerate(names)}
    return Pattern(
        re.compile(found, re.DOTALL), names, _PLACE.sub(lambda m: where.get(m[1], m[0]), said), max(fixed, key=len)
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
