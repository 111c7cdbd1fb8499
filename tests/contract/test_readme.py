"""The README tells the truth: its verdict is what the command prints, its commands and links exist, in their order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
from click.testing import CliRunner

from llmvitals.cli import COMMANDS, group

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_sections_come_in_their_order() -> None:
    assert re.findall(r"^## (.+)$", README, flags=re.M) == [
        "What it tells you",
        "How often it is right",
        "The two commands",
        "Point it at your server",
        "Deploy it",
        "In an incident, and before the next one",
        "Be woken by what matters",
        "See it in Grafana",
        "Support matrix",
        "How it works in one picture",
    ]


def test_the_verdict_shown_is_what_the_command_prints() -> None:
    shown = re.search(r"^\$ llmvitals (?P<arguments>.+)\n(?P<output>(?:.*\n)*?)```", README, flags=re.M)
    assert shown
    command = [sys.executable, "-m", "llmvitals", *shown["arguments"].split()]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    lines = [line.rstrip() for line in printed.splitlines()]
    assert shown["output"].splitlines() == lines[: len(shown["output"].splitlines())], "make generate renews it"


def test_every_make_target_it_names_exists() -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", README, flags=re.M))
    assert {"run", "test", "help"} <= named
    assert {target for target in named if not re.search(rf"^{target}:", MAKEFILE, flags=re.M)} == set()


def test_every_command_and_option_it_names_exists() -> None:
    for command, rest in re.findall(r"^(?:\$ )?llmvitals ([a-z]+)(.*)$", README, flags=re.M):
        assert command in COMMANDS
        words = rest.split("#")[0].split(" -- ")[0]  # what stands behind it is a command of its own
        told = CliRunner().invoke(group, [command, *_below(command, words), "--help"]).output
        for option in re.findall(r"(?<=\s)--?[a-z]+", words):
            assert re.search(rf"{option}\b", told), f"{command} {option}"


def _below(command: str, words: str) -> list[str]:
    """The command of a group that comes first in the words; none where it is no group."""
    found = group.get_command(click.Context(group), command)
    first = words.split()[:1]
    return [word for word in first if isinstance(found, click.Group) and word in found.commands]


def test_every_local_link_leads_somewhere() -> None:
    links = [to for to in re.findall(r"\]\((?!https?:)([^)#]+)", README) if not (ROOT / to).exists()]
    assert links == []
