"""Our own exporter as a source: it has the window and the verdict already, so a triage only asks for it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests

from llmvitals.errors import PageError, UnreachableError
from llmvitals.sources.place import base_url, without_secrets

TIMEOUT_SECONDS = 10.0
SIGNATURE = b"llm_triage_verdict{"
"""A series that only an llmvitals exporter shows on its metrics page."""


def is_exporter(page: bytes) -> bool:
    """Whether a metrics page was made by an llmvitals exporter."""
    return page.startswith(SIGNATURE) or b"\n" + SIGNATURE in page


def triage_url(url: str) -> str:
    """Where an exporter answers with its verdict, from any URL of it. Raises ``SettingsError`` for no URL."""
    parts = urlsplit(base_url(url))
    root = parts.path.removesuffix("/triage").removesuffix("/metrics").rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, f"{root}/triage", "", ""))


def read_triage(url: str) -> dict[str, Any]:
    """The exporter's verdict as the document of ``triage --json``.

    Raises :class:`UnreachableError` without an answer, :class:`PageError` when the answer is not a verdict.
    """
    wanted = triage_url(url)
    place = without_secrets(wanted)
    try:
        answer = requests.get(wanted, timeout=TIMEOUT_SECONDS)
    except requests.exceptions.RequestException as error:
        raise UnreachableError(
            f"cannot be reached ({type(error).__name__})", place=place, remedy="Check the URL and that it runs."
        ) from None
    if answer.status_code == requests.codes.service_unavailable:
        raise UnreachableError(
            "has no verdict yet (503)", place=place, remedy="Wait for its first cycle, then ask again."
        )
    if not answer.ok:
        raise UnreachableError(
            f"answered with status {answer.status_code}", place=place, remedy="Give the URL of an llmvitals exporter."
        )
    try:
        document = answer.json()
    except requests.exceptions.JSONDecodeError:
        document = None
    if not isinstance(document, dict) or "verdict" not in document:
        raise PageError(
            "answered, but not with a verdict", place=place, remedy="Give the URL of an llmvitals exporter."
        )
    return document
