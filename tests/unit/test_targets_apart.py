"""A gateway beside engines that nothing joins it to: it is said, with how to join it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llmvitals.cli.targets import apart
from llmvitals.cli.triage import command
from llmvitals.schema import Origin
from llmvitals.settings import Service, Settings, Target
from llmvitals.sources.probe import Probed
from support.answers import Answer, Answers

ENGINE, GATEWAY, GPU = Origin.ENGINE, Origin.GATEWAY, Origin.GPU
VLLM = b'vllm:num_requests_running{engine="0",model_name="m"} 3\n'
LITELLM = b'litellm_proxy_total_requests_metric_total{status_code="200"} 5\n'


def probed(**origins: Origin | None) -> list[Probed]:
    return [Probed(Target(url="http://h:1", name=name), None, False, origin) for name, origin in origins.items()]


@pytest.mark.parametrize(
    "origins",
    [
        {"a": ENGINE, "b": ENGINE},
        {"a": ENGINE, "gw": GATEWAY},  # one and one belong together
        {"gw": GATEWAY, "other": GATEWAY},
        {"a": ENGINE, "card": GPU, "gw": GATEWAY},
    ],
)
def test_there_is_nothing_to_say_where_all_is_joined_or_nothing_could_be(origins: dict[str, Origin]) -> None:
    assert apart(probed(**origins), Settings()) == ""


@pytest.mark.parametrize("last", [ENGINE, None], ids=["answers", "down"])
def test_a_gateway_beside_several_engines_is_named_with_the_remedy(last: Origin | None) -> None:
    told = apart(probed(a=ENGINE, gw=GATEWAY, b=last), Settings())
    assert told.startswith("gw: ")
    assert "a, b" in told
    assert "'services'" in told
    assert "\n" not in told


def test_settings_that_join_it_leave_nothing_to_say() -> None:
    settings = Settings(services=(Service(name="chat", engines=("a", "b"), gateways=("gw",)),))
    assert apart(probed(a=ENGINE, b=ENGINE, gw=GATEWAY), settings) == ""
    named = [
        Probed(Target(url="http://h:1", name=name, gateway="gw"), None, False, ENGINE) for name in ("a", "b")
    ] + probed(gw=GATEWAY)
    assert apart(named, Settings()) == ""


def test_the_command_says_it_once_on_stderr_and_judges_all_the_same(tmp_path: Path) -> None:
    pages = {"/metrics": Answer(VLLM)}
    with Answers(pages) as one, Answers(pages) as two, Answers({"/metrics": Answer(LITELLM)}) as front:
        words = [one.url, two.url, front.url, "--for", "0.2s", "--interval", "0.1s", "--json"]
        done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.stderr.count("joined to no engine") == 1
    assert done.stdout.startswith("{")
