"""A Dockerfile as stages of instructions, and the .dockerignore beside it: as much of both as ours uses, and no more.

What is not known is an error, so that a new kind of line is noticed and not skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

KNOWN = frozenset(
    {
        "ARG",
        "FROM",
        "RUN",
        "COPY",
        "ENV",
        "LABEL",
        "USER",
        "WORKDIR",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction. ``argv``: of its exec form, () in the shell's form."""

    word: str
    text: str

    @property
    def argv(self) -> tuple[str, ...]:
        """The JSON list, () where there is none."""
        return tuple(json.loads(self.text)) if self.text.startswith("[") else ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: ``base`` is another's name or an image's."""

    name: str
    base: str
    steps: tuple[Step, ...]

    def last(self, word: str) -> Step | None:
        """The instruction that counts, of those that replace each other."""
        return next((step for step in reversed(self.steps) if step.word == word), None)


def _lines(text: str) -> Iterator[str]:
    """Whole instructions: comments out, continued lines together."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    yield from filter(None, (line.strip() for line in kept.replace("\\\n", " ").splitlines()))


def _filled(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], text)


def read(path: Path) -> dict[str, Stage]:
    """The stages by name, in their order; arguments have their defaults."""
    known: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    steps: list[Step] = []
    for line in _lines(path.read_text()):
        word, _, rest = line.partition(" ")
        assert word in KNOWN, f"what is {word}?"
        rest = rest.strip()
        if word == "ARG":
            name, _, value = rest.partition("=")
            known[name] = _filled(value.strip('"'), known)
        elif word == "FROM":
            base, _, name = _filled(rest, known).partition(" AS ")
            steps = []
            stages[name] = Stage(name, base, ())
        else:
            steps.append(Step(word, _filled(rest, known) if word in {"LABEL", "ENV"} else rest))
            stage = list(stages.values())[-1]
            stages[stage.name] = Stage(stage.name, stage.base, tuple(steps))
    return stages


@dataclass(frozen=True, slots=True)
class Ignored:
    """What of a folder does not go into a build: the last pattern that meets a path decides."""

    patterns: tuple[tuple[re.Pattern[str], bool], ...] = field(default=())

    @classmethod
    def of(cls, path: Path) -> Ignored:
        """The patterns of a .dockerignore."""
        lines = [line.strip() for line in path.read_text().splitlines()]
        return cls(
            tuple(
                (re.compile(_pattern(line.removeprefix("!"))), not line.startswith("!"))
                for line in lines
                if line and not line.startswith("#")
            )
        )

    def __call__(self, path: str) -> bool:
        """Whether a path, or a folder that it is in, is left out."""
        parents = [str(parent) for parent in PurePosixPath(path).parents if str(parent) != "."]
        out = False
        for pattern, ignored in self.patterns:
            if any(pattern.fullmatch(one) for one in (path, *parents)):
                out = ignored
        return out


def _pattern(text: str) -> str:
    parts = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return "".join(parts.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*|\?)", text))
