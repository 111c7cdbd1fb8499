"""Certificates made on the spot with the openssl command: an authority, and what it signs for loopback."""

from __future__ import annotations

import datetime
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.prometheus import binary


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


def _openssl(*words: object) -> None:
    subprocess.run([binary("openssl"), *map(str, words)], check=True, capture_output=True, timeout=60)


def authority(folder: Path, name: str) -> Pair:
    """A certificate that signs itself, good for signing others."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2),
        *("-subj", f"/CN={name}", "-keyout", pair.key, "-out", pair.cert),
    )
    return pair


def signed(folder: Path, name: str, by: Pair, *, names: str = "IP:127.0.0.1") -> Pair:
    """A certificate for ``name`` on 127.0.0.1, as a server or as a client."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2),
        *("-subj", f"/CN={name}", "-keyout", pair.key, "-out", pair.cert, "-CA", by.cert, "-CAkey", by.key),
        *("-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE"),
    )
    return pair


def outlived(pair: Pair, by: Pair) -> None:
    """Make a certificate one that ended an hour ago. The openssl command cannot."""
    old = x509.load_pem_x509_certificate(pair.cert.read_bytes())
    key = serialization.load_pem_private_key(by.key.read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), old.serial_number)
    made = made.not_valid_before(now - datetime.timedelta(hours=2)).not_valid_after(now - datetime.timedelta(hours=1))
    for extension in old.extensions:
        made = made.add_extension(extension.value, extension.critical)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    pair.cert.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
