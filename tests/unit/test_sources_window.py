"""Scopes: one window per instance and model, with what the models of a target share in each."""

from __future__ import annotations

from llmvitals.series import Snapshot, series
from llmvitals.signals.window import scopes


def running(instance: str, model: str, rank: str = "0"):
    return series("llm_requests_running", instance=instance, model=model, engine="vllm", rank=rank)


def up(instance: str):
    return series("llm_target_up", instance=instance)


def test_each_model_gets_its_own_window_and_what_the_target_shares():
    page = Snapshot(1.0, {running("a", "x"): 1.0, running("a", "y"): 2.0, up("a"): 1.0})
    found = scopes([page])
    assert list(found) == [("a", "x"), ("a", "y")]
    assert dict(found["a", "x"].snapshots[0].samples) == {running("a", "x"): 1.0, up("a"): 1.0}
    assert dict(found["a", "y"].snapshots[0].samples) == {running("a", "y"): 2.0, up("a"): 1.0}


def test_targets_do_not_mix_even_on_one_page():
    page = Snapshot(1.0, {running("a", "x"): 1.0, running("b", "x"): 2.0, up("a"): 1.0, up("b"): 0.0})
    found = scopes([page])
    assert dict(found["b", "x"].snapshots[0].samples) == {running("b", "x"): 2.0, up("b"): 0.0}
    assert list(found) == [("a", "x"), ("b", "x")]


def test_ranks_stay_in_one_scope():
    page = Snapshot(1.0, {running("a", "x", "0"): 1.0, running("a", "x", "1"): 2.0})
    assert [t.values for t in scopes([page])["a", "x"].tracks("llm_requests_running")] == [(1.0,), (2.0,)]


def test_a_failed_scrape_belongs_to_every_model_and_keeps_its_sentence():
    good = Snapshot(1.0, {running("a", "x"): 1.0, running("a", "y"): 1.0})
    bad = Snapshot(2.0, {up("a"): 0.0}, detail="refused")
    found = scopes([good, bad])
    assert [len(w.snapshots) for w in found.values()] == [2, 2]
    assert found["a", "x"].snapshots[1].detail == "refused"


def test_a_target_that_never_showed_a_model_is_a_scope_without_one():
    found = scopes([Snapshot(1.0, {up("a"): 0.0}), Snapshot(2.0, {up("a"): 0.0})])
    assert [(scope, len(w.snapshots)) for scope, w in found.items()] == [(("a", ""), 2)]


def test_nothing_gives_no_scope():
    assert scopes([]) == {}


def test_http_answers_of_a_server_with_several_models_are_no_models_own():
    answers = series(
        "llm_http_requests_total", instance="a", engine="vllm", rank="0", status="5xx", handler="/v1/completions"
    )
    shared = Snapshot(1.0, {running("a", "x"): 1.0, running("a", "y"): 0.0, answers: 40.0})
    for window in scopes([shared]).values():
        assert not window.tracks("llm_http_requests_total")
        (gap,) = window.tracks("llm_family_gap", {"family": "llm_http_requests_total"})
        assert (gap.label("gap"), gap.values) == ("unsupported", (1.0,))
    alone = Snapshot(1.0, {running("a", "x"): 1.0, answers: 40.0})
    assert scopes([alone])["a", "x"].tracks("llm_http_requests_total")


def test_a_machine_that_shows_its_spare_gpus_on_an_exporters_page_is_no_scope():
    spare = {
        series("llm_gpu_power_watts", instance="node-1", gpu="GPU-a"): 70.0,
        series(
            "llm_family_gap", instance="node-1", family="llm_gpu_sm_active_ratio", gap="unsupported", reason="r"
        ): 1.0,
    }
    page = Snapshot(
        1.0, {running("a", "x"): 1.0, series("llm_gpu_power_watts", instance="a", gpu="GPU-b"): 1.0, **spare}
    )
    assert list(scopes([page])) == [("a", "x")]
    assert list(scopes([Snapshot(1.0, {up("node-1"): 1.0, **spare})])) == [("node-1", "")]  # a target shows them
