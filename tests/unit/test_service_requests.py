"""What a gateway's traces tell of its calls stands beside what its engine tells: joined, told apart by vantage, never twice."""

from __future__ import annotations

from dataclasses import replace

from llmvitals.series import Exemplar, Series, Snapshot, series
from llmvitals.settings import Service
from llmvitals.sources import Observed
from llmvitals.sources.assemble import joined

T = 1_000_000.0
WHO = {"slo_class": "default"}


def requests(instance: str, vantage: str, yes: float, *, model: str = "m") -> dict[Series, float]:
    return {series("llm_slo_requests_total", instance=instance, model=model, vantage=vantage, met="yes", **WHO): yes}


def engine(name: str, t: float, yes: float) -> Snapshot:
    samples = {
        series("llm_target_up", instance=name): 1.0,
        series("llm_target_info", instance=name, engine="vllm", version=""): 1.0,
        series("llm_requests_running", instance=name, model="m", engine="vllm"): 3.0,
        **requests(name, "engine", yes),
    }
    return Snapshot(t, samples)


def gateway(t: float, yes: float) -> Snapshot:
    samples = {
        series("llm_target_up", instance="gw"): 1.0,
        series("llm_target_info", instance="gw", engine="gateway", version=""): 1.0,
        series("llm_gateway_calls_total", instance="gw", gateway="chat"): yes,
        **requests("gw", "gateway", yes),
    }
    return Snapshot(t, samples)


def counted(page: Snapshot, vantage: str) -> dict[Series, float]:
    return {
        k: v for k, v in page.samples.items() if k.name == "llm_slo_requests_total" and k.label("vantage") == vantage
    }


def test_an_engine_gets_the_calls_of_the_gateway_in_front_of_it_beside_its_own_requests() -> None:
    seen = [Observed("a", "vllm", (engine("a", T, 70.0),)), Observed("gw", "gateway", (gateway(T + 1, 64.0),))]
    (one,) = joined(seen, ())
    (page,) = one.snapshots
    assert counted(page, "engine") == requests("a", "engine", 70.0)
    assert counted(page, "gateway") == requests("a", "gateway", 64.0)


def test_a_service_adds_its_engines_up_and_counts_callers_once() -> None:
    seen = [
        Observed("a", "vllm", (engine("a", T, 70.0),)),
        Observed("b", "vllm", (engine("b", T, 5.0),)),
        Observed("gw", "gateway", (gateway(T + 1, 64.0),)),
    ]
    service = Service(name="chat", engines=("a", "b"), gateways=("gw",))
    page = next(one for one in joined(seen, [service]) if one.name == "chat").snapshots[-1]
    assert sum(counted(page, "engine").values()) == 75.0
    assert sum(counted(page, "gateway").values()) == 64.0
    assert {key.label("instance") for key in (*counted(page, "engine"), *counted(page, "gateway"))} == {"chat"}


def test_only_the_first_of_several_gateways_tells_what_callers_saw() -> None:
    inner = replace(gateway(T, 9.0), samples={k.plus(instance="inner"): v for k, v in gateway(T, 9.0).samples.items()})
    seen = [
        Observed("a", "vllm", (engine("a", T, 70.0),)),
        Observed("gw", "gateway", (gateway(T, 64.0),)),
        Observed("inner", "gateway", (inner,)),
    ]
    service = Service(name="chat", engines=("a",), gateways=("gw", "inner"))
    page = next(one for one in joined(seen, [service]) if one.name == "chat").snapshots[-1]
    assert list(counted(page, "gateway").values()) == [64.0]


def test_exemplars_of_an_engine_survive_the_join() -> None:
    key = series(
        "llm_span_ttft_seconds_bucket", instance="a", model="m", le="1.0", vantage="engine", size="small", **WHO
    )
    mine = replace(engine("a", T, 1.0), exemplars={key: Exemplar(0.7, T - 1, "ab" * 16)})
    seen = [Observed("a", "vllm", (mine,)), Observed("gw", "gateway", (gateway(T, 1.0),))]
    assert joined(seen, ())[0].snapshots[0].exemplars == mine.exemplars
