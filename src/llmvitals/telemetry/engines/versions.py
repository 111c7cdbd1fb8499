"""Which releases of an engine can have written a page: every release is held against what the page shows and lacks."""

from __future__ import annotations

from collections.abc import Iterable

Version = tuple[int, ...]


def version(text: str) -> Version:
    """``0.10.2`` as a tuple that compares."""
    return tuple(int(part) for part in text.split("."))


class Span:
    """First and last release, both included; no last means it lasts."""

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        first, _, last = text.partition("..")
        self.first = version(first)
        self.last = version(last) if last else None

    def holds(self, release: Version) -> bool:
        """Whether a release lies in it."""
        return self.first <= release and (self.last is None or release <= self.last)


class Fingerprint:
    """One name on a page: the releases that can show it, and those that cannot but show it."""

    __slots__ = ("can", "must", "name")

    def __init__(self, name: str, can: Span, must: Span | None) -> None:
        self.name = name
        self.can = can
        self.must = must


def candidates(
    releases: tuple[Version, ...], prints: Iterable[Fingerprint], shown: frozenset[str]
) -> tuple[Version, ...]:
    """The releases that can show all that a page shows and of which it lacks the least."""
    table = tuple(prints)
    able = [r for r in releases if all(p.can.holds(r) for p in table if p.name in shown)]
    musts = [p.must for p in table if p.must is not None and p.name not in shown]
    lacks = {r: sum(must.holds(r) for must in musts) for r in able}
    least = min(lacks.values(), default=0)
    return tuple(r for r in able if lacks[r] == least)


def spell(found: tuple[Version, ...], newest: Version) -> str:
    """``>=0.32``, ``0.10.2-0.11.2`` or ``0.11``; ``unknown`` when no release agrees."""
    if not found:
        return "unknown"
    first, last = _short(found[0]), _short(found[-1])
    if found[-1] == newest:
        return f">={first}"
    return first if first == last else f"{first}-{last}"


def _short(release: Version) -> str:
    parts = release[:-1] if len(release) == 3 and release[-1] == 0 else release
    return ".".join(str(part) for part in parts)
