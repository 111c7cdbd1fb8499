"""Holds ``llmvitals triage`` against what recordings are known to be, and prints both.

    python e2e/judge.py FOLDER

FOLDER is a recording, or holds some; each says in its ``about.json`` what a triage must find. Exit code 1 when one differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Judged:
    """One recording: what it is, what was expected (None: nobody said), and what the triage found."""

    name: str
    expected: str | None
    found: str
    missing: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether nothing differs; a recording that nobody labelled cannot differ."""
        return self.expected is None or (self.expected == self.found and not self.missing)


def recordings(folder: Path) -> list[Path]:
    """The folder itself when it is a recording, else those in it."""
    if (folder / "capture.json").is_file():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/capture.json"))


def labelled(folder: Path) -> dict[str, Any]:
    """What ``about.json`` says must be found; empty where it says nothing."""
    about = folder / "about.json"
    found: dict[str, Any] = (
        json.loads(about.read_text(encoding="utf-8")).get("expected") or {} if about.is_file() else {}
    )
    return found


def compare(name: str, expected: dict[str, Any], document: dict[str, Any]) -> Judged:
    """Hold a document of ``triage --json`` against the label: the leading cause, or the outcome where none leads."""
    leading = document.get("leading")
    found = leading["cause"] if leading else document["verdict"]
    mentioned = {found, *(finding["cause"] for finding in document.get("contributing", ()))}
    missing = tuple(cause for cause in expected.get("also", ()) if cause not in mentioned)
    return Judged(name, (expected.get("leading") or expected["verdict"]) if expected else None, found, missing)


def triage(folder: Path) -> dict[str, Any]:
    """What ``llmvitals triage --json`` says of a recording; its own complaint where it says nothing."""
    command = [sys.executable, "-m", "llmvitals", "triage", "--json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        return {"verdict": f"error: {done.stderr.strip()}"}
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="a recording, or a folder of them")
    given = parser.parse_args()
    found = recordings(given.folder)
    if not found:
        parser.error(f"{given.folder} holds no recording (no capture.json in it or one level below)")
    judged = [compare(path.name, labelled(path), triage(path)) for path in found]
    wide = max(len(one.name) for one in judged)
    for one in judged:
        mark = "?" if one.expected is None else "ok" if one.right else "NOT"
        lacking = f"  does not mention {', '.join(one.missing)}" if one.missing else ""
        print(f"{mark:3}  {one.name:{wide}}  expected {one.expected or '-':28}  found {one.found}{lacking}")
    wrong = sum(not one.right for one in judged)
    print(f"{len(judged) - wrong} of {len(judged)} as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
