"""Errors a person can act on: each names the thing, the place and the remedy in one line."""

from __future__ import annotations


class LlmvitalsError(Exception):
    """Base of every error that the command line shows as one line and answers with exit code 3.

    ``thing`` is what is wrong, ``place`` where it is (a URL, a file, a settings key), ``remedy`` what to do about it.
    """

    def __init__(self, thing: str, *, place: str, remedy: str) -> None:
        self.thing = thing
        self.place = place
        self.remedy = remedy
        super().__init__(f"{place}: {thing}. {remedy}")


class UnreachableError(LlmvitalsError):
    """A target gave no answer, or answered with a status that is not a page."""


class PageError(LlmvitalsError):
    """Something answered, but not with a metrics page that can be read."""


class SpansError(LlmvitalsError):
    """What a sender of traces sent cannot be read as an export of spans."""


class CaptureError(LlmvitalsError):
    """A recording cannot be read: a file is missing, damaged, or not in the format."""


class SettingsError(LlmvitalsError):
    """A settings file or a command-line value is not valid."""


class MissingExtraError(LlmvitalsError):
    """A command needs an optional dependency that is not installed."""


def install(extra: str) -> str:
    """The remedy where an optional dependency is missing: the extra that brings it."""
    return f"Install it with: pip install 'llmvitals[{extra}]'."
