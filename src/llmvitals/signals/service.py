"""A window of several servers that serve together: which they are, and which of them do not serve.

The rank of a sample then begins with its server's name, ``chat-0/0``; a server by itself has plain ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmvitals.series import Snapshot, Window

UP = "llm_target_up"
SILENT_PAGES = 3
"""So many scrapes in a row without an answer, and a server is not merely late (the check of one server asks for as many)."""


def answers(page: Snapshot) -> bool:
    """Whether a target, or any server of a service, gave a readable page."""
    return any(key.name == UP and value == 1.0 for key, value in page.samples.items())


def servers(window: Window) -> tuple[str, ...]:
    """The servers of a service, in its order; none where the window is about one server."""
    names = (track.label("rank").rpartition("/")[0] for track in window.tracks(UP))
    return tuple(dict.fromkeys(name for name in names if name))


def server_of(rank: str, names: Sequence[str]) -> str:
    """The server that a rank belongs to; '' where it is no service's."""
    return next((name for name in names if rank.startswith(f"{name}/")), "")


def part(window: Window, name: str) -> Window:
    """What of a service's window is about one of its servers, on the pages that it answered."""
    mine = (
        Snapshot(s.t, {k: v for k, v in s.samples.items() if k.label("rank").startswith(f"{name}/")}, s.detail)
        for s in window.snapshots
    )
    return Window.of(page for page in mine if answers(page))


def silent(window: Window) -> tuple[str, ...]:
    """The servers of a service that did not answer their last scrapes, or none at all."""
    found = []
    for track in window.tracks(UP):
        name = track.label("rank").rpartition("/")[0]
        last = track.values[-SILENT_PAGES:]
        if name and not any(last) and (len(last) == SILENT_PAGES or not any(track.values)):
            found.append(name)
    return tuple(dict.fromkeys(found))


def serving(window: Window) -> tuple[str, ...]:
    """The servers of a service that answer and have a part in this window: of several models each serves some."""
    names, away = servers(window), silent(window)
    if not names:
        return ()
    of_model = {
        server_of(key.label("rank"), names)
        for snapshot in window.snapshots
        for key in snapshot.samples
        if key.label("model") and key.label("rank")
    }
    return tuple(name for name in names if name not in away and (name in of_model or not of_model))
