"""``llmvitals app``: the triage page in a browser, by Streamlit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import click

from llmvitals import data
from llmvitals import settings as settings_file
from llmvitals.app.choices import REQUIRED, SIGN_IN_VARIABLE, is_loopback
from llmvitals.app.people import limited
from llmvitals.app.secrets_file import SignIn, sign_in, usual
from llmvitals.cli.screen import remark
from llmvitals.cli.streamlit_flags import streamlit_flags
from llmvitals.errors import MissingExtraError, SettingsError, install
from llmvitals.settings import Settings
from llmvitals.sources.access import exposed

LOOPBACK = "127.0.0.1"


@click.command(name="app")
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file with sources.")
@click.option(
    "--secrets",
    "secrets_path",
    type=click.Path(path_type=Path),
    help="Streamlit's file of secrets, whose [auth] says who may sign in.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port to listen on.")
@click.option(
    "--address", default=LOOPBACK, show_default=True, help="Address to listen on; beyond loopback, sources are fixed."
)
def command(*, settings_path: Path | None, secrets_path: Path | None, port: int, address: str) -> None:
    """Open the triage page in a browser.

    The page reads the sources of the settings. Bound to loopback (the default) it also takes a URL typed in; bound to
    other addresses it does not, so that nobody can make it ask for addresses of their choice. With a provider in --secrets
    people sign in before they see anything: docs/sign-in.md.
    """
    settings = settings_file.load(settings_path)
    if find_spec("streamlit") is None:
        raise MissingExtraError(
            "the app needs Streamlit, which is not installed",
            place="llmvitals app",
            remedy=install("app"),
        )
    script = data.folder("app") / "streamlit_app.py"
    files = [secrets_path] if secrets_path is not None else _found(usual(Path.home(), Path.cwd(), script.parent))
    signing_in = sign_in(files)
    for told in _to_say(settings, signing_in, address, asked=secrets_path is not None):
        remark(told)
    if signing_in is not None:
        os.environ[SIGN_IN_VARIABLE] = REQUIRED
    secrets = [] if secrets_path is None else [f"--secrets.files={secrets_path.resolve()}"]
    given = [*secrets] if settings_path is None else [*secrets, "--", "--settings", str(settings_path.resolve())]
    click.echo(f"llmvitals app on http://{address}:{port}", err=True)
    sys.stderr.flush()
    # Streamlit takes this process over, so that signals and the exit code are its own.
    host = None if signing_in is None else urlsplit(signing_in.origin).hostname
    flags = streamlit_flags(port, address, os.environ, origin_host=host)
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(script), *flags, *given])


def _found(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if file.exists()]


def _to_say(settings: Settings, signing_in: SignIn | None, address: str, *, asked: bool) -> Iterator[str]:
    """What is to be known of who gets in, and of secrets that go in the clear.

    Raises :class:`SettingsError` where people are to sign in and cannot.
    """
    if signing_in is None and (asked or limited(settings.app)):
        raise SettingsError(
            "people are to sign in, and nothing says with which provider",
            place="--secrets" if asked else "app.allowed_...",
            remedy="Give --secrets a file with [auth]; see docs/sign-in.md.",
        )
    if signing_in is None and not is_loopback(address):
        yield (
            f"everybody who reaches {address} can open the app: nobody signs in. Set up a provider (docs/sign-in.md), or put it "
            "behind a proxy that asks who comes."
        )
    if signing_in is not None:
        yield f"people sign in; open the app as {signing_in.origin}"
        if signing_in.origin.startswith("http:") and not is_loopback(urlsplit(signing_in.origin).hostname):
            yield f"{signing_in.origin} is not https: who listens on the way can take over a sign-in"
    for source in settings.sources:
        if told := exposed(source.url, source.access):
            yield f"source '{source.name}' {told}."
