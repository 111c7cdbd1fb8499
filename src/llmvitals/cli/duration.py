"""Durations on the command line: ``60s``, ``5m``, ``1h30m``, ``50ms``, or plain seconds."""

from __future__ import annotations

import re

import click

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = r"(\d+(?:\.\d+)?)(ms|h|m|s)"
_WHOLE = re.compile(rf"(?:{_PART})+")
LONGEST = 1e9
"""Seconds; some 32 years, beyond which numbers of pages overflow."""


def duration(text: str) -> float:
    """Seconds of a duration, for ``click.option(type=duration)``. Raises ``click.BadParameter`` for anything else."""
    plain = text.strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", plain):
        total = float(plain)
    elif _WHOLE.fullmatch(plain):
        total = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, plain))
    else:
        raise click.BadParameter(f"'{text}' is not a duration; write it like 60s, 5m or 1h30m.")
    if not 0 < total <= LONGEST:
        raise click.BadParameter(f"'{text}' is no time at all, or too long; write it like 60s, 5m or 1h30m.")
    return total
