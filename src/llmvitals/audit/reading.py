"""Whatever was pasted or piped in, as set-ups: a manifest, a page, a log, or a command."""

from __future__ import annotations

from llmvitals.audit import manifests, shell, told
from llmvitals.audit.model import LARGEST, AuditError, Setup

REMEDY = (
    "Give a 'vllm serve ...' command, a script or 'docker run' with one, a manifest or a Compose file, the cache_config_info "
    "line of a metrics page, or the log of a start."
)


def setups(text: str, *, place: str) -> tuple[Setup, ...]:
    """Every engine in a text. Raises :class:`AuditError` for what holds none, and for what cannot be read."""
    if len(text) > LARGEST:
        raise AuditError("is too long", place=place, remedy=f"Give at most {LARGEST:,} characters.")
    text = text.lstrip("\ufeff")
    if not text.strip():
        raise AuditError("is empty", place=place, remedy=REMEDY)
    found = _read(text, place)
    if not found:
        raise AuditError("starts no engine that is known", place=place, remedy=REMEDY)
    return found


def _read(text: str, place: str) -> tuple[Setup, ...]:
    if told.looks_like_page(text):
        return told.page(text, place=place)
    if told.looks_like_log(text):
        return told.log(text, place=place)
    body = manifests.inside(text)
    if manifests.looks(body):
        return manifests.setups(body, place=place)
    return shell.setups(text, place=place)
