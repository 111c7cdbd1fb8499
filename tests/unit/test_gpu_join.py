"""An engine's snapshot with its GPUs: labels, owners of processes, peers, tensor-parallel size; and two looks made one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from llmvitals.series import Series, Snapshot, series
from llmvitals.telemetry.gpu.join import UNEXPLAINED_BYTES, join_gpus
from llmvitals.telemetry.gpu.merge import AWAY, merged
from llmvitals.telemetry.identity.model import Found, Join, Match, Processes
from support.machines import GIB, card, container, gpus, machine, pod, process

ENGINE = Snapshot(
    50.0,
    {
        series("llm_kv_usage_ratio", instance="vllm-0", model="m", engine="vllm", rank="0"): 0.9,
        series("llm_requests_running", instance="vllm-0", model="m", engine="vllm", rank="0"): 3.0,
        series("llm_target_up", instance="vllm-0"): 1.0,
    },
)
FOUND = Found(api=(10,), engine=(11,), how="port")
TABLE = machine(process(10, 1, "vllm serve m"), process(11, 10, "VLLM::Worker"), process(30, 1, "train.py"))
OTHER, PROCESS = "llm_gpu_memory_other_bytes", "llm_gpu_process_memory_bytes"
GAP = "llm_family_gap"
A = Match(("GPU-a",), Join.PROCESS_IDS)
AB = Match(("GPU-a", "GPU-b"), Join.POD_LABELS)


def joined(seen: Snapshot, match: Match = A, **more: object) -> Snapshot:
    given = {"instance": "vllm-0", "model": "m", "found": FOUND, "processes": TABLE} | more
    return join_gpus(ENGINE, seen, match, **given)  # type: ignore[arg-type]


def of(snapshot: Snapshot, name: str, **labels: str) -> list[float]:
    return [v for k, v in snapshot.samples.items() if k.name == name and labels.items() <= dict(k.labels).items()]


def reasons(snapshot: Snapshot, family: str, **labels: str) -> list[str]:
    match = {"family": family, **labels}
    return [
        k.label("reason")
        for k in snapshot.samples
        if k.name == "llm_family_gap" and match.items() <= dict(k.labels).items()
    ]


# -- labels -----------------------------------------------------------------------------------------------------------
def test_samples_of_the_matched_gpus_carry_the_engine_and_the_way() -> None:
    seen = gpus(*card("GPU-a", 0), *card("GPU-b", 1))
    found = joined(seen)
    (key,) = [k for k in found.samples if k.name == "llm_gpu_power_watts"]
    assert dict(key.labels) == {
        "gpu": "GPU-a",
        "index": "0",
        "join": "process-ids",
        "instance": "vllm-0",
        "model": "m",
    }
    assert ENGINE.samples.items() <= found.samples.items()
    assert found.t == 50.0


def test_what_is_no_label_of_the_schema_is_taken_off() -> None:
    seen = gpus((series("llm_gpu_info", gpu="GPU-a/1", index="0", uuid="MIG-x", node="n", product="H100"), 1.0))
    (key,) = [k for k in joined(seen, Match(("GPU-a/1",), Join.POD_RESOURCES)).samples if k.name == "llm_gpu_info"]
    assert set(dict(key.labels)) == {"gpu", "index", "product", "join", "instance", "model"}


def test_the_pod_that_holds_a_gpu_stays_beside_it() -> None:
    seen = gpus(*card("GPU-a", 0, pods=[("chat", "vllm-0", "engine")]))
    assert of(joined(seen), "llm_gpu_pod", pod="vllm-0", namespace="chat", container="engine", join="process-ids") == [
        1.0
    ]


def test_without_a_match_there_is_a_gap_and_no_gpu() -> None:
    found = joined(gpus(*card("GPU-a", 0)), Match(why="nothing tells"))
    assert reasons(found, "llm_gpu_*", instance="vllm-0", gap="missing") == ["nothing tells"]
    assert not any(k.name.startswith("llm_gpu_") for k in found.samples)
    silent = joined(gpus(*card("GPU-a", 0)), Match())
    assert silent.samples == ENGINE.samples


def test_what_the_gpus_cannot_say_is_told_of_the_engine() -> None:
    told = [
        (series("llm_family_gap", family="llm_gpu_power_watts", gap="missing", reason="r", gpu=gpu), 1.0)
        for gpu in ("GPU-a", "GPU-b")
    ]
    everywhere = (series("llm_family_gap", family="llm_gpu_xid_events_total", gap="unsupported", reason="e"), 1.0)
    found = joined(gpus(*told, everywhere, *card("GPU-a", 0)))
    assert reasons(found, "llm_gpu_power_watts") == ["r"]
    assert reasons(found, "llm_gpu_xid_events_total", instance="vllm-0", model="m") == ["e"]


def test_links_lead_only_to_gpus_of_the_same_engine() -> None:
    links = [
        (series("llm_gpu_peer_link", gpu=one, index="0", peer=other, link="NV18"), 1.0)
        for one, other in (("GPU-a", "GPU-b"), ("GPU-b", "GPU-a"), ("GPU-a", "GPU-c"), ("GPU-c", "GPU-a"))
    ]
    found = joined(gpus(*links), AB)
    pairs = sorted((k.label("gpu"), k.label("peer")) for k in found.samples if k.name == "llm_gpu_peer_link")
    assert pairs == [("GPU-a", "GPU-b"), ("GPU-b", "GPU-a")]


# -- processes --------------------------------------------------------------------------------------------------------
def test_processes_have_their_owner_and_those_of_others_are_summed() -> None:
    found = joined(gpus(*card("GPU-a", 0, pids={11: 20 * GIB, 30: 3 * GIB}, used=23.1 * GIB)))
    assert of(found, PROCESS, pid="11", owner="engine") == [20 * GIB]
    assert of(found, PROCESS, pid="30", owner="other") == [3 * GIB]
    assert of(found, OTHER, gpu="GPU-a", index="0", join="process-ids") == [3 * GIB]
    assert reasons(found, OTHER) == []


def test_a_gpu_of_the_engine_alone_has_none_of_others() -> None:
    page = (series("llm_family_gap", family=OTHER, gap="unsupported", reason="not on the page"), 1.0)
    found = joined(gpus(page, *card("GPU-a", 0, pids={11: 20 * GIB}, used=20.2 * GIB)))
    assert of(found, OTHER) == [0.0]
    assert reasons(found, OTHER) == []  # what the page could not say is said


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (card("GPU-a", 0, pids={11: GIB, 99: GIB}), "whose"),  # not in the table of processes
        (card("GPU-a", 0, pids={11: GIB, 0: GIB}), "whose"),
        (card("GPU-a", 0, pids={30: GIB}), "engine's"),
        (card("GPU-a", 0, pids={11: GIB}, used=2 * GIB + UNEXPLAINED_BYTES), "more memory"),
        (
            [
                *card("GPU-a", 0, pids={11: GIB}),
                (
                    series(
                        "llm_family_gap", family=PROCESS, gap="unsupported", reason="not told", gpu="GPU-a", pid="30"
                    ),
                    1.0,
                ),
            ],
            "not told",
        ),
    ],
)
def test_others_memory_is_no_number_while_anything_of_it_is_unknown(
    seen: Iterable[tuple[Series, float]], why: str
) -> None:
    found = joined(gpus(*seen))
    assert of(found, OTHER) == []
    (reason,) = reasons(found, OTHER, gpu="GPU-a", gap="unsupported")
    assert why in reason


def test_without_processes_every_owner_is_unknown() -> None:
    seen = gpus(*card("GPU-a", 0, pids={11: GIB, 30: GIB}))
    for more in ({"found": Found(), "processes": TABLE}, {"processes": Processes(TABLE.table)}):
        strange = gpus(*card("GPU-a", 0, pids={11: GIB, 30: GIB, 4711: GIB}))
        found = joined(strange, Match(("GPU-a",), Join.CONFIGURED), **more)
        assert len(of(found, PROCESS, owner="unknown")) == 3
        assert of(found, OTHER) == []
    assert len(of(joined(seen, processes=Processes(TABLE.table)), PROCESS, owner="other")) == 1


def test_where_nobody_looks_at_processes_the_pages_own_reason_stays() -> None:
    page = (series("llm_family_gap", family=OTHER, gap="unsupported", reason="not on the page"), 1.0)
    found = joined(gpus(page, *card("GPU-a", 0, used=GIB)))
    assert reasons(found, OTHER) == ["not on the page"]


# -- tensor parallelism -----------------------------------------------------------------------------------------------
def size(snapshot: Snapshot) -> list[tuple[float, str]]:
    return [(v, k.label("source")) for k, v in snapshot.samples.items() if k.name == "llm_tensor_parallel_size"]


def test_the_tensor_parallel_size_is_the_settings_then_the_arguments_then_the_gpus() -> None:
    seen = gpus(*card("GPU-a", 0), *card("GPU-b", 1))
    flagged = machine(process(10, 1, "VLLM::ApiServer_0"), process(11, 10, "vllm serve m --tensor-parallel-size 2"))
    assert size(joined(seen, AB, processes=flagged, tensor_parallel=4)) == [(4.0, "settings")]
    assert size(joined(seen, AB, processes=flagged)) == [(2.0, "arguments")]
    assert size(joined(seen, AB)) == [(2.0, "gpus")]
    assert size(joined(seen, Match(why="x"))) == []
    inside = container("aa" * 32, command="vllm serve m -tp 8")
    blind = Found(pod=pod("vllm-0", inside), container=inside, how="pod", why="hidden")
    assert size(joined(seen, AB, found=blind)) == [(8.0, "arguments")]


def test_gpus_that_do_not_divide_among_the_ranks_tell_no_size() -> None:
    ranks = {
        series("llm_requests_running", instance="vllm-0", model="m", engine="vllm", rank=str(rank)): 1.0
        for rank in range(2)
    }
    seen = gpus(*card("GPU-a", 0), *card("GPU-b", 1))
    two = Snapshot(50.0, ranks)
    assert size(join_gpus(two, seen, AB, instance="vllm-0", model="m")) == [(1.0, "gpus")]
    assert size(join_gpus(two, seen, A, instance="vllm-0", model="m")) == []
    three = Match(("GPU-a", "GPU-b", "GPU-c"), Join.PROCESS_IDS)
    assert size(join_gpus(two, gpus(*card("GPU-c", 2)), three, instance="vllm-0", model="m")) == []


# -- two looks --------------------------------------------------------------------------------------------------------
def look(rows: Mapping[str, Mapping[str, float]], detail: str = "", t: float = 7.0) -> Snapshot:
    """A snapshot from ``{gpu: {family or family|label=value: number}}``."""
    samples = {}
    for gpu, families in rows.items():
        for text, value in families.items():
            family, _, more = text.partition("|")
            extra = dict([more.split("=")]) if more else {}
            samples[series(family, gpu=gpu, **extra)] = value
    return Snapshot(t, samples, detail)


def told(family: str, kind: str, reason: str, gpu: str = "") -> Series:
    return series("llm_family_gap", family=family, gap=kind, reason=reason, **({"gpu": gpu} if gpu else {}))


POWER, SM, HELD, XID = (
    "llm_gpu_power_watts",
    "llm_gpu_sm_active_ratio",
    "llm_gpu_throttle_seconds_total",
    "llm_gpu_xid_events_total",
)


def test_the_page_wins_by_family_and_gpu_and_the_driver_fills_the_rest() -> None:
    page = look({"GPU-a": {POWER: 300.0}, "GPU-b/1": {POWER: 50.0}}, t=7.0)
    driver = look({"GPU-a": {POWER: 999.0, SM: 0.5}, "GPU-b/1": {SM: 0.25}, "GPU-b": {POWER: 400.0}}, t=8.0)
    found = merged(page, driver)
    assert found.t == 7.0
    assert {(k.name, k.label("gpu")): v for k, v in found.samples.items()} == {
        (POWER, "GPU-a"): 300.0,
        (SM, "GPU-a"): 0.5,
        (POWER, "GPU-b/1"): 50.0,
        (SM, "GPU-b/1"): 0.25,
        (POWER, "GPU-b"): 400.0,
    }


def test_each_reason_for_which_clocks_are_held_down_counts_for_itself_and_is_the_pages_first() -> None:
    page = look({"GPU-a": {f"{HELD}|reason=power": 8.0}})
    driver = look({"GPU-a": {f"{HELD}|reason=power": 3.0, f"{HELD}|reason=thermal": 2.0}})
    found = {key.label("reason"): value for key, value in merged(page, driver).samples.items()}
    assert found == {"power": 8.0, "thermal": 2.0}


def test_a_family_is_never_made_of_two_sides() -> None:
    page = look({"GPU-a": {f"{XID}|xid=31": 1.0}})
    driver = look({"GPU-a": {f"{XID}|xid=79": 2.0}})
    assert list(merged(page, driver).samples.items()) == [(series(XID, gpu="GPU-a", xid="79"), 2.0)]


def test_each_kind_of_link_counts_for_itself() -> None:
    limit = "llm_gpu_link_limit_bytes_per_second"
    page = look({"GPU-a": {f"{limit}|link=pcie": 6e10}})
    driver = look({"GPU-a": {f"{limit}|link=pcie": 5e10, f"{limit}|link=nvlink": 9e11}})
    assert {k.label("link"): v for k, v in merged(page, driver).samples.items()} == {"pcie": 6e10, "nvlink": 9e11}


def test_a_gpu_keeps_the_pages_index() -> None:
    page = look({"GPU-a": {f"{POWER}|index=3": 1.0}})
    driver = look({"GPU-a": {f"{SM}|index=0": 0.5}, "GPU-b": {f"{SM}|index=1": 0.5}})
    assert {(k.label("gpu"), k.label("index")) for k in merged(page, driver).samples} == {
        ("GPU-a", "3"),
        ("GPU-b", "1"),
    }


def test_gaps_that_the_other_fills_vanish_and_the_rest_stay() -> None:
    page = look({"GPU-a": {POWER: 1.0}, "GPU-b": {POWER: 1.0}})
    page.samples[told(SM, "unsupported", "its field is not listed")] = 1.0
    page.samples[told("llm_gpu_dram_active_ratio", "unsupported", "its field is not listed", "GPU-a")] = 1.0
    driver = look({"GPU-a": {SM: 0.5}})
    driver.samples[told(POWER, "missing", "a card that does not say", "GPU-a")] = 1.0
    driver.samples[told("llm_gpu_dram_active_ratio", "unsupported", "before Hopper", "GPU-a")] = 1.0
    gaps = sorted(
        (k.label("family"), k.label("gpu"), k.label("reason"))
        for k in merged(page, driver).samples
        if k.name == "llm_family_gap"
    )
    assert gaps == [
        ("llm_gpu_dram_active_ratio", "GPU-a", "before Hopper"),
        (SM, "GPU-b", "its field is not listed"),
    ]


def test_the_pages_own_samples_stay() -> None:
    up = series("llm_target_up", instance="gpus")
    page = look({"GPU-a": {POWER: 1.0}})
    page.samples[up] = 1.0
    assert merged(page, look({})).samples[up] == 1.0


def test_while_the_page_is_away_gauges_come_from_the_driver_and_counters_from_nobody() -> None:
    """The driver's counter did not start where the page's did: what would show is growth that never was."""
    driver = look({"GPU-a": {POWER: 2.0, f"{HELD}|reason=power": 3.0}})
    away = look({}, detail="refused the connection")
    found = merged(away, driver)
    assert of(found, POWER) == [2.0]
    assert of(found, HELD) == []
    assert reasons(found, HELD, gpu="GPU-a") == [AWAY]
    assert of(merged(look({"GPU-a": {POWER: 1.0}}), driver), HELD) == [3.0]  # a page that never counts it


def test_errors_are_counted_by_the_driver_where_it_can_be_asked() -> None:
    page = look({"GPU-a": {XID: 0.0, f"{XID}|xid=48": 1.0}})
    driver = look({"GPU-a": {XID: 0.0, f"{XID}|xid=79": 2.0}})
    assert of(merged(page, driver), XID, xid="79") == [2.0]
    assert of(merged(page, driver), XID, xid="48") == []
    assert of(merged(page, look({"GPU-a": {POWER: 1.0}})), XID, xid="48") == [1.0]
    silent = merged(page, look({}, detail="the driver gave no answer"))
    assert of(silent, XID) == []
    assert reasons(silent, XID) == [AWAY]


def test_a_slices_own_name_survives_beside_the_pages_facts() -> None:
    page = look({})
    page.samples[series("llm_gpu_info", gpu="GPU-a/1", product="A100-SXM4", mig_profile="1g.5gb")] = 1.0
    driver = look({})
    for name in ("MIG-one", "MIG-two"):
        driver.samples[series("llm_gpu_info", gpu="GPU-a/1", product="NVIDIA A100", driver="590", uuid=name)] = 1.0
    rows = [dict(k.labels) for k in merged(page, driver).samples]
    assert {row["uuid"] for row in rows} == {"MIG-one", "MIG-two"}
    assert {(row["product"], row["mig_profile"], row["driver"]) for row in rows} == {("A100-SXM4", "1g.5gb", "590")}


def test_a_card_that_the_driver_shows_without_processes_has_none_and_each_unsaid_one_stays() -> None:
    page = look({"GPU-a": {POWER: 1.0}, "GPU-b": {POWER: 1.0}})
    page.samples[series(GAP, family=PROCESS, gap="unsupported", reason="no field tells it")] = 1.0
    driver = look({"GPU-a": {POWER: 1.0}, "GPU-b": {POWER: 1.0}})
    assert reasons(merged(page, driver), PROCESS) == []
    assert reasons(merged(page, look({"GPU-a": {POWER: 1.0}})), PROCESS) == ["no field tells it"]  # of GPU-b
    for pid in ("10", "11"):
        driver.samples[series(GAP, family=PROCESS, gap="unsupported", reason="not told", gpu="GPU-a", pid=pid)] = 1.0
    driver.samples[series(PROCESS, gpu="GPU-a", pid="12")] = 5.0
    told = [dict(k.labels) for k in merged(page, driver).samples if k.name == GAP and k.label("family") == PROCESS]
    assert [(one["gpu"], one["pid"]) for one in told] == [("GPU-a", "10"), ("GPU-a", "11")]
