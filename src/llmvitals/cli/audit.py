"""``llmvitals audit``: a command, a manifest, a page or a start-up log, held against the mistakes that cost most."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from rich.text import Text

from llmvitals.audit import judge, reading
from llmvitals.audit.document import document, worst_of
from llmvitals.audit.engines import TITLES
from llmvitals.audit.hardware import hardware
from llmvitals.audit.model import AuditError, Finding, Report, Setup, Severity, Traffic
from llmvitals.capacity import GPUS
from llmvitals.capacity.report import AUTO, WEIGHT_DTYPES
from llmvitals.cli.screen import show
from llmvitals.sources import model_config as configs

_NONE = "none"
_SEVERITIES = [severity.word for severity in Severity]
_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


@click.command(name="audit")
@click.argument("what", nargs=-1)
@click.option(
    "--vllm-version", metavar="X.Y.Z", help="The release; without it what the input says, else the newest known."
)
@click.option(
    "--model-config", type=click.Path(path_type=Path), help="The model's config.json, to estimate the KV pool."
)
@click.option("--gpu", type=click.Choice([g.name for g in GPUS], case_sensitive=False), help="GPU model.")
@click.option("--gpu-memory-gb", type=click.FloatRange(min=0, min_open=True), help="GB per GPU, for one not listed.")
@click.option("--gpus", type=click.IntRange(min=1), help="GPUs that the engine is given.")
@click.option(
    "--weight-dtype",
    type=click.Choice(WEIGHT_DTYPES),
    default=AUTO,
    show_default=True,
    help="Data type of the weights; auto: what config.json says.",
)
@click.option("--prompt-tokens", type=click.FloatRange(min=0), help="Mean tokens of a prompt.")
@click.option("--output-tokens", type=click.FloatRange(min=0), help="Mean tokens of an answer.")
@click.option(
    "--longest-tokens", type=click.FloatRange(min=1), help="Prompt and answer that 99.9 % stay below, in tokens."
)
@click.option("--users-wait", is_flag=True, help="Users wait in the queue: one without an end is then a warning.")
@click.option(
    "--fail-on",
    type=click.Choice([*_SEVERITIES, _NONE]),
    default=Severity.WARNING.word,
    show_default=True,
    help="Exit with 1 from this severity on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON only.")
@click.pass_context
def command(
    context: click.Context,
    *,
    what: tuple[str, ...],
    vllm_version: str | None,
    model_config: Path | None,
    gpu: str | None,
    gpu_memory_gb: float | None,
    gpus: int | None,
    weight_dtype: str,
    prompt_tokens: float | None,
    output_tokens: float | None,
    longest_tokens: float | None,
    users_wait: bool,
    fail_on: str,
    as_json: bool,
) -> None:
    """Hold how an engine is set up against the mistakes that cost most.

    WHAT is files, - for stdin, or a command after --: llmvitals audit -- vllm serve MODEL ... A file may hold a command or a
    script, a Kubernetes or Compose manifest, a metrics page, or the log of a start. Nothing is run. Exit code: 0 nothing, 1
    findings from --fail-on on, 3 input that cannot be read.
    """
    version = judge.version_of(vllm_version) if vllm_version else None
    config = configs.load(model_config) if model_config is not None else None
    there = hardware(
        config, gpu=gpu or "", memory_gb=gpu_memory_gb, gpus=gpus, weights=weight_dtype, place=str(model_config)
    )
    traffic = Traffic(prompt_tokens, output_tokens, longest_tokens, users_wait)
    reports = [judge.audit(setup, version=version, hardware=there, traffic=traffic) for setup in _setups(what)]
    if as_json:
        click.echo(json.dumps(document(reports), indent=2))
    else:
        _tell(reports)
    worst = worst_of(reports)
    if fail_on != _NONE and worst is not None and worst >= judge.severity(fail_on):
        context.exit(1)


def _setups(what: tuple[str, ...]) -> list[Setup]:
    """Everything that is named. A word that is no file begins a command."""
    if not what:
        if sys.stdin is None or sys.stdin.isatty():
            raise click.UsageError("Name a file, - for stdin, or a command after --.")
        what = ("-",)
    if what[0] != "-" and (len(what) > 1 or " " in what[0]) and not _is_file(what[0]):
        text = what[0] if len(what) == 1 else shlex.join(what)
        return list(reading.setups(text, place="the command"))
    return [setup for name in what for setup in reading.setups(_text(name), place="stdin" if name == "-" else name)]


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a whole command is longer than a file's name may be
        return False


def _text(name: str) -> str:
    try:
        text: str = click.open_file(name, encoding="utf-8", errors="replace").read()
        return text
    except OSError as error:
        remedy = "Check the path; a command comes after --."
        raise AuditError(f"cannot be read ({error.strerror})", place=name, remedy=remedy) from None


def _tell(reports: Iterable[Report]) -> None:
    for report in reports:
        release = f" {report.version}" if report.version else ""
        assumed = ", the newest known: say --vllm-version" if report.assumed else ""
        remark = f": {report.remark.format(engine=TITLES[report.engine])}" if report.remark else ""
        show(Text(f"{report.place} ({TITLES[report.engine]}{release}{assumed}){remark}", style="bold"))
        for finding in report.findings:
            _tell_one(finding)
        if not report.findings and not report.remark:
            show("Nothing found.")
        show("")


def _tell_one(finding: Finding) -> None:
    head = Text.assemble((f"{finding.severity.word:8}", _COLOURS[finding.severity]), finding.said(finding.title))
    show(head, whole=True)
    for name, words in (("why", finding.why), ("write", finding.fix)):
        said = finding.said(words).strip()
        if said:
            show(Text(f"{'':8}{name}: {said}" if name == "write" else f"{'':8}{said}"), whole=True)
    if finding.cause:
        show(Text(f"{'':8}runbook: {finding.cause}", style="dim"), whole=True)
