"""Our own exporter as a source: it has the window and the verdict already, so a triage only asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from llmvitals.errors import PageError, UnreachableError
from llmvitals.settings import Access, Source
from llmvitals.sources.access import NOBODY, refused
from llmvitals.sources.client import Client, Reply
from llmvitals.sources.place import base_url, without_secrets

TIMEOUT_SECONDS = 10.0
PAGE_SECONDS = 5.0
"""How long a page that somebody looks at waits for an answer."""

MOST_ANSWER_BYTES = 64 * 1024 * 1024
"""The largest answer that is read: a thousand targets with all their evidence take some 20 MiB."""

SIGNATURE = b"llm_triage_verdict{"
"""A series that only an llmvitals exporter shows on its metrics page."""

_OURS = "Give the URL of an llmvitals exporter."


def is_exporter(page: bytes) -> bool:
    """Whether a metrics page was made by an llmvitals exporter."""
    return page.startswith(SIGNATURE) or b"\n" + SIGNATURE in page


def root_url(url: str) -> str:
    """What an exporter's paths lie under, from any URL of it. Raises ``SettingsError`` for no URL."""
    parts = urlsplit(base_url(url))
    root = parts.path.removesuffix("/triage").removesuffix("/metrics").rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, root, "", ""))


def triage_url(url: str) -> str:
    """Where an exporter answers with its verdict, from any URL of it. Raises ``SettingsError`` for no URL."""
    return f"{root_url(url)}/triage"


def place_of(source: Source, path: str) -> str:
    """Where a path like ``/history`` of an exporter lies, without secrets, for errors. Raises ``SettingsError`` for no URL."""
    return without_secrets(f"{root_url(source.url)}{path}")


def fetch_json(
    source: Source,
    path: str,
    query: Mapping[str, Sequence[str]] | None = None,
    *,
    timeout_s: float = PAGE_SECONDS,
) -> object:
    """What an exporter answers at a path like ``/triage``, let in as the source says.

    Raises :class:`UnreachableError` without an answer, :class:`PageError` for one that is no JSON, and
    :class:`SettingsError` where a file of its access cannot be read.
    """
    return _json(source.url, source.access, path, query or {}, timeout_s)


def read_triage(url: str, access: Access = NOBODY) -> dict[str, Any]:
    """The exporter's verdict as the document of ``triage --json``.

    Raises as :func:`fetch_json`, and :class:`PageError` when the answer is not a verdict.
    """
    document = _json(url, access, "/triage", {}, TIMEOUT_SECONDS)
    if not isinstance(document, dict) or "verdict" not in document:
        place = without_secrets(triage_url(url))
        raise PageError("answered, but not with a verdict", place=place, remedy=_OURS)
    return document


def fetch_bytes(source: Source, path: str, query: Mapping[str, str | Sequence[str]], *, timeout_s: float) -> bytes:
    """What an exporter answers at a path like ``/capture``, as it comes. Raises as :func:`fetch_json`."""
    return _asked(source.url, source.access, path, query, timeout_s)[0].body


def _json(url: str, access: Access, path: str, query: Mapping[str, Sequence[str]], timeout_s: float) -> object:
    """The document at that path, beside which errors are told."""
    reply, place = _asked(url, access, path, query, timeout_s)
    document = reply.document()
    if document is None:
        raise PageError("answered with something that is not JSON", place=place, remedy=_OURS)
    return document


def _asked(
    url: str, access: Access, path: str, query: Mapping[str, str | Sequence[str]], timeout_s: float
) -> tuple[Reply, str]:
    """A good answer, and where it came from."""
    wanted = f"{root_url(url)}{path}"
    with Client(wanted, access, timeout_s=timeout_s, most_bytes=MOST_ANSWER_BYTES) as client:
        reply = client.get("", query)
        if not reply.ok:
            raise _refusal(reply, client.masked(reply.text), access, client.place)
        return reply, client.place


def _refusal(reply: Reply, told: str, access: Access, place: str) -> UnreachableError:
    found = refused(reply.status, "" if reply.document() is not None else told, access, place)
    if isinstance(found, UnreachableError):
        return found
    if reply.status == 503:
        return UnreachableError(
            "has no verdict yet (503)", place=place, remedy="Wait for its first cycle, then ask again."
        )
    return UnreachableError(f"answered with status {reply.status}", place=place, remedy=_OURS)
