"""Every text of load tests that a page may show, for those who translate: words with ``{places}`` for the values."""

from __future__ import annotations

from llmvitals.loadtest import texts as said


def texts() -> tuple[str, ...]:
    """All of them, each once."""
    return tuple(
        dict.fromkeys(value for name, value in vars(said).items() if name.isupper() and isinstance(value, str))
    )
