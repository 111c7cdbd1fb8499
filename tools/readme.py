"""Puts the verdict that ``llmvitals triage`` prints for a committed recording into the README.

Run from the root of the checkout: ``python tools/readme.py`` (``make generate`` does). A test holds the README against the
command, so that what the README shows is never an invention.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path("README.md")
SHOWN = re.compile(r"^\$ llmvitals (?P<arguments>.+)\n(?P<output>(?:.*\n)*?)```", re.M)


def printed(arguments: str) -> str:
    """The output of a command up to its first empty line: the verdict, without the walk that follows."""
    command = [sys.executable, "-m", "llmvitals", *arguments.split()]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = [line.rstrip() for line in output.split("\n\n")[0].splitlines()]
    return "".join(f"{line}\n" for line in lines)


def renewed(text: str) -> str:
    """The README's text with the output as it is now."""
    return SHOWN.sub(lambda m: f"$ llmvitals {m['arguments']}\n{printed(m['arguments'])}```", text, count=1)


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
