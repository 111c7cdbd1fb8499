"""The simulator against a real server: what a replayed load shows, how far it is off, and what the triage says of it."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from llmvitals.settings import Settings
from llmvitals.simulator.live import Live
from llmvitals.simulator.roofline import step_cost
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Sent, Stream, Workload
from llmvitals.simulator.world import World
from llmvitals.triage.walk import diagnose
from support.fidelity import FITTED, MEASURES, Compared, Measure, asked_at, compare, counted, error, twin
from support.loads import DEFAULTS, FRONT, LEFT_OUT, setup_of
from support.recordings import EXPECTED, MENTIONED, name_of, only_scope

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
HELD_OUT = tuple(name for name in EXPECTED if name not in FITTED and name not in LEFT_OUT)
SMALL_POOL = replace(DEFAULTS, blocks=39, max_model_len=4096)

# Loads that need no log: clients that ask the same again and again.
MADE: dict[str, tuple[int, Sent]] = {
    "kv-full": (40, Sent(0.0, 140, 110, 110)),
    "kv-preemption": (16, Sent(0.0, 128, 900, 900)),
}


@pytest.fixture(scope="module")
def compared(shared: Path) -> dict[str, Compared]:
    """Every recording beside its twin."""
    return {name: compare(shared / "captures" / name) for name in EXPECTED if name not in LEFT_OUT}


# -- all recordings ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in LEFT_OUT])
def test_the_twin_gets_the_verdict_of_its_recording(compared: dict[str, Compared], name: str, ran_recording, shared):
    ran_recording(shared / "captures" / name)
    one = compared[name]
    assert name_of(one.real) in EXPECTED[name]
    assert name_of(one.simulated) in EXPECTED[name]
    if name in MENTIONED:
        assert MENTIONED[name] in [f.cause for f in one.simulated.contributing]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.name)
def test_recordings_that_nothing_was_fitted_to_are_met_within_the_stated_errors(
    compared: dict[str, Compared], measure: Measure
):
    sizes = {name: size for name in HELD_OUT if (size := counted(compared[name], measure)) is not None}
    assert len(sizes) >= 15
    assert median(sizes.values()) <= measure.typical
    worst = max(sizes, key=sizes.__getitem__)
    assert sizes[worst] <= measure.worst, worst


# -- committed pages, made loads --------------------------------------------------------------------------------------
def made(name: str, *, slower: float = 1.0) -> Setup:
    clients, sent = MADE[name]
    machine = SMALL_POOL.machine
    machine = replace(
        machine,
        step_seconds=machine.step_seconds * slower,
        sequence_seconds=machine.sequence_seconds * slower,
        flops=machine.flops / slower,
    )
    stream = Stream(clients=clients, ignore_eos=True, backoff=0.0, replay=(sent,))
    return Setup(replace(SMALL_POOL, machine=machine), Workload((stream,)), FRONT, uptime=40.0)


def errors(name: str, setup: Setup) -> dict[str, float | None]:
    moments = asked_at(FIXTURES / name)
    _, real = only_scope(FIXTURES / name)
    simulated = twin(setup, moments[0], moments)
    return {m.name: error(m, m.read(real), m.read(simulated)) for m in MEASURES}


@pytest.mark.parametrize("name", MADE)
def test_clients_that_wait_for_answers_are_met_as_on_the_committed_pages(name: str, ran_recording):
    ran_recording(FIXTURES / name)
    found = errors(name, made(name))
    for measure in ("running, mean", "waiting, mean", "KV usage, mean", "finished", "TTFT, mean", "ITL, mean"):
        assert abs(found[measure] or 0.0) <= 0.25, measure
    assert abs(found["preemptions per finished"] or 0.0) <= 0.1


@pytest.mark.parametrize(
    ("name", "cause"), [("kv-full", "kv-cache-saturation"), ("kv-preemption", "preemption-thrash")]
)
def test_a_made_load_gets_the_verdict_of_the_committed_pages(name: str, cause: str):
    moments = asked_at(FIXTURES / name)
    assert name_of(diagnose(only_scope(FIXTURES / name)[1], Settings())) == cause
    assert name_of(diagnose(twin(made(name), moments[0], moments), Settings())) == cause


def test_a_machine_of_another_speed_would_be_noticed():
    found = errors("kv-full", made("kv-full", slower=1.6))
    assert (found["finished"] or 0.0) < -0.2
    assert (found["ITL, mean"] or 0.0) > 0.3


def test_a_pool_of_another_size_would_be_noticed():
    setup = made("kv-preemption")
    found = errors("kv-preemption", replace(setup, engine=replace(setup.engine, blocks=60)))
    assert (found["preemptions per finished"] or 0.0) < -0.3


# -- what is replayed -------------------------------------------------------------------------------------------------
FLAGS = "--max-num-seqs 4 --max-num-queued-reqs 9 --num-gpu-blocks-override 66 --max-model-len 8192"
STREAMS = [
    {"name": "open", "rate": 2, "prompt_tokens": 64, "max_tokens": 20},
    {"name": "pair", "rate": 1, "prompt_tokens": [10, 30], "max_tokens": 5, "n": 2},
    {"name": "leaver", "concurrency": 1, "prompt_tokens": 64, "max_tokens": 3000, "think_s": 0.5},
]
LOG = [
    {"stream": "open", "t": 1.25, "max_tokens": 20, "status": 200, "e2e": 0.4, "usage": {"prompt_tokens": 64}},
    {"stream": "open", "t": 0.5, "max_tokens": 20, "status": 400, "e2e": 0.01},
    {"stream": "open", "t": 2.0, "max_tokens": 20, "exc": "ServerDisconnectedError()", "e2e": 0.01},
    {"stream": "pair", "t": 0.75, "max_tokens": 5, "n": 2, "status": 200, "e2e": 1, "usage": {"completion_tokens": 6}},
    {"stream": "leaver", "t": 0.0, "max_tokens": 3000, "status": 200, "client_aborted": True, "e2e": 1.5},
]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of three kinds of clients, without its pages."""
    about = {"server_flags": FLAGS, "streams": STREAMS, "start_unix": 1_000.0, "duration_s": 6.0}
    (tmp_path / "about.json").write_text(json.dumps(about), encoding="utf-8")
    with gzip.open(tmp_path / "requests.jsonl.gz", "wt") as log:
        log.write("".join(f"{json.dumps(row)}\n" for row in LOG))
    return tmp_path


def test_flags_and_requests_become_a_deployment(recording: Path):
    origin, setup = setup_of(recording)
    assert origin == 1_000.0
    engine = setup.engine
    assert (engine.max_num_seqs, engine.max_queued, engine.blocks, engine.max_model_len) == (4, 5, 65, 8192)
    opened, pair, leaver = setup.workload.streams
    assert opened.replay == (Sent(0.5, 8192, 20, 20), Sent(1.25, 64, 20, 20))  # the lost one never came
    assert pair.replay == (Sent(0.75, 20, 3, 5),) * 2  # the mean prompt; three tokens each
    assert leaver.replay == (Sent(0.0, 64, 3000, 3000, leaves=1.5),)
    assert (leaver.clients, leaver.think, leaver.end) == (1, 0.5, 6.0)


def test_what_was_sent_is_sent_again_and_who_waited_waits_again(recording: Path):
    _, setup = setup_of(recording)
    world = World(setup)
    world.advance(9.0)
    seen = {name: [] for name in ("open", "pair", "leaver")}
    for answer in sorted(world.clients.log, key=lambda a: a.sent):
        seen[setup.workload.streams[answer.request.stream].name].append(answer)
    assert [(a.sent, a.outcome) for a in seen["open"]] == [(0.5, "too long"), (1.25, "ok")]
    assert [(a.sent, a.request.prompt, a.tokens) for a in seen["pair"]] == [(0.75, 20, 3)] * 2
    # 1.5 s until it goes, 0.5 s of thought, for as long as the load lasts
    assert [a.sent for a in seen["leaver"]] == pytest.approx([0.0, 2.0, 4.0])
    assert [a.ended - a.sent for a in seen["leaver"]] == pytest.approx([1.5, 1.5, 1.5])
    assert {a.outcome for a in seen["leaver"]} == {"left"}
    assert world.engine.in_flight == 0  # nobody computes for those that left


def test_errors_are_shares_and_small_differences_are_none():
    finished = next(m for m in MEASURES if m.name == "finished")
    assert error(finished, 200.0, 150.0) == pytest.approx(-0.25)
    assert error(finished, 200.0, 200.5) == 0.0
    assert error(finished, 0.0, 7.0) == math.inf
    assert error(finished, None, 7.0) is None


# -- what the fit added to the model ----------------------------------------------------------------------------------
def test_attention_costs_each_token_the_tokens_before_it():
    machine = DEFAULTS.machine
    without = replace(machine, attention_flops=0.0)
    pairs = 2048 * (4096 + 1024)  # a chunk of 2,048 tokens behind 4,096
    more = step_cost(machine, 1, 2048, 6144, pairs).kernel - step_cost(without, 1, 2048, 6144, pairs).kernel
    assert more == pytest.approx(pairs * 4 * 2 * 128 / machine.flops)  # two layers, 128 wide


def test_a_long_prompt_takes_longer_than_its_tokens_alone():
    def first_token(attention: float) -> float:
        machine = replace(DEFAULTS.machine, attention_flops=attention)
        stream = Stream(replay=(Sent(0.0, 8000, 2, 2),))
        world = World(Setup(replace(DEFAULTS, machine=machine), Workload((stream,)), FRONT))
        world.advance(10.0)
        return world.clients.log[0].first or math.nan

    pairs = 8000 * 8000 / 2  # whatever the chunks are
    seconds = pairs * 1024 / DEFAULTS.machine.flops
    assert first_token(1024.0) - first_token(0.0) == pytest.approx(seconds, rel=1e-3)


def test_each_step_costs_the_api_process_something_whatever_it_holds():
    def cpu(step_seconds: float) -> float:
        stream = Stream(replay=(Sent(0.0, 64, 50, 50),))
        world = World(Setup(DEFAULTS, Workload((stream,)), replace(FRONT, step_seconds=step_seconds)))
        world.advance(10.0)
        return world.engine.counters.process_seconds

    assert cpu(0.001) - cpu(0.0) == pytest.approx(50 * 0.001)


def test_the_coarse_mode_counts_attention_as_the_fine_one_does():
    stream = Stream(clients=8, ignore_eos=True, replay=(Sent(0.0, 2000, 600, 600), Sent(0.0, 300, 900, 900)))
    seen = []
    for coarse in (False, True):
        live = Live(Setup(DEFAULTS, Workload((stream,))), coarse=coarse)
        live.advance(120.0)
        gaps = live.engine.counters.token_gap
        seen.append((live.engine.counters.generated_tokens, gaps.sum / gaps.count))
    assert seen[1] == pytest.approx(seen[0], rel=0.005)
