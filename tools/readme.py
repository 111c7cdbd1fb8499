"""Puts the verdicts that ``llmvitals triage`` prints for committed recordings into the pages that show them.

Run from the root of the checkout: ``python tools/readme.py`` (``make generate`` does). Tests hold the pages against the
command, so that what they show is never an invention.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGES = (Path("README.md"), Path("examples/walkthrough.md"))
SHOWN = re.compile(r"^\$ llmvitals (?P<arguments>.+)\n(?P<output>(?:.*\n)*?)```", re.M)


def printed(arguments: str) -> str:
    """The output of a command up to its first empty line: the verdict, without the walk that follows."""
    command = [sys.executable, "-m", "llmvitals", *arguments.split()]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = [line.rstrip() for line in output.split("\n\n")[0].splitlines()]
    return "".join(f"{line}\n" for line in lines)


def renewed(text: str) -> str:
    """A page's text with the outputs as they are now."""
    return SHOWN.sub(lambda m: f"$ llmvitals {m['arguments']}\n{printed(m['arguments'])}```", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
