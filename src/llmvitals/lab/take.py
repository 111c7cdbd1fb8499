"""A played scenario as a recording that says what it is: what ``llmvitals triage`` and ``llmvitals score`` read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from llmvitals.errors import CaptureError, SettingsError
from llmvitals.lab.play import INSTANCE, ORIGIN, Job, Look, Run, kind_of, showing, shown_by
from llmvitals.lab.result import Kind
from llmvitals.lab.scenarios import BY_NAME
from llmvitals.lab.stored import TRUTH, Truth
from llmvitals.schema import Origin
from llmvitals.series import Series, series
from llmvitals.simulator import canonical
from llmvitals.sources.capture import Recorded
from llmvitals.sources.record import Recorder
from llmvitals.telemetry.ingest import RawPage

GPUS = "gpus"
BESIDE: Mapping[str, frozenset[Origin]] = {
    "host": frozenset({Origin.HOST, Origin.GPU}),
    "gateway": frozenset({Origin.GATEWAY}),
}
"""Targets of canonical families, and what each shows: what a GPU exporter leaves out is seen from the host."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A recording that was written: the draw, why it does not count as showing its cause ('': it does), and its pages."""

    run: Run
    why: str
    pages: int


def take(folder: Path, name: str, *, seed: int, severity: str) -> Taken:
    """Play a scenario of the lab and record the window that its verdict is about, with its truth.

    Raises :class:`SettingsError` for a name that is none, :class:`CaptureError` when the folder cannot be written.
    """
    job = job_of(name, seed, severity)
    run, why = showing(job)
    start = ORIGIN + run.last - run.base.times.window
    with Recorder(folder, _targets(run)) as recorder:
        for look in run.looks:
            if look.page.t >= start - 1e-6:
                _add(recorder, look)
        pages = recorder.pages
    try:
        (folder / TRUTH).write_bytes(msgspec.json.format(msgspec.json.encode(_truth(job, run)), indent=1) + b"\n")
    except OSError as error:
        raise CaptureError(
            f"cannot be written ({error.strerror})", place=str(folder / TRUTH), remedy="Choose another folder with -o."
        ) from None
    return Taken(run, why, pages)


def job_of(name: str, seed: int, severity: str) -> Job:
    """The play of a scenario by its name. Raises :class:`SettingsError`."""
    row = BY_NAME.get(name)
    if row is None:
        near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.0)[0]
        raise SettingsError(
            f"there is no scenario '{name}'",
            place="llmvitals simulate --lab",
            remedy=f"Did you mean '{near}'? --list shows them.",
        )
    return Job(name, seed, 0, severity if row.kind in (Kind.FAULT, Kind.COMPOUND) else "clear")


def _targets(run: Run) -> tuple[Recorded, ...]:
    return (
        Recorded(name=INSTANCE, kind=kind_of(run.dialect), scrapes=()),
        Recorded(name=GPUS, kind="dcgm", scrapes=(), engine=INSTANCE),
        *(Recorded(name=name, kind="llmvitals", scrapes=(), engine=INSTANCE) for name in BESIDE),
    )


def _add(recorder: Recorder, look: Look) -> None:
    recorder.add(INSTANCE, look.page if look.page.status else replace(look.page, body=None))
    recorder.add(GPUS, look.cards)
    for name, origins in BESIDE.items():
        samples = {key: value for key, value in look.beside.items() if shown_by(key) in origins}
        recorder.add(name, RawPage(look.page.t, look.cards.took, 200, _page(name, samples), ""))


def _page(name: str, samples: Mapping[Series, float]) -> bytes:
    """A page of canonical families, as an exporter of them writes it: with a word on its own target."""
    return canonical.text({series("llm_target_up", instance=name): 1.0, **samples})


def _truth(job: Job, run: Run) -> Truth:
    row = run.row
    return Truth(
        causes=row.causes,
        kind=row.kind,
        mimics=row.mimics,
        severity=job.severity if row.kind in (Kind.FAULT, Kind.COMPOUND) else "",
        onset=ORIGIN + run.onset,
        shown_by=tuple(sorted(row.shown_by)),
    )
