"""Why the newest page of a server could not be read, as a sentence: a verdict on it is of little use without."""

from __future__ import annotations

from typing import Any

from llmvitals.series import Window
from llmvitals.signals.service import answers, servers


def unread(window: Window, scope: dict[str, Any]) -> str:
    """What came instead of the newest page; '' where it was read, where nobody said why, and for a service.

    A snapshot tells its error whole, as ``place: thing. remedy``; the thing is enough beside the scope's name.
    """
    newest = window.snapshots[-1] if window.snapshots else None
    if newest is None or not newest.detail or servers(window) or answers(newest):
        return ""
    told = " ".join(newest.detail.split()).removeprefix(f"{scope.get('instance', '')}: ")
    thing = told.partition(". ")[0].removesuffix(".")
    return f" Its last page could not be read: {thing}." if thing else ""
