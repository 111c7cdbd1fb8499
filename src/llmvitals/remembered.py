"""What is worked out once for each series and kept: many names come and go, and those that went are forgotten.

Pods that are replaced bring labels that were never seen, so that a memory that only a number of entries bounds would grow for days.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

_ALL: list[_lru_cache_wrapper[Any]] = []


def remembered(most: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """:func:`functools.lru_cache` of ``most`` entries, emptied by :func:`forget`. For pure functions of labels and series."""

    def kept(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        cached = lru_cache(maxsize=most)(function)
        _ALL.append(cached)
        return cached

    return kept


def held() -> int:
    """Entries kept by all of them together."""
    return sum(one.cache_info().currsize for one in _ALL)


def forget(beyond: int) -> None:
    """Empty them all when they hold more than ``beyond`` entries: what is still asked for comes back with the next page."""
    if held() > beyond:
        for one in _ALL:
            one.cache_clear()
