"""Numbers as they were given, held against what they may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmvitals.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Given:
    """A number and the largest that is taken; ``zero``: whether 0 is one, too."""

    name: str
    value: float
    most: float
    zero: bool = False

    @property
    def fits(self) -> bool:
        """Whether it lies within; what is no number (NaN) does not."""
        return (self.value >= 0.0 if self.zero else self.value > 0.0) and self.value <= self.most


def hold(given: Iterable[Given], *, place: str) -> None:
    """Raises :class:`SettingsError` for the first one that is out of bounds."""
    for one in given:
        if not one.fits:
            least = "from 0 on" if one.zero else "above 0"
            raise SettingsError(
                f"{one.name} is {one.value:g}",
                place=place,
                remedy=f"Give a number {least}, {one.most:,g} at most.",
            )
