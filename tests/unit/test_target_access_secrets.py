"""Secrets that let us in at targets stand in no output: whatever they are, and whatever the server does with them."""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
import string
import tempfile
import traceback
import zipfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.logs import LineFormatter
from llmvitals.exporters.server import Site
from llmvitals.settings import Access, Exporter, Settings, Target
from llmvitals.sources.probe import probe
from llmvitals.telemetry.access import headers
from llmvitals.triage.report import document
from support.answers import Answer, Answers, Asked
from support.hostile import vllm_page

PATHS = ("/", "/metrics", "/triage", "/history", "/replicas", "/healthz", "/readyz")
SECRETS = st.text(string.ascii_letters + string.digits + "-._~+/=!$%&", min_size=4, max_size=60).map("Zq7{}xV".format)
"""Never such that they stand in an output by chance."""

Way = Callable[[Path, str, str], Target]
"""Makes a target at an address that lets us in with this secret, which the file holds."""

WAYS: dict[str, Way] = {
    "bearer": lambda file, url, _: Target(url=url, name="a", access=Access(bearer_token_file=str(file))),
    "basic": lambda file, url, _: Target(url=url, name="a", access=Access(username="me", password_file=str(file))),
    "header": lambda file, url, _: Target(url=url, name="a", access=Access(header_files={"X-Api-Key": str(file)})),
    "address": lambda _, url, secret: Target(url=url.replace("//", f"//me:{quote(secret, safe='')}@"), name="a"),
    "gpus": lambda file, url, _: Target(
        url=url, name="a", gpu_url=f"{url}/metrics", gpu_access=Access(bearer_token_file=str(file))
    ),
}


def said(asked: Asked) -> str:
    """What the server was told, as it may tell it again."""
    return asked.headers.get("authorization", asked.headers.get("x-api-key", "nothing"))


REPEATS: dict[str, Callable[[Asked], Answer]] = {
    "in a label": lambda asked: Answer(vllm_page() + f'vllm:cache_config_info{{who="{said(asked)}"}} 1\n'.encode()),
    "as a model": lambda asked: Answer(vllm_page().replace(b'model_name="m"', f'model_name="{said(asked)}"'.encode())),
    "in a comment": lambda asked: Answer(f"# {said(asked)}\n".encode() + vllm_page()),
    "in a refusal": lambda asked: Answer(f"who is {said(asked)}?".encode(), 401),
    "in a redirect": lambda asked: Answer(b"", 302, {"location": f"http://elsewhere.example/{quote(said(asked))}"}),
    "in no page": lambda asked: Answer(f"<html>{said(asked)}</html>".encode()),
    "in nonsense": lambda asked: Answer(f"{said(asked)}\n".encode() * 3),
    "in an encoding": lambda asked: Answer(b"x", 200, {"content-encoding": said(asked)}),
}


def forms(secret: str) -> set[str]:
    """The secret, and the forms that it is sent or written in."""
    pair = b64encode(f"me:{secret}".encode()).decode()
    return {secret, quote(secret, safe=""), quote(secret), pair, quote(pair), quote(f"Bearer {secret}")}


def asked(site: Site, path: str) -> bytes:
    got: list[bytes] = []

    async def call() -> None:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, object]) -> None:
            got.append(repr(message).encode())
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            got.append(body)

        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
        await site.app()(scope, receive, send)  # type: ignore[arg-type]

    asyncio.run(call())
    return b"".join(got)


def unzipped(body: bytes) -> bytes:
    start = body.find(b"PK\x03\x04")
    if start < 0:
        return body
    with zipfile.ZipFile(io.BytesIO(body[start:])) as z:
        return b"".join(gzip.decompress(z.read(n)) if n.endswith(".gz") else z.read(n) for n in z.namelist())


def outputs(cycle: Cycle, configured: Settings) -> dict[str, str]:
    """All that anybody gets to see of a cycle and of the settings behind it."""
    board = Board()
    board.post(cycle)
    site = Site(board, configured)
    found = {path: asked(site, path).decode("utf-8", "replace") for path in PATHS}
    found["/capture"] = unzipped(asked(site, "/capture").partition(b"'type'")[2]).decode("utf-8", "replace")
    found["report"] = str(document([scoped.verdict for scoped in cycle.scopes]))
    found["settings"] = f"{configured!r} {configured}"
    found["cycle"] = repr(cycle)
    return found


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS)
def test_no_output_shows_what_lets_us_in(way: str, repeats: str, secret: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    with tempfile.TemporaryDirectory() as folder, Answers({"/metrics": REPEATS[repeats]}) as there:
        file = Path(folder) / "secret"
        file.write_text(f"{secret}\n")
        target = WAYS[way](file, there.url, secret)
        configured = Settings(targets=(target,), exporter=Exporter(timeout_seconds=5, window_seconds=60))
        engine = Engine(configured)
        engine.step()
        found = outputs(engine.step(), configured)
        (first,) = probe([target])
        found["command"] = f"{first.error} {first!r}"
    assert there.asked
    if way != "gpus":
        assert "nothing" not in {said(one) for one in there.asked}, "it was sent"
    found["log"] = "\n".join(f"{LineFormatter().format(one)} {one.__dict__}" for one in caplog.records)
    shown = {where for where, text in found.items() if any(form in text for form in forms(secret))}
    assert shown == set()


@given(secret=SECRETS.map(lambda text: text[:5] + "\n" + text[5:]))
@settings(max_examples=20, deadline=None)
def test_a_secret_that_cannot_be_sent_is_told_without_it(secret: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secret"
        file.write_text(secret)
        try:
            headers(Access(bearer_token_file=str(file)))
        except Exception:
            told = traceback.format_exc()
        else:
            raise AssertionError("it was taken")
    assert not any(part in told for part in secret.split("\n") if len(part) > 3)
