"""How a histogram edge may be spelt in ``le``: two compilers that look for one edge must accept the same texts."""

from __future__ import annotations

import math
from decimal import Decimal


def edge_spellings(bound: float) -> tuple[str, ...]:
    """The texts that mean this edge, the plain one first.

    ``2`` is the shortest, ``2.0`` what OpenMetrics and Prometheus 3 write, ``1e+06`` what Go writes above 999999.
    """
    if math.isinf(bound):
        return ("+Inf",)
    number = Decimal(repr(float(bound))).normalize()
    plain = f"{number:f}"
    dotted = plain if "." in plain else f"{plain}.0"
    digits, exponent = f"{number:e}".split("e")
    return tuple(dict.fromkeys((plain, dotted, f"{digits}e{int(exponent):+03d}")))
