"""Labels that say where a target is stay the user's own, although some families have them too."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from llmvitals.errors import SettingsError
from llmvitals.settings import PLACES, TEAMS, Kubernetes, decode
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.hostile import vllm_page


def _target(**labels: str):
    (target,) = decode({"targets": [{"url": "h:1", "labels": labels}]}, place="x").targets
    return target


@pytest.mark.parametrize("label", sorted(PLACES | TEAMS))
def test_a_target_may_carry_the_label(label):
    target = _target(**{label: "chat"})
    page = Ingest(instance="h:1", labels=target.labels).snapshot(RawPage(1.0, 0.1, 200, vllm_page()))
    assert {key.label(label) for key in page.samples} == {"chat"}


@pytest.mark.parametrize("label", ["model", "instance", "gpu", "process", "reason", "le", "cause", "setting", "edge"])
def test_a_label_that_tells_series_apart_is_refused(label):
    with pytest.raises(SettingsError, match=f"the label '{label}' has a meaning of its own"):
        _target(**{label: "x"})


@pytest.mark.parametrize(("written", "meant"), [("on", "on"), ("off", "off"), ("auto", "auto"), ("'off'", "off")])
def test_a_switch_may_be_written_without_quotes(written, meant):
    text = f"node: {{nvml: {written}, processes: {written}, kubernetes: {{enabled: {written}, selector: a=b}}}}"
    node = decode(yaml.safe_load(text), place="x").node
    assert (node.nvml, node.processes, node.kubernetes.enabled, node.kubernetes.selector) == (meant,) * 3 + ("a=b",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node: {nvml: onn}", "nvml is auto, on or off, perhaps 'on', not 'onn'"),
        ("node: {kubernetes: {enabled: never}}", "kubernetes.enabled is auto, on or off"),
        ("node: {kubernetes: {discover: maybe}}", "node.kubernetes.discover"),
        ("node: {kubernetes: yes}", "node.kubernetes"),
        ("node: 3", "node"),
    ],
)
def test_a_switch_that_is_none_is_refused(text, says):
    with pytest.raises(SettingsError, match=says):
        decode(yaml.safe_load(text), place="x")


def test_the_documentation_has_every_key_of_kubernetes_with_its_default():
    page = (Path(__file__).parents[2] / "docs" / "node.md").read_text()
    part = page.partition("\n### Settings\n")[2].partition("\n### ")[0]
    told = {key: yaml.safe_load(text) for key, text in re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", part, re.MULTILINE)}
    assert list(told) == [field.name for field in msgspec.structs.fields(Kubernetes)]
    assert msgspec.convert(told, Kubernetes) == Kubernetes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "targets: [{url: 'h:1', gpus: [0]}]",
            "targets[0].gpus[0]: expected text, got a whole number. Put it in quotes",
        ),
        ("node: {kubernetes: {namespaces: chat}}", "namespaces: expected a list, like [a, b], got text. Correct"),
        ("node: {kubernetes: on}", "node.kubernetes: expected keys below it, got true or false. Correct"),
        ("node:", "node: expected keys below it, got nothing. Correct"),
        ("node: {kubernetes: {interval_seconds: 0}}", "interval_seconds: expected a number > 0"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_in_words_of_people(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as told:
        decode(yaml.safe_load(text), place="x")
    assert words in str(told.value)
