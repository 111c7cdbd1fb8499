"""Command lines and shell scripts as set-ups: continuations, variables, ``docker run``, ``bash -c``. Nothing is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from llmvitals.audit import docker
from llmvitals.audit.engines import started
from llmvitals.audit.model import LARGEST, Around, AuditError, Setup

_COMMENT = re.compile(r"^[^\S\n]*#.*$|\s#(?:[^\S\n].*)?$", re.MULTILINE)
_CONTINUED = re.compile(r"\\[ \t]*\r?\n\s*")
_CARRIED = re.compile(r"\r?\n(?=[ \t]*--[A-Za-z])")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]{0,500}))?\}|\$?\((\w+)\)|(\w+))")
_BREAKS = frozenset(";&|\n()")
_DEEPEST = 3
_LONGEST = 100_000
"""Characters of one word, once its variables are put in: each may be made of others, twice as long every time."""


def setups(
    text: str, *, place: str = "the command", env: Mapping[str, str] | None = None, depth: int = 0
) -> tuple[Setup, ...]:
    """Every engine that a command line or a script starts. Raises :class:`AuditError` for quotes that do not close."""
    known = dict(env or {})
    found: list[Setup] = []
    for statement in statements(text, place):
        found += _of(statement, known, place, depth)
    if len(found) > 1 and depth == 0:
        found = [replace(one, place=f"{place} {number}") for number, one in enumerate(found, 1)]
    return tuple(found)


def statements(text: str, place: str) -> Iterator[list[str]]:
    joined = _CARRIED.sub(" ", _CONTINUED.sub(" ", _COMMENT.sub("", text)))
    lexer = shlex.shlex(joined, posix=True, punctuation_chars=";&|\n()")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= _BREAKS:
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        raise AuditError("has a quote that does not close", place=place, remedy="Give the whole command.") from None
    yield words


def _of(words: list[str], known: dict[str, str], place: str, depth: int) -> list[Setup]:
    """The engines of one statement; assignments stay for those after it."""
    words = _expanded(words, known)
    own: dict[str, str] = {}
    while words and (
        words[0] in ("export", "env", "exec", "sudo", "nohup", "time", "set") or _ASSIGNED.fullmatch(words[0])
    ):
        if assigned := _ASSIGNED.fullmatch(words[0]):
            own[assigned[1]] = assigned[2]
        words = words[1:]
    if not words:
        known.update(own)
        return []
    env = {**known, **own}
    inner = script_of(words)
    if inner and depth < _DEEPEST:
        return list(setups(inner, place=place, env=env, depth=depth + 1))
    if box := docker.run(words):
        return of_container(box.image, box.words, {**env, **box.env}, box.around, place, depth)
    if run := started(words):
        return [Setup(place, run.engine, run.words, env)]
    return []


def script_of(words: list[str]) -> str:
    """What ``bash -c '...'`` runs; '' for another command."""
    for at, word in enumerate(words[:-1]):
        if (
            word.rpartition("/")[2] in ("sh", "bash", "ash")
            and re.fullmatch(r"-\w*c", words[at + 1])
            and len(words) > at + 2
        ):
            return words[at + 2]
    return ""


def of_container(
    image: str, words: tuple[str, ...], env: Mapping[str, str], around: Around, place: str, depth: int = 0
) -> list[Setup]:
    """The engine of a container: what its words start, or what its image does with them."""
    listed = _expanded(words, env)
    inner = script_of(listed)
    found = list(setups(inner, place=place, env=env, depth=depth + 1)) if inner else []
    if not found and not inner and (run := started(listed, image=image)):
        found = [Setup(place, run.engine, run.words, env)]
    version = docker.tag_version(image)
    return [replace(one, around=around, version=version) for one in found]


def _expanded(words: Sequence[str], known: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    size = 0
    for word in words:
        found.append(expanded(word, known))
        size += len(found[-1])
        if size > LARGEST:
            raise AuditError("is too long once its variables are put in", place="the command", remedy="Write it out.")
    return found


def expanded(word: str, known: Mapping[str, str]) -> str:
    """A word with the variables that are known put in; others stay as they are written."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3] or found[4]
        return known.get(name) or (found[2] if found[2] is not None else found[0])

    left = _LONGEST

    def fitting(found: re.Match[str]) -> str:
        nonlocal left
        text = value(found)
        left -= len(text)
        if left < 0:
            raise AuditError("has a word that its variables make endless", place="the command", remedy="Write it out.")
        return text

    return _VARIABLE.sub(fitting, word)
