"""TLS of the web configuration for gRPC, which takes no TLS context: what it can keep of it, and certificates that are renewed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llmvitals.errors import SettingsError
from llmvitals.exporters.web_config import Files, Tls, Web

if TYPE_CHECKING:
    import grpc

OURS: Tls = Tls()
UNCHANGEABLE: tuple[tuple[str, str], ...] = (
    ("min_version", "TLS 1.2 and 1.3 are both spoken there"),
    ("max_version", "TLS 1.2 and 1.3 are both spoken there"),
    ("cipher_suites", "gRPC chooses them itself"),
)
"""Keys of a TLS section that gRPC for Python cannot follow, and what it does instead."""

_CLIENT_CERTIFICATE = {"": False, "NoClientCert": False, "RequireAndVerifyClientCert": True}


def check_tls(web: Web) -> None:
    """Raises :class:`SettingsError` for a web configuration that gRPC cannot hold: a protection is never weakened silently."""
    policy = web.policy
    if policy is None:
        return
    remedy = "Use spans.http in place of spans.grpc, or leave the key out."
    place = "spans.grpc: tls_server_config of the web configuration"
    for key, instead in UNCHANGEABLE:
        if getattr(policy, key) != getattr(OURS, key):
            raise SettingsError(f"{key} cannot be kept over gRPC ({instead})", place=place, remedy=remedy)
    if web.sans:
        raise SettingsError(
            "client_allowed_sans cannot be kept over gRPC (it takes any name)", place=place, remedy=remedy
        )
    if policy.client_auth_type not in _CLIENT_CERTIFICATE:
        thing = f"client_auth_type {policy.client_auth_type} cannot be kept over gRPC (it asks all clients, or none)"
        raise SettingsError(thing, place=place, remedy=remedy)


def secrets(web: Callable[[], Web]) -> grpc.ServerCredentials:
    """A server's credentials: after a reload the next handshake takes the certificates that ``web`` then gives."""
    import grpc  # noqa: PLC0415  # an extra

    def configured(files: Files) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(files.key, files.cert)], files.client_ca or None)

    first = web()
    if first.policy is None or first.files is None:
        raise ValueError("there is no TLS section")
    known = [first.files]

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        files = web().files
        if files is None or files is known[0]:
            return None
        known[0] = files
        return configured(files)

    required = _CLIENT_CERTIFICATE[first.policy.client_auth_type]
    return grpc.dynamic_ssl_server_credentials(configured(first.files), renewed, required)
