"""Which resource binds: every row by hand-made numbers, every limit of it from both sides, and what is unknown and why."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from llmvitals.exporters.judge import Scoped, families
from llmvitals.gaps import Gap, GapKind
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.signals.reading import Reading
from llmvitals.triage.binding import ROWS, binding
from llmvitals.triage.document import decode
from llmvitals.triage.printed import report
from llmvitals.triage.report import document
from llmvitals.triage.verdict import Binding, Resource
from llmvitals.triage.walk import diagnose
from support.made import Server, healthy, run
from support.situations import batch_too_large, idle, kv_full, thrash
from support.situations_hardware import Beside, beside, linked, slow_for_the_batch, well_card

SETTINGS = Settings()

WELL: dict[str, float] = {
    "dead_tail_pages": 0,
    "stalled_seconds": 0,
    "contradiction": 0,
    "activity": 500,
    "pages": 20,
    "window_seconds": 95,
    "ttft_harm_p": 1.0,
    "tpot_harm_p": 1.0,
    "harm_p": 1.0,
    "waiting_share_ratio": 0.0,
    "waiting_last": 0,
    "deferred_share_ratio": 0.0,
    "kv_room_ratio": 0.5,
    "kv_free_low_ratio": 0.6,
    "kv_usage_high_ratio": 0.4,
    "preemptions_per_minute": 0.0,
    "preemption_spread_ratio": 0.0,
    "preemptions_per_completion": 0.0,
    "running_max": 8,
    "running_pinned_ratio": 0.2,
    "turnover_ratio": 5.0,
    "spare_seats": 20,
    "prompt_share_ratio": 0.5,
    "itl_p99_low_seconds": 0.05,
    "token_mean_seconds": 0.02,
}
QUEUED = {"waiting_share_ratio": 0.9}
SLOW = {"tpot_harm_p": 0.0, "harm_p": 0.0}
LATE = {"ttft_harm_p": 0.0, "harm_p": 0.0}
GPU = {"gpu_sm_active_mean_ratio": 0.7, "gpu_tensor_active_mean_ratio": 0.1, "gpu_dram_active_mean_ratio": 0.45}
PINNED = {"running_pinned_ratio": 0.9}
DENSE = GPU | {"gpu_tensor_active_mean_ratio": 0.6}
PREFILL = {"gpu_sm_active_mean_ratio": 0.9, "gpu_tensor_active_mean_ratio": 0.4, "gpu_dram_active_mean_ratio": 0.2}
MOVING = GPU | {"gpu_dram_active_mean_ratio": 0.75}
DECODE = {"gpu_sm_active_mean_ratio": 0.9, "gpu_tensor_active_mean_ratio": 0.1, "gpu_dram_active_mean_ratio": 0.6}
LINKED = {
    "tensor_parallel_gpus": 2,
    "gpu_sm_active_mean_ratio": 0.7,
    "gpu_tensor_active_mean_ratio": 0.1,
    "gpu_dram_active_mean_ratio": 0.2,
    "gpu_link_use_ratio": 0.5,
}
IDLE = {"gpu_sm_active_mean_ratio": 0.3, "gpu_tensor_active_mean_ratio": 0.1, "gpu_dram_active_mean_ratio": 0.2}
THRASH = {
    "preemptions_per_minute": 40,
    "preemption_spread_ratio": 0.8,
    "preemptions_per_completion": 1.0,
    "kv_free_low_ratio": 0.02,
}
CAPPED = QUEUED | PINNED | {"spare_seats": 0, "kv_free_low_ratio": 0.3, "kv_room_ratio": 0.2}


def seen(values: dict[str, float], *, unseen: str = "no GPU is joined") -> dict[str, Reading]:
    """Readings of every signal; those without a number are not shown."""
    gap = Gap(GapKind.UNSUPPORTED, unseen, "llm_gpu_*")
    return {s.id: Reading(values[s.id]) if s.id in values else Reading(None, gap=gap) for s in SIGNALS}


def resource(*parts: dict[str, float]) -> str:
    values = dict(WELL)
    for part in parts:
        values |= part
    return str(binding(seen(values), SETTINGS).resource)


# -- the rows ---------------------------------------------------------------------------------------------------------
CASES: tuple[tuple[str, dict[str, float], str], ...] = (
    ("nobody waits, nobody is late", {}, "nothing"),
    ("no traffic", {"activity": 0}, "nothing"),
    (
        "full, and nobody waits",
        {"kv_room_ratio": -0.05, "kv_free_low_ratio": 0.0, "kv_usage_high_ratio": 1.0},
        "nothing",
    ),
    ("full, and requests wait", QUEUED | {"kv_room_ratio": 0.0, "kv_free_low_ratio": 0.4}, "kv"),
    ("half full, and the next does not fit", QUEUED | {"kv_room_ratio": 0.0, "kv_usage_high_ratio": 0.5}, "kv"),
    ("thrash", THRASH, "kv"),
    ("capped where the pool ends", CAPPED, "kv"),
    ("all seats taken", QUEUED | PINNED, "seats"),
    ("all seats taken by what memory binds", QUEUED | PINNED | MOVING, "seats"),
    ("all seats taken, and tokens late", QUEUED | PINNED | SLOW | MOVING, "bandwidth"),
    ("dense work and a queue", QUEUED | DENSE, "compute"),
    ("dense work and late first tokens", LATE | DENSE, "compute"),
    ("dense work and nobody hurt", DENSE, "nothing"),
    ("prefill and a queue", QUEUED | PREFILL, "compute"),
    ("memory and a queue", QUEUED | MOVING, "bandwidth"),
    ("memory and late tokens", SLOW | MOVING, "bandwidth"),
    ("memory and late first tokens alone", LATE | MOVING, "unknown"),
    ("memory and nobody hurt", MOVING, "nothing"),
    ("decoding all the time", SLOW | DECODE, "bandwidth"),
    ("the link", SLOW | LINKED, "bandwidth"),
    ("grammars", QUEUED | PINNED | {"deferred_share_ratio": 0.9}, "nothing"),
    ("late, and the GPUs have room", LATE | IDLE, "nothing"),
    ("waiting, and the GPUs have room", QUEUED | IDLE, "unknown"),
    ("waiting without profiling", QUEUED, "unknown"),
    ("the server is gone", QUEUED | PINNED | {"dead_tail_pages": 3}, "unknown"),
    ("the server hangs", QUEUED | PINNED | {"stalled_seconds": 30}, "unknown"),
    ("answers that nobody counts", {"contradiction": 50, "activity": 0}, "unknown"),
    ("too few pages", QUEUED | PINNED | {"pages": 3}, "unknown"),
    ("too short a time", QUEUED | PINNED | {"window_seconds": 12}, "unknown"),
)


@pytest.mark.parametrize(("name", "values", "expected"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_what_binds(name, values, expected):
    assert resource(values) == expected


# -- every limit from both sides ----------------------------------------------------------------------------------------
def both(values: dict[str, float], signal: str, at: float, beyond: float, was: str, then: str) -> object:
    return pytest.param(values, signal, at, beyond, was, then, id=f"{signal} {at:g} {was}, {beyond:g} {then}")


EDGES = (
    # at the first number the row still holds, at the second it no longer does
    both(QUEUED | PINNED, "dead_tail_pages", 3, 2, "unknown", "seats"),
    both(QUEUED | PINNED, "stalled_seconds", 15, 14.9, "unknown", "seats"),
    both({}, "contradiction", 10, 9, "unknown", "nothing"),
    both(QUEUED | PINNED, "activity", 0, 1, "nothing", "seats"),
    both(QUEUED | PINNED, "pages", 4, 5, "unknown", "seats"),
    both(QUEUED | PINNED, "window_seconds", 19.4, 19.5, "unknown", "seats"),
    both(THRASH, "preemptions_per_minute", 5.1, 5.0, "kv", "nothing"),
    both(THRASH, "preemption_spread_ratio", 0.34, 0.33, "kv", "nothing"),
    both(THRASH, "preemptions_per_completion", 0.3, 0.29, "kv", "nothing"),
    both(THRASH, "kv_free_low_ratio", 0.2, 0.21, "kv", "nothing"),
    both({"kv_room_ratio": 0.0}, "waiting_share_ratio", 0.5, 0.49, "kv", "nothing"),
    both(QUEUED, "kv_room_ratio", 0.0, 0.01, "kv", "unknown"),
    both(QUEUED | {"kv_room_ratio": 0.0}, "deferred_share_ratio", 0.49, 0.5, "kv", "unknown"),
    both(QUEUED | {"kv_room_ratio": 0.0, "deferred_share_ratio": 1.0}, "kv_free_low_ratio", 0.2, 0.21, "kv", "unknown"),
    both(CAPPED, "running_pinned_ratio", 0.75, 0.74, "kv", "unknown"),
    both(CAPPED, "turnover_ratio", 2, 1.9, "kv", "unknown"),
    both(CAPPED, "spare_seats", 0, 1, "kv", "seats"),
    both(CAPPED, "kv_free_low_ratio", 0.5, 0.51, "kv", "unknown"),
    both(CAPPED, "waiting_share_ratio", 0.5, 0.49, "kv", "nothing"),
    both(CAPPED, "deferred_share_ratio", 0.49, 0.5, "kv", "nothing"),
    both(QUEUED, "deferred_share_ratio", 0.5, 0.49, "nothing", "unknown"),
    both(QUEUED | PINNED, "waiting_share_ratio", 0.5, 0.49, "seats", "nothing"),
    both(QUEUED, "running_pinned_ratio", 0.7, 0.69, "seats", "unknown"),
    both(QUEUED | PINNED, "turnover_ratio", 2, 1.9, "seats", "unknown"),
    both(QUEUED | PINNED | {"kv_free_low_ratio": 0.9}, "spare_seats", 1, 0, "seats", "unknown"),
    both(QUEUED | PINNED, "prompt_share_ratio", 0.89, 0.9, "seats", "unknown"),
    both(QUEUED | PINNED, "itl_p99_low_seconds", 0.24, 0.25, "seats", "unknown"),  # five times the objective of 50 ms
    both(QUEUED | PINNED, "token_mean_seconds", 0.037, 0.038, "seats", "unknown"),  # three quarters of it
    both(QUEUED | PINNED, "tpot_harm_p", 0.01, 0.009, "seats", "unknown"),
    both(QUEUED | DENSE, "gpu_tensor_active_mean_ratio", 0.5, 0.49, "compute", "unknown"),
    both(QUEUED | PREFILL, "gpu_sm_active_mean_ratio", 0.8, 0.79, "compute", "unknown"),
    both(QUEUED | PREFILL, "gpu_tensor_active_mean_ratio", 0.3, 0.29, "compute", "unknown"),
    both(QUEUED | PREFILL, "gpu_dram_active_mean_ratio", 0.69, 0.7, "compute", "bandwidth"),
    both(DENSE, "ttft_harm_p", 0.009, 0.01, "compute", "nothing"),
    both(DENSE, "tpot_harm_p", 0.009, 0.01, "compute", "nothing"),
    both(DENSE, "waiting_share_ratio", 0.5, 0.49, "compute", "nothing"),
    both(QUEUED | MOVING, "gpu_dram_active_mean_ratio", 0.7, 0.69, "bandwidth", "unknown"),
    both(QUEUED | DECODE, "gpu_sm_active_mean_ratio", 0.8, 0.79, "bandwidth", "unknown"),
    both(QUEUED | DECODE, "gpu_dram_active_mean_ratio", 0.5, 0.49, "bandwidth", "unknown"),
    both(QUEUED | DECODE, "gpu_tensor_active_mean_ratio", 0.29, 0.3, "bandwidth", "compute"),
    both(MOVING, "tpot_harm_p", 0.009, 0.01, "bandwidth", "nothing"),
    both(QUEUED | LINKED, "tensor_parallel_gpus", 2, 1, "bandwidth", "unknown"),
    both(QUEUED | LINKED, "gpu_sm_active_mean_ratio", 0.6, 0.59, "bandwidth", "unknown"),
    both(QUEUED | LINKED, "gpu_dram_active_mean_ratio", 0.39, 0.4, "bandwidth", "unknown"),
    both(QUEUED | LINKED, "gpu_tensor_active_mean_ratio", 0.29, 0.3, "bandwidth", "unknown"),
    both(QUEUED | LINKED, "gpu_link_use_ratio", 0.15, 0.14, "bandwidth", "unknown"),
    both(LATE | IDLE, "gpu_sm_active_mean_ratio", 0.59, 0.6, "nothing", "unknown"),
    both(LATE | IDLE, "kv_room_ratio", 0.01, 0.0, "nothing", "unknown"),
    both(LATE | IDLE, "waiting_share_ratio", 0.49, 0.5, "nothing", "unknown"),
    both({}, "harm_p", 0.01, 0.009, "nothing", "unknown"),
)


@pytest.mark.parametrize(("values", "signal", "at", "beyond", "was", "then"), EDGES)
def test_a_limit_holds_up_to_its_bound_and_not_beyond(values, signal, at, beyond, was, then):
    assert (resource(values, {signal: at}), resource(values, {signal: beyond})) == (was, then)


def test_every_limit_of_the_table_is_held_from_both_sides():
    held = {param.values[1] for param in EDGES}
    assert {limit.signal for row in ROWS for limit in (*row.when, *row.any_of)} == held


# -- what is unknown ----------------------------------------------------------------------------------------------------
def test_without_profiling_it_says_so_and_full_utilisation_stands_for_nothing():
    values = WELL | QUEUED
    alone = binding(seen(values), SETTINGS)
    assert alone.why == "GPU profiling is missing (no GPU is joined)"
    busy = binding(seen(values | {"gpu_busy_mean_ratio": 1.0}, unseen="not on this card"), SETTINGS)
    assert busy.resource is Resource.UNKNOWN
    assert busy.why == (
        "GPU profiling is missing (not on this card); utilisation of 100 % says only that a kernel was resident"
    )
    assert {e.signal for e in alone.evidence} >= {"gpu_tensor_active_mean_ratio", "gpu_dram_active_mean_ratio"}


def test_where_all_is_seen_and_nothing_is_at_its_limit_it_does_not_guess():
    found = binding(seen(WELL | QUEUED | GPU | {"tensor_parallel_gpus": 1}), SETTINGS)
    assert (found.resource, found.evidence) == (Resource.UNKNOWN, ())
    assert found.why == "work waits or is late, and none of KV, seats, compute and bandwidth shows at its limit"


def test_a_pool_that_nobody_shows_is_named():
    values = {k: v for k, v in (WELL | QUEUED | GPU).items() if k not in {"kv_room_ratio", "tensor_parallel_gpus"}}
    values |= {"tensor_parallel_gpus": 1, "deferred_share_ratio": 0.1}
    found = binding(seen(values, unseen="it shows no pool"), SETTINGS)
    assert found.why == "KV left beyond what the next request needs: it shows no pool"


# -- on windows, and what is made of it --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (kv_full, "kv"),
        (thrash, "kv"),
        (idle, "nothing"),
        (lambda: run(14, healthy), "nothing"),
        (lambda: well_card(slow_for_the_batch), "bandwidth"),
        (linked, "bandwidth"),
        (batch_too_large, "unknown"),
    ],
)
def test_a_verdict_carries_it(window, expected):
    assert diagnose(window(), SETTINGS).binding.resource == expected


def test_gpus_without_profiling_leave_verdict_and_binding_as_the_page_alone_gives_them():
    def each(apart: Beside, _: int) -> None:
        mine = {"gpu": "GPU-0", "index": "0", "join": "process-ids"}
        apart.set("llm_gpu_busy_ratio", 1.0, **mine)
        for family in ("llm_gpu_sm_active_ratio", "llm_gpu_tensor_active_ratio", "llm_gpu_dram_active_ratio"):
            apart.set("llm_family_gap", 1, family=family, gap="unsupported", reason="not on this card", **mine)

    found = diagnose(beside(slow_for_the_batch, each), SETTINGS).binding
    assert found.resource is Resource.UNKNOWN
    assert "says only that a kernel was resident" in found.why


def test_it_stands_in_the_report_in_one_line():
    console = Console(width=400, force_terminal=False)
    with console.capture() as told:
        console.print(report(diagnose(kv_full(), SETTINGS)))
    line = next(line for line in told.get().splitlines() if "binds:" in line)
    assert line.strip().startswith(
        "binds: kv: the next request does not fit into the pool, and requests wait for it (KV usage"
    )


def test_it_goes_through_json_and_back():
    verdict = diagnose(kv_full(), SETTINGS)
    body = json.loads(json.dumps(document([verdict])))
    assert body["binding"]["resource"] == "kv"
    assert {e["signal"] for e in body["binding"]["evidence"]} == {
        "kv_room_ratio",
        "waiting_share_ratio",
        "deferred_share_ratio",
    }
    assert decode(body, place="here").binding == verdict.binding


def test_a_document_from_before_it_has_none():
    body = {k: v for k, v in document([diagnose(kv_full(), SETTINGS)]).items() if k != "binding"}
    assert decode(body, place="here").binding == Binding()


def test_the_page_says_it_with_a_series_for_each_resource():
    scoped = [
        Scoped(name, "m", {}, diagnose(window, SETTINGS))
        for name, window in (("full", kv_full()), ("blind", batch_too_large()))
    ]
    (block,) = (block for block in families(scoped, 60.0) if block.name == "llm_binding")
    assert sorted(block.lines.splitlines()) == sorted(
        f'llm_binding{{instance="{name}",model="m",resource="{one.value}"}} {float(one.value == binds)}'
        for name, binds in (("full", "kv"), ("blind", "unknown"))
        for one in Resource
    )


def test_a_late_server_is_judged_by_its_last_third_there_too():
    server = Server()
    for i in range(40):
        if i < 27:
            healthy(server, i)
        else:
            server.serve(10, ttft=6.0, prompt=3000, output=200, queue=5.6, prefill=0.4, max_tokens=500)
            server.gauges(running=5 - i % 2, waiting=5, kv=0.97)
        server.page()
    verdict = diagnose(server.window(), SETTINGS)
    assert verdict.leading is not None
    assert verdict.leading.note.startswith("Holds for the last")
    assert (verdict.leading.cause, verdict.binding.resource) == ("kv-cache-saturation", "kv")


@pytest.mark.parametrize("pressed", [QUEUED | {"kv_room_ratio": -0.1}, QUEUED | PINNED, CAPPED, THRASH])
def test_what_the_gpus_do_is_told_beside_kv_where_it_is_known(pressed: dict[str, float]) -> None:
    assert "SMs active" not in binding(seen(WELL | pressed), SETTINGS).why
    assert "GPU: SMs active, over the window 30 %" in binding(seen(WELL | pressed | IDLE), SETTINGS).why
