"""The faults, one function each: a healthy draw, and the same with one thing wrong. How bad follows from the severity.

Each fault is a mechanism of the simulator. Nothing here knows what a check looks at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from llmvitals.lab import spoil
from llmvitals.lab.base import (
    ONE_GPU,
    SEVERAL,
    again,
    base,
    pooled,
    prefill_seconds,
    prompts_per_second,
    served,
    shared_prompts,
    shortened,
    well_filled,
    whole_contexts,
)
from llmvitals.lab.draw import By, Draw
from llmvitals.lab.scenario import Pair
from llmvitals.lab.truth import SLO
from llmvitals.simulator.config import Speculation, Transfer
from llmvitals.simulator.hardware import pcie
from llmvitals.simulator.setup import Restart, Slow
from llmvitals.simulator.workload import Lengths


# -- memory -----------------------------------------------------------------------------------------------------------
def kv_saturation(draw: Draw) -> Pair:
    """Prompts of thousands of tokens: the pool is a part of what the load keeps running, and the next one does not fit."""
    good = shortened(base(draw, prompt=(2200, 3500), output=(150, 260), running=(5, 8), spread=(0.05, 0.3)), 8192)
    share = draw.by(By((0.65, 0.8), (0.5, 0.65), (0.35, 0.5)))
    return Pair(pooled(good, whole_contexts(good.running * share), good.prompt + good.output), good)


def preemption_thrash(draw: Draw) -> Pair:
    """Short prompts and long answers: admission looks at the prompt, and what grows does not fit."""
    good = shortened(base(draw, prompt=(80, 250), output=(350, 700), running=(12, 24), spread=(0.1, 0.3)), 2048)
    share = draw.by(By((0.7, 0.8), (0.5, 0.7), (0.35, 0.5)))
    return Pair(pooled(good, good.running * share, good.context), good)


def preemption_mode(draw: Draw) -> Pair:
    """Prompts of thousands of tokens are let in chunk by chunk; those that do not fit are computed again and again."""
    good = shortened(base(draw, prompt=(4200, 5500), output=(250, 500), running=(8, 12), spread=(0.05, 0.2)), 16_384)
    good = good.engine(reserve_full_prompt=False)
    share = draw.by(By((0.7, 0.8), (0.55, 0.7), (0.45, 0.55)))
    return Pair(pooled(good, good.running * share, good.context), good)


def vram_headroom(draw: Draw) -> Pair:
    """Another process takes memory of the GPU; the engine's next allocation fails and it is started again."""
    good = base(draw, plants=ONE_GPU)
    at, times = good.times.onset, round(draw.by(By((1, 1), (1, 2), (2, 3))))
    gap = good.times.window / (times + 1)
    downs = tuple(Restart(at + gap * i + 1, at + gap * i + draw.between(8, 15), "gpu-oom") for i in range(times))
    downs = again(downs, good.times, draw.longer)
    taken = good.setup.engine.machine.memory_bytes * draw.between(0.05, 0.09)
    return Pair(good.part("faults", restarts=downs, other_memory=((at, math.inf, taken),)), good)


def block_fragmentation(draw: Draw) -> Pair:
    """Blocks of hundreds of tokens for contexts of tens: most of what is held is empty."""
    good = shortened(base(draw, prompt=(16, 36), output=(24, 40), running=(16, 28), spread=(0.3, 0.5)), 1024)
    size = draw.one((128, 256))
    # the same memory, cut into larger blocks: too few of them for the load, although its tokens would fit
    share = draw.by(By((0.6, 0.7), (0.45, 0.6), (0.35, 0.45)))
    blocks = max(round(good.running * share), -(-1024 // size))
    fair = good.engine(block_tokens=16, blocks=blocks * size // 16)
    return Pair(good.engine(block_tokens=size, blocks=blocks), fair)


def context_imbalance(draw: Draw) -> Pair:
    """Contexts accepted that are many times what traffic uses: what that takes for activations is missing from the pool."""
    good = base(draw, prompt=(4300, 5000), output=(300, 380), running=(8, 12), spread=(0.02, 0.08))
    wide = good.engine(max_model_len=round(4.4 * (good.prompt + good.output)))
    share = draw.by(By((0.75, 0.85), (0.65, 0.75), (0.55, 0.65)))
    return Pair(pooled(wide, whole_contexts(good.running * share), good.prompt + good.output), good)


# -- batch ------------------------------------------------------------------------------------------------------------
def batch_too_small(draw: Draw) -> Pair:
    """Seats for a part of what the machine serves with ease."""
    good = base(draw, running=(6, 14))
    share = draw.by(By((0.7, 0.85), (0.5, 0.7), (0.25, 0.5)))
    return Pair(good.engine(max_num_seqs=max(1, round(good.running * share))), good)


def batch_too_large(draw: Draw) -> Pair:
    """A surge is admitted whole: hundreds of sequences share each step, and every token is slow."""
    good = base(draw, prompt=(60, 200), output=(200, 400), running=(4, 10), plants=SEVERAL)
    engine = good.engine(
        max_num_seqs=512, blocks=512 * 800 // good.setup.engine.block_tokens, max_num_batched_tokens=8192
    )
    machine = good.setup.engine.machine
    slow = replace(machine, sequence_seconds=draw.between(0.0003, 0.0005))
    engine = engine.engine(machine=slow)
    clients = round(draw.by(By((120, 150), (150, 200), (200, 300))))
    crowd = good.stream("crowd", 0.0, clients=clients, ramp=5.0, think=draw.between(0.2, 1.0))
    return Pair(engine.more(crowd), engine)


def interference(draw: Draw) -> Pair:
    """Documents arrive between chats, and whole prompts are computed in one step: streams stand still meanwhile."""
    good = base(draw, prompt=(100, 300), output=(12, 30), running=(2, 4), plants=SEVERAL)
    good = good.engine(
        max_num_batched_tokens=16_384, max_model_len=32_768, blocks=400_000 // good.setup.engine.block_tokens
    )
    stall = draw.between(0.4, 0.7)
    length = round(stall / prefill_seconds(good.setup.engine.machine, 5000) * 5000)
    busy = draw.by(By((0.2, 0.26), (0.26, 0.32), (0.32, 0.38)))
    documents = good.stream(
        "documents", 0.0, rate=busy / stall, prompt=Lengths(length, 0.1, high=14_000), output=Lengths(12, 0.3)
    )
    return Pair(good.more(documents), good)


def head_of_line(draw: Draw) -> Pair:
    """Now and then a huge prompt: whoever comes behind it waits until it is through, and the rest of the time nobody does."""
    good = base(draw, prompt=(100, 300), output=(20, 60), running=(2, 5))
    length = 30_000
    good = good.engine(
        max_model_len=65_536, blocks=400_000 // good.setup.engine.block_tokens, max_num_batched_tokens=2048
    )
    one = prefill_seconds(good.setup.engine.machine, length)
    busy = draw.by(By((0.35, 0.45), (0.45, 0.55), (0.55, 0.65)))
    together = max(1, math.ceil(draw.between(3.5, 6.0) / one))  # so many documents at once stand in the way for seconds
    documents = good.stream(
        "documents",
        0.0,
        rate=busy / one / together,
        fan_out=together,
        prompt=Lengths(length, 0.1, high=32_000),
        output=Lengths(8),
    )
    return Pair(good.more(documents), good)


def prefill_bound(draw: Draw) -> Pair:
    """More prompt tokens than the machine computes."""
    a = base(draw, prompt=(2000, 4500), output=(16, 48), running=(1, 2), spread=(0.1, 0.5))
    a = a.engine(max_num_seqs=128, blocks=2_000_000 // a.setup.engine.block_tokens)
    fit = prompts_per_second(a)
    much = draw.by(By((1.05, 1.2), (1.2, 1.5), (1.5, 2.2)))
    good = a.each(lambda s: replace(s, rate=fit * (0.08 if s.name == "usual" else 0.17)))
    return Pair(good.surge(rate=fit * much), good)


def draft_rejected(draw: Draw) -> Pair:
    """Drafts that are mostly thrown away make every step dearer."""
    good = base(draw, prompt=(100, 400), output=(100, 250), running=(4, 8), plants=SEVERAL)
    tokens = draw.whole(4, 7)
    acceptance = draw.by(By((0.3, 0.4), (0.15, 0.3), (0.03, 0.15)))
    gained = sum(acceptance**i for i in range(tokens + 1))  # tokens a step (Leviathan et al. 2023, equation 1)
    worth = SLO.tpot_seconds * draw.by(By((1.4, 1.6), (1.6, 1.9), (1.9, 2.3)))  # what a token then takes
    kernel = good.step - good.setup.engine.machine.step_seconds
    cost = (worth * gained - good.step) / (tokens * kernel)
    accepted = Speculation(tokens, draw.between(0.75, 0.9), cost)
    return Pair(good.engine(speculation=Speculation(tokens, acceptance, cost)), good.engine(speculation=accepted))


def unbounded_output(draw: Draw) -> Pair:
    """Nobody sets max_tokens, and some answers never end."""
    good = base(draw, output=(80, 160), running=(3, 8), spread=(0.5, 0.8))
    good = good.engine(max_model_len=16_384, blocks=2_000_000 // good.setup.engine.block_tokens, max_num_seqs=256)
    share = draw.by(By((0.15, 0.3), (0.3, 0.6), (0.6, 1.0)))
    wild = good.stream(
        "no limit",
        share,
        max_tokens=None,
        output=Lengths(good.output * 3, draw.between(1.5, 2.5), high=16_000),
    )
    return Pair(good.more(wild), good.more(replace(wild, max_tokens=512)))


# -- caches -----------------------------------------------------------------------------------------------------------
def prefix_cache_miss(draw: Draw) -> Pair:
    """A request id at the head of every prompt: nothing that follows is ever found."""
    good = shared_prompts(draw, draw.by(By((0.85, 0.95), (0.95, 1.15), (1.15, 1.6))))
    return Pair(good.streams(id_first=True), good)


def prefix_caching_off(draw: Draw) -> Pair:
    """The same prompts on a server whose cache is switched off."""
    good = shared_prompts(draw, draw.by(By((0.85, 0.95), (0.95, 1.15), (1.15, 1.6))))
    return Pair(good.engine(prefix_caching=False), good)


def uncached_repeats(draw: Draw) -> Pair:
    """The same questions again and again, and no cache that remembers the answers."""
    a = base(draw, running=(6, 12))
    repeats = draw.by(By((0.5, 0.6), (0.6, 0.7), (0.7, 0.85)))
    much = 1.0 / (1 - repeats)
    a = a.surge(rate=a.rate * 0.7 * much, repeats=repeats)
    a = a.engine(max_num_seqs=max(3, round(a.running * 1.6)))
    return Pair(a, a.gateway(response_cache=True))


SLOTS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "mild": ((4, 8), (3, 16)),
    "clear": ((3, 8), (4, 4)),
    "severe": ((3, 4),),
}
"""PCIe generation and lanes by severity: what is left of a slot on risers, on a shared switch or in a desktop board."""
APART = (30, 40, 50)
"""GPUs under one host bridge, on one NUMA node, on two: the path over which PCIe takes them to each other."""


# -- network ----------------------------------------------------------------------------------------------------------
def interconnect(draw: Draw) -> Pair:
    """Tensor parallelism over a link that is not made for it."""
    good = base(draw, prompt=(400, 1200), output=(100, 200), running=(6, 14), plants=SEVERAL)
    machine = good.setup.engine.machine
    generation, lanes = draw.one(SLOTS[draw.severity])
    latency = draw.by(By((80e-6, 160e-6), (160e-6, 250e-6), (250e-6, 400e-6)))
    link = pcie(generation, lanes, latency, draw.one(APART))
    return Pair(good.engine(machine=replace(machine, link=link)), good)


def connection_exhaustion(draw: Draw) -> Pair:
    """A new connection for each call, and ports that stay taken for a minute; or descriptors that nobody closes."""
    good = base(draw, prompt=(60, 150), output=(8, 24), running=(4, 10))
    rate = good.rate
    if draw.whole(0, 1):
        share = draw.by(By((0.85, 0.95), (0.7, 0.85), (0.5, 0.7)))
        return Pair(good.gateway(keep_alive=False, ephemeral_ports=max(20, round(rate * 60 * share))), good)
    fds = good.setup.host.fds_before + round(rate * 20)
    leak = draw.by(By((0.5, 0.7), (0.7, 1.0), (1.0, 1.0)))
    return Pair(good.part("host", max_fds=fds).part("faults", fd_leak=leak), good.part("host", max_fds=65_536))


def kv_transfer(draw: Draw) -> Pair:
    """Prompts are computed elsewhere, and their KV comes over a link that carries less than arrives."""
    a = base(draw, prompt=(1500, 4000), output=(100, 250), running=(5, 12))
    offered = a.rate * a.prompt * a.setup.engine.machine.kv_bytes_per_token
    good = a.engine(transfer=Transfer(offered * 20))
    if draw.whole(0, 2) == 0:
        failures = draw.by(By((0.2, 0.35), (0.35, 0.6), (0.6, 0.9)))
        return Pair(a.engine(transfer=Transfer(offered * 20, failures=failures, timeout=draw.between(5, 10))), good)
    share = draw.by(By((0.9, 1.0), (0.7, 0.9), (0.4, 0.7)))
    return Pair(a.engine(transfer=Transfer(offered * share)), good)


# -- the process in front ---------------------------------------------------------------------------------------------
def api_server(draw: Draw) -> Pair:
    """The API process gets too little CPU for the tokens it hands out; its clients wait for their answers and ask again."""
    a = base(draw, running=(8, 16))
    think = draw.between(0.1, 0.5)
    good = a.each(
        lambda s: replace(s, rate=0.0, clients=round(a.running * (0.3 if s.name == "usual" else 0.7)), think=think)
    )
    front, rate = good.setup.front, good.rate
    need = rate * (
        front.request_seconds + good.prompt * front.prompt_token_seconds + good.output * front.output_token_seconds
    )
    return Pair(good.part("front", cores=need * draw.by(By((0.66, 0.74), (0.6, 0.66), (0.52, 0.6)))), good)


def grammar(draw: Draw) -> Pair:
    """Every request brings a schema of its own, and each takes seconds of CPU to compile."""
    good = base(draw, running=(3, 8))
    a = good.part("front")
    seconds = draw.by(By((2.5, 3.5), (3.5, 6.0), (6.0, 12.0)))
    workers = max(1, math.ceil(good.rate * 0.7 * seconds * draw.between(1.0, 1.4)))
    slow = a.engine(grammar_workers=workers)
    return Pair(slow.surge(schemas=1_000_000, schema_seconds=seconds), slow.surge(schemas=3, schema_seconds=0.03))


def adapter_slots(draw: Draw) -> Pair:
    """More adapters in use than slots."""
    good = base(draw, running=(6, 14))
    adapters = draw.whole(6, 12)
    slots = round(draw.by(By((2, 3), (2, 2), (1, 1))))
    busy = good.streams(adapters=adapters)
    return Pair(busy.engine(max_loras=slots), busy.engine(max_loras=16))


# -- demand -----------------------------------------------------------------------------------------------------------
def unbounded_queue(draw: Draw) -> Pair:
    """More arrives than a well-filled server serves, and nothing says no."""
    a = well_filled(draw)
    fit = served(a)
    much = draw.by(By((1.15, 1.3), (1.3, 1.7), (1.7, 2.5)))
    return Pair(a.surge(rate=fit * much), a.surge(rate=fit * 0.5))


def noisy_tenant(draw: Draw) -> Pair:
    """One tenant sends many times its share; the others wait."""
    a = well_filled(draw)
    fit = served(a)
    a = a.surge(rate=fit * 0.2)
    names = ("c", "d", "e")[: draw.whole(1, 3)]
    others = tuple(a.stream(name, 0.0, rate=fit * 0.1, tenant=name) for name in names)
    a = a.more(*others)
    loud = a.stream("loud", 0.0, rate=fit * draw.by(By((0.7, 0.9), (0.9, 1.3), (1.3, 2.0))), tenant="z")
    return Pair(a.more(loud), a)


def retry_storm(draw: Draw) -> Pair:
    """For some seconds every call fails; clients try again at once, and again, and their calls keep the server full."""
    a = well_filled(draw)
    fit = served(a)
    a = a.streams(timeout=draw.between(4.0, 8.0)).surge(rate=fit * draw.by(By((0.5, 0.55), (0.55, 0.6), (0.6, 0.68))))
    spell = draw.by(By((8, 12), (12, 18), (18, 25)))
    a = a.part("faults", failing=((a.times.onset, a.times.onset + spell),))
    a = a.gateway(cancel_seconds=draw.between(5.0, 15.0))
    return Pair(a.streams(retries=draw.whole(4, 8), backoff=0.5, jitter=False), a.streams(retries=0))


def impatient(draw: Draw) -> Pair:
    """Clients give up shortly before their answers end; what was generated by then is thrown away."""
    a = base(draw, output=(300, 600), running=(4, 10))
    lasts = a.running / a.rate  # Little's law
    share = draw.by(By((0.75, 0.85), (0.6, 0.75), (0.4, 0.6)))
    return Pair(a.surge(timeout=lasts * share), a)


def never_cancelled(draw: Draw) -> Pair:
    """Clients leave, and nobody tells the engine: their work goes on to its end."""
    a = base(draw, output=(200, 400), running=(7, 14))
    a = a.surge(leaves=draw.by(By((0.6, 0.7), (0.7, 0.8), (0.8, 0.95))))
    return Pair(a.gateway(cancel_seconds=math.inf), a)


def fan_out(draw: Draw) -> Pair:
    """One question of a user has become many calls of the model."""
    a = well_filled(draw)
    fit = served(a)
    calls = draw.by(By((4, 6), (6, 10), (10, 20)))
    users = fit * draw.between(1.15, 1.6) / calls
    return Pair(a.surge(rate=users, fan_out=calls), a.surge(rate=users, fan_out=1.0))


def runaway_agent(draw: Draw) -> Pair:
    """One session calls the same tool with the same arguments, as fast as it is answered."""
    a = base(draw, running=(3, 8))
    clients = round(draw.by(By((1, 1), (1, 2), (2, 4))))
    loop = a.stream("agent", 0.0, clients=clients, think=0.05, sessions=1, loops=True, output=Lengths(20, 0.2))
    return Pair(a.more(loop), a)


# -- platform ---------------------------------------------------------------------------------------------------------
def cold_start(draw: Draw) -> Pair:
    """A replica that has just started meets traffic at once, and its first step compiles for a while."""
    a = base(draw, running=(3, 8))
    a = a.each(lambda s: replace(s, rate=s.rate / 0.3 * 0.8) if s.name == "usual" else replace(s, rate=s.rate * 0.01))
    good = a.uptime(draw.between(0.0, 5.0))
    return Pair(good.part("faults", first_step_seconds=draw.by(By((8, 12), (12, 17), (17, 25)))), good)


def rollout(draw: Draw) -> Pair:
    """Probes or a rollout end a process that was serving."""
    good = base(draw, running=(4, 10), output=(150, 400))
    at, times = good.times.onset, round(draw.by(By((1, 1), (1, 2), (2, 3))))
    gap = good.times.window / (times + 1)
    reason = draw.one(("probe", "rollout"))
    downs = tuple(Restart(at + gap * i + 1, at + gap * i + draw.between(8, 20), reason) for i in range(times))
    downs = again(downs, good.times, draw.longer)
    return Pair(good.part("faults", restarts=downs), good)


def kept_out(draw: Draw) -> Pair:
    """The readiness probe of a server that serves fails, and no call is led to it any more."""
    good = base(draw, running=(4, 10))
    late = draw.by(By((0.25, 0.4), (0.1, 0.25), (0.0, 0.1)))
    return Pair(good.part("faults", unready=((good.times.onset + late * good.times.window, math.inf),)), good)


def throttled(draw: Draw) -> Pair:
    """The card's clocks are held down, for heat or for power."""
    good = base(draw, running=(6, 12), plants=SEVERAL)
    factor = draw.by(By((0.32, 0.5), (0.22, 0.32), (0.12, 0.22)))
    slow = Slow(good.times.onset, math.inf, factor, draw.one(("thermal", "power")))
    return Pair(good.part("faults", slow=(slow,)), good)


def gpu_error(draw: Draw) -> Pair:
    """The driver reports an error of the card, or of its memory."""
    good = base(draw)
    at, code = good.times.onset + draw.between(1, 10), draw.one((31, 48, 63, 79, 94))
    kind = draw.whole(0, 2)
    if kind == 0:
        return Pair(good.part("faults", ecc=(at,), row_remap_at=at), good)
    if kind == 1:  # the same error as once before: a gauge of the last code stands still
        before = (good.times.onset * draw.between(0.1, 0.9), code)
        good = good.part("faults", xid=(before,))
        return Pair(good.part("faults", xid=(before, (at, code))), good)
    return Pair(good.part("faults", xid=((at, code),)), good)


# -- serving and telemetry --------------------------------------------------------------------------------------------
def stall(draw: Draw) -> Pair:
    """The engine's loop stands still; the process answers health checks."""
    good = base(draw)
    return Pair(good.part("faults", stalls=((good.times.onset, math.inf),)), good)


def death(draw: Draw) -> Pair:
    """The engine dies, and the page with it."""
    good = base(draw)
    return Pair(good.part("faults", dies_at=good.times.onset), good)


def errors(draw: Draw) -> Pair:
    """Every request is answered with an error, and no token comes out."""
    good = base(draw, running=(4, 10))
    return Pair(good.part("faults", failing=((good.times.onset, math.inf),)), good)


def broken_scrapes(draw: Draw) -> Pair:
    """The server is well, but its page comes only now and then."""
    good = base(draw)
    share = draw.by(By((0.35, 0.45), (0.45, 0.55), (0.55, 0.6)))
    return Pair(good, good, spoil.Spoil(good.times.onset, spoil.failing(share)))


def filtered_page(draw: Draw) -> Pair:
    """A filter has taken the families that everything rests on off the page."""
    good = base(draw)
    gone = (
        b"vllm:time_to_first_token_seconds",
        b"vllm:num_requests_running",
        b"vllm:num_requests_waiting",
        b"vllm:generation_tokens",
    )
    return Pair(good, good, spoil.Spoil(good.times.onset, spoil.without(*gone)))


def shared_address(draw: Draw) -> Pair:
    """Two servers take turns in answering behind one address."""
    good = base(draw)
    return Pair(good, good, spoil.Spoil(good.times.onset, spoil.two_processes(draw.between(100, 400))))


def shedding(draw: Draw) -> Pair:
    """More comes than is served; the rest is refused at the door, and what is let in is served well."""
    a = well_filled(draw)
    fit = served(a)
    a = a.engine(max_queued=max(2, round(fit * draw.between(0.3, 0.7))))
    return Pair(a.surge(rate=fit * draw.by(By((1.3, 1.5), (1.5, 2.0), (2.0, 3.0)))), a.surge(rate=fit * 0.4))
