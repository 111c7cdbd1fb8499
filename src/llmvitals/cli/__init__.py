"""The command line: one file per command, loaded only when it is called. The only place that prints.

Exit codes: 0 healthy, no-traffic or shedding; 1 a cause leads (or ``generate --check`` found a difference); 2 undetermined;
3 usage, bad input or an unreachable target; 130 after Ctrl-C.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from llmvitals import __version__
from llmvitals.errors import LlmvitalsError

EXIT_BAD_INPUT = 3
EXIT_INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "run": "Watch servers: exporter, app and verdict in one; simulated without a server.",
    "triage": "Name the cause of slowness, and the setting to change.",
    "report": "Write an incident's report, with a recording to replay it.",
    "capture": "Record raw metrics pages for a later triage.",
    "serve": "Run the exporter.",
    "app": "Open the triage page in a browser.",
    "generate": "Write rules, alerts, dashboards and generated pages.",
    "simulate": "Record or serve a simulated engine.",
    "engines": "Show which engines give which metrics.",
    "capacity": "Estimate KV budget, seats and queue ceiling of a model on GPUs.",
    "audit": "Hold a command, a manifest or a start-up log against the mistakes that cost most.",
    "loadtest": "Read results of load tests, or write one like the live traffic.",
    "picture": "Draw boards and panels as images, for documents and reports.",
    "backtest": "Replay a past: which alerts would have fired, which causes be named, how soon.",
    "score": "Measure how often the triage is right, on simulated or recorded incidents.",
}
"""Command (its file in this folder) and its line in the overview, in the order of the overview."""


class _Lazy(click.Group):
    """Imports a command's file when it is called: a triage never loads the app's or the dashboards' libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"llmvitals.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_Lazy, context_settings=_CONTEXT, invoke_without_command=True)
@click.version_option(__version__, prog_name="llmvitals")
@click.option("--debug", is_flag=True, help="Show the traceback when something goes wrong.")
@click.pass_context
def group(context: click.Context, debug: bool) -> None:
    """Why is my self-hosted LLM server slow, and what do I change?"""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(EXIT_BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command and leave with its exit code; what goes wrong is one line on stderr."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _take_any_text()
    sys.exit(_run(given, debug="--debug" in given[: _first_command(given)]))


def _take_any_text() -> None:
    """A closed stdout or stderr swallows what is written; a stdout of a narrow encoding shows ``?`` for what it lacks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _first_command(given: list[str]) -> int:
    return next((at for at, word in enumerate(given) if word in COMMANDS), len(given))


def _run(given: list[str], *, debug: bool) -> int:
    try:
        code: Any = group.main(given, prog_name="llmvitals", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "llmvitals"
        return _complain(f"{path}: {_line(error.format_message())} See '{path} --help'.")
    except click.ClickException as error:
        return _complain(_line(error.format_message()))
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has left. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LlmvitalsError as error:
        if debug:
            raise
        return _complain(_line(str(error)))
    except OSError as error:
        if debug or error.errno not in _NO_ROOM:
            return _unexpected(error, debug=debug)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # as above
        return _complain(
            f"{error.filename or 'the output'}: cannot be written ({error.strerror}). Make room, or write elsewhere."
        )
    except Exception as error:
        return _unexpected(error, debug=debug)
    return code if isinstance(code, int) else 0


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def _unexpected(error: Exception, *, debug: bool) -> int:
    if debug:
        raise error
    return _complain(
        f"llmvitals: unexpected {type(error).__name__}: {_line(str(error))} "
        "Run 'llmvitals --debug ...' and report the traceback."
    )


def _line(message: str) -> str:
    """One line, ended as a sentence."""
    line = " ".join(message.split())
    return line if not line or line.endswith((".", "?", "!")) else f"{line}."


def _complain(line: str) -> int:
    click.echo(line, err=True)
    return EXIT_BAD_INPUT
