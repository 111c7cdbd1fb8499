"""What looks like a cause and is not, one function each; and deployments in which nothing is wrong, from idle to full."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from llmvitals.lab import faults
from llmvitals.lab.base import (
    ONE_GPU,
    PLANTS,
    SEVERAL,
    Base,
    base,
    pooled,
    served,
    shared_prompts,
    shortened,
    well_filled,
)
from llmvitals.lab.draw import By, Draw
from llmvitals.lab.scenario import Pair
from llmvitals.simulator.config import Speculation, Transfer
from llmvitals.simulator.setup import Slow
from llmvitals.simulator.workload import Lengths, Stream, Workload


def _well(a: Base) -> Pair:
    return Pair(a, a)


# -- nothing is wrong -------------------------------------------------------------------------------------------------
def idle(draw: Draw) -> Pair:
    """A server that nobody calls."""
    a = base(draw)
    return _well(replace(a, setup=replace(a.setup, workload=Workload((), 1))))


def chat(draw: Draw) -> Pair:
    """Ordinary traffic with room everywhere."""
    return _well(base(draw, running=(1, 10)))


def few(draw: Draw) -> Pair:
    """A handful of requests a minute."""
    a = base(draw)
    return _well(a.each(lambda s: replace(s, rate=draw.between(0.02, 0.2))))


def bursts(draw: Draw) -> Pair:
    """Arrivals in clusters, which the seats take."""
    return _well(base(draw, running=(2, 5)).streams(burstiness=draw.between(1.5, 3.0)))


def heavy_tail(draw: Draw) -> Pair:
    """Lengths that vary by more than their mean, as public traces have them, each with the max_tokens it asked for."""
    a = base(draw, prompt=(200, 600), output=(80, 200), running=(2, 5), spread=(1.2, 2.0))
    return _well(a.engine(blocks=2_000_000 // a.setup.engine.block_tokens).streams(max_tokens=2000))


def documents(draw: Draw) -> Pair:
    """Long prompts, well within what the machine computes."""
    a = base(draw, prompt=(2000, 5000), output=(40, 120), running=(1, 3))
    return _well(a.each(lambda s: replace(s, rate=s.rate * 0.6)))


def closed(draw: Draw) -> Pair:
    """Clients that wait for their answers and ask again, fewer than seats."""
    a = base(draw, running=(4, 12))
    clients = round(a.running)
    return _well(a.surge(rate=0.0, clients=clients, ramp=3.0, think=draw.between(0.0, 1.0)))


def busy(draw: Draw) -> Pair:
    """Well filled, and every promise kept."""
    a = well_filled(draw)
    return _well(a.surge(rate=served(a) * draw.between(0.4, 0.65)))


def hits(draw: Draw) -> Pair:
    """Shared beginnings that the prefix cache finds."""
    return _well(shared_prompts(draw, draw.between(0.5, 0.8)))


def drafts(draw: Draw) -> Pair:
    """Speculative decoding that pays."""
    a = base(draw, running=(3, 8))
    return _well(a.engine(speculation=Speculation(draw.whole(2, 4), draw.between(0.7, 0.9), 0.05)))


# -- look-alikes ------------------------------------------------------------------------------------------------------
def full_but_fine(draw: Draw) -> Pair:
    """The pool is nearly full, and nobody waits for it."""
    a = shortened(base(draw, prompt=(1500, 3000), output=(60, 120), running=(6, 12), spread=(0.05, 0.15)), 8192)
    clients = max(3, round(a.running))
    a = a.each(lambda s: replace(s, rate=0.0) if s.name == "usual" else replace(s, rate=0.0, clients=clients, ramp=2.0))
    return _well(pooled(a, clients * draw.between(1.1, 1.2), (a.prompt + a.output) * 1.1))


def one_burst(draw: Draw) -> Pair:
    """Long answers that come all at once overfill the pool for a moment, once."""
    a = shortened(base(draw, prompt=(80, 200), output=(60, 120), running=(4, 8), spread=(0.1, 0.3)), 2048)
    a = pooled(a, 16, 700)
    at = a.times.onset + 0.6 * a.times.window
    # so many that they fit when they come, and not when they have grown
    crowd = a.stream(
        "crowd", 0.0, start=at, end=at + 2, clients=16 * 700 // 400, ramp=1.0, output=Lengths(450, 0.1), max_tokens=600
    )
    return _well(a.more(crowd))


def reserved_memory(draw: Draw) -> Pair:
    """Hardly any memory of the card is free, as the engine reserves it at its start."""
    return _well(base(draw).engine(gpu_memory_utilization=draw.between(0.95, 0.985)))


def slow_for_all(draw: Draw) -> Pair:
    """Decoding is slow for everybody, all the time."""
    return faults.batch_too_large(draw)


def nothing_shared(draw: Draw) -> Pair:
    """Long prompts that share nothing, more than the machine computes."""
    return faults.prefill_bound(draw)


def everybody_waits(draw: Draw) -> Pair:
    """Small and large prompts alike wait for too few seats."""
    pair = faults.batch_too_small(draw)
    mixed = {"prompt": Lengths(pair.good.prompt * 1.5, 1.2, high=4000)}
    return Pair(pair.bad.streams(**mixed), pair.good.streams(**mixed))


def every_tenant_grew(draw: Draw) -> Pair:
    """Overload to which all tenants add by their weight, large ones more than small ones."""
    a = well_filled(draw)
    weights = tuple((name, draw.between(1.0, 4.0)) for name in ("a", "b", "c", "d")[: draw.whole(2, 4)])
    load, whole = served(a) * draw.between(1.4, 2.2), sum(weight for _, weight in weights)
    quiet = a.surge(rate=0.0).gateway(weights=weights)
    shares = tuple(quiet.stream(name, 0.0, rate=load * weight / whole, tenant=name) for name, weight in weights)
    return Pair(quiet.more(*shares), quiet)


def fast_link(draw: Draw) -> Pair:
    """Tensor parallelism over a good link, or over PCIe at its full width, for which it is good enough."""
    return _well(base(draw, running=(6, 12), plants=(*SEVERAL, OVER_PCIE)))


OVER_PCIE = ("A100-80GB", "Qwen2.5-32B", 2, "PCIe 4.0 x16")


def drained_burst(draw: Draw) -> Pair:
    """A burst queues up and is served."""
    a = base(draw, running=(4, 8))
    at = a.times.onset + 0.6 * a.times.window
    clients = round(a.setup.engine.max_num_seqs * draw.between(1.3, 1.8))
    return _well(a.more(a.stream("crowd", 0.0, start=at, end=at + 2, clients=clients, ramp=1.0)))


def organic_growth(draw: Draw) -> Pair:
    """More users than the server serves, none of whom tries again."""
    return faults.unbounded_queue(draw)


def asked_for(draw: Draw) -> Pair:
    """Long answers that were asked for: max_tokens is set, and high."""
    a = base(draw, output=(80, 160), running=(3, 6), spread=(0.5, 0.8))
    a = a.engine(max_model_len=16_384, blocks=2_000_000 // a.setup.engine.block_tokens, max_num_seqs=256)
    long = a.stream("long", 0.3, max_tokens=4000, output=Lengths(a.output * 2, 1.8, high=4000))
    return _well(a.more(long))


def still_running(draw: Draw) -> Pair:
    """Long requests have begun and not ended; nobody has left."""
    a = base(draw, running=(3, 6))
    long = a.stream(
        "long", 0.0, clients=round(draw.between(6, 12)), ramp=10.0, output=Lengths(3500, 0.1), max_tokens=4000
    )
    return _well(a.more(long))


def personal_answers(draw: Draw) -> Pair:
    """As much as with repeats, but hardly a question comes twice."""
    pair = faults.uncached_repeats(draw)
    few = draw.between(0.05, 0.15)
    return Pair(pair.bad.surge(repeats=few), pair.bad.surge(repeats=few, rate=pair.good.rate * 0.3))


def more_users(draw: Draw) -> Pair:
    """Several calls for each user, as planned, and more users."""
    a = well_filled(draw)
    calls, fit = draw.whole(2, 5), served(a)
    a = a.gateway(planned_calls=float(calls)).streams(fan_out=float(calls))
    a = a.each(lambda s: replace(s, rate=s.rate / calls))
    return Pair(a.surge(rate=fit * draw.between(1.3, 1.8) / calls), a.surge(rate=fit * 0.4 / calls))


def batch_job(draw: Draw) -> Pair:
    """One session makes many calls, each with other arguments."""
    pair = faults.runaway_agent(draw)
    return Pair(pair.bad.each(lambda s: replace(s, loops=False)), pair.good)


def many_connections(draw: Draw) -> Pair:
    """Requests wait for seats, each on a connection of its own, and there is room for many more of those."""
    return faults.batch_too_small(draw)


def idle_gpu(draw: Draw) -> Pair:
    """The GPU does next to nothing, because next to nothing is asked."""
    return few(draw)


def adapters_not_grammars(draw: Draw) -> Pair:
    """Requests wait for adapters, not for grammars."""
    return faults.adapter_slots(draw)


def cheap_schemas(draw: Draw) -> Pair:
    """Every request brings a schema that compiles in tens of milliseconds."""
    a = base(draw, running=(3, 8)).engine(grammar_workers=2)
    return _well(a.surge(schemas=1_000_000, schema_seconds=draw.between(0.01, 0.05)))


def overload_from_the_start(draw: Draw) -> Pair:
    """A young process that is too small and stays so."""
    pair = faults.batch_too_small(draw)

    def early(s: Stream) -> Stream:
        return replace(s, rate=pair.good.rate * 1.2) if s.name == "usual" else s

    return Pair(pair.bad.uptime(2.0).each(early), pair.good.uptime(2.0))


def out_of_memory(draw: Draw) -> Pair:
    """The process was ended for want of memory, not by a probe."""
    return faults.vram_headroom(draw)


def low_clocks(draw: Draw) -> Pair:
    """The card clocks down, because it has nothing to do."""
    a = base(draw)
    a = a.each(lambda s: replace(s, rate=draw.between(0.01, 0.05)))
    return _well(a)


def capped_harmless(draw: Draw) -> Pair:
    """The card is held down, and nobody notices."""
    a = base(draw, running=(2, 5), plants=ONE_GPU)
    factor, reason = draw.between(0.6, 0.9), draw.one(("power", "thermal"))
    return _well(a.part("faults", slow=(Slow(a.times.onset, math.inf, factor, reason),)))


def held_blocks(draw: Draw) -> Pair:
    """Large blocks, and long contexts that fill them."""
    pair = faults.kv_saturation(draw)

    def large(a: Base) -> Base:
        e = a.setup.engine
        return a.engine(block_tokens=128, blocks=-(-e.blocks * e.block_tokens // 128))

    return Pair(large(pair.bad), large(pair.good))


def short_recompute(draw: Draw) -> Pair:
    """Preemptions of short prompts, which recompute in no time."""
    return faults.preemption_thrash(draw)


def caching_off_nothing_shared(draw: Draw) -> Pair:
    """The cache is off, and prompts that have nothing in common would not have used it."""
    pair = faults.prefill_bound(draw)
    return Pair(pair.bad.engine(prefix_caching=False), pair.good.engine(prefix_caching=False))


def in_proportion(draw: Draw) -> Pair:
    """A pool that is too small for contexts that really are long."""
    good = shortened(base(draw, prompt=(4500, 6500), output=(24, 60), running=(5, 9), spread=(0.02, 0.1)), 16_384)
    share = draw.by(By((0.6, 0.75), (0.45, 0.6), (0.4, 0.45)))
    return Pair(pooled(good, good.running * share, good.prompt + good.output), good)


def front_not_seats(draw: Draw) -> Pair:
    """The GPU is idle because the process in front is full."""
    return faults.api_server(draw)


def few_steps_long(draw: Draw) -> Pair:
    """Some steps are long; the batch is small."""
    return faults.interference(draw)


def poor_but_harmless(draw: Draw) -> Pair:
    """Few drafts are accepted, and nobody is hurt by it."""
    a = base(draw, running=(2, 4), plants=ONE_GPU)
    return _well(a.engine(speculation=Speculation(2, draw.between(0.2, 0.45), 0.05)))


def seats_not_compute(draw: Draw) -> Pair:
    """The seats are the cap; prompts are short."""
    return faults.batch_too_small(draw)


def long_step(draw: Draw) -> Pair:
    """Nothing moves for seconds while one huge prompt is computed whole, and then it does."""
    a = base(draw, prompt=(100, 300), output=(40, 80), running=(1, 2), plants=PLANTS[4:])
    a = a.engine(max_model_len=131_072, blocks=500_000 // a.setup.engine.block_tokens, max_num_batched_tokens=131_072)
    a = a.each(lambda s: replace(s, rate=s.rate * 0.1))
    huge = a.stream("book", 0.0, rate=1 / 40, prompt=Lengths(60_000, 0.1, high=80_000), output=Lengths(10))
    return _well(a.more(huge))


def grammars_not_adapters(draw: Draw) -> Pair:
    """Requests wait for grammars; adapters are there, with slots for all."""
    pair = faults.grammar(draw)
    return Pair(pair.bad.engine(max_loras=16).streams(adapters=4), pair.good)


def prefill_not_transfer(draw: Draw) -> Pair:
    """Some KV comes from elsewhere, and fast; what is slow is computed here."""
    pair = faults.batch_too_small(draw)
    link = Transfer(pair.good.rate * pair.good.prompt * pair.good.setup.engine.machine.kv_bytes_per_token * 50)
    return Pair(pair.bad.engine(transfer=link), pair.good.engine(transfer=link))


def quiet_page(draw: Draw) -> Pair:
    """All counters stand still, because nobody calls."""
    return idle(draw)


def open_queue(draw: Draw) -> Pair:
    """Nothing is refused; the queue grows."""
    return faults.unbounded_queue(draw)


def left_and_cancelled(draw: Draw) -> Pair:
    """Many clients leave early, and the engine stops at once."""
    return _well(faults.never_cancelled(draw).good)


def without(fault: Callable[[Draw], Pair]) -> Callable[[Draw], Pair]:
    """The deployment of a fault, without the fault."""

    def well(draw: Draw) -> Pair:
        return _well(fault(draw).good)

    well.__doc__ = f"The same without it: {' '.join((fault.__doc__ or '').split())}"
    return well
