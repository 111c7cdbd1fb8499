"""Which target a process that sends spans belongs to: each way, in its order, and when none may speak."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.spans.model import Place, Vantage
from llmvitals.telemetry.spans.senders import (
    CONTRADICTED,
    NO_TARGET,
    NOTHING,
    SEVERAL,
    By,
    Placement,
    contradicted,
    has_address,
    is_process,
    placed,
)

POD = {"k8s.namespace.name": "serving", "k8s.pod.name": "chat-0"}


def engine(name: str, **more: object) -> Place:
    return Place(name, **{"host": f"{name}.example", "port": 8000, **more})  # type: ignore[arg-type]


def found(resource: dict[str, str], *places: Place, peer: str = "10.9.9.9", vantage: Vantage = Vantage.ENGINE) -> str:
    answer = placed(resource, peer, vantage, places)
    return f"{answer.place.instance} {answer.by}" if answer.place is not None else answer.why


A, B = engine("a"), engine("b")


@pytest.mark.parametrize(
    ("resource", "peer", "place", "by"),
    [
        (
            {"service.name": "chat", "zone": "1"},
            "",
            {"attributes": {"service.name": "chat", "zone": "1"}},
            "configured",
        ),
        ({"k8s.pod.uid": "u1"}, "", {"pod_uid": "u1"}, "pod"),
        (POD, "", {"pod": "serving/chat-0"}, "pod"),
        ({"vllm.process_id": "41"}, "127.0.0.1", {"pids": frozenset({40, 41})}, "process"),
        ({"process.pid": "41"}, "::1", {"pids": frozenset({41})}, "process"),
        ({"process.pid": "41", "host.name": "n1"}, "10.9.9.9", {"pids": frozenset({41}), "node": "n1"}, "process"),
        ({}, "10.0.0.1", {"host": "10.0.0.1"}, "address"),
        ({}, "::ffff:10.0.0.1", {"host": "10.0.0.1"}, "address"),
        ({}, "2001:db8::1", {"host": "2001:0db8:0:0::1"}, "address"),
        ({}, "127.0.0.1", {"host": "localhost"}, "address"),
        ({}, "::1", {"host": "127.0.0.1"}, "address"),
    ],
)
def test_each_way_finds_the_one_target_that_it_tells(resource, peer, place, by):
    assert found(resource, engine("a", **place), B, peer=peer or "10.9.9.9") == f"a {by}"
    assert found(resource, B, engine("a", **place), peer=peer or "10.9.9.9") == f"a {by}"


def test_stronger_ways_speak_first():
    by_pid = engine("a", pids=frozenset({41}), host="10.0.0.1")
    by_pod = engine("b", pod="serving/chat-0", host="10.0.0.2")
    by_name = engine("c", attributes={"service.name": "chat"}, host="10.0.0.3")
    says = {"vllm.process_id": "41", **POD, "service.name": "chat"}
    assert found(says, by_pid, by_pod, by_name, peer="127.0.0.1") == "c configured"
    assert found({**says, "service.name": "x"}, by_pid, by_pod, by_name, peer="127.0.0.1") == "b pod"
    assert found({"vllm.process_id": "41"}, by_pid, by_pod, by_name, peer="127.0.0.1") == "a process"
    here = engine("d", host="127.0.0.1")
    assert found({"vllm.process_id": "41"}, by_pid, here, peer="127.0.0.1") == "a process"
    assert found({"vllm.process_id": "42"}, by_pid, here, peer="127.0.0.1") == "d address"


def test_what_fits_several_is_left_to_the_weaker_ways_among_those():
    a = engine("a", attributes={"service.name": "chat"}, pids=frozenset({41}))
    b = engine("b", attributes={"service.name": "chat"}, pids=frozenset({51}))
    other = engine("c", pids=frozenset({61}))
    says = {"service.name": "chat", "vllm.process_id": "51"}
    assert found(says, a, b, other, peer="127.0.0.1") == "b process"
    assert found({"service.name": "chat"}, a, b, other, peer="10.9.9.9") == SEVERAL
    # the address of a third is no way out: the settings ruled it out already
    assert found({"service.name": "chat"}, a, b, engine("c", host="10.0.0.1"), peer="10.0.0.1") == SEVERAL


def test_an_address_that_two_targets_have_tells_neither():
    ranks = engine("a", host="10.0.0.1", port=8000), engine("b", host="10.0.0.1", port=8001)
    assert found({}, *ranks, peer="10.0.0.1") == SEVERAL
    assert found({}, *ranks, peer="10.0.0.2") == NOTHING


def test_the_only_target_is_it_unless_something_contradicts():
    assert found({}, A) == "a only"
    assert found({}, A, B) == NOTHING
    assert found({}, engine("a", attributes={"service.name": "chat"})) == CONTRADICTED
    assert found(POD, engine("a", pod="serving/chat-1")) == CONTRADICTED
    assert found({"k8s.pod.uid": "u2"}, engine("a", pod_uid="u1")) == CONTRADICTED
    assert found({"k8s.pod.uid": "u2"}, engine("a")) == "a only"
    # of two, one ruled out: that the other is left makes it no better known
    assert found({"k8s.pod.uid": "u2"}, engine("a", pod_uid="u1"), B) == NOTHING


def test_a_pod_of_the_same_name_that_was_made_anew_is_another():
    old = engine("a", pod="serving/chat-0", pod_uid="u1")
    assert contradicted({**POD, "k8s.pod.uid": "u2"}, old)
    assert not contradicted({**POD, "k8s.pod.uid": "u1"}, old)
    assert found({**POD, "k8s.pod.uid": "u2"}, old, B) == NOTHING
    # a name without its namespace tells nothing, and rules nothing out
    assert not contradicted({"k8s.pod.name": "chat-1"}, old)
    assert found({"k8s.pod.name": "chat-0"}, engine("a", pod="serving/chat-0"), B) == NOTHING


def test_gateways_and_engines_are_looked_for_among_their_own():
    proxy = Place("g", gateway=True, host="10.0.0.1")
    both = engine("a", host="10.0.0.1"), proxy
    assert found({}, *both, vantage=Vantage.GATEWAY) == "g only"
    assert found({}, *both, vantage=Vantage.ENGINE) == "a only"
    assert found({}, A, vantage=Vantage.GATEWAY) == NO_TARGET
    assert found({}, proxy) == NO_TARGET
    assert placed({}, "", Vantage.ENGINE, ()) == Placement(None, By.NONE, NO_TARGET)


def test_a_number_of_another_machine_is_no_process_of_this_one():
    place = engine("a", pids=frozenset({41}), node="n1")
    assert is_process({"process.pid": "41"}, "127.0.0.1", place)
    assert not is_process({"process.pid": "41"}, "10.0.0.1", place)
    assert not is_process({"process.pid": "41", "host.name": "n2"}, "10.0.0.1", place)
    assert not is_process({"process.pid": "41", "host.name": ""}, "10.0.0.1", engine("a", pids=frozenset({41})))
    for strange in ("", "-41", "41.0", "forty-one", "²", "9" * 400):
        assert not is_process({"process.pid": strange}, "127.0.0.1", place)


@pytest.mark.parametrize("peer", ["", "unknown", "10.0.0.1%eth0"])
def test_a_peer_that_is_no_address_has_none(peer):
    assert not has_address({}, peer, engine("a", host="10.0.0.2"))
    assert not has_address({}, "", engine("a", host=""))
