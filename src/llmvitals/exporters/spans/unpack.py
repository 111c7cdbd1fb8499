"""Compressed bodies: what they claim to hold before they are unpacked, and the bytes, never more than allowed."""

from __future__ import annotations

import zlib

GZIP = b"\x1f\x8b"
ZLIB = b"\x78"
"""How what gRPC calls gzip and deflate begin. An export begins with the tag of its only field, which is neither."""

_EITHER = 47  # zlib's window bits: gzip or zlib, whichever the header says
_LEAST = 18  # header and trailer of an empty gzip file


class TooLargeError(ValueError):
    """There is more in it than may be."""


def is_packed(body: bytes) -> bool:
    """Whether a message of a transport that does not say so is compressed."""
    return body.startswith((GZIP, ZLIB))


def claimed(body: bytes, most: int) -> int:
    """Bytes that a compressed body says it unpacks to, at least its own and at most ``most``.

    Gzip's last four bytes say so (RFC 1952, ISIZE). A body that lies is found out when it is unpacked.
    """
    told = int.from_bytes(body[-4:], "little") if body.startswith(GZIP) and len(body) >= _LEAST else most
    return max(len(body), min(told, most))


def unpacked(body: bytes, most: int) -> bytes:
    """The bytes of one compressed body. Raises :class:`TooLargeError` past ``most``, ``ValueError`` for what is damaged."""
    machine = zlib.decompressobj(_EITHER)
    try:
        out = machine.decompress(body, most + 1)
    except zlib.error as error:
        raise ValueError(f"the compressed body is damaged ({error})") from None
    if len(out) > most:
        raise TooLargeError(f"the body unpacks to more than {most} bytes")
    if not machine.eof:
        raise ValueError("the compressed body ends too early")
    if machine.unused_data:
        raise ValueError("something follows the compressed body")
    return out
