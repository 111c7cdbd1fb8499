"""The same simulated loads, told in the words of every engine: the verdict is right as far as that page goes.

Where a page holds the evidence the cause is named; where it does not the verdict says less, never something else, and never
"healthy" while requests wait too long. What an engine cannot show is not applicable, with the reason.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.reading import Reading
from llmvitals.signals.window import scopes
from llmvitals.simulator import exposition
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.telemetry.gateways.join import join_gateway
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.verdict import State, Verdict
from llmvitals.triage.walk import diagnose_with, states
from support.recordings import name_of

ORIGIN = 1_800_000_000.0
SETTINGS = Settings()
STEP, PAGES, BEGIN = 3.0, 21, 20.0
KINDS = {"vllm-v0": "vllm", "ray": "vllm"}
ENGINES = tuple(name for name in exposition.DIALECTS if name != "dynamo")

_CHAT = Stream("chat", rate=2.0, prompt=Lengths(400, 0.4), output=Lengths(120, 0.4), max_tokens=512)
_DOCUMENTS = Stream(clients=24, ramp=2.0, prompt=Lengths(3000), output=Lengths(200), max_tokens=200)

LOADS: dict[str, tuple[EngineConfig, Workload]] = {
    "nobody calls": (EngineConfig(), Workload()),
    "chat with room": (EngineConfig(), Workload((_CHAT,))),
    "64 at once with seats for all": (EngineConfig(), Workload((replace(_CHAT, rate=0.0, clients=64, ramp=3.0),))),
    "seats for half": (
        EngineConfig(max_num_seqs=8),
        Workload((replace(_CHAT, rate=6.0, output=Lengths(200, 0.3)),)),
    ),
    "two seats for twenty": (
        EngineConfig(max_num_seqs=2),
        Workload((replace(_CHAT, rate=0.0, clients=20, ramp=2.0, output=Lengths(200, 0.3)),)),
    ),
    "documents fill the pool": (EngineConfig(blocks=1024, max_num_seqs=64), Workload((_DOCUMENTS,))),
    "more asked for than said": (
        EngineConfig(blocks=1024, max_num_seqs=64, max_model_len=4096),
        Workload((replace(_DOCUMENTS, prompt=Lengths(600, 0.2), output=Lengths(150, 0.4), max_tokens=2048),)),
    ),
}
HURT = ("seats for half", "two seats for twenty", "documents fill the pool")

SEATS, QUEUE, FULL = "batch-too-small", "unbounded-queue", "kv-cache-saturation"
UNSURE, WELL, IDLE = "undetermined", "healthy", "no-traffic"

# What each page lets one say of these loads, in the order of LOADS but for the last one.
SAID: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("vllm", "vllm-v0", "ray", "sglang"), (IDLE, WELL, WELL, SEATS, SEATS, FULL)),
    # no gaps between tokens, and no lengths but TGI's: that seats are too few is not proved, that a queue grows is
    **dict.fromkeys(("tgi", "trtllm", "triton"), (IDLE, WELL, WELL, QUEUE, UNSURE, FULL)),
    # nothing of the KV cache, no request timed or counted
    "llamacpp": (IDLE, WELL, WELL, QUEUE, UNSURE, UNSURE),
    "ollama": (UNSURE,) * 6,
}
CASES = [(engine, load, said) for engine in ENGINES for load, said in zip(LOADS, SAID[engine], strict=False)]


@cache
def played(engine: str, load: str) -> tuple[Window, Live]:
    config, workload = LOADS[load]
    live = Live(Setup(config, workload), origin=ORIGIN, dialect=engine)
    ingest = Ingest(instance="sim", kind=KINDS.get(engine, engine))
    pages = [RawPage(t, 0.01, 200, live.page_at(t)) for t in (ORIGIN + BEGIN + i * STEP for i in range(PAGES))]
    ((_, window),) = scopes([ingest.snapshot(page) for page in pages]).items()
    return window, live


@cache
def judged(engine: str, load: str) -> tuple[Verdict, dict[str, Reading]]:
    return diagnose_with(played(engine, load)[0], SETTINGS)


def late(live: Live) -> float:
    """Share of the clients whose first token came after the promised time, from the clients' own log."""
    answers = [a for a in live.world.clients.log if a.sent >= BEGIN - 10.0]
    waits = [(a.first or a.ended) - a.sent for a in answers]
    return sum(wait > SETTINGS.slo.ttft_seconds for wait in waits) / max(1, len(waits))


@pytest.mark.parametrize("load", list(LOADS)[1:-1])
@pytest.mark.parametrize("engine", ["vllm", "tgi", "llamacpp"])
def test_the_loads_are_what_they_are_meant_to_be(engine: str, load: str) -> None:
    share = late(played(engine, load)[1])
    assert share > 0.5 if load in HURT else share < 0.05


@pytest.mark.parametrize(("engine", "load", "said"), CASES)
def test_a_load_is_called_by_its_name_as_far_as_the_page_goes(engine: str, load: str, said: str) -> None:
    verdict, _ = judged(engine, load)
    assert name_of(verdict) == said, verdict.sentence


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("load", LOADS)
def test_no_load_is_called_by_another_name(engine: str, load: str) -> None:
    """Whatever the page holds: no wrong cause leads, and nobody is called well while requests wait too long."""
    truth = {
        "seats for half": {SEATS, QUEUE},
        "two seats for twenty": {SEATS},
        "documents fill the pool": {FULL},
        "more asked for than said": {FULL},
    }
    verdict, _ = judged(engine, load)
    told = name_of(verdict)
    allowed = truth.get(load, {WELL, IDLE}) | {UNSURE}
    if load == "more asked for than said" and late(played(engine, load)[1]) < 0.05:
        allowed.add(WELL)
    assert told in allowed, verdict.sentence


def _unsupported(reading: Reading) -> bool:
    return reading.gap is not None and reading.gap.kind is GapKind.UNSUPPORTED


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("load", ["chat with room", "documents fill the pool"])
def test_what_an_engine_cannot_show_is_not_applicable_and_says_why(engine: str, load: str) -> None:
    verdict, readings = judged(engine, load)
    found = states(verdict)
    never = 0
    for check in CHECKS:
        result = found[check.cause]
        assert result.state is not State.UNKNOWN, (check.cause, result.reason)  # nothing is missing from these pages
        unseen = [[_unsupported(readings[limit.signal]) for limit in rows] for rows in check.when]
        if all(map(all, unseen)):
            never += 1
            assert result.state is State.NOT_APPLICABLE, check.cause
        elif all(map(any, unseen)):  # what else is known may rule it out, and can never bring it about
            assert result.state is State.NOT_APPLICABLE or any(e.holds is False for e in result.evidence), check.cause
            assert result.state in {State.NOT_APPLICABLE, State.CLEAR}, check.cause
        assert result.state is not State.NOT_APPLICABLE or len(result.reason) > 20, check.cause
    assert never >= 3  # at least what only gateways show


@pytest.mark.parametrize(
    ("engine", "cause", "why"),
    [
        ("tgi", "preemption-thrash", "never evicts"),
        ("tgi", "adapter-slots", "shows nothing"),
        ("trtllm", "kv-transfer-bound", "shows nothing"),
        ("triton", "unbounded-output", "."),
        ("llamacpp", "kv-cache-saturation", "no single request is timed"),
        ("llamacpp", "block-fragmentation", "no single request is timed"),
        ("llamacpp", "batch-too-small", "."),
        ("ollama", "kv-cache-saturation", "no metrics page"),
        ("ollama", "unbounded-queue", "no metrics page"),
    ],
)
def test_the_reason_is_the_engine_s_own(engine: str, cause: str, why: str) -> None:
    result = states(judged(engine, "documents fill the pool")[0])[cause]
    assert result.state is State.NOT_APPLICABLE
    assert re.search(why, result.reason)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_said_to_be_missing_that_the_engine_does_not_have(engine: str) -> None:
    _, readings = judged(engine, "seats for half")
    assert [name for name, r in readings.items() if r.gap is not None and r.gap.kind is GapKind.MISSING] == []


def test_late_first_tokens_that_tgi_does_not_time_are_proved_by_their_queue() -> None:
    _, readings = judged("tgi", "documents fill the pool")
    found = readings["ttft_harm_p"]
    assert found.value is not None
    assert found.value < 1e-6
    assert "queue times" in found.note
    _, readings = judged("tgi", "chat with room")
    assert readings["ttft_harm_p"].value == 1.0


def test_llama_cpp_s_waits_are_an_estimate_and_clear_nobody() -> None:
    verdict, readings = judged("llamacpp", "documents fill the pool")
    assert name_of(verdict) == UNSURE
    gap = readings["ttft_harm_p"].gap
    assert gap is not None
    assert gap.kind is GapKind.UNSUPPORTED  # they wait, and nobody knows for how long
    found = judged("llamacpp", "seats for half")[1]["wait_ahead_seconds"]
    assert found.standing == "estimate"
    assert "guessed" in found.note
    # 240 requests wait for 8 seats that answer some 3 a second: the guess may fall short of that, and not exceed it by much
    assert found.value is not None
    assert 10.0 < found.value < 120.0


def test_a_long_answer_on_a_page_that_stands_still_is_no_stall() -> None:
    one = Stream(clients=1, think=1e9, prompt=Lengths(100), output=Lengths(6000), max_tokens=6000)
    for engine in ("llamacpp", "trtllm", "tgi", "triton"):
        live = Live(Setup(EngineConfig(), Workload((one,))), origin=ORIGIN, dialect=engine)
        ingest = Ingest(instance="sim", kind=engine)
        snapshots = [
            ingest.snapshot(RawPage(t, 0.01, 200, live.page_at(t))) for t in (ORIGIN + 5 + i * 2 for i in range(16))
        ]
        assert live.engine.in_flight == 1
        ((_, window),) = scopes(snapshots).items()
        verdict, _ = diagnose_with(window, SETTINGS)
        assert verdict.leading is None, (engine, verdict.sentence)


@pytest.mark.parametrize(("load", "cause"), [("chat with room", WELL), ("documents fill the pool", FULL)])
def test_dynamo_s_front_end_tells_the_same_run_from_in_front(load: str, cause: str) -> None:
    config, workload = LOADS[load]
    engine, front = (Live(Setup(config, workload), origin=ORIGIN, dialect=d) for d in ("vllm", "dynamo"))
    inside, outside = Ingest(instance="sim", kind="vllm"), Ingest(instance="edge", kind="dynamo")
    joined = []
    for t in (ORIGIN + BEGIN + i * STEP for i in range(PAGES)):
        mine = inside.snapshot(RawPage(t, 0.01, 200, engine.page_at(t)))
        seen = outside.snapshot(RawPage(t, 0.01, 200, front.page_at(t)))
        joined.append(join_gateway(mine, seen, instance="sim", name="dynamo"))
    ((_, window),) = scopes(joined).items()
    verdict, readings = diagnose_with(window, SETTINGS)
    assert name_of(verdict) == cause, verdict.sentence
    harm = readings["call_ttft_harm_p"].value
    assert harm is not None
    assert harm < 0.01 if cause == FULL else harm > 0.5
    alone = diagnose_with(
        scopes([outside.snapshot(RawPage(t, 0.01, 200, front.page_at(t))) for t in [ORIGIN + 100]]).popitem()[1],
        SETTINGS,
    )[0]
    assert name_of(alone) == UNSURE
