"""Layouts and plans: what must hold between them, and which resource is said to bind where it plainly does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from llmvitals.capacity.layouts import Asked, layout, layouts
from llmvitals.capacity.plan import Binds, Demand, plan, repeatable, traffic
from llmvitals.capacity.report import Question, answer, checked, stored_as
from llmvitals.capacity.speed import machine, step_seconds
from llmvitals.errors import SettingsError
from llmvitals.simulator import hardware
from llmvitals.sources.model_config import model_of
from support import model_configs as known

LLAMA = model_of(known.LLAMA_70B, place="c")
FP8 = checked(Question(gpus=2, weight_dtype="fp8", context=4000))


def planned(demand, *, model=LLAMA, question=FP8, tensor_parallel=2):
    """A plan with that much tensor parallelism."""
    stored, made = stored_as(model, question), traffic(demand)
    asked = Asked(question.gpu, question.memory_gb, stored, made.context)
    return plan(model, stored, layout(model, asked, 1, tensor_parallel), demand, gpu=question.gpu)


def test_the_documents_figures():
    found = answer(LLAMA, replace(FP8, service_rate=8, acceptable_wait=5))
    assert found.estimate.kv_bytes_per_token == 327_680
    assert found.budget_tokens == pytest.approx(200_000, rel=0.01)
    assert (found.seats, found.queue_ceiling) == (50, 40)


def test_seats_fall_as_contexts_grow():
    by_context = answer(LLAMA, FP8).by_context
    assert [tokens for tokens, _ in by_context][-1] == 131_072
    assert all(a[1] > b[1] for a, b in itertools.pairwise(by_context))


def test_a_measured_pool_takes_the_place_of_the_estimate():
    found = answer(LLAMA, replace(FP8, kv_capacity=400_000))
    assert (found.measured, found.budget_tokens, found.seats) == (True, 400_000, 100)
    assert dict(found.by_context)[8192] == round(400_000 / 8192)


def test_layouts_share_out_all_gpus_and_say_what_does_not_fit():
    found = layouts(LLAMA, Asked("H100-80GB", 80, stored_as(LLAMA, FP8), 4000), 8)
    assert [(one.replicas, one.tensor_parallel) for one in found] == [(8, 1), (4, 2), (2, 4), (1, 8)]
    assert {one.gpus for one in found} == {8}
    assert found[0].why_not == "the weights do not fit"
    assert found[0].pace is None
    fitting = found[1:]
    assert [one.why_not for one in fitting] == [""] * 3
    # Weights are held once a replica: fewer replicas leave more room, and a stream runs faster on more GPUs.
    assert fitting[0].seats < fitting[1].seats < fitting[2].seats
    assert fitting[0].pace < fitting[1].pace < fitting[2].pace
    assert all(one.full_pace < one.pace for one in fitting)


def test_more_than_a_nodes_gpus_are_a_pipeline():
    found = layouts(model_of(known.DEEPSEEK_V3, place="c"), Asked("H100-80GB", 80, stored_as(LLAMA, FP8), 4000), 16)
    assert (found[-1].tensor_parallel, found[-1].pipeline_parallel) == (8, 2)


def test_heads_that_do_not_split_are_said():
    odd = model_of(known.LLAMA_70B | {"num_attention_heads": 6, "head_dim": 128, "num_key_value_heads": 6}, place="c")
    assert (
        layout(odd, Asked("H100-80GB", 80, stored_as(odd, FP8), 4000), 1, 4).why_not
        == "6 heads do not split over 4 GPUs"
    )


def test_a_gpu_without_speeds_has_seats_and_no_pace():
    one = layout(LLAMA, Asked("", 192, stored_as(LLAMA, FP8), 4000), 1, 1)
    assert one.seats > 0
    assert one.pace is None


def test_the_machine_is_that_of_the_simulators_table():
    """Where both know the model, the roofline gives the same pace."""
    for name, config in (
        ("Llama-3.3-70B", known.LLAMA_70B),
        ("Mixtral-8x7B", known.MIXTRAL),
        ("Qwen3-30B-A3B", known.QWEN3_30B),
    ):
        model = model_of(config, place="c")
        theirs = hardware.machine("H100-80GB", name, gpus=2)
        ours = machine(
            model, hardware.GPUS["H100-80GB"], stored_as(model, checked(Question())), context=1000, tensor_parallel=2
        )
        assert step_seconds(ours, 1, 1000) == pytest.approx(step_seconds(theirs, 1, 1000), rel=0.02)
        assert ours.kv_bytes_per_token == theirs.kv_bytes_per_token


def test_users_become_calls_and_tokens():
    made = traffic(Demand(users=300, requests_per_minute=2, calls=3, prompt=1000, output=200, cached=0.25))
    assert (made.calls, made.prompt_rate, made.computed_rate, made.output_rate) == (30, 30_000, 22_500, 6000)


def test_an_agents_prompts_grow_with_its_turns():
    agent = Demand(users=60, requests_per_minute=1, turns=3, prompt=1000, output=100, added=400)
    made = traffic(agent)  # prompts of 1,000, 1,500 and 2,000
    assert (made.calls, made.prompt) == (3, 1500)
    assert repeatable(agent) == pytest.approx((1100 + 1600) / 4500)
    assert repeatable(replace(agent, turns=1)) == 0


@pytest.mark.parametrize(
    ("demand", "binds"),
    [
        (Demand(10, 1), Binds.NOTHING),
        (Demand(500, 1, prompt=60_000, output=500, cached=0.95), Binds.KV),  # long contexts, hardly computed
        (Demand(2000, 2, prompt=6000, output=20), Binds.COMPUTE),  # prompts and nearly no answers
        (Demand(1000, 2, prompt=100, output=1500, pace=0.025), Binds.BANDWIDTH),  # answers at a pace near one stream's
    ],
)
def test_what_binds(demand, binds):
    assert planned(demand).binds is binds


@pytest.mark.parametrize(
    "demand", [Demand(1000, 2, prompt=3000, output=400), Demand(200, 1, turns=8, prompt=3000, added=500)]
)
def test_a_plan_is_the_fewest_replicas_that_hold(demand):
    found = planned(demand)
    assert found.enough.kv <= 0.9
    assert found.enough.compute <= 0.8
    assert found.enough.step <= demand.pace
    short = found.short
    assert short is not None
    assert short.kv > 0.9 or short.compute > 0.8 or short.step > demand.pace
    assert found.gpus == 2 * found.replicas


@pytest.mark.parametrize("demand", [Demand(2000, 2, prompt=6000, output=20), Demand(1000, 2, prompt=3000, output=400)])
def test_the_stages_of_a_pipeline_work_at_the_same_time(demand):
    """Twice the GPUs in one replica, as two stages, do the work of two replicas: no more GPUs are needed in all."""
    stored, made = stored_as(LLAMA, FP8), traffic(demand)
    asked = Asked(FP8.gpu, FP8.memory_gb, stored, made.context)
    alone, piped = (plan(LLAMA, stored, layout(LLAMA, asked, 1, 2, stages), demand, gpu=FP8.gpu) for stages in (1, 2))
    assert piped.gpus <= alone.gpus + 2  # whole replicas of four
    assert piped.enough.compute == pytest.approx(alone.enough.compute * alone.gpus / piped.gpus)


def test_twice_the_users_need_about_twice_the_replicas_and_a_cache_spares_some():
    one, two = (planned(Demand(n, 2, prompt=3000, output=400)).replicas for n in (1000, 2000))
    assert one * 1.8 <= two <= one * 2
    assert planned(Demand(1000, 2, prompt=3000, output=400, cached=0.8)).replicas < one


@pytest.mark.parametrize(
    ("demand", "says"),
    [
        (Demand(0, 1), "users is 0"),
        (Demand(-5, 1), "users is -5"),
        (Demand(float("nan"), 1), "users is nan"),
        (Demand(10, 1, cached=1.5), "cached share is 1.5"),
        (Demand(10, 1, turns=0), "turns is 0"),
        (Demand(10, 1, pace=0.001), "a single stream already takes"),
        (Demand(1e9, 1e5), "needs more than"),
    ],
)
def test_what_has_no_plan_is_one_line(demand, says):
    with pytest.raises(SettingsError, match=says) as caught:
        planned(demand)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_plan_needs_speeds_and_room():
    with pytest.raises(SettingsError, match="no speeds"):
        planned(Demand(10, 1), question=replace(FP8, gpu="V100-32GB", memory_gb=320))
    with pytest.raises(SettingsError, match="weights do not fit"):
        planned(Demand(10, 1), tensor_parallel=1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpu": "Abacus"}, "no GPU 'Abacus'"),
        ({"gpu": ""}, "memory per GPU is missing"),
        ({"gpu": "", "memory_gb": -1}, "memory per GPU is -1"),
        ({"memory_gb": float("inf")}, "memory per GPU is inf"),
        ({"gpus": 0}, "GPUs is 0"),
        ({"gpus": 3}, "64 attention heads do not split over 3 GPUs"),
        ({"gpus": 8, "pipeline_parallel": 3}, "8 GPUs do not split into 3 stages"),
        ({"context": 0}, "mean context is 0"),
        ({"utilization": 1.5}, "utilization is 1.5"),
        ({"service_rate": 0.0}, "service rate is 0"),
        ({"kv_capacity": -4.0}, "pool is -4"),
    ],
)
def test_a_question_without_an_answer_is_one_line(change, says):
    with pytest.raises(SettingsError, match=says) as caught:
        answer(LLAMA, replace(FP8, memory_gb=None) if not change else replace(replace(FP8, memory_gb=None), **change))
    assert caught.value.remedy
