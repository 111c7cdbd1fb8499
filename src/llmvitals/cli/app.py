"""``llmvitals app``: the triage page in a browser, by Streamlit."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from llmvitals import data
from llmvitals import settings as settings_file
from llmvitals.errors import MissingExtraError, install

LOOPBACK = "127.0.0.1"


@click.command(name="app")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file with sources.")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port to listen on.")
@click.option(
    "--address", default=LOOPBACK, show_default=True, help="Address to listen on; beyond loopback, sources are fixed."
)
def command(*, settings_path: Path | None, port: int, address: str) -> None:
    """Open the triage page in a browser.

    The page reads the sources of the settings. Bound to loopback (the default) it also takes a URL typed in; bound to
    other addresses it does not, so that nobody can make it ask for addresses of their choice.
    """
    settings_file.load(settings_path)
    if find_spec("streamlit") is None:
        raise MissingExtraError(
            "the app needs Streamlit, which is not installed",
            place="llmvitals app",
            remedy=install("app"),
        )
    script = data.folder("app") / "streamlit_app.py"
    given = [] if settings_path is None else ["--", "--settings", str(settings_path.resolve())]
    click.echo(f"llmvitals app on http://{address}:{port}", err=True)
    sys.stderr.flush()
    # Streamlit takes this process over, so that signals and the exit code are its own.
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(script), *_flags(port, address), *given])


def _flags(port: int, address: str) -> list[str]:
    return [
        f"--server.port={port}",
        f"--server.address={address}",
        "--server.headless=true",
        "--browser.gatherUsageStats=false",
    ]
