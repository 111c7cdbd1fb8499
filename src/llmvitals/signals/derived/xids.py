"""What an XID code means: whom NVIDIA's catalogue names as its source, in the words that a verdict repeats.

Source: NVIDIA, "Xid Errors" (catalogue of codes, Ampere and newer). ``app``: the program or the driver by itself, never the
card; ``either``: a program's mistake or a card's, which a repeat on another card tells apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Of(StrEnum):
    """Whose error it is."""

    APP = "app"
    EITHER = "app or card"
    CARD = "card"
    LINK = "link"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Xid:
    """One code in words."""

    of: Of
    words: str


XIDS: Mapping[str, Xid] = {
    "13": Xid(Of.EITHER, "a kernel raised an exception"),
    "31": Xid(Of.EITHER, "a kernel touched memory that is not mapped"),
    "32": Xid(Of.EITHER, "commands to the card came damaged"),
    "38": Xid(Of.CARD, "its firmware failed"),
    "43": Xid(Of.APP, "a program's channel was reset"),
    "45": Xid(Of.APP, "the driver cleaned up after a program"),
    "46": Xid(Of.CARD, "the card stopped working"),
    "48": Xid(Of.MEMORY, "an uncorrectable memory error"),
    "61": Xid(Of.CARD, "its microcontroller halted"),
    "62": Xid(Of.CARD, "its microcontroller halted"),
    "63": Xid(Of.MEMORY, "a row of memory is remapped at the next reset"),
    "64": Xid(Of.MEMORY, "a row of memory could not be remapped"),
    "68": Xid(Of.EITHER, "the video decoder raised an exception"),
    "69": Xid(Of.EITHER, "a kernel raised a class error"),
    "74": Xid(Of.LINK, "NVLink failed"),
    "79": Xid(Of.LINK, "the card has fallen off the bus"),
    "92": Xid(Of.MEMORY, "corrected memory errors come often"),
    "94": Xid(Of.MEMORY, "an uncorrectable memory error, contained to one program"),
    "95": Xid(Of.MEMORY, "an uncorrectable memory error, not contained"),
    "109": Xid(Of.EITHER, "a switch between programs took too long"),
    "119": Xid(Of.CARD, "its system processor does not answer"),
    "120": Xid(Of.CARD, "its system processor failed"),
    "136": Xid(Of.LINK, "NVLink could not be trained"),
    "140": Xid(Of.MEMORY, "an unrecovered memory error"),
    "143": Xid(Of.CARD, "the card could not be initialised"),
    "144": Xid(Of.LINK, "NVLink failed (its switch-side state machine)"),
    "145": Xid(Of.LINK, "NVLink failed (its receiver)"),
    "149": Xid(Of.LINK, "NVLink failed (its network layer)"),
    "154": Xid(Of.CARD, "the driver asks for a reset or a reboot"),
}

APPLICATION: frozenset[str] = frozenset(code for code, xid in XIDS.items() if xid.of is Of.APP)
"""Codes for which the program or the driver is the cause, and never the card."""


def told(codes: Iterable[str]) -> str:
    """Codes in words, the lowest first: ``XID 79 (link): the card has fallen off the bus``."""
    known = sorted(dict.fromkeys(codes), key=lambda code: (len(code), code))
    return "; ".join(_one(code) for code in known)


def _one(code: str) -> str:
    found = XIDS.get(code)
    return f"XID {code} ({found.of}): {found.words}" if found else f"XID {code}"
