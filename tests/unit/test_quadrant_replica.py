"""Replicas as values: what places one, why one has no place, where it stands, and who stands apart."""

from dataclasses import replace

import msgspec
import pytest

from llmvitals.errors import PageError
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.replicas import document
from llmvitals.series import Snapshot, Window, series
from llmvitals.settings import Service, Settings, Target, Thresholds
from llmvitals.signals.catalogue import BY_ID
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.checks import GPU_IDLE, THRASH
from llmvitals.triage.replica import (
    ACTIVITY,
    BESIDE,
    COMPUTE,
    KV,
    QUADRANTS,
    TRAIL,
    Fleet,
    Limits,
    Replica,
    alone,
    decode,
    encode,
    is_replica,
    limits_of,
    quadrant,
    replica,
)
from llmvitals.triage.walk import diagnose_with
from support.hostile import vllm_page

LIMITS = Limits(kv=0.95, activity=0.6)
STEP, PAGES = 5.0, 13
DCGM = """\
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="{n}",UUID="GPU-{n}",Hostname="node"}} 0.85
{more}
"""
SM = 'DCGM_FI_PROF_SM_ACTIVE{{gpu="{n}",UUID="GPU-{n}",Hostname="node"}} {v}'


def page(t, *, kv=0.5, up=1.0, waiting=0.0, **gpu):
    """A page of a made engine with its GPU families; ``gpu``: short family name to value."""
    who = {"instance": "chat-0", "model": "m", "engine": "vllm", "rank": "0"}
    card = {"instance": "chat-0", "gpu": "GPU-a", "index": "3", "join": "process-ids"}
    samples = {series("llm_target_up", instance="chat-0"): up}
    if up:
        samples |= {
            series("llm_kv_usage_ratio", **who): kv,
            series("llm_requests_waiting", **who): waiting,
            series("llm_requests_running", **who): 4.0,
        }
    return Snapshot(t, samples | {series(f"llm_gpu_{name}", **card): value for name, value in gpu.items()})


def one(*pages, settings=None):
    """What these pages make of the replica."""
    window = Window.of(pages)
    verdict, readings = diagnose_with(window, settings or Settings())
    return replica("chat-0", "m", window.snapshots, readings, verdict)


def pages(**what):
    return [page(1000.0 + STEP * n, **what) for n in range(PAGES)]


def test_kv_and_sm_activity_place_a_replica():
    found = one(*pages(kv=0.97, waiting=3.0, sm_active_ratio=0.25, busy_ratio=1.0, dram_active_ratio=0.4))
    assert (found.kv, found.activity, found.activity_of) == (0.97, 0.25, COMPUTE)
    assert (found.waiting, found.running, found.dram, found.tensor) == (3.0, 4.0, 0.4, None)
    assert (found.gpus, found.joins) == (("3",), ("process-ids",))
    assert quadrant(found, LIMITS).title.startswith("Memory binds")
    assert found.binds
    assert found.binds_why


@pytest.mark.parametrize(("family", "signal"), [("engine_active_ratio", 1), ("busy_ratio", 2)])
def test_where_only_utilisation_is_known_it_is_named_as_that(family, signal):
    found = one(*pages(kv=0.97, **{family: 0.9}))
    assert (found.activity, found.activity_of) == (pytest.approx(0.9), list(ACTIVITY)[signal])
    assert found.placed


def test_utilisation_stands_for_compute_only_where_it_is_low():
    """Any kernel counts as utilisation: compute is at most that."""
    low, high = Replica("a", kv=0.2, activity=0.3, activity_of="gpu_busy_mean_ratio"), 0.9
    assert quadrant(low, LIMITS).title.startswith("Idle")
    assert quadrant(replace(low, activity=high), LIMITS) is None
    assert quadrant(replace(low, activity=high, activity_of=COMPUTE), LIMITS).title.startswith("Compute")


def test_without_a_number_there_is_the_reason_and_no_zero():
    found = one(*pages(kv=0.97))
    assert (found.placed, found.activity, found.activity_of, found.gpus) == (False, None, "", ())
    assert "no GPU is joined" in found.activity_why
    told = {**page(1000.0).samples}
    gap = {"family": "llm_gpu_*", "gap": "missing", "reason": "GPU 7 is not on the GPU page"}
    told[series("llm_family_gap", instance="chat-0", **gap)] = 1.0
    assert "GPU 7 is not on the GPU page" in one(Snapshot(1000.0, told)).activity_why
    down = replace(page(1000.0, up=0.0, sm_active_ratio=0.0), detail="refused the connection")
    found = one(down)
    assert (found.kv, found.kv_why) == (None, "refused the connection")
    assert quadrant(found, LIMITS) is None


@pytest.mark.parametrize(
    ("kv", "activity", "title"),
    [
        (0.95, 0.59, "Memory binds"),
        (0.95, 0.60, "Full and working"),
        (0.949, 0.60, "Compute binds"),
        (0.949, 0.599, "Idle"),
        (0.0, 0.0, "Idle"),
        (1.0, 1.0, "Full and working"),
    ],
)
def test_the_lines_belong_to_the_fuller_and_busier_side(kv, activity, title):
    assert quadrant(Replica("a", kv=kv, activity=activity, activity_of=COMPUTE), LIMITS).title.startswith(title)


def test_the_lines_are_those_of_the_checks():
    settings = Settings(thresholds=Thresholds(kv_free_floor=0.2, gpu_active=0.45))
    assert limits_of(settings) == Limits(kv=0.8, activity=0.45)
    assert GPU_IDLE.signal == COMPUTE
    bounds = {limit.bound for limit in THRASH if limit.signal == "kv_free_low_ratio"}
    assert bounds == {"thresholds.kv_free_floor"}, "what is free is the rest of what is reached"
    full = one(*pages(kv=0.85, sm_active_ratio=0.5), settings=settings)
    assert quadrant(full, limits_of(settings)).title == "Full and working"
    assert quadrant(full, limits_of(Settings())).title.startswith("Idle")


def test_there_is_a_quadrant_for_each_pair_and_each_says_what_to_make_of_it():
    assert {(q.full, q.busy) for q in QUADRANTS} == {(a, b) for a in (True, False) for b in (True, False)}
    assert all(len(q.hint.split()) > 8 for q in QUADRANTS)
    assert all(name in BY_ID for name in (KV, *ACTIVITY, *BESIDE, *TRAIL))


def test_engines_are_replicas_and_what_stands_beside_them_is_not():
    up, who = {series("llm_target_up", instance="x"): 1.0}, {"instance": "x"}
    gateway = {series("llm_gateway_requests_total", **who, status="2xx"): 1.0}
    card = {series("llm_gpu_power_watts", **who, gpu="a"): 1.0}
    engine = {series("llm_requests_running", **who): 1.0}
    assert is_replica([Snapshot(0.0, up | engine | gateway | card)])
    assert not is_replica([Snapshot(0.0, up | gateway)])
    assert not is_replica([Snapshot(0.0, up | card)])
    assert is_replica([Snapshot(0.0, {series("llm_target_up", **who): 0.0} | card)]), "an engine that is down"


def three(*activities, model="m"):
    return [Replica(f"{model}-{n}", model, kv=0.2, activity=a, activity_of=COMPUTE) for n, a in enumerate(activities)]


def test_the_only_one_of_its_model_in_another_quadrant_stands_apart():
    found = alone([*three(0.9, 0.8, 0.1), *three(0.1, 0.1, model="n")], LIMITS)
    assert {key: (n, q.title) for key, (n, q) in found.items()} == {("m-2", "m"): (2, "Compute binds")}
    assert alone(three(0.9, 0.1), LIMITS) == {}, "of two, either could be the odd one"
    assert alone(three(0.9, 0.9, 0.1, 0.1), LIMITS) == {}
    assert alone([*three(0.9), *three(0.1, 0.1, model="n")], LIMITS) == {}, "another model has other habits"


def test_the_json_form_can_be_read_back_and_anything_else_is_refused():
    fleet = Fleet(1000.0, 60.0, LIMITS, (one(*pages(kv=0.97, sm_active_ratio=0.25)), Replica("b", kv_why="gone")))
    told = encode(fleet)
    assert decode(msgspec.json.decode(msgspec.json.encode(told)), place="x") == fleet
    assert decode(told | {"new": 1}, place="x") == fleet, "a newer exporter may say more"
    for wrong in (None, [], {"replicas": []}, told | {"replicas": [{"kv": "full"}]}):
        with pytest.raises(PageError, match="cannot be read"):
            decode(wrong, place="http://x/replicas")


def test_the_exporter_tells_every_engine_and_no_service_of_them():
    targets = tuple(
        Target(url=f"http://e{n}:8000", name=f"e{n}", gpu_url="http://gpus:9400", gpus=(str(n),)) for n in range(3)
    )
    settings = Settings(targets=targets, services=(Service(name="chat", engines=("e0", "e1", "e2")),))
    engine = Engine(settings)
    for n in range(PAGES):
        t = 1000.0 + STEP * n
        body = "\n".join(DCGM.format(n=k, more=SM.format(n=k, v=0.3) if k == 0 else "") for k in range(2))
        got = {name: RawPage(t, 0.01, 200, vllm_page(tokens=100.0 * n)) for name in ("e0", "e1", "e2")}
        cycle = engine.publish(t, engine.record(got, {"http://gpus:9400": RawPage(t, 0.01, 200, body.encode())}))
    assert "chat" in {scoped.instance for scoped in cycle.scopes}
    found = {r.instance: r for r in decode(document(cycle, settings), place="x").replicas}
    assert set(found) == {"e0", "e1", "e2"}
    assert (found["e0"].activity_of, found["e0"].joins) == (COMPUTE, ("configured",))
    assert found["e0"].activity == pytest.approx(0.3)
    assert found["e1"].activity == pytest.approx(0.85)
    assert found["e1"].activity_of == "gpu_engine_active_mean_ratio"
    assert found["e2"].activity is None
    assert "GPU 2 is not on the GPU page" in found["e2"].activity_why
    assert {r.model for r in found.values()} == {"m"}
    assert all((r.kv is None) == bool(r.kv_why) for r in found.values())
