"""Certificates made on the spot with the openssl command: an authority, and what it signs for loopback."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

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


def signed(folder: Path, name: str, by: Pair) -> Pair:
    """A certificate for ``name`` on 127.0.0.1, as a server or as a client."""
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2),
        *("-subj", f"/CN={name}", "-keyout", pair.key, "-out", pair.cert, "-CA", by.cert, "-CAkey", by.key),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"),
    )
    return pair
