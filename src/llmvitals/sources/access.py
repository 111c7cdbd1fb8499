"""What lets us in at a source, and what helps where it does not: see :mod:`llmvitals.telemetry.access` for the headers.

No message here, and no ``repr``, shows what a file holds.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from llmvitals.errors import LlmvitalsError, SettingsError, UnreachableError
from llmvitals.settings import TENANT_HEADER, Access
from llmvitals.telemetry.access import CHECK, NOBODY, headers, secrets_of
from llmvitals.telemetry.addresses import is_loopback

__all__ = ["NOBODY", "certificates", "exposed", "headers", "refused", "secrets_of"]


def certificates(access: Access) -> tuple[str | bool, tuple[str, str] | None]:
    """Whom we trust (True: whom the system trusts), and the certificate that we show.

    Raises :class:`SettingsError` for a file that cannot be read.
    """
    for file in (access.ca_file, access.cert_file, access.key_file):
        if not file:
            continue
        try:
            with Path(file).open("rb"):
                pass
        except OSError as error:
            raise SettingsError(f"cannot be read ({error.strerror})", place=file, remedy=CHECK) from None
    return access.ca_file or True, (access.cert_file, access.key_file) if access.cert_file else None


def exposed(url: str, access: Access) -> str:
    """A sentence where a secret goes over the network in the clear, else ''. Not refused: a mesh may encrypt between pods."""
    secret = access.bearer_token_file or access.password_file or access.header_files
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not secret or parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return ""
    return f"sends its secret in the clear to {parts.hostname}; write https, unless a mesh encrypts between the pods"


def refused(status: int, told: str, access: Access, place: str) -> LlmvitalsError | None:
    """The error of an answer that does not let us in (401, 403, what gateways answer in their place, a server that wants TLS),
    else None.
    """
    if "no org id" in told.lower():  # Mimir, Cortex and Loki, with 401
        return UnreachableError(
            f"wants to know the tenant ({status}: no org id)",
            place=place,
            remedy=f"Name it under access.tenant of the source, which is sent as {TENANT_HEADER}.",
        )
    if status == 401 and access == NOBODY:
        return UnreachableError(
            "asks for credentials (401)",
            place=place,
            remedy="Give the source 'access' in the settings, or, for a URL on a command line, put them into ~/.netrc or "
            "write http://user:password@host.",
        )
    if status == 401:
        return UnreachableError(f"does not accept who asks (401){_said(told)}", place=place, remedy=_look_at(access))
    if status == 403:
        remedy = "Use credentials that may query" + (
            f", and check the tenant '{access.tenant}'." if access.tenant else "."
        )
        return UnreachableError(f"forbids this user to ask (403){_said(told)}", place=place, remedy=remedy)
    if status == 400 and "http request to an https server" in told.lower():  # Go's net/http
        return UnreachableError("speaks TLS there, and is asked without (400)", place=place, remedy="Write https://.")
    if status == 407:
        return UnreachableError(
            "the proxy on the way asks for credentials (407)", place=place, remedy="Check HTTPS_PROXY and NO_PROXY."
        )
    return None


def _look_at(access: Access) -> str:
    """Which file to look at after a 401."""
    if access.bearer_token_file:
        return f"Check that {access.bearer_token_file} holds a token that is valid now."
    if access.username:
        return f"Check access.username, and that {access.password_file} holds its password."
    if access.header_files:
        return f"Check what {', '.join(access.header_files.values())} holds."
    return "Name a bearer_token_file, or username and password_file, under access of the source."


def _said(told: str) -> str:
    """What the server said, where that is a line and no page."""
    line = " ".join("".join(c if c.isprintable() else " " for c in told).split())
    return f": {line}" if line and not line.startswith("<") and len(line) <= 200 else ""
