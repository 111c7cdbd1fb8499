"""Restarts by reason, from one list of pods to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.series import series
from llmvitals.telemetry.identity.model import Container, Found, Pod, Restarted
from llmvitals.telemetry.kube.reasons import REASONS
from llmvitals.telemetry.kube.restarts import LISTS_REMEMBERED, Restarts, workload


def engine(restarts: int = 0, last: str = "", name: str = "engine", started: float | None = 50.0) -> Container:
    return Container(name=name, restarts=restarts, last=Restarted(last) if last else None, started=started)


def pod(name: str = "chat-a", *, uid: str = "", revision: str = "5f", **more) -> Pod:
    given = {
        "namespace": "serving",
        "name": name,
        "uid": uid or f"uid-{name}",
        "phase": "Running",
        "ready": True,
        "ready_since": 60.0,
        "owner": f"ReplicaSet/chat-{revision}",
        "labels": {"pod-template-hash": revision},
        "containers": (engine(),),
    }
    return Pod(**{**given, **more})


def after(*lists: tuple[Pod, ...]) -> Restarts:
    state = Restarts()
    for one in lists:
        state = state.after(one)
    return state


def counts(state: Restarts, of: Pod, container: str = "engine") -> dict[str, int]:
    found = state.of(of, next(c for c in of.containers if c.name == container))
    return {reason: n for reason, n in found.items() if n}


# -- restarts of a container -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["oom", "error", "probe", "unknown"])
def test_a_restart_counts_by_what_ended_the_run_before(reason):
    first, then = pod(), pod(containers=(engine(1, reason),))
    assert counts(after((first,), (then,), (then,)), then) == {reason: 1}


def test_what_happened_before_anybody_looked_is_not_counted():
    old = pod(containers=(engine(7, "oom"),))
    assert counts(after((old,), (old,)), old) == {}
    assert counts(after((old,), (pod(containers=(engine(8, "oom"),)),)), old) == {"oom": 1}


def test_a_pod_that_came_later_counts_from_its_start():
    new = pod("chat-b", containers=(engine(1, "oom"),))
    assert counts(after((pod(),), (pod(), new)), new) == {"oom": 1}


def test_of_several_restarts_between_two_lists_only_the_last_has_a_reason():
    then = pod(containers=(engine(4, "oom"),))
    assert counts(after((pod(containers=(engine(1, "error"),)),), (then,)), then) == {"oom": 1, "unknown": 2}


def test_counts_add_up_over_lists():
    lists = [(pod(containers=(engine(n, "oom" if n % 2 else "probe"),)),) for n in range(6)]
    assert counts(after(*lists), lists[-1][0]) == {"oom": 3, "probe": 2}


def test_a_list_that_lags_counts_nothing_twice():
    new, old = pod(containers=(engine(2, "oom"),)), pod(containers=(engine(1, "error"),))
    assert counts(after((old,), (new,), (old,), (new,)), new) == {"oom": 1}


def test_containers_of_a_pod_are_counted_apart():
    first = pod(containers=(engine(), engine(name="proxy")))
    then = replace(first, containers=(engine(), engine(1, "error", name="proxy")))
    state = after((first,), (then,))
    assert counts(state, then) == {}
    assert counts(state, then, "proxy") == {"error": 1}


def test_a_status_without_a_reason_is_unknown():
    then = pod(containers=(engine(1),))
    assert counts(after((pod(),), (then,)), then) == {"unknown": 1}


# -- one pod in place of another ---------------------------------------------------------------------------------------


def test_a_successor_after_its_predecessor_left_is_a_rollout():
    old, new = pod("chat-a"), pod("chat-b")
    for between in ((), ((),), ((replace(old, leaving=True),), ())):
        assert counts(after((old,), *between, (new,)), new) == {"rollout": 1}
    assert counts(after((old,), (replace(old, leaving=True), new), (new,)), new) == {"rollout": 1}


def test_a_surge_counts_once_the_old_revision_leaves():
    old, new = pod("chat-a"), pod("chat-b", revision="7c")
    assert counts(after((old,), (old, new)), new) == {}
    assert counts(after((old,), (old, new), (replace(old, leaving=True), new), (new,)), new) == {"rollout": 1}
    assert counts(after((old,), *[(old, new)] * 200, (new,), (new,)), new) == {"rollout": 1}


def test_growing_and_shrinking_are_no_rollout():
    one, two = pod("chat-a"), pod("chat-b")
    grown = after((one,), (one, two))
    assert counts(grown, two) == {}
    assert counts(grown.after((two,)), two) == {}


def test_each_pod_takes_one_place():
    old = (pod("a1"), pod("a2"))
    new = (pod("b1", revision="7c"), pod("b2", revision="7c"), pod("b3", revision="7c"))
    state = after(old, new, new)
    assert [counts(state, one) for one in new] == [{"rollout": 1}, {"rollout": 1}, {}]


def test_another_workload_takes_nobodys_place():
    old = pod("chat-a")
    for other in (
        pod("code-b", owner="ReplicaSet/code-5f"),
        pod("chat-b", namespace="test"),
        pod("bare", owner=""),
    ):
        assert counts(after((old,), (other,)), other) == {}


def test_a_stateful_pod_comes_back_under_its_name():
    old = pod("chat-0", uid="1", owner="StatefulSet/chat", labels={"controller-revision-hash": "chat-6d"})
    new = replace(old, uid="2")
    assert counts(after((old,), (new,)), new) == {"rollout": 1}


def test_the_successor_of_a_pod_that_failed_has_no_known_reason():
    old, new = pod("chat-a"), pod("chat-b")
    failed = replace(old, phase="Failed")
    assert counts(after((old,), (failed, new)), new) == {"unknown": 1}
    assert counts(after((old,), (failed,), (failed, new)), new) == {"unknown": 1}


def test_a_pod_that_a_lagging_list_hides_for_a_moment_replaces_nobody():
    one, two = pod("chat-a"), pod("chat-b")
    assert counts(after((one, two), (one,), (one, two)), two) == {}


def test_a_place_is_free_for_a_while_only():
    old, new = pod("chat-a"), pod("chat-b")
    assert counts(after((old,), *[()] * (LISTS_REMEMBERED - 1), (new,)), new) == {"rollout": 1}
    assert counts(after((old,), *[()] * (LISTS_REMEMBERED + 1), (new,)), new) == {}


def test_a_pod_that_was_hidden_for_a_moment_keeps_its_counts():
    old, other = pod("chat-a", containers=(engine(7, "oom"),)), pod("chat-b", owner="")
    then = replace(old, containers=(engine(8, "oom"),))
    assert counts(after((old, other), (other,), (old, other)), old) == {}
    assert counts(after((old, other), (then, other), (other,), (then, other)), then) == {"oom": 1}


def test_what_is_known_of_a_pod_goes_some_time_after_it():
    old, new = pod("chat-a", containers=(engine(1, "oom"),)), pod("chat-b")
    state = after((old,), *[(new,)] * (LISTS_REMEMBERED + 2))
    assert (set(state.runs), set(state.gone)) == ({("uid-chat-b", "engine")}, set())


def test_the_workload_behind_a_replica_set_is_its_deployment():
    assert workload(pod()) == ("serving", "Deployment/chat")
    assert workload(pod(labels={})) == ("serving", "ReplicaSet/chat-5f")
    assert workload(pod(owner="StatefulSet/chat")) == ("serving", "StatefulSet/chat")
    assert workload(pod(owner="")) == ("serving", "Pod/chat-a")


_PODS = st.builds(
    lambda n, restarts, last, revision, leaving, phase: pod(
        f"p{n}", revision=revision, leaving=leaving, phase=phase, containers=(engine(restarts, last),)
    ),
    st.integers(0, 4),
    st.integers(0, 5),
    st.sampled_from(["", "oom", "error", "probe", "unknown"]),
    st.sampled_from(["5f", "7c"]),
    st.booleans(),
    st.sampled_from(["Running", "Pending", "Failed"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(_PODS, max_size=4, unique_by=lambda one: one.uid), max_size=12))
def test_counts_never_fall_and_never_exceed_what_the_status_says(lists):
    state, before = Restarts(), {}
    highest: dict[str, int] = {}
    for one in lists:
        state = state.after(tuple(one))
        now = {of.uid: state.of(of, of.containers[0]) for of in one}
        for of in one:
            highest[of.uid] = max(highest.get(of.uid, 0), of.containers[0].restarts)
            counted = now[of.uid]
            assert set(counted) == set(REASONS)
            assert all(counted[r] >= before.get(of.uid, counted)[r] for r in REASONS)
            assert sum(counted.values()) <= highest[of.uid] + 1  # and one place taken
        before = now


# -- what the page shows -----------------------------------------------------------------------------------------------


def test_the_samples_of_an_engine_in_a_pod():
    then = pod(containers=(engine(1, "oom"), engine(name="proxy")))
    state = after((replace(then, containers=(engine(), engine(name="proxy"))),), (then,))
    assert state.samples(Found(pod=then, container=then.containers[0])) == {
        series("llm_host_ready"): 1.0,
        series("llm_host_ready_time_seconds"): 60.0,
        series("llm_host_started_time_seconds"): 50.0,
        series("llm_host_restarts_total", reason="oom"): 1.0,
        series("llm_host_restarts_total", reason="error"): 0.0,
        series("llm_host_restarts_total", reason="probe"): 0.0,
        series("llm_host_restarts_total", reason="rollout"): 0.0,
        series("llm_host_restarts_total", reason="unknown"): 0.0,
    }


def test_a_pod_that_starts_is_not_ready_and_has_no_time_for_it():
    waits = pod(ready=False, ready_since=None, containers=(engine(started=None),))
    samples = after((waits,)).samples(Found(pod=waits))
    assert samples[series("llm_host_ready")] == 0.0
    assert {key.name for key in samples} == {"llm_host_ready", "llm_host_restarts_total"}


def test_which_of_several_containers_is_the_engine_has_to_be_known():
    several = pod(containers=(engine(), engine(name="proxy")))
    samples = after((several,)).samples(Found(pod=several))
    (gap,) = [key for key in samples if key.name == "llm_family_gap"]
    assert gap.label("family") == "llm_host_restarts_total"
    assert "llmvitals.io/container" in gap.label("reason")
    assert series("llm_host_ready") in samples


def test_outside_a_pod_or_before_the_first_list_nothing_is_counted():
    assert Restarts().samples(Found(api=(1,), how="port")) == {}
    assert not any(key.name == "llm_host_restarts_total" for key in Restarts().samples(Found(pod=pod())))
