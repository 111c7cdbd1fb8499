"""Public incident reports as data: what each states in figures, what it leaves out, and the cause its thread establishes.

One file per report in ``lab/incidents/``, in our own words; figures and references are the reporters'. Reports without a
figure that any signal could carry are listed in ``left-out.yaml`` with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Struct, convert, read_yaml
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.checks import BY_CAUSE

FOLDER = Path(__file__).resolve().parent / "incidents"
LEFT_OUT = "left-out.yaml"
_PAGE = "docs/accuracy.md"

Finite = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]


class CaseError(LlmvitalsError):
    """A case file says something that cannot be judged."""


class Known(Struct, frozen=True):
    """One signal as a report states it, in the signal's base unit: a value, or a bound where it states no more.

    ``facts``: the figures of the report that it rests on, as the report writes them. ``how``: the arithmetic or the
    statement behind it; needed unless the value is one of the facts in another unit.
    """

    value: Finite | None = None
    at_least: Finite | None = None
    at_most: Finite | None = None
    facts: tuple[float, ...] = ()
    how: str = ""

    def __post_init__(self) -> None:
        """Exactly one number, and something that it rests on."""
        if sum(x is not None for x in (self.value, self.at_least, self.at_most)) != 1:
            raise ValueError("give exactly one of value, at_least and at_most")
        if not self.facts and not self.how:
            raise ValueError("give facts, or say how it follows")


class Late(Struct, frozen=True):
    """Requests that certainly broke a promise: at least ``late`` of ``of``. ``slo``: which promise."""

    slo: str
    late: Annotated[int, msgspec.Meta(ge=0)]
    of: Annotated[int, msgspec.Meta(ge=1)]
    facts: tuple[float, ...] = ()
    how: str = ""

    def __post_init__(self) -> None:
        """A known promise, and no more late ones than there are."""
        if self.slo not in ("ttft", "tpot"):
            raise ValueError("slo is ttft or tpot")
        if self.late > self.of:
            raise ValueError("more are late than there are")


class Engine(Struct, frozen=True):
    """What served. ``version``: release where the report gives one. ``plain``: the report gives the whole command line, and
    nothing in it switches on adapters, speculation or KV transfers.
    """

    kind: str
    version: str = ""
    generation: str = ""
    plain: bool = False


class Case(Struct, frozen=True):
    """One report. ``cause``: a slug of the checks, or ``other: ...`` where the thread ends outside of them.

    ``also``: causes that the report itself puts beside it, naming which is as right. ``group``: reports of one root, which
    count once. ``expects``: ``answer`` where the figures state all that the cause is told by, else ``undetermined``.
    ``steady``: why the situation is known to have lasted while figures could be read (see ``snapshot.STEADY``).
    ``missing``: canonical families that would settle it. ``differs``: why the figures of the report speak against the
    condition by which the cause is told here, where they do.
    """

    id: str
    source: str
    engine: Engine
    story: str
    cause: str
    expects: str
    group: str = ""
    also: tuple[str, ...] = ()
    steady: str = ""
    known: dict[str, Known] = msgspec.field(default_factory=dict)
    late: tuple[Late, ...] = ()
    missing: tuple[str, ...] = ()
    differs: str = ""

    def __post_init__(self) -> None:
        """Only signals and causes that exist."""
        unknown = [name for name in self.known if name not in BY_ID]
        if unknown:
            raise ValueError(f"there is no signal '{unknown[0]}'")
        slugs = [s for s in (self.cause, *self.also) if not s.startswith("other: ") and s != "undetermined"]
        strangers = [slug for slug in slugs if slug not in BY_CAUSE]
        if strangers:
            raise ValueError(f"there is no cause '{strangers[0]}'")
        if self.expects not in ("answer", "undetermined"):
            raise ValueError("expects is answer or undetermined")

    @property
    def root(self) -> str:
        """What counts once: the group, or the case itself."""
        return self.group or self.id

    @property
    def accepted(self) -> tuple[str, ...]:
        """The causes that are right when they lead."""
        return (self.cause, *self.also)


class LeftOut(Struct, frozen=True):
    """A report that was not turned into a case, and why."""

    id: str
    source: str
    cause: str
    why: str


class _Reports(Struct, frozen=True):
    reports: tuple[LeftOut, ...]


def load(folder: Path = FOLDER) -> tuple[Case, ...]:
    """Every case, in order of its id. Raises ``SettingsError`` for a file that is none, :class:`CaseError` for a wrong name."""
    found = []
    for path in sorted(folder.glob("[0-9]*.yaml")):
        case = convert(read_yaml(path), Case, place=str(path), page=_PAGE)
        if path.stem != case.id:
            raise CaseError(f"the id is '{case.id}'", place=str(path), remedy="Name the file after the id.")
        found.append(case)
    return tuple(found)


def left_out(folder: Path = FOLDER) -> tuple[LeftOut, ...]:
    """Every report that is listed without being judged. Raises ``SettingsError`` for a file that is none."""
    path = folder / LEFT_OUT
    return convert({"reports": read_yaml(path)}, _Reports, place=str(path), page=_PAGE).reports
