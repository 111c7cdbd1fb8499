"""What lets us in where we ask: the headers and certificates that an ``Access`` names, read from their files as they are now.

No message here, and no ``repr``, shows what a file holds.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from llmvitals.errors import SettingsError
from llmvitals.settings import TENANT_HEADER, Access
from llmvitals.telemetry.headers import checked
from llmvitals.telemetry.watchdog import watched_pools

MOST_SECRET_BYTES = 65_536
"""The largest file of a secret: a token of Kubernetes or of an OIDC provider takes a few KiB."""

LEAST_MASKED = 6
"""Shorter values are not looked for in what a server says: they stand in any page by chance."""

NOBODY = Access()
"""Nothing lets us in but what the address itself or ``~/.netrc`` says."""

CHECK = "Check the path in access, and its permissions."


def headers(access: Access) -> dict[str, str]:
    """The headers that a request carries. Raises :class:`SettingsError` for a file that holds none."""
    secrets = {name: _secret(file) for name, file in access.header_files.items()}
    if access.bearer_token_file:
        secrets["Authorization"] = f"Bearer {_secret(access.bearer_token_file)}"
    for name, value in secrets.items():
        checked({name: value}, place=access.header_files.get(name, access.bearer_token_file))
    if access.username:
        pair = f"{access.username}:{_secret(access.password_file)}".encode()
        secrets["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    tenant = {TENANT_HEADER: access.tenant} if access.tenant else {}
    return {**access.headers, **tenant, **secrets}


def secrets_of(access: Access, sent: Mapping[str, str]) -> tuple[str, ...]:
    """The values among the headers sent that no message may repeat, longest first."""
    plain = {name.lower() for name in (*access.headers, TENANT_HEADER)}
    found = {value for name, value in sent.items() if name.lower() not in plain}
    found |= {value.partition(" ")[2] for value in found}
    found |= {_password(value) for value in found if value.startswith("Basic ")}
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def _password(basic: str) -> str:
    try:
        return base64.b64decode(basic[6:]).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def masked(body: bytes, secrets: tuple[str, ...]) -> bytes:
    """What a server said, without what it was sent: some repeat it, and a page is kept, shown and passed on."""
    for secret in secrets:
        if len(secret) >= LEAST_MASKED:
            body = body.replace(secret.encode(), b"***")
    return body


def _secret(file: str) -> str:
    """What a file holds, without white space around it, as Prometheus reads such files."""
    try:
        with Path(file).open("rb") as opened:
            held = opened.read(MOST_SECRET_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"cannot be read ({error.strerror})", place=file, remedy=CHECK) from None
    try:
        text = held.decode("utf-8").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(held) > MOST_SECRET_BYTES:
        raise SettingsError("holds no secret that can be sent", place=file, remedy="Write it there, on one line.")
    return text


def beside(url: str, access: Access, other: str) -> Access:
    """The access for another address than the one that it was given for: all of it on the same server, else only whom we trust
    and the certificate that we show, which tell nobody a secret.
    """
    return access if _server(url) == _server(other) else without_headers(access)


def without_headers(access: Access) -> Access:
    """What is left of an access where something else says who asks."""
    return Access(
        ca_file=access.ca_file,
        cert_file=access.cert_file,
        key_file=access.key_file,
        allow_addresses=access.allow_addresses,
    )


def _server(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)


def context_of(access: Access) -> ssl.SSLContext:
    """Whom we trust and the certificate that we show. Raises :class:`SettingsError` for files that cannot be used."""
    context = create_urllib3_context()
    try:
        if access.ca_file:
            context.load_verify_locations(access.ca_file)
        else:
            context.load_default_certs()
    except OSError as error:  # ssl.SSLError is one
        raise _unusable(access.ca_file, error, "Name a PEM file of certificates in access.ca_file.") from None
    if access.cert_file:
        _show(context, access)
    return context


def _show(context: ssl.SSLContext, access: Access) -> None:
    for file in (access.cert_file, access.key_file):
        try:
            with Path(file).open("rb"):
                pass
        except OSError as error:
            raise _unusable(file, error, CHECK) from None
    try:
        context.load_cert_chain(access.cert_file, access.key_file, password=_locked)
    except (OSError, _LockedError) as error:
        remedy = "Check cert_file and key_file: PEM, with a key that is not encrypted and that is the certificate's."
        raise _unusable(access.key_file, error, remedy) from None


class _LockedError(Exception):
    """A key that is encrypted: the library would ask the terminal for its password."""


def _locked() -> str:
    raise _LockedError


def _unusable(file: str, error: Exception, remedy: str) -> SettingsError:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "no PEM").replace("_", " ").lower()
        return SettingsError(f"cannot be used ({reason})", place=file, remedy=remedy)
    if isinstance(error, OSError):
        return SettingsError(f"cannot be read ({error.strerror})", place=file, remedy=CHECK)
    return SettingsError("cannot be used (its key is encrypted)", place=file, remedy=remedy)


class Ways:
    """Connections that are kept, apart by whom they trust, whom they show and where they may go.

    Files of certificates are looked at for each request, and connections made anew when one has changed; an access without any
    shares the connections of all others.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # the library's own
        self._settings = settings
        self._common = watched_pools(**settings)
        self._own: dict[bytes, tuple[tuple[object, ...], urllib3.PoolManager]] = {}
        self._lock = threading.Lock()

    def pools(self, access: Access) -> urllib3.PoolManager:
        """The connections of one access. Raises :class:`SettingsError` for files that cannot be used."""
        files = (access.ca_file, access.cert_file, access.key_file)
        if not (any(files) or access.allow_addresses):
            return self._common
        key = msgspec.json.encode((files, access.allow_addresses))
        stamps = tuple(_stamp(file) for file in files if file)
        with self._lock:
            found = self._own.get(key)
        if found is not None and found[0] == stamps:
            return found[1]
        pools = watched_pools(**self._settings, ssl_context=context_of(access))
        with self._lock:
            before, self._own[key] = self._own.get(key), (stamps, pools)
        if before is not None:
            before[1].clear()
        return pools


def _stamp(file: str) -> object:
    """What a file is now: another where it was written or replaced, through links as Kubernetes swaps them as well."""
    try:
        seen = Path(file).stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_dev, seen.st_size, seen.st_mtime_ns
