"""Reads the JSON of a triage back into a :class:`Verdict`, for whoever receives it instead of walking itself."""

from __future__ import annotations

from typing import Any

import msgspec

from llmvitals.errors import PageError
from llmvitals.triage import moments
from llmvitals.triage.verdict import Verdict

_OPTIONAL: tuple[tuple[str, Any], ...] = (
    ("sentence", ""),
    ("leading", None),
    ("contributing", ()),
    ("steps", ()),
    ("blind", ()),
    ("window", {}),
    ("scope", {}),
    ("binding", {}),
    ("classes", ()),
    ("hurt", False),
    ("changes", ()),
    ("lookalikes", ()),
)


def decode(document: object, *, place: str) -> Verdict:
    """The verdict that a document of ``triage --json`` holds. Unknown keys are ignored: a newer exporter may say more.

    Raises :class:`PageError` naming ``place`` where it is something else.
    """
    if not isinstance(document, dict) or "verdict" not in document:
        raise PageError(
            "answered, but not with a triage document",
            place=place,
            remedy="Point the source at an llmvitals exporter; its /triage answers with one.",
        )
    fields = {key: document.get(key, default) for key, default in _OPTIONAL}
    fields["outcome"] = document["verdict"]
    try:
        found = msgspec.convert(_titled(fields), Verdict)
    except msgspec.ValidationError as error:
        raise PageError(
            f"answered with a triage document that cannot be read ({error})",
            place=place,
            remedy="Bring the exporter and this reader to the same version.",
        ) from None
    moments.check((found.window.get("start"), found.window.get("end")), place=place)
    return found


def _titled(part: object) -> object:
    """Fill titles in where a document leaves them out: evidence is then named by its signal, a step by its number."""
    if isinstance(part, dict):
        filled = {key: _titled(value) for key, value in part.items()}
        if "signal" in filled:
            filled.setdefault("title", str(filled["signal"]).replace("_", " "))
        elif "checks" in filled:
            filled.setdefault("title", f"Step {filled.get('step')}")
        return filled
    if isinstance(part, (list, tuple)):
        return [_titled(item) for item in part]
    return part
