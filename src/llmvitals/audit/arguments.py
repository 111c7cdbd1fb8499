"""An engine's words as flags: how argparse and vLLM's own parser read them, for a given release."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmvitals.audit import flags
from llmvitals.audit.flags import Version

TRUE, FALSE = "true", "false"
_BOOLEANS = {"true": TRUE, "1": TRUE, "false": FALSE, "0": FALSE}
_ENABLE = {"disable-": "enable-"}
LARGEST = 1e15
DISABLES_SINCE: Version = (0, 33, 0)
"""Release from which ``--disable-x`` is another spelling of ``--no-enable-x``."""


@dataclass(frozen=True, slots=True)
class Given:
    """One flag as it was written. ``known``: the release has it; ``value`` of a switch is true or false."""

    name: str
    value: str
    spelled: str
    known: bool


def read(words: Iterable[str], version: Version) -> tuple[tuple[Given, ...], tuple[str, ...]]:
    """The flags in their order, and the words that belong to none (the model's name, variables that are not known)."""
    todo = deque(words)
    found: list[Given] = []
    loose: list[str] = []
    while todo:
        word = todo.popleft()
        if not word.startswith("-") or word.startswith(("-O", "-cc.", "-ac.")) or _is_number(word):
            loose.append(word)
            continue
        spelled, equals, rest = word.partition("=")
        name, value, known = _named(spelled, version)
        row = flags.row(name, version) or next(iter(flags.ever(name)), None)
        takes = "part" if "." in spelled and not value else row.takes if row else ""
        if value:
            pass
        elif equals:
            value = _BOOLEANS.get(rest.lower(), rest) if takes == "switch" else rest
        elif takes == "switch":
            value = _BOOLEANS[todo.popleft().lower()] if todo and todo[0].lower() in ("true", "false") else TRUE
        elif takes == "list":
            taken: list[str] = []
            while todo and not _is_flag(todo[0]):
                taken.append(todo.popleft())
            value = "\n".join(taken)
        elif todo and not _is_flag(todo[0]):
            value = todo.popleft()
        found.append(Given(name, value, spelled, known))
    return tuple(found), tuple(loose)


def _named(spelled: str, version: Version) -> tuple[str, str, bool]:
    """The flag's own name, the value that the spelling already says, and whether the release has it."""
    if not spelled.startswith("--"):
        name = flags.written(spelled, version)
        return name or spelled, "", bool(name)
    name = spelled[2:].replace("_", "-").partition(".")[0]
    if not flags.missing(name, version):
        return name, "", True
    for long, rows in flags.table().items():
        if any(f"--{name}" in row.also for row in rows) and not flags.missing(long, version):
            return long, "", True
    if name.startswith("no-") and not flags.missing(name[3:], version):
        return name[3:], FALSE, True
    for start, other in _ENABLE.items():
        turned = other + name.removeprefix(start)
        if name.startswith(start) and version >= DISABLES_SINCE and not flags.missing(turned, version):
            return turned, FALSE, True
    if flags.ever(name):
        return name, "", False
    if name.startswith("no-") and flags.ever(name[3:]):
        return name[3:], FALSE, False
    begun = flags.begun(name, version)
    return begun or name, "", bool(begun)


def _is_number(word: str) -> bool:
    return word[1:2].isdigit()


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not _is_number(word)


def last(given: Iterable[Given]) -> Mapping[str, str]:
    """The value that counts of each flag: the last one written. Parts of a JSON value (``--x.y``) do not stand for the whole."""
    return {one.name: one.value for one in given if "." not in one.spelled}


def plain(words: Iterable[str]) -> Mapping[str, str]:
    """The flags of another engine: each with the word after it, where that is no flag."""
    listed = list(words)
    found: dict[str, str] = {}
    for at, word in enumerate(listed):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            after = listed[at + 1] if at + 1 < len(listed) and not _is_flag(listed[at + 1]) else ""
            found[name.replace("_", "-")] = value if equals else after
    return found


def whole(text: str) -> int | None:
    """A whole number as vLLM reads it: ``8192``, ``8k`` (8,000), ``8K`` (8,192); None for what is none, as ``auto``."""
    scale = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
    cleaned = text.strip()
    by = scale.get(cleaned[-1:], 1)
    found = real(cleaned[:-1] if by > 1 else cleaned)
    return int(found * by) if found is not None else None


def real(text: str) -> float | None:
    """A number, None for what is none, or for none that anybody means (beyond 10^15)."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) <= LARGEST else None
