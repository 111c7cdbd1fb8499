"""What the pages say, in the language that a person chose."""

from __future__ import annotations


def t(text: str, **values: object) -> str:
    """A text of the pages in the chosen language. ``text`` is written out where it is used, with ``{names}`` for ``values``."""
    return text.format(**values) if values else text


def tell(sentence: str) -> str:
    """A sentence that the triage made, in the chosen language; in English where there is no translation of it."""
    return sentence
