"""What a pod may say of itself in labels and annotations, and how each value is read; docs/node.md has it for people."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llmvitals.errors import SettingsError
from llmvitals.settings import ROLES
from llmvitals.telemetry.identity.model import Pod
from llmvitals.telemetry.ingest import KINDS, page_url

PREFIX = "llmvitals.io/"
"""Labels and annotations of ours begin so; where a pod has both, the annotation counts."""

LONGEST = 253
"""No name of Kubernetes is longer. An annotation may hold 256 KiB, and what is named stands on every sample."""

_SWITCH = {"true": True, "false": False}


def said(pod: Pod) -> dict[str, str]:
    """What the pod says, by key without the prefix."""
    both = {**pod.labels, **pod.annotations}
    return {key.removeprefix(PREFIX): text.strip() for key, text in both.items() if key.startswith(PREFIX)}


def read(key: str, text: str) -> Any:  # noqa: ANN401 - of the type of that key
    """The value of one key. Raises :class:`SettingsError`, its place left empty, for what it cannot be."""
    if key not in KEYS:
        near = _nearest(key, KEYS)
        raise SettingsError(f"there is no {PREFIX}{key}", place="", remedy=f"Did you mean {PREFIX}{near}?")
    try:
        if not text:
            raise ValueError("Give it a value, or take it away.")
        return KEYS[key](text)
    except (ValueError, SettingsError) as wrong:
        remedy = wrong.remedy if isinstance(wrong, SettingsError) else str(wrong)
        raise SettingsError(f"{PREFIX}{key} cannot be '{text[:80]}'", place="", remedy=remedy) from None


def _nearest(text: str, among: Iterable[str]) -> str:
    return difflib.get_close_matches(text, list(among), n=1, cutoff=0.0)[0]


def _one_of(*among: str) -> Callable[[str], str]:
    def choice(text: str) -> str:
        if text not in among:
            raise ValueError(f"Did you mean '{_nearest(text, among)}'? There are: {', '.join(among)}.")
        return text

    return choice


def _switch(text: str) -> bool:
    return _SWITCH[_one_of(*_SWITCH)(text.lower())]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text) > 0):
        raise ValueError("Write a number of GPUs, 1 or more.")
    return int(text)


def _page(text: str) -> str:
    page_url(text)  # a SettingsError, which carries its own remedy
    return text


def _path(text: str) -> str:
    if not text.startswith("/") or any(c.isspace() or not c.isprintable() or c == "#" for c in text):
        raise ValueError("Write a path like /metrics.")
    return text


def _name(text: str) -> str:
    if len(text) > LONGEST or not text.isprintable():
        raise ValueError(f"Write a name of at most {LONGEST} characters.")
    return text


def _gpus(text: str) -> tuple[str, ...]:
    return tuple(map(_name, _list(text)))


def _list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


KEYS: Mapping[str, Callable[[str], Any]] = {
    "scrape": _switch,
    "port": _list,
    "path": _path,
    "scheme": _one_of("http", "https"),
    "kind": _one_of(*KINDS),
    "role": _one_of(*ROLES),
    "gateway": _name,
    "service": _name,
    "gpus": _gpus,
    "gpu-url": _page,
    "tensor-parallel": _count,
    "container": _name,
    "owner": _one_of("node", "sidecar"),
}
"""Each key and its reader, whose ``ValueError`` is the remedy."""

DECIDE_WHERE = frozenset({"scrape", "port", "path", "scheme", "container"})
"""Without these right nobody knows what to ask: the pod is no target then."""
