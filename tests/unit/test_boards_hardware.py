"""The machine's board over numbers that are written down, on a real Prometheus: what each panel says of them is right."""

from __future__ import annotations

import pytest

from llmvitals.dashboards.boards import hardware_energy, hardware_gpus, hardware_host, hardware_links, hardware_walls
from llmvitals.dashboards.boards.hardware_cards import named
from llmvitals.dashboards.model import Query
from llmvitals.dashboards.promql import promql
from llmvitals.series import series
from llmvitals.triage.verdict import Resource
from support.made_servers import PLACE
from support.prometheus import Points, prometheus_of
from support.two_spans import END, SPAN, START, says, track

pytestmark = pytest.mark.prometheus

GIB = 2.0**30
SHARED, ALONE, OLD = ("GPU-aaaaaaaa-1111", "GPU-bbbbbbbb-2222", "GPU-cccccccc-3333")
SLICED, BOTH, MUTE, FAR = ("GPU-eeeeeeee-5555", "GPU-ffffffff-6666", "GPU-99999999-7777", "GPU-88888888-8888")


def of(instance: str, *, begin: int = 0, **values) -> Points:
    """Series of a server without further labels; what serves names its model."""
    found: Points = {}
    for name, value in values.items():
        model = {} if name.startswith(("host_", "process_", "target_", "gpu_")) else {"model": "m"}
        found[series(f"llm_{name}", **PLACE, instance=instance, **model)] = track(value, begin)
    return found


def card(instance: str, gpu: str, index: str = "0", *, begin: int = 0, labels: dict | None = None, **values) -> Points:
    """Series of a card of a server."""
    own = PLACE | {"instance": instance, "gpu": gpu, "index": index, "join": "process-ids"} | (labels or {})
    return {series(f"llm_gpu_{name}", **own): track(value, begin) for name, value in values.items()}


def process(instance: str, gpu: str, pid: str, owner: str, gib: float) -> Points:
    return card(instance, gpu, labels={"pid": pid, "owner": owner}, process_memory_bytes=gib * GIB)


def held(instance: str, gpu: str, **shares: float) -> Points:
    """Clocks held for so much of the time, by reason."""
    found: Points = {}
    for reason, share in shares.items():
        growing = {"throttle_seconds_total": lambda at, share=share: share * at}
        found |= card(instance, gpu, labels={"reason": reason}, **growing)
    return found


def binds(instance: str, resource: Resource) -> Points:
    scope = PLACE | {"instance": instance, "model": "m"}
    return {series("llm_binding", **scope, resource=r.value): track(float(r is resource)) for r in Resource}


def points() -> Points:
    memory = {"memory_reserved_bytes": GIB, "memory_free_bytes": 9 * GIB}
    found = {
        # two servers share one card, and somebody else is on it
        **card("a", SHARED, memory_used_bytes=70 * GIB, **memory),
        **card("b", SHARED, memory_used_bytes=70 * GIB, **memory),
        **process("a", SHARED, "1", "engine", 40),
        **process("a", SHARED, "2", "other", 20),
        **process("a", SHARED, "3", "other", 5),
        **process("b", SHARED, "1", "other", 40),
        **process("b", SHARED, "2", "engine", 20),
        **process("b", SHARED, "3", "other", 5),
        **card("silent", ALONE, memory_used_bytes=50 * GIB, **memory),  # its driver lists no processes
        # what comes to cards: 79 is new and comes again, 43 is new, 31 was there before this time, ECC grows
        **card("a", SHARED, xid_events_total=0),
        **card("a", SHARED, labels={"xid": "31"}, xid_events_total=4),
        **card(
            "a", SHARED, labels={"xid": "79"}, begin=900, xid_events_total=lambda at: 1 + (at >= 1000) + (at >= 1100)
        ),
        **card("a", SHARED, labels={"xid": "43"}, begin=1050, xid_events_total=1),
        **card("silent", ALONE, xid_events_total=0, ecc_uncorrected_total=lambda at: 2.0 * (at >= 900)),
        **card("silent", ALONE, row_remap_pending=lambda at: at >= 900),
        # clocks
        **held("a", SHARED, power=0.5, hw_thermal=0.2, reliability=0.005),
        **held("silent", ALONE, power=0.9, thermal=0.001),
        **held("off", OLD, thermal=0.5),
        **card("a", SHARED, power_watts=300, power_limit_watts=400),
        **card("silent", ALONE, power_watts=100, power_limit_watts=0),
        # 300 W that serve with 50 tokens a second, 100 W that idle, and a card without an engine
        **card("a", SHARED, energy_joules_total=lambda at: 300.0 * at),
        **card("silent", ALONE, power_watts=100, energy_joules_total=lambda at: 100.0 * at),
        **card("node-9", OLD, energy_joules_total=lambda at: 20.0 * at),
        **of("a", requests_running=3, generation_tokens_total=lambda at: 50.0 * at),
        **of("silent", requests_running=2),
        **of("off", requests_running=0),
        # walls
        **{key: value for r in Resource for key, value in binds(r.value, r).items()},
        **{key: value for r in Resource for key, value in of(r.value, activity=9, stalled_seconds=0).items()},
        # bound by KV all the time, and by its seats for the last 150 s; a service of both is no target
        **binds("long", Resource.KV),
        **of("long", target_up=1),
        **{
            series("llm_binding", **PLACE, instance="short", model="m", resource=r.value): track(
                float(r is Resource.SEATS), 1065
            )
            for r in Resource
        },
        **of("short", target_up=1),
        **binds("service", Resource.NOTHING),
        # a server of another model
        **of("elsewhere", target_up=1),
        **card("elsewhere", FAR, energy_joules_total=lambda at: 400.0 * at),
        **{
            series(f"llm_{name}", **PLACE, instance="elsewhere", model="z"): track(value)
            for name, value in {"requests_running": 2, "generation_tokens_total": lambda at: 10.0 * at}.items()
        },
        # an engine that does not say how many run, on a card that heat holds
        **of("mute", target_up=1),
        series("llm_family_gap", **PLACE, instance="mute", family="llm_requests_running", gap="unsupported"): track(1),
        **held("mute", MUTE, thermal=0.5),
        **card("mute", MUTE, energy_joules_total=lambda at: 50.0 * at),
        # two slices of one card, each with what the card draws and its own memory; and the card itself
        **card("sliced", f"{SLICED}/1", memory_used_bytes=30 * GIB, energy_joules_total=lambda at: 100.0 * at),
        **card("sliced", f"{SLICED}/2", memory_used_bytes=40 * GIB, energy_joules_total=lambda at: 100.0 * at),
        **card("node-8", SLICED, memory_used_bytes=71 * GIB),
        # two servers on one card that draws 200 W: one serves, the other rests
        **card("one", BOTH, energy_joules_total=lambda at: 200.0 * at),
        **card("other", BOTH, energy_joules_total=lambda at: 200.0 * at),
        **of("one", requests_running=1, generation_tokens_total=lambda at: 10.0 * at),
        **of("other", requests_running=0),
        **binds("hangs", Resource.KV),
        **of("hangs", activity=1, stalled_seconds=40),
        **binds("sleeps", Resource.NOTHING),
        **of("sleeps", activity=0, stalled_seconds=0),
        # starts
        **of("a", host_started_time_seconds=START + 1000, host_ready_time_seconds=START + 1090),
        **of("a", process_start_time_seconds=START + 1004, request_ttft_seconds_count=lambda at: at),
        **of("b", host_started_time_seconds=START - 900, request_ttft_seconds_count=0),
    }
    for reason, moments in {"oom": (700, 1000), "probe": (900,), "error": ()}.items():
        key = series("llm_host_restarts_total", **PLACE, instance="a", reason=reason)
        found[key] = track(lambda at, moments=moments: sum(at >= moment for moment in moments))
    two = {"gpu": "GPU-dddddddd-4444", "index": "0", "join": "pod-labels"}
    for node in ("n1", "n2"):
        found[series("llm_gpu_power_watts", instance="pool", node=node, **two)] = track(1)
    info = {"gpu": ALONE, "index": "0", "join": "pod-labels", "product": "NVIDIA L4"}
    found[series("llm_gpu_info", **PLACE, instance="silent", **info)] = track(1)
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("hardware"), points()) as server:
        yield server


def test_cards_of_one_number_on_two_machines_have_two_names(prometheus):
    asked = promql(Query("", "", promql=f"max by (instance, card) ({named('llm_gpu_power_watts')})"))
    cards = {labels["card"] for labels, _ in prometheus.query(asked, at=END) if labels["instance"] == "pool"}
    assert cards == {"n1 0 GPU-dddddddd", "n2 0 GPU-dddddddd"}
    assert {labels["card"] for labels, _ in prometheus.query(asked, at=END) if labels["instance"] == "a"} == {
        "0 GPU-aaaaaaaa"
    }


def test_memory_of_a_shared_card_is_one_bar_and_counts_each_process_once(prometheus):
    bands = {name: rows[()] / GIB for name, rows in says(prometheus, hardware_gpus.MEMORY, instance="a|b").items()}
    assert bands == {
        "engines": 65,  # what is used less the stranger's
        "other processes": 5,
        "used, by whom is not told": 0,
        "reserved by the driver": 1,
        "free": 9,
    }
    alone = says(prometheus, hardware_gpus.MEMORY, instance="a")
    assert alone["other processes"][()] == 25 * GIB, "the neighbour that is not chosen is another process"
    assert sum(rows[()] for rows in alone.values()) == 80 * GIB


def test_memory_of_which_no_process_is_listed_is_put_down_to_nobody(prometheus):
    bands = says(prometheus, hardware_gpus.MEMORY, instance="silent")
    assert not bands["engines"]
    assert not bands["other processes"]
    assert bands["used, by whom is not told"][()] == 50 * GIB


def test_events_are_those_of_this_time_the_first_of_a_code_included(prometheus):
    found = says(prometheus, hardware_gpus.EVENTS)
    assert found["times"] == {
        ("a", "0 GPU-aaaaaaaa", "XID 79", "link"): 3,
        ("a", "0 GPU-aaaaaaaa", "XID 43", "app"): 1,
        ("silent", "0 GPU-bbbbbbbb", "no XID", "none"): 0,
    }
    assert found["uncorrectable ECC"] == {("silent", "0 GPU-bbbbbbbb"): 2}
    assert found["row remap"] == {("silent", "0 GPU-bbbbbbbb"): 1}


def test_the_worst_reason_is_told_while_somebody_is_served_and_none_else(prometheus):
    names = {value: text for value, text, _ in hardware_gpus.HOLDERS.queries[0].names}
    (rows,) = says(prometheus, hardware_gpus.HOLDERS).values()
    assert {instance: names[value] for (instance, _), value in rows.items()} == {
        "a": "held by heat",
        "silent": "at its power limit",
        "off": "held, nobody is served",
        "mute": "held by heat",
    }


def test_power_is_a_share_of_the_limit_and_none_where_no_limit_is_told(prometheus):
    (rows,) = says(prometheus, hardware_gpus.POWER).values()
    assert rows == {("a", "0 GPU-aaaaaaaa"): 0.75}


def test_energy_per_token_is_all_energy_over_all_tokens_idle_cards_apart(prometheus):
    bands = says(prometheus, hardware_energy.PER_TOKENS, instance="a|off|node-9")
    assert bands["cards that serve"][()] == pytest.approx(300 / 50 * 1000)
    assert bands["idle cards beside them"][()] == pytest.approx(20 / 50 * 1000)
    nobody = says(prometheus, hardware_energy.PER_TOKENS, instance="off|node-9")
    assert not any(nobody.values()), "without a token there is no energy per token"


def test_power_that_idles_is_that_of_servers_without_requests_and_cards_without_servers(prometheus):
    bands = says(prometheus, hardware_energy.DRAWN, instance="a|silent|off|node-9")
    assert bands["cards that serve"][()] == pytest.approx(400)
    assert bands["idle cards"][()] == pytest.approx(20)
    table = says(prometheus, hardware_energy.TABLE)
    assert table["per 1,000 output tokens"] == {
        ("a",): pytest.approx(6000),
        ("one",): pytest.approx(20_000),
        ("elsewhere",): pytest.approx(40_000),
    }
    assert table["energy"][("silent",)] == pytest.approx(100 * SPAN)


def test_a_card_that_two_servers_share_is_paid_for_once_and_serves_while_one_does(prometheus):
    bands = says(prometheus, hardware_energy.DRAWN, instance="one|other")
    assert bands == {"cards that serve": {(): pytest.approx(200)}, "idle cards": {(): 0}}
    bands = says(prometheus, hardware_energy.PER_TOKENS, instance="one|other")
    assert bands["cards that serve"][()] == pytest.approx(200 / 10 * 1000)
    assert bands["idle cards beside them"][()] == 0


def test_slices_of_a_card_have_names_of_their_own_and_the_card_counts_once(prometheus):
    (rows,) = says(prometheus, hardware_energy.DRAWN, instance="sliced")["idle cards"].items()
    assert rows == ((), pytest.approx(100)), "each slice shows what its card draws"
    assert says(prometheus, hardware_energy.TABLE)["energy"][("sliced",)] == pytest.approx(100 * SPAN)
    asked = promql(Query("", "", promql=f"max by (instance, card) ({named('llm_gpu_memory_used_bytes')})"))
    cards = {labels["card"] for labels, _ in prometheus.query(asked, at=END) if labels["instance"] == "sliced"}
    assert cards == {"0 GPU-eeeeeeee/1", "0 GPU-eeeeeeee/2"}
    memory = says(prometheus, hardware_gpus.MEMORY, instance="sliced")["used, by whom is not told"]
    assert memory == {(): 70 * GIB}
    both = says(prometheus, hardware_gpus.MEMORY, instance="sliced|node-8")["used, by whom is not told"]
    assert both == {(): 71 * GIB}, "what a card shows has its slices' in it"


def test_an_engine_that_does_not_say_how_many_run_is_not_called_idle(prometheus):
    bands = says(prometheus, hardware_energy.DRAWN, instance="mute")
    assert bands == {"cards that serve": {(): pytest.approx(50)}, "idle cards": {(): 0}}


def test_energy_of_other_models_servers_is_not_that_of_the_chosen_ones_tokens(prometheus):
    bands = says(prometheus, hardware_energy.PER_TOKENS, instance="one|other|elsewhere|mute", model="m")
    assert bands["cards that serve"][()] == pytest.approx(200 / 10 * 1000)
    assert bands["idle cards beside them"][()] == 0
    bands = says(prometheus, hardware_energy.DRAWN, instance="one|other|elsewhere", model="m")
    assert bands == {"cards that serve": {(): pytest.approx(200)}, "idle cards": {(): 0}}
    bands = says(prometheus, hardware_energy.PER_TOKENS, instance="elsewhere", model="z")
    assert bands["cards that serve"][()] == pytest.approx(400 / 10 * 1000)


def test_a_wall_is_what_binds_but_for_what_hangs_and_what_rests(prometheus):
    names = {value: text for value, text, _ in hardware_walls.WALL.queries[0].names}
    (rows,) = says(prometheus, hardware_walls.WALL).values()
    told = {instance: names[value] for (instance, _), value in rows.items()}
    assert told["hangs"] == "stuck: nothing moves"
    assert told["sleeps"] == "no work"
    assert {told[r.value] for r in Resource} == {
        "KV pool",
        "compute",
        "memory or links of the GPUs",
        "seats",
        "nothing",
        "unknown",
    }


def test_how_often_each_wall_adds_up_to_all_of_the_time(prometheus):
    (rows,) = says(prometheus, hardware_walls.WALLS).values()
    assert rows.keys() == {(r.value,) for r in Resource}
    assert sum(rows.values()) == pytest.approx(1)


def test_a_wall_weighs_each_moment_of_a_replica_once_and_a_service_not_beside_its_engines(prometheus):
    (rows,) = says(prometheus, hardware_walls.WALLS, instance="long|short|service").values()
    assert rows[("kv",)] == pytest.approx(40 / 50, abs=0.01)
    assert rows[("seats",)] == pytest.approx(10 / 50, abs=0.01)
    (alone,) = says(prometheus, hardware_walls.WALLS, instance="service").values()
    assert alone[("nothing",)] == 1


def test_restarts_are_counted_by_reason_and_the_newest_has_its_own(prometheus):
    found = says(prometheus, hardware_host.RESTARTS)
    assert {reason: found[reason][("a",)] for reason in ("out of memory", "probe", "error")} == {
        "out of memory": 2,
        "probe": 1,
        "error": 0,
    }
    ((instance, reason),) = found["last one, ago"]
    assert (instance, reason) == ("a", "oom")
    assert 140 <= found["last one, ago"]["a", "oom"] <= 200  # it came 200 s ago, and is seen a window late at most
    assert found["container runs for"] == {("a",): 200, ("b",): 2100}


def test_a_cold_start_is_told_stage_by_stage(prometheus):
    found = says(prometheus, hardware_host.STAGES)
    assert {name: rows.get(("a",)) for name, rows in found.items()} == {
        "to its process": 4,
        "to ready": 90,
        "process runs for": 196,
        "a first token since": 1,
    }
    assert found["a first token since"][("b",)] == 0


def test_what_an_exporter_did_not_tell_of_a_card_is_said_so(prometheus):
    rows = says(prometheus, hardware_links.IDENTITY)["joined"]
    assert list(rows) == [("silent", "0 GPU-bbbbbbbb", "NVIDIA L4", "not told", "whole card", "pod-labels")]
