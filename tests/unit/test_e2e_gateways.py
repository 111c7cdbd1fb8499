"""The scripts that run real gateways: an upstream fails as it is told, and what differs is seen."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.registry import ADAPTERS
from support.waiting import free_port

GATEWAYS = Path(__file__).resolve().parents[2] / "e2e" / "gateways"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a script by its name, as it is imported beside its neighbours."""
    monkeypatch.syspath_prepend(str(GATEWAYS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module
    for name in ("run", "table", "clients", "upstream"):
        sys.modules.pop(name, None)


def test_an_upstream_answers_as_it_is_told_and_counts(script: Callable[[str], ModuleType]) -> None:
    port = free_port()
    upstream, drive = script("upstream").Upstream(port), script("clients").drive
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    try:
        assert drive(url, 6, model="m", key="k") == Counter({"200": 6})
        upstream.status = 429
        assert drive(url, 3, model="m", key="k") == Counter({"429": 3})
        assert upstream.answered == Counter({200: 6, 429: 3})
    finally:
        upstream.close()
    assert drive(url, 2, model="m", key="k") == Counter({"none": 2})


def page(**answered: float) -> Snapshot:
    samples = {
        Series("llm_gateway_requests_total", (("gateway", "g"), ("status", status.removeprefix("s")))): value
        for status, value in answered.items()
    }
    return Snapshot(0.0, samples)


def test_what_the_page_says_is_what_came_since(script: Callable[[str], ModuleType]) -> None:
    run = script("run")
    assert run.answered(page(s200=5), page(s200=35, s429=2)) == {"200": 30, "429": 2}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"200": 1, "429": 1}, {"200": 5, "429": 2}),
        ({"2xx": 1, "429": 1}, {"2xx": 5, "429": 2}),
        ({"2xx": 1, "error": 1}, {"2xx": 5, "error": 2}),
        ({"200": 1}, {"200": 5, "429": 2}),  # refusals that the page does not tell at all are seen to differ
    ],
)
def test_answers_are_held_as_finely_as_the_page_tells_them(
    script: Callable[[str], ModuleType], said: dict[str, int], told: dict[str, int]
) -> None:
    assert script("run").as_told(Counter({"200": 5, "429": 2}), said) == told


@pytest.mark.parametrize(
    ("healthy", "fit", "right"),
    [
        (True, {"a": 1, "b": 1}, True),
        (True, {"a": 1, "b": 0}, False),
        (False, {"a": 1, "b": 0}, True),
        (False, {"a": 1, "b": 1}, False),
        (False, {"a": 0, "b": 0}, False),
        (True, {}, False),
    ],
)
def test_the_upstream_that_is_down_and_no_other_is_unfit(
    script: Callable[[str], ModuleType], healthy: bool, fit: dict[str, int], right: bool
) -> None:
    stage = SimpleNamespace(a=200, healthy=healthy)
    assert script("run").fits(SimpleNamespace(), stage, fit) is right


def test_every_gateway_that_is_run_is_understood_and_can_be_installed(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    kinds = [gateway.kind for gateway in script("table").GATEWAYS]
    assert {"litellm", "vllm-router", "envoy", "nginx"} <= set(kinds) <= {adapter.kind for adapter in ADAPTERS}
    text = (GATEWAYS / "install.sh").read_text(encoding="utf-8")
    assert all(f"\n    {kind}) program=" in text for kind in kinds)
    refused = subprocess.run(
        ["bash", GATEWAYS / "install.sh", str(tmp_path), "other"], capture_output=True, check=False
    )
    assert refused.returncode == 2
