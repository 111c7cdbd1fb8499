"""The runbooks as they lie in the installation: of causes and of symptoms, in the languages that each is there in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmvitals.data import folder
from llmvitals.errors import LlmvitalsError
from llmvitals.triage.checks import BY_CAUSE

HURT = "users-hurt"
"""The page to read while users are hurt, whatever the cause."""

ENGLISH, TURKISH = "en", "tr"
LANGUAGES: Mapping[str, str] = {ENGLISH: "English", TURKISH: "Türkçe"}
"""Languages by the value of the address' ``lang``. Pages of all but the first lie in a folder of that name."""

_TITLE = re.compile(r"\A#\s+([^\n]*)\n+")
_MARK = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_OTHER_LANGUAGE = re.compile(rf" · \[(?:{'|'.join(LANGUAGES.values())})\]\([^)\s]*\)")
_PICTURE = re.compile(r"^!\[([^\]]+)\]\((?:\.\./)?img/([a-z0-9-]+\.svg)\)\n?", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)\s]+)\)")
_PAGE = re.compile(r"(?:\.\./|tr/)?([a-z0-9-]+)\.md(?:#[^)\s]*)?")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Page:
    """A runbook: its slug, its title, whether it is a symptom's, and in which languages it is there."""

    slug: str
    title: str
    symptom: bool
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture inside a runbook: its SVG, and what it shows in words."""

    svg: str
    words: str


def parts(slug: str, language: str = ENGLISH) -> tuple[str | Picture, ...] | None:
    """A runbook as :func:`runbook` gives it, cut where pictures stand; one that is not there is left out."""
    text = runbook(slug, language)
    if text is None:
        return None
    found: list[str | Picture] = []
    rest = 0
    for match in _PICTURE.finditer(text):
        found.append(text[rest : match.start()])
        rest = match.end()
        try:
            svg = (folder("runbooks") / "img" / match[2]).read_text(encoding="utf-8")
        except (OSError, LlmvitalsError):
            continue
        found.append(Picture(svg, match[1]))
    return tuple(one for one in (*found, text[rest:]) if one)


def runbook(slug: str, language: str = ENGLISH) -> str | None:
    """A runbook as Markdown without its title; its links to other runbooks lead to the app's page of these.

    None where there is none in that language. A slug may come from outside, so only what is one ever becomes a path.
    """
    text = _text(slug, language)
    if text is None:
        return None
    body = _OTHER_LANGUAGE.sub("", _MARK.sub("", _TITLE.sub("", text, count=1)))
    return _LINK.sub(lambda found: _linked(found[1], found[2], language), body)


def title(slug: str, language: str = ENGLISH) -> str:
    """The title of a runbook, the slug where it has none."""
    found = _TITLE.match(_text(slug, language) or "")
    return found[1] if found else slug


def languages(slug: str) -> tuple[str, ...]:
    """In which languages there is a runbook of that slug."""
    try:
        return tuple(language for language in LANGUAGES if _SLUG.fullmatch(slug) and _file(slug, language).is_file())
    except LlmvitalsError:
        return ()


def pages() -> tuple[Page, ...]:
    """Every runbook of the installation: those of symptoms, then those of causes, each by title."""
    try:
        found = [file.stem for file in folder("runbooks").glob("*.md") if _SLUG.fullmatch(file.stem)]
    except LlmvitalsError:
        return ()
    listed = (Page(slug, title(slug), slug not in BY_CAUSE, languages(slug)) for slug in found)
    return tuple(sorted(listed, key=lambda page: (not page.symptom, page.title)))


def address(slug: str, language: str = ENGLISH) -> str:
    """Where the app shows a runbook, from any of its pages."""
    return f"runbooks?page={slug}" + ("" if language == ENGLISH else f"&lang={language}")


def _linked(text: str, target: str, language: str) -> str:
    found = _PAGE.fullmatch(target)
    there = languages(found[1]) if found else ()
    if found is None or not there:
        return f"**{text}**"
    return f"[{text}]({address(found[1], language if language in there else ENGLISH)})"


def _text(slug: str, language: str) -> str | None:
    if not _SLUG.fullmatch(slug) or language not in LANGUAGES:
        return None
    try:
        return _file(slug, language).read_text(encoding="utf-8")
    except (OSError, LlmvitalsError):
        return None


def _file(slug: str, language: str) -> Path:
    place = folder("runbooks")
    return (place if language == ENGLISH else place / language) / f"{slug}.md"
