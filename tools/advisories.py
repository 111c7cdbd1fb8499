"""Known vulnerabilities of what we install: ``python tools/advisories.py [REQUIREMENTS...]`` asks pip-audit and says what it knows.

Exit 0: nothing is known, or nobody could be asked, which is said as NOT CHECKED and never as "nothing known"; 1: something is known
that `requirements/accepted-advisories.toml` does not accept, or an acceptance has run out; 3: not checked, where ADVISORIES_STRICT
is set (for a release). ADVISORIES_URL: another server that speaks as https://api.osv.dev/v1/query does.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
AUDITED = (ROOT / "requirements/run.txt", ROOT / "requirements/build.txt")
ACCEPTED = ROOT / "requirements/accepted-advisories.toml"
SECONDS = "10"  # that one question may take


@dataclass(frozen=True, slots=True)
class Accepted:
    """An advisory that does not hold for us until the end of a day."""

    id: str
    package: str
    reason: str
    until: datetime.date


@dataclass(slots=True)
class Answer:
    """What is known: ``bad`` advisories by sentence, packages that were ``checked``, and why others were not."""

    bad: list[str] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    unchecked: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


def rounds(files: Iterable[Path]) -> Iterator[list[str]]:
    """The pins without their conditions, each package once in a round: we are answerable for every Python and system."""
    lines = {line for file in files for line in file.read_text().splitlines() if line and not line.startswith("#")}
    pins = sorted({f"{pin.name}{pin.specifier}" for pin in map(Requirement, lines)})
    while pins:
        first = {pin.partition("==")[0]: pin for pin in reversed(pins)}
        yield sorted(first.values())
        pins = [pin for pin in pins if first[pin.partition("==")[0]] != pin]


def accepted(file: Path) -> list[Accepted]:
    """What is accepted. Raises ``TypeError`` or ``KeyError`` where an entry is not whole."""
    return [Accepted(**entry) for entry in tomllib.loads(file.read_text()).get("accepted", [])]


def asked(pins: Sequence[str], url: str) -> list[Mapping[str, Any]] | str:
    """Per package what pip-audit has of it; a sentence where it has nothing to go by."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "-r", file.name, "--no-deps", "--disable-pip", "-f", "json"]
        command += [
            "--progress-spinner",
            "off",
            "--timeout",
            SECONDS,
            "-s",
            "osv",
            *(["--osv-url", url] if url else []),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: list[Mapping[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1][:200]
    return found


def judged(found: Iterable[Mapping[str, Any]], allowed: Sequence[Accepted], today: datetime.date, into: Answer) -> None:
    """Add one answer of pip-audit."""
    for one in found:
        if "skip_reason" in one:
            into.unchecked[one["name"]] = one["skip_reason"]
            continue
        into.checked.add(f"{one['name']} {one['version']}")
        for known in one["vulns"]:
            names = {known["id"], *known["aliases"]}
            entry = next((a for a in allowed if a.id in names and a.package == one["name"]), None)
            fixed = ", ".join(known["fix_versions"]) or "no version yet"
            told = f"{one['name']} {one['version']}: {' / '.join(sorted(names))} (mended by: {fixed})"
            if entry is None:
                into.bad.append(told)
            else:
                into.used.add(entry.id)
                if entry.until < today:
                    into.bad.append(f"{told}: accepted until {entry.until}, which is over")


def main(files: Sequence[Path]) -> int:
    """Ask, say, and give the exit code."""
    allowed = accepted(Path(os.environ.get("ADVISORIES_ACCEPTED") or ACCEPTED))
    answer = Answer()
    why = ""
    for pins in rounds(files):
        found = asked(pins, os.environ.get("ADVISORIES_URL", ""))
        if isinstance(found, str):
            why = found
            answer.unchecked |= dict.fromkeys(pins, found)
        else:
            judged(found, allowed, datetime.datetime.now(tz=datetime.UTC).date(), answer)
    say = sys.stdout.write
    for told in answer.bad:
        say(f"VULNERABLE: {told}\n")
    if answer.unchecked:
        names = ", ".join(sorted(answer.unchecked)) if answer.checked else "nothing was"
        reason = why or next(iter(answer.unchecked.values()))
        say(f"NOT CHECKED for advisories: {names}. {reason}\n")
    for entry in allowed:
        if answer.checked and entry.id not in answer.used:
            say(f"no longer needed in {ACCEPTED.name}: {entry.id} of {entry.package}\n")
    if answer.checked:
        say(f"packages checked: {len(answer.checked)}; advisories that hold for us: {len(answer.bad) or 'none'}\n")
    if answer.bad:
        return 1
    return 3 if answer.unchecked and os.environ.get("ADVISORIES_STRICT") else 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or AUDITED))
