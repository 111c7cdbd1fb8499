"""Answers that were written down: a page saved to a file, or an HTTP exchange as text, status and headers included."""

from __future__ import annotations

import re
from collections.abc import Callable

from llmvitals.telemetry.ingest.page import RawPage

_STATUS = re.compile(rb"(?:< ?)?HTTP/\d(?:\.\d)? (\d{3})\b[^\r\n]*\r?\n")
_BODY_OF = re.compile(rb"\(body: ([\w.-]+)(?:;[^)]*)?\)")


def recorded(content: bytes, t: float, beside: Callable[[str], bytes | None]) -> RawPage:
    """The page in a file's content; ``t``: unix seconds at which it was saved.

    Of an HTTP exchange the last answer counts, since what comes before it are redirects that were followed. Lines may
    carry curl's ``<`` and ``>``. A body of ``(body: NAME)`` stands for a file, which ``beside`` reads; a name with a
    folder in it is none.
    """
    answers = list(_STATUS.finditer(content))
    if not answers or (content[: answers[0].start()].strip() and not content.lstrip().startswith(b">")):
        return RawPage(t, None, None, content)
    last = answers[-1]
    _, _, body = _split(content[last.end() :])
    named = _BODY_OF.fullmatch(body.strip())
    if named is not None:
        found = beside(named[1].decode("ascii"))
        if found is None:
            return RawPage(t, None, int(last[1]), None, "the recording's body is in a file that is not beside it")
        body = found
    return RawPage(t, None, int(last[1]), body)


def _split(text: bytes) -> tuple[bytes, bytes, bytes]:
    """What follows a status line, at the blank line that ends the headers."""
    blank = re.search(rb"(?:\A|\n)\r?\n", text)
    return (text, b"", b"") if blank is None else (text[: blank.start()], blank[0], text[blank.end() :])
