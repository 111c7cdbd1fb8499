"""``llmvitals score``: play scenarios whose truth is known, or judge recordings that say theirs, and count what is right."""

from __future__ import annotations

import difflib
import json
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from llmvitals.cli.screen import progress
from llmvitals.cli.sheet import show_sheet
from llmvitals.errors import SettingsError
from llmvitals.lab import report, stored
from llmvitals.lab.cases import CaseScore, cases_table, score_cases
from llmvitals.lab.curve import curve
from llmvitals.lab.document import case_document, cases, document, invalid, silent, wrong
from llmvitals.lab.parallel import play_all
from llmvitals.lab.result import TELEMETRY, Played
from llmvitals.lab.score import FEW, Score, score
from llmvitals.lab.sheets import Sheet, case_sheets, sheets
from llmvitals.triage.checks import BY_CAUSE

SEED = 1
_WHICH = ("scenario", "seed", "number", "attempt")  # what it takes to play one again


def causes(text: str) -> tuple[str, ...]:
    """Several causes, separated by commas, for ``click.option(type=causes)``."""
    return _several(text, BY_CAUSE, "cause")


def telemetry(text: str) -> tuple[str, ...]:
    """Several sources of telemetry, separated by commas, in the order in which they add up."""
    given = _several(text, TELEMETRY, "source of telemetry")
    if TELEMETRY[0] not in given:
        raise click.BadParameter(f"without '{TELEMETRY[0]}' there is nothing to judge: add it.")
    return tuple(source for source in TELEMETRY if source in given)


def _several(text: str, known: Collection[str], what: str) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise click.BadParameter(f"'{name}' is no {what}. Did you mean '{near}'?")
    if not given:
        raise click.BadParameter(f"name at least one {what}.")
    return given


@click.command(name="score")
@click.argument("recordings", nargs=-1, metavar="[RECORDING...]", type=click.Path(path_type=Path))
@click.option("--seed", type=click.IntRange(min=0), default=SEED, show_default=True, help="Draws the scenarios.")
@click.option(
    "--causes",
    "wanted",
    type=causes,
    metavar="a,b",
    help="Only these causes and their look-alikes, without healthy ones.",
)
@click.option(
    "--telemetry",
    "sources",
    type=telemetry,
    metavar=",".join(TELEMETRY),
    help="Only with these sources, engine among them, not by level.",
)
@click.option(
    "--size",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Times as many scenarios.",
)
@click.option("--jobs", type=click.IntRange(min=1), show_default="one per core", help="Processes.")
@click.option(
    "--truth", type=click.Path(path_type=Path), help="JSON file with the truth of each RECORDING by its name."
)
@click.option("--cases", "cases_only", is_flag=True, help="Only judge the public cases that travel with llmvitals.")
@click.option("--failures", is_flag=True, help="List every wrong one, every silent miss, and those that do not count.")
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path),
    help="Renew the score and the cases on this page (docs/accuracy.md).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON only, on stdout.")
def command(
    *,
    recordings: tuple[Path, ...],
    seed: int,
    wanted: tuple[str, ...] | None,
    sources: tuple[str, ...] | None,
    size: float,
    jobs: int | None,
    truth: Path | None,
    cases_only: bool,
    failures: bool,
    page: Path | None,
    as_json: bool,
) -> None:
    """Measure how often the triage is right: over simulated scenarios, or over RECORDINGs that say what they are.

    A seed draws the scenarios: the same seed gives the same score, on however many cores. A RECORDING is a capture folder,
    or a folder of them, with a truth.json; docs/accuracy.md says what counts as right.
    """
    started = time.monotonic()
    if cases_only:
        if recordings or wanted or sources or truth is not None:
            raise click.UsageError("--cases plays nothing: leave out RECORDINGs, --causes, --telemetry and --truth.")
        _cases(score_cases(), page, started, as_json=as_json)
        return
    public: CaseScore | None = None
    if recordings:
        if wanted or sources:
            raise click.UsageError(
                "--causes and --telemetry choose simulated scenarios; leave them out with RECORDINGs."
            )
        given: dict[str, Any] = {"recordings": [str(path) for path in recordings]}
        played = _recorded(recordings, truth, jobs, quiet=as_json)
    else:
        if truth is not None:
            raise click.UsageError("--truth belongs to RECORDINGs.")
        given = {"seed": seed, "size": size, "causes": wanted, "telemetry": sources}
        played = _simulated(seed, wanted, sources, size, jobs, quiet=as_json)
        public = score_cases()
    found = score(played)
    if page is not None:
        parts = {report.SCORE: report.markdown(found, _said(given))}
        parts |= {report.CASES: cases_table(public)} if public else {}
        renew(page, parts, curve(found.calibration.bins))
    if as_json:
        told = document(found, seconds=time.monotonic() - started, failures=failures, **given)
        click.echo(json.dumps(told | ({"cases": cases(public)} if public else {}), indent=2))
        return
    for sheet in (*sheets(found), *(case_sheets(public)[:1] if public else ())):
        show_sheet(sheet)
    if found.few and not recordings:
        few = ", ".join(f"{cause} ({n})" for cause, n in found.few.items())
        click.echo(f"fewer than {FEW} valid plays: {few}; --size plays more", err=True)
    if failures:
        for sheet in _failures(found):
            show_sheet(sheet)


def _simulated(
    seed: int,
    wanted: tuple[str, ...] | None,
    sources: tuple[str, ...] | None,
    size: float,
    jobs: int | None,
    *,
    quiet: bool,
) -> tuple[Played, ...]:
    from llmvitals.lab.play import plan, play  # noqa: PLC0415 - recordings need no simulator

    planned = plan(seed, wanted, size)
    if not planned:
        raise click.UsageError(f"No scenario injects {', '.join(wanted or ())}.")
    with progress("playing", len(planned), of="scenarios", quiet=quiet) as advance:
        return play_all(planned, play, telemetry=sources, processes=jobs, on_played=lambda one: advance(one.scenario))


def _recorded(folders: Sequence[Path], truth: Path | None, jobs: int | None, *, quiet: bool) -> tuple[Played, ...]:
    found = stored.recordings(folders, truth)
    with progress("judging", len(found), of="recordings", quiet=quiet) as advance:
        return play_all(found, stored.play, processes=jobs, on_played=lambda one: advance(one.scenario))


def _cases(public: CaseScore, page: Path | None, started: float, *, as_json: bool) -> None:
    if page is not None:
        renew(page, {report.CASES: cases_table(public)})
    if as_json:
        click.echo(json.dumps(case_document(public, seconds=time.monotonic() - started), indent=2))
        return
    for sheet in case_sheets(public):
        show_sheet(sheet)


def renew(page: Path, parts: Mapping[str, str], drawn: str = "") -> None:
    """Write the generated parts of a page, and the curve beside it."""
    picture = page.parent / report.CURVE
    try:
        text = page.read_text(encoding="utf-8")
        for part, block in parts.items():
            text = report.renewed(text, block, place=str(page), part=part)
        page.write_text(text, encoding="utf-8")
        if drawn:
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_text(drawn, encoding="utf-8")
        click.echo(f"renewed: {page}", err=True)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot be renewed ({error})", place=str(page), remedy="Check the page.") from None


def _said(given: dict[str, Any]) -> str:
    """The command that makes the same score again."""
    words = [*given.get("recordings", ())]
    for name in ("seed", "causes", "telemetry"):
        value = given.get(name)
        if value is not None:
            words += [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
    if given.get("size", 1.0) != 1.0:
        words += ["--size", f"{given['size']:g}"]
    return shlex.join(["llmvitals", "score", *words])


def _failures(found: Score) -> tuple[Sheet, ...]:
    """Every scenario that was judged wrongly, every one in which hurt clients went unseen, and every one that does not count."""
    rows = tuple(
        (*_which(w), w["engine"], w["expected"], w["got"], f"{w['confidence']:.2f}") for w in map(wrong, found.wrong)
    )
    unseen = tuple(
        (*_which(s), s["injected"], s["got"], "yes" if s["valid"] else "no") for s in map(silent, found.silent)
    )
    lost = tuple((*_which(i), i["why"]) for i in invalid(found.invalid))
    all_of_them = (
        Sheet("Wrong", (*_WHICH, "engine", "expected", "got", "confidence"), rows),
        Sheet("Hurt clients unseen", (*_WHICH, "injected", "got", "counted"), unseen),
        Sheet("Not counted, one by one", (*_WHICH, "why"), lost),
    )
    return tuple(sheet for sheet in all_of_them if sheet.rows)


def _which(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(told[name]) for name in _WHICH)
