"""Runs the command line as a person does: a process of its own, judged by what it prints and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

LIMIT_SECONDS = 60.0


@dataclass(frozen=True)
class Ran:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its whole stdout as JSON."""
        return json.loads(self.out)


def argv(*words: object) -> list[str]:
    """The command line of ``llmvitals`` with these words."""
    return [sys.executable, "-m", "llmvitals", *map(str, words)]


def llmvitals(*words: object) -> Ran:
    """Run ``llmvitals`` to its end."""
    done = subprocess.run(argv(*words), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def one_clear_line(ran: Ran) -> str:
    """The only line of a command that failed on bad input; fails when it is more, or less, than that."""
    assert ran.code == 3, ran
    assert ran.out == "", ran
    (line,) = ran.err.splitlines()
    assert "Traceback" not in line
    return line
