"""Who may read the exporter, and over what: a file in the web configuration format of Prometheus' own exporters.

The keys and their meaning are those of Prometheus' exporter-toolkit, so that one file protects a node's exporters alike.
Names of files are relative to the folder of the configuration. What that format knows and this program does not is
refused with the reason, never passed over: most of it would weaken a protection that somebody relies on.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llmvitals.errors import SettingsError
from llmvitals.settings import Struct, convert, read_yaml

PAGE = "docs/exporter.md"

# Section, key, what to do instead.
ELSEWHERE: tuple[tuple[str, str, str], ...] = (
    ("tls_server_config", "cert", "Put it into a file, and name that with cert_file."),
    ("tls_server_config", "key", "Put it into a file, and name that with key_file."),
    ("tls_server_config", "client_ca", "Put it into a file, and name that with client_ca_file."),
    ("tls_server_config", "curve_preferences", "Leave it out: the machine's OpenSSL policy decides."),
    (
        "",
        "rate_limit",
        "Leave it out: it would keep Prometheus out too; connections, their time and their cost are bounded.",
    ),
)

CLIENT_AUTH: Mapping[str, ssl.VerifyMode] = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
"""The format's other two ask for a certificate and then believe any: OpenSSL cannot, and nobody should."""

VERSIONS: Mapping[str, ssl.TLSVersion] = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

CIPHERS: Mapping[str, str] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""IANA's name (the format's) and OpenSSL's, of the TLS 1.2 suites with forward secrecy and an AEAD cipher (RFC 9325)."""

_BCRYPT = re.compile(r"\$2[abxy]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
_HASHING = "Hash the password, for example with: htpasswd -nBC 10 ''."
T = TypeVar("T")


class Tls(Struct, frozen=True):
    """``tls_server_config``."""

    cert_file: str = ""
    key_file: str = ""
    client_auth_type: str = ""
    client_ca_file: str = ""
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True


class Headers(Struct, frozen=True):
    """The headers that the format lets one set; '' leaves an answer's own."""

    content_security_policy: str = msgspec.field(default="", name="Content-Security-Policy")
    x_frame_options: str = msgspec.field(default="", name="X-Frame-Options")
    x_content_type_options: str = msgspec.field(default="", name="X-Content-Type-Options")
    x_xss_protection: str = msgspec.field(default="", name="X-XSS-Protection")
    strict_transport_security: str = msgspec.field(default="", name="Strict-Transport-Security")


class Http(Struct, frozen=True):
    """``http_server_config``. ``http2`` is taken and changes nothing: the server speaks HTTP/1.1, as every client can."""

    http2: bool = True
    headers: Headers = Headers()


class File(Struct, frozen=True):
    """The whole file."""

    tls_server_config: Tls | None = None
    http_server_config: Http = Http()
    basic_auth_users: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Files:
    """What the files of a TLS section hold, as PEM, for a server that takes no context. ``client_ca``: empty for none."""

    cert: bytes
    key: bytes = field(repr=False)
    client_ca: bytes = b""


@dataclass(frozen=True, slots=True)
class Web:
    """A web configuration in use. ``users``: bcrypt hash by name; none means that everybody may read.

    ``policy``: what of the TLS settings a server under way cannot change; None where it speaks plain HTTP. ``context`` and
    ``files`` say the same to two kinds of server. ``sans``: names of which a client's certificate must have one; none means any
    name. ``sources``: the files that it was read from.
    """

    users: Mapping[str, bytes] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    policy: Tls | None = None
    context: ssl.SSLContext | None = None
    files: Files | None = None
    sans: frozenset[str] = frozenset()
    sources: tuple[Path, ...] = ()


def load(path: Path | str) -> Web:
    """Read and check a web configuration, with every file that it names; '' gives an open one.

    Raises :class:`SettingsError`. No message repeats a password or a hash.
    """
    if not path:
        return Web()
    place, data = str(path), read_yaml(path)
    for section, key, remedy in ELSEWHERE:
        part = data.get(section) if section and isinstance(data, dict) else data
        if isinstance(part, dict) and key in part:
            raise SettingsError(f"{key} is not supported", place=_in(place, section), remedy=remedy)
    file = convert(data, File, place=place, page=PAGE)
    for user, hashed in file.basic_auth_users.items():
        if not _BCRYPT.fullmatch(hashed):
            raise SettingsError("is not a bcrypt hash", place=_in(place, f"basic_auth_users.{user}"), remedy=_HASHING)
    headers = {name: value for name, value in msgspec.to_builtins(file.http_server_config.headers).items() if value}
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            where = _in(place, f"http_server_config.headers.{name}")
            raise SettingsError("is not one line of ASCII", place=where, remedy="Correct the value.")
    users = {user: hashed.encode() for user, hashed in file.basic_auth_users.items()}
    tls = file.tls_server_config
    if tls is None:
        return Web(users, headers, sources=(Path(path),))
    policy = msgspec.structs.replace(tls, cert_file="", key_file="", client_ca_file="", client_allowed_sans=())
    folder, section = Path(path).parent, _in(place, "tls_server_config")
    context = _context(tls, folder, section)
    names = ("cert_file", "key_file", *(("client_ca_file",) if tls.client_ca_file else ()))
    sources = tuple(_file(tls, name, folder, section) for name in names)
    files = Files(*(source.read_bytes() for source in sources))
    return Web(users, headers, policy, context, files, _sans(tls, section), (Path(path), *sources))


def allowed(web: Web, certificate: Mapping[str, Any] | None) -> bool:
    """Whether a client may come in by the names of its (already verified) certificate, as ``SSLSocket.getpeercert`` shows it.

    DNS names, addresses, e-mail addresses and URIs count, exactly as they are written in the list; of addresses any spelling.
    """
    if not web.sans:
        return True
    names = (certificate or {}).get("subjectAltName", ())
    return any((_address(name) if kind == "IP Address" else name) in web.sans for kind, name in names)


def _sans(tls: Tls, place: str) -> frozenset[str]:
    if tls.client_allowed_sans and CLIENT_AUTH.get(tls.client_auth_type) is not ssl.CERT_REQUIRED:
        remedy = "Add client_auth_type: RequireAndVerifyClientCert; another one lets clients in that have no name."
        raise SettingsError(
            "has client_allowed_sans, but not every client must show a name", place=place, remedy=remedy
        )
    return frozenset(_address(name) for name in tls.client_allowed_sans)


def _address(text: str) -> str:
    """An address in its one spelling; what is none as it is."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text


def _context(tls: Tls, folder: Path, place: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _one_of(VERSIONS, tls.min_version, place, "min_version")
    context.maximum_version = _one_of(VERSIONS, tls.max_version, place, "max_version")
    if context.minimum_version > context.maximum_version:
        raise SettingsError("min_version is above max_version", place=place, remedy="Swap them, or leave one out.")
    if tls.cipher_suites:
        wanted = ":".join(_one_of(CIPHERS, suite, place, "cipher_suites") for suite in tls.cipher_suites)
        try:
            context.set_ciphers(wanted)
        except ssl.SSLError:
            remedy = "Name others, or leave it out: this machine's OpenSSL, or its policy, has none of these."
            raise SettingsError("cipher_suites cannot be used", place=place, remedy=remedy) from None
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.options |= ssl.OP_NO_RENEGOTIATION  # TLS 1.2: a client could have keys made anew as fast as it can ask
    context.set_alpn_protocols(["http/1.1"])
    cert, key = (_file(tls, name, folder, place) for name in ("cert_file", "key_file"))
    try:
        # The empty password ends OpenSSL's question for one, which nobody would be there to answer.
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError, OSError) as error:
        said = getattr(error, "reason", None) or error
        remedy = "Give a PEM certificate chain and the key that belongs to it, without a passphrase."
        raise SettingsError(
            f"certificate and key cannot be used ({said})", place=f"{cert}, {key}", remedy=remedy
        ) from None
    _trust(context, tls, folder, place)
    return context


def _trust(context: ssl.SSLContext, tls: Tls, folder: Path, place: str) -> None:
    """Whether clients must show a certificate, and who may have signed it."""
    mode = _one_of(CLIENT_AUTH, tls.client_auth_type, place, "client_auth_type")
    if (mode is ssl.CERT_NONE) != (tls.client_ca_file == ""):
        there, lacking = (
            ("client_ca_file", "client_auth_type") if tls.client_ca_file else ("client_auth_type", "client_ca_file")
        )
        raise SettingsError(f"has {there} without {lacking}", place=place, remedy=f"Add {lacking}, or drop {there}.")
    if mode is ssl.CERT_NONE:
        return
    ca = _file(tls, "client_ca_file", folder, place)
    try:
        context.load_verify_locations(ca)
    except (ssl.SSLError, OSError) as error:
        said = getattr(error, "reason", None) or error
        raise SettingsError(
            f"cannot be used ({said})", place=str(ca), remedy="Give the CA's certificates as PEM."
        ) from None
    context.verify_mode = mode


def _file(tls: Tls, name: str, folder: Path, place: str) -> Path:
    """The path that a key names, once it is sure that it can be read."""
    value: str = getattr(tls, name)
    if not value:
        raise SettingsError(f"lacks {name}", place=place, remedy=f"Add {name}, or remove the section.")
    path = folder / value
    try:
        path.open("rb").close()
    except OSError as error:
        raise SettingsError(
            f"{name} cannot be read ({error.strerror})", place=str(path), remedy="Check the path and its permissions."
        ) from None
    return path


def _one_of(table: Mapping[str, T], value: str, place: str, key: str) -> T:
    if value not in table:
        known = ", ".join(name for name in table if name)
        raise SettingsError(f"{key} cannot be '{value}'", place=place, remedy=f"Use one of {known}.")
    return table[value]


def _in(place: str, key: str) -> str:
    return f"{place}: {key}" if key else place
