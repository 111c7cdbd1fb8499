"""Who may open the app, once a provider has said who somebody is (OpenID Connect)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmvitals.settings import App

Claims = Mapping[str, object]
"""What a provider's ID token says of somebody (OpenID Connect Core 1.0, sections 2 and 5.1)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why somebody may not open the app: thing and remedy, as sentences with ``{name}``."""

    thing: str
    remedy: str


OLD = Refused("the sign-in is too old", "Sign in again.")
UNVERIFIED = Refused("the address {name} is not verified by its provider", "Verify it there, then sign in again.")
STRANGER = Refused(
    "{name} may not open this app",
    "Sign in as somebody else, or ask who keeps its settings (app.allowed_emails and others).",
)


SENTENCES = tuple(text for one in (OLD, UNVERIFIED, STRANGER) for text in (one.thing, one.remedy))


def limited(allowed: App) -> bool:
    """Whether not everybody may open it whom the provider knows."""
    return bool(allowed.allowed_emails or allowed.allowed_domains or allowed.allowed_groups)


def called(claims: Claims) -> str:
    """What to call somebody: the name, else the address, else the provider's own id."""
    return next((str(claims[key]) for key in ("name", "email", "preferred_username", "sub") if claims.get(key)), "?")


def known_as(claims: Claims) -> str:
    """Who it is, so that a person can tell accounts apart: the address, else the name."""
    return str(claims.get("email") or called(claims))


def refusal(claims: Claims, allowed: App, now: float) -> Refused | None:
    """Why somebody may not open the app at the moment ``now`` (unix seconds), None where they may.

    One list that takes them is enough. An address that its provider says is not verified is nobody's.
    """
    issued = claims.get("iat")
    if not isinstance(issued, (int, float)) or isinstance(issued, bool) or now - issued > allowed.session_seconds:
        return OLD
    if not limited(allowed) or groups(claims, allowed.groups_claim) & set(allowed.allowed_groups):
        return None
    email = str(claims.get("email") or "").casefold()
    domain = email.rpartition("@")[2] if "@" in email else ""
    taken = email in {one.casefold() for one in allowed.allowed_emails} - {""}
    taken = taken or domain in {one.removeprefix("@").casefold() for one in allowed.allowed_domains} - {""}
    if not taken:
        return STRANGER
    return UNVERIFIED if claims.get("email_verified") in (False, "false") else None


def groups(claims: Claims, claim: str) -> frozenset[str]:
    """The groups or roles that a claim names. ``claim`` may lead into one: ``realm_access.roles`` of Keycloak."""
    found: object = claims.get(claim)
    if found is None:
        found = claims
        for key in claim.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return frozenset({found})
    listed = found if isinstance(found, Sequence) else ()
    return frozenset(one for one in listed if isinstance(one, str))
