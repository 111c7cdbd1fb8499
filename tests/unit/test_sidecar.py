"""An exporter beside its engine calls it by the pod, and none of two exporters counts what the other counts."""

from __future__ import annotations

import pytest

from llmvitals.errors import SettingsError
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.pods import Pods
from llmvitals.settings import Settings, Target
from llmvitals.sources.discover import discover
from llmvitals.sources.place import name_of
from llmvitals.sources.pod_words import PREFIX
from llmvitals.sources.sidecar import in_this_pod
from llmvitals.telemetry.identity.model import Container, Pod
from llmvitals.telemetry.ingest import RawPage

HERE = {"POD_NAMESPACE": "serving", "POD_NAME": "chat-0", "NODE_NAME": "n1"}


def pod(**said: str) -> Pod:
    words = {f"{PREFIX}{key}": text for key, text in {"scrape": "true", **said}.items()}
    containers = (Container("engine", ports=(("http", 8000),)),)
    return Pod("serving", "chat-0", "u", "10.0.0.7", "Running", annotations=words, containers=containers)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "localhost:8000", "http://[::1]:8000"])
def test_a_sidecar_and_the_nodes_exporter_call_one_engine_by_one_name(url: str) -> None:
    (beside,) = in_this_pod((Target(url=url),), HERE)
    (from_node,) = discover([pod()], node="n1").targets
    assert (beside.name, beside.labels, beside.pod) == (from_node.name, from_node.labels, from_node.pod)
    assert beside.url == url


def test_several_engines_of_one_pod_have_their_ports_in_their_names() -> None:
    both = in_this_pod((Target(url="http://127.0.0.1:8000"), Target(url="http://127.0.0.1:8001")), HERE)
    asked = discover([pod(port="8000,8001")], node="n1").targets
    assert [one.name for one in both] == [one.name for one in asked]


def test_without_a_port_in_the_address_the_schemes_own_is_in_the_name() -> None:
    both = in_this_pod((Target(url="https://127.0.0.1"), Target(url="localhost")), HERE)
    assert [one.name for one in both] == ["serving/chat-0:443", "serving/chat-0:80"]


@pytest.mark.parametrize(
    ("target", "environ"),
    [
        (Target(url="http://127.0.0.1:8000"), {}),
        (Target(url="http://127.0.0.1:8000"), {"POD_NAME": "chat-0"}),
        (Target(url="http://127.0.0.1:8000"), {"POD_NAME": "chat-0", "POD_NAMESPACE": ""}),
        (Target(url="http://127.0.0.1:8000", name="chat"), HERE),
        (Target(url="http://10.0.0.9:8000"), HERE),
        (Target(url="http://vllm:8000"), HERE),
    ],
    ids=str,
)
def test_what_has_a_name_or_is_elsewhere_keeps_it(target: Target, environ: dict[str, str]) -> None:
    (left,) = in_this_pod((target,), environ)
    assert (left, name_of(left)) == (target, name_of(target))


def test_what_the_settings_say_of_its_place_counts() -> None:
    (one,) = in_this_pod((Target(url="http://127.0.0.1:8000", labels={"node": "rack-7"}, pod="a/b"),), HERE)
    assert (one.labels["node"], one.labels["pod"], one.pod) == ("rack-7", "chat-0", "a/b")


def test_a_pod_that_is_left_to_its_sidecar_stands_on_the_page_with_the_reason_and_counts_nowhere() -> None:
    engine = Engine(
        Settings(), fetch=lambda url, *, timeout_s, access: RawPage(0.0, error="not asked"), clock=lambda: 100.0
    )
    engine._pods.changed((pod(owner="sidecar"),), "n1")
    cycle = engine.publish(100.0)
    (line,) = [line for line in cycle.page.decode().splitlines() if line.startswith("llmvitals_target_left_out{")]
    assert 'instance="serving/chat-0"' in line
    assert "owner: sidecar" in line
    assert line.endswith(" 1.0")
    assert "llm_target_up" not in cycle.page.decode()


def test_it_is_gone_from_the_page_when_the_pod_is_gone() -> None:
    pods = Pods(Settings())
    pods.changed((pod(owner="sidecar"),), "n1")
    assert list(pods.left) == ["serving/chat-0"]
    pods.changed((), "n1")
    assert pods.left == {}


@pytest.mark.parametrize("second", ["http://127.0.0.1:8000/metrics", "127.0.0.1:8000", "http://127.0.0.1:8000/"])
def test_two_targets_of_one_page_are_refused_by_both_names(second: str) -> None:
    targets = (Target(url="http://127.0.0.1:8000", name="a"), Target(url=second, name="b"))
    with pytest.raises(SettingsError, match="'a' and 'b' ask one page"):
        Engine(Settings(targets=targets))
