"""What is amiss with the readers of this machine, told in the log once, with its remedy, and once more when it is over."""

from __future__ import annotations

import logging

from llmvitals.exporters.logs import log
from llmvitals.sources.node import Seen


class Troubles:
    """The readers that failed when they were last asked."""

    def __init__(self) -> None:
        self._failed: frozenset[str] = frozenset()

    def note(self, seen: Seen) -> None:
        """Log what began to fail and what works again. A reason that only changes its wording is not told anew."""
        for one in seen.outcomes:
            if not one.ok and one.name not in self._failed:
                log("reader-failed", level=logging.WARNING, instance=seen.name, reader=one.name, detail=one.why)
            elif one.ok and one.name in self._failed:
                log("reader-works", instance=seen.name, reader=one.name)
        self._failed = frozenset(one.name for one in seen.outcomes if not one.ok)
