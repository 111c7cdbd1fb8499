"""Windows near a bound: not a cause's best example, nor its usual look-alike, but what a bound of the table decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llmvitals.series import Window
from support.made import Server, changed, healthy, run, without
from support.situation import PAGES
from support.situations import adapter_slots, contradicting, kv_full, unbounded_output
from support.situations_gateway import CALLS, Gate, fronted, usual
from support.situations_hardware import Beside, beside, linked
from support.situations_requests import BOUNDS_REQUESTS


def mostly_bad_requests() -> Window:
    """No token comes; six of ten answers are the clients' own mistakes, the others the server's."""

    def each(server: Server, _: int) -> None:
        server.answer(4, "5xx")
        server.answer(6, "4xx")

    return run(PAGES, each)


def slots_taken_at_times() -> Window:
    """Every adapter slot is taken on a third of the pages on which requests wait for one."""

    def each(server: Server, i: int) -> None:
        server.set("llm_lora_slots", 4)
        server.set("llm_lora_running_adapters", 4 if i % 3 == 0 else 2)
        server.serve(10, ttft=6.0, queue=5.8)
        server.gauges(running=4, waiting=6, deferred=6, kv=0.2)

    return run(PAGES, each)


def three_bursts(*, prompt: float = 150) -> Window:
    """Requests are thrown out three times in the window, some each time, from a pool that is full all along."""

    def each(server: Server, i: int) -> None:
        server.serve(10, ttft=5.0, prompt=prompt, output=900, tpot=0.03, queue=4.0)
        server.count("llm_preemptions_total", 40 if i in {4, 8, 12} else 0)
        server.gauges(running=14 + i % 2, waiting=8, kv=0.98)

    return run(PAGES, each)


def eighths() -> Window:
    """A pool of eight blocks, seven of which short chats hold: an eighth is free, and the next request takes it whole."""
    server = Server()
    server.facts(blocks=8, block=256, longest=2048)

    def each(s: Server, i: int) -> None:
        s.serve(4, ttft=6.0, prompt=40, output=20, queue=5.9, prefill=0.05)
        s.gauges(running=7, waiting=4 + i % 3, kv=0.875)

    return run(PAGES, each, server)


def long_but_quick_queue() -> Window:
    """A fleet behind one scope: the queue grows beyond chance, and is still only a second long."""

    def each(server: Server, i: int) -> None:
        server.serve(7000, ttft=1.0, queue=0.9)
        server.gauges(running=800 + i % 5, waiting=100 * i, kv=0.3)

    return run(PAGES, each)


def one_of_many_tenants(*, share: float = 0.3, refused: float = 0, wait: float = 0.1, ttft: float = 0.1) -> Window:
    """Seven tenants, one of which takes 30 % of the tokens: well over its share, and yet not what fills the server."""
    server = Server()
    gate = Gate(server)
    quiet = [f"t{n}" for n in range(6)]

    def each(s: Server, i: int) -> None:
        healthy(s, i)
        for tenant in ("loud", *quiet):
            part = share if tenant == "loud" else (1 - share) / len(quiet)
            gate.call(CALLS * part, tenant)
            gate.call(refused * part, tenant, "429")
            gate.add("tokens_total", 20_000 * part, tenant=tenant)
            gate.observe("queue_seconds", wait, CALLS * part, tenant=tenant)
        gate.observe("ttft_seconds", ttft, CALLS, size="small")

    for tenant in ("loud", *quiet):
        gate.call(0, tenant)
        gate.add("tokens_total", 0, tenant=tenant)
        gate.observe("queue_seconds", 0.0, 0, tenant=tenant)
    return run(PAGES, each, server)


# -- serving, restarts ------------------------------------------------------------------------------------------------
def died_just_now() -> Window:
    """Two scrapes have failed since the last good page."""
    server = Server()
    for i in range(12):
        healthy(server, i)
        server.page()
    server.fail()
    server.fail()
    return server.window()


def some_scrapes_fail() -> Window:
    """One scrape in eight fails."""
    server = Server()
    for i in range(16):
        healthy(server, i)
        if i in {5, 10}:
            server.fail()
        else:
            server.page()
    return server.window()


def restart(*, reason: str = "", failed: bool = False, inside: float = 0, late: bool = False) -> Window:
    """A process ends and another begins; with ``inside`` requests on its last page."""
    server = Server()
    apart = Beside(server)

    def page() -> None:
        if reason:
            apart.count("llm_host_restarts_total", 0, reason=reason)
        server.page()

    for i in range(7):
        server.serve(20)
        server.gauges(running=inside if i == 6 else 4, kv=0.1)
        page()
    if failed:
        server.fail()
    server.restart()
    if reason:
        apart.count("llm_host_restarts_total", 1, reason=reason)
    for _ in range(7):
        server.serve(20, ttft=6.0 if late else 0.1)
        server.gauges(running=4, kv=0.1)
        page()
    return server.window()


def refused_while_a_queue_creeps_up(*, gate_too: bool = False) -> Window:
    """Load is refused; the queue rises and falls, a little more than it falls."""
    queue = (1, 3, 0, 4, 1, 5, 2, 3, 6, 2, 5, 3, 7, 4)

    def each(server: Server, i: int) -> None:
        server.serve(50, ttft=0.5)
        server.gauges(running=20, waiting=queue[i - 1], kv=0.3)
        server.count("llm_requests_rejected_total", 30, reason="max_num_queued_reqs")
        server.answer(30, "5xx")

    if not gate_too:
        return run(PAGES, each)

    def load(server: Server, i: int) -> None:
        server.serve(50, ttft=0.5)
        server.gauges(running=20, waiting=queue[i - 1], kv=0.3)

    return fronted(load, lambda gate, _: gate.pass_on(refused=30))


# -- memory ------------------------------------------------------------------------------------------------------------
def a_large_one_comes_next(*, waiting: float = 5, deferred: float = 0, kv: float = 0.72) -> Window:
    """A quarter of the pool is free, and the next request needs a third of it."""

    def each(server: Server, i: int) -> None:
        server.serve(2, ttft=6.0, prompt=5200, output=100, queue=5.0, prefill=0.6, front=0.01)
        server.gauges(running=2 + i % 2, waiting=waiting, kv=kv, deferred=deferred)

    return run(PAGES, each)


def capped_and_mixed(*, deferred: float = 4) -> Window:
    """Admission is capped where the pool ends; of nine that wait, some wait for something else."""
    server = Server()
    server.facts(blocks=160)

    def each(s: Server, _: int) -> None:
        s.serve(20, ttft=6.0, queue=5.8)
        s.gauges(running=8, waiting=9, kv=0.6, deferred=deferred)

    return run(PAGES, each, server)


def now_and_then_thrown_out(*, times: float, prompt: float = 150) -> Window:
    """A pool that is full serves little, and throws out a request now and then."""

    def each(server: Server, i: int) -> None:
        server.serve(1, ttft=5.0, prompt=prompt, output=900, tpot=0.03, queue=4.0)
        server.count("llm_preemptions_total", times if i % 2 else 0)
        server.gauges(running=3 + i % 2, waiting=3, kv=0.98)

    return run(PAGES, each)


# -- batch, front end --------------------------------------------------------------------------------------------------
def few_seats(*, sm: float | None = None, long: float = 0) -> Window:
    """Too few seats; the card's activity is known, or so many gaps of a thousand are long."""

    def load(server: Server, _: int) -> None:
        server.first(20, ttft=8.0)
        server.gaps(20 * 199 - 4 * long, 0.02)
        server.gaps(4 * long, 0.4)
        server.finish(20, queue=7.9, prompt=100, output=200, tpot=0.02)
        server.gauges(running=8, waiting=12, kv=0.1)

    def each(apart: Beside, _: int) -> None:
        if sm is not None:
            apart.card(sm=sm)

    return beside(load, each)


def large_batch(*, thrown: float = 0, gap: float = 0.09, quick: float = 0, every: int = 2) -> Window:
    """A batch in which most streams are slow; some are not, or are thrown out."""

    def each(server: Server, i: int) -> None:
        server.first(20)
        server.gaps(20 * 199, gap)
        server.finish(20 - quick, prompt=60, output=200, tpot=0.09)
        server.finish(quick, prompt=60, output=200, tpot=0.04)
        server.count("llm_preemptions_total", thrown if i % every == 1 else 0)
        server.gauges(running=60 - i % 2, kv=0.5)

    return run(PAGES, each)


def busy_front(
    *,
    front: float,
    took: float = 0.6,
    ttft: float = 0.3,
    late: float | None = None,
    sm: float | None = None,
    gap: float = 0.02,
) -> Window:
    """The API process takes its time with every request, in the last third another one."""

    def load(server: Server, i: int) -> None:
        mine = front if late is None or i < 9 else late
        server.serve(20, ttft=ttft, front=mine, prompt=100, gap=gap)
        server.gauges(running=3 + i % 2, kv=0.1)

    def each(apart: Beside, _: int) -> None:
        apart.set("llm_target_answer_seconds", took)
        if sm is not None:
            apart.card(sm=sm)

    found = beside(load, each)
    return changed(found, lambda k, v: took if k.name == "llm_target_answer_seconds" else v)


def slow_pages(*, late: float = 0) -> Window:
    """Pages take seconds to come, first tokens hardly any time once they are measured; few are late."""

    def load(server: Server, i: int) -> None:
        server.serve(40 - late)
        server.serve(late, ttft=6.0)
        server.gauges(running=6 + i % 2, kv=0.1)

    found = run(PAGES, load)
    return changed(found, lambda k, v: 1.5 if k.name == "llm_target_answer_seconds" else v)


# -- caches and prompts -------------------------------------------------------------------------------------------------
def alike_prompts(*, length: float = 1200, uneven: float = 0, hits: float = 0, before: float | None = None) -> Window:
    """Long prompts that miss the cache; ``before``: the share that hit before the window."""
    server = Server()
    server.facts(blocks=10_000)
    if before is not None:
        server.count("llm_prefix_cache_query_tokens_total", 100_000)
        server.count("llm_prefix_cache_hit_tokens_total", 100_000 * before)

    def each(s: Server, i: int) -> None:
        prompt = length + (uneven if i % 2 else -uneven)
        s.serve(10, ttft=3.0, prompt=prompt, output=length / 20, prefill=2.9, hits=hits * prompt)
        s.gauges(running=6 + i % 3, kv=0.3)

    return run(PAGES, each, server)


def turned_over(*, length: float = 2000, hits: float = 0) -> Window:
    """Prompts of all lengths fill the pool every few seconds, and hardly one hits; nobody is hurt."""

    def each(server: Server, i: int) -> None:
        prompt = length + (length / 5 if i % 2 else -length / 5)
        server.serve(40_000 / length, prompt=prompt, output=length / 40, tpot=0.01, prefill=0.05, hits=hits * prompt)
        server.gauges(running=3 + i % 3, kv=0.3)

    return run(PAGES, each)


def prefill_and_others(*, deferred: float = 4) -> Window:
    """Prompts fill the compute; of nine that wait, some wait for something else. Prompts are two thirds of the tokens."""
    server = Server()
    server.facts(blocks=10_000)

    def each(s: Server, i: int) -> None:
        s.first(8, ttft=6.0)
        s.gaps(8 * 199, 0.04)
        s.finish(8, prompt=400, output=200, queue=4.0, prefill=2.0, tpot=0.04)
        s.gauges(running=4 + i % 5, waiting=9, kv=0.2, deferred=deferred)

    return run(PAGES, each, server)


def stalls(*, usual: float = 0.008, stall: float = 0.8, large: float = 6000, small: float = 400) -> Window:
    """Most gaps are usual, some are stalls; the streams are slow as a whole."""

    def each(server: Server, i: int) -> None:
        server.facts(blocks=10_000)
        server.first(20, ttft=0.6)
        server.gaps(20 * 100, usual)
        server.gaps(20 * 20, stall)
        server.finish(18, prompt=small, output=121, tpot=0.14)
        server.finish(2, prompt=large, output=121, tpot=0.14, prefill=0.8)
        server.gauges(running=10 + i % 3, kv=0.3)

    return run(PAGES, each)


def mixed_sizes(
    *, large: float = 4000, small: float = 80, output: float = 21, gate: bool = False, hurt: float = 6.0
) -> Window:
    """One prompt in ten is large; everybody waits."""

    def load(s: Server, i: int) -> None:
        s.first(20, ttft=6.0)
        s.gaps(20 * (output - 1), 0.02)
        s.finish(18, prompt=small, output=output, queue=5.0, prefill=0.5)
        s.finish(2, prompt=large, output=output, queue=4.0, prefill=2.0)
        s.gauges(running=4 + i % 5, waiting=9, kv=0.02)

    if not gate:
        server = Server()
        server.facts(blocks=10_000)
        return run(PAGES, load, server)
    return fronted(load, lambda g, _: g.pass_on(small=(54, hurt), large=(6, 6.0)), blocks=10_000)


MIDDLING = ((14.8, 90), (4.0, 900), (1.2, 1300))
"""Three in four prompts are small, one in five is middling, one in seventeen large."""
MOSTLY_MIDDLING = ((10.8, 80), (8.0, 800), (1.2, 1100))
"""Two in five are middling, and bring most of the tokens: the large ones a sixth."""


def sizes_between(sizes: Sequence[tuple[float, float]] = MIDDLING) -> Window:
    """Prompts of three sizes (how many, tokens); small ones are late."""

    def load(s: Server, i: int) -> None:
        s.first(20, ttft=6.0)
        s.gaps(20 * 20, 0.02)
        for n, prompt in sizes:
            s.finish(n, prompt=prompt, output=21, queue=5.0, prefill=0.5)
        s.gauges(running=4 + i % 5, waiting=9, kv=0.02)

    return fronted(load, lambda g, _: g.pass_on(small=(56, 6.0), large=(4, 6.0)), blocks=10_000)


# -- demand ------------------------------------------------------------------------------------------------------------
def queue_of_uncounted_leavers(*, wobble: int = 0, step: float = 6) -> Window:
    """The queue grows; clients leave, and the page does not count how many: its age cannot be told."""

    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=1.0, prompt=20)
        server.count("llm_requests_finished_total", 1, reason="abort")
        server.gauges(running=6 + i % 5, waiting=step * i + (wobble if i % 2 else 0), kv=0.3)

    return without(run(PAGES, each), "llm_http_requests_total", "llm_request_n_param")


def queue_of_the_thrown_out(*, wobble: int = 0, step: float = 6) -> Window:
    """Requests that were thrown out wait again, more and more of them; nobody new waits."""
    served = 50

    def each(server: Server, i: int) -> None:
        waiting = step * i + (wobble if i % 2 else 0)
        before = server.values[server.key("llm_requests_waiting")]
        server.first(served + max(0.0, waiting - before), ttft=0.1)
        server.gaps(served * 99, 0.02)
        server.finish(served, prompt=20)
        server.count("llm_preemptions_total", 1)
        server.gauges(running=10, waiting=waiting, kv=0.5)

    return run(PAGES, each)


def nobody_is_let_in(*, step: float = 1, wobble: int = 0) -> Window:
    """Streams that hold the pool go on; nobody ends, nobody is let in, and more and more wait."""

    def each(server: Server, i: int) -> None:
        server.gaps(500, 0.04)
        server.gauges(running=12, waiting=step * i + (wobble if i % 2 else 0), kv=0.9)

    return run(PAGES, each)


def nobody_since(pages: int) -> Window:
    """The same, of late: a queue began to form so many pages of a second each before the end."""

    def each(server: Server, i: int) -> None:
        server.gaps(100, 0.04)
        server.gauges(running=12, waiting=4 * max(0, i - 60 + pages), kv=0.9)

    return run(60, each, Server(step=1.0))


def told_of_some(*, calls: float, told: float, ghosts: float) -> Window:
    """Of the clients that left, the engine was told of some; the others' calls go on. Numbers are those of the window."""

    def load(server: Server, _: int) -> None:
        server.serve((calls - told) / PAGES)
        server.first(told / PAGES)
        server.gaps(told / PAGES * 300, 0.02)
        server.answer(told / PAGES)
        server.gauges(running=10, kv=0.2)

    left = told + ghosts
    return usual(load, ok=(calls - left) / PAGES, left=left / PAGES, small=(calls / PAGES, 0.1))


def three_answers() -> Window:
    """A large batch of long streams, of which three have ended, two of them slow."""

    def each(server: Server, i: int) -> None:
        server.gaps(2000, 0.09)
        if i in {4, 8, 12}:
            server.finish(1, prompt=60, output=2000, tpot=0.04 if i == 4 else 0.09)
        server.gauges(running=60 - i % 2, kv=0.5)

    return run(PAGES, each)


def queue_before_the_engine(*, wobble: int = 0, step: float = 8) -> Window:
    """The gateway's queue grows; the engine looks well."""

    def each(gate: Gate, i: int) -> None:
        gate.pass_on()
        gate.state(waiting=step * i + (wobble if i % 2 else 0))

    return fronted(healthy, each)


def some_left(*, left: float = 15) -> Window:
    """Clients leave the gateway; the engine is never told, and goes on."""
    return usual(left=left)


def without_one_core_family() -> Window:
    """A filter has taken one of the basic families off a healthy page."""
    return without(run(PAGES, healthy), "llm_generation_tokens_total")


def a_few_late(*, late: float = 3, gate: bool = False) -> Window:
    """As many first tokens come too late as the objective just allows."""
    if gate:
        return usual(small=(CALLS - late, 0.1), large=(late, 4.0))

    def each(server: Server, _: int) -> None:
        server.serve(50 - late)
        server.serve(late, ttft=4.0)
        server.gauges(running=20, kv=0.2)

    return run(PAGES, each)


BOUNDS: Mapping[str, Callable[[], Window]] = {
    **BOUNDS_REQUESTS,
    "died just now": died_just_now,
    "some scrapes fail": some_scrapes_fail,
    "a quiet restart that a scrape met": lambda: restart(failed=True),
    "a quiet restart, slow since": lambda: restart(late=True),
    "a restart under one request": lambda: restart(inside=1),
    "a quiet restart by a probe": lambda: restart(reason="probe"),
    "refused while a queue creeps up": refused_while_a_queue_creeps_up,
    "refused at the gateway while a queue creeps up": lambda: refused_while_a_queue_creeps_up(gate_too=True),
    "one card alone waits": lambda: linked(gpus=1, use=None),
    "a large one comes next": a_large_one_comes_next,
    "a large one comes next, some wait for something else": lambda: a_large_one_comes_next(deferred=2),
    "the pool is full, all wait for something else": lambda: kv_full(deferred=5),
    "a large one comes next, all wait for something else": lambda: a_large_one_comes_next(deferred=5),
    "a larger one comes next, all wait for something else": lambda: a_large_one_comes_next(deferred=5, kv=0.85),
    "capped, some wait for something else": capped_and_mixed,
    "thrown out now and then": lambda: now_and_then_thrown_out(times=1),
    "long prompts thrown out now and then": lambda: now_and_then_thrown_out(times=1, prompt=4500),
    "few seats, a card at work": lambda: few_seats(sm=0.5),
    "few seats, long gaps": lambda: few_seats(long=15),
    "a large batch, some thrown out": lambda: large_batch(thrown=1),
    "a large batch, a few thrown out": lambda: large_batch(thrown=1, every=4),
    "a large batch, three answers": three_answers,
    "a large batch, gaps within the promise": lambda: large_batch(gap=0.04),
    "a large batch, most streams within the promise": lambda: large_batch(quick=12),
    "a slow front end": lambda: busy_front(front=0.2),
    "a slow front end and long gaps": lambda: busy_front(front=0.8, ttft=0.9, gap=0.4),
    "a front end that became slow": lambda: busy_front(front=0.6, took=0.03, ttft=6.0, late=1.4),
    "a slow front end, a card at work": lambda: busy_front(front=0.8, ttft=0.9, sm=0.8),
    "slow pages, few late": lambda: slow_pages(late=1),
    "short prompts alike": lambda: alike_prompts(length=150),
    "shorter prompts alike": lambda: alike_prompts(length=300),
    "prompts nearly alike": lambda: alike_prompts(uneven=6),
    "prompts less alike": lambda: alike_prompts(uneven=12),
    "prompts that hit before": lambda: alike_prompts(before=0.5),
    "prompts that hardly hit before": lambda: alike_prompts(before=0.07),
    "prompts that hit at times before": lambda: alike_prompts(before=0.15),
    "shorter prompts turned over": lambda: turned_over(length=300),
    "a pool turned over, few hits": lambda: turned_over(hits=0.07),
    "a pool turned over, more hits": lambda: turned_over(hits=0.15),
    "prefill, some wait for something else": prefill_and_others,
    "stalls of streams that are slow anyway": lambda: stalls(usual=0.06),
    "stalls of streams of middling pace": lambda: stalls(usual=0.03),
    "short stalls": lambda: stalls(usual=0.008, stall=0.09),
    "shorter stalls": lambda: stalls(usual=0.02, stall=0.09),
    "stalls by prompts of middling length": lambda: stalls(large=700),
    "sizes that differ less": lambda: mixed_sizes(large=1200, small=190),
    "large ones of middling length": lambda: mixed_sizes(large=700),
    "large ones, not very": lambda: mixed_sizes(large=1500),
    "sizes between": sizes_between,
    "sizes between, middling ones are the load": lambda: sizes_between(MOSTLY_MIDDLING),
    "small ones, very": lambda: mixed_sizes(large=700, small=40),
    "no limit, and answers are short": lambda: unbounded_output(long=300),
    "sizes differ, answers are long": lambda: mixed_sizes(output=900),
    "small ones late at the gateway": lambda: mixed_sizes(gate=True),
    "small ones late at the gateway, answers are long": lambda: mixed_sizes(gate=True, output=700),
    "large ones of middling length at the gateway": lambda: mixed_sizes(gate=True, large=1100, small=190),
    "a queue of uncounted leavers": queue_of_uncounted_leavers,
    "a wavering queue of uncounted leavers": lambda: queue_of_uncounted_leavers(wobble=30),
    "a queue of the thrown out": queue_of_the_thrown_out,
    "a wavering queue of the thrown out": lambda: queue_of_the_thrown_out(wobble=30),
    "nobody is let in": nobody_is_let_in,
    "nobody is let in, and some give up waiting": lambda: nobody_is_let_in(wobble=6),
    "nobody is let in, since two seconds": lambda: nobody_since(3),
    "nobody is let in, since three seconds": lambda: nobody_since(4),
    "a wavering queue before the engine": lambda: queue_before_the_engine(wobble=40),
    "some left": some_left,
    "told of some, few calls": lambda: told_of_some(calls=40, told=14, ghosts=8),
    "told of some": lambda: told_of_some(calls=100, told=45, ghosts=15),
    "a few left": lambda: some_left(left=8),
    "a core family is filtered out": without_one_core_family,
    "a few late": a_few_late,
    "a few late at the gateway": lambda: a_few_late(gate=True),
    "mostly bad requests": mostly_bad_requests,
    "a few answers nobody counts": lambda: contradicting(answers=0.5),
    "some answers nobody counts": lambda: contradicting(answers=1),
    "adapters wait and hurt nobody": lambda: adapter_slots(hurt=False),
    "adapter slots taken at times": slots_taken_at_times,
    "three bursts of preemptions": three_bursts,
    "three bursts of preemptions of long prompts": lambda: three_bursts(prompt=4500),
    "the last eighth of the pool": eighths,
    "a long but quick queue": long_but_quick_queue,
    "one of many tenants, others wait": lambda: one_of_many_tenants(wait=4.0),
    "one of many tenants, users wait": lambda: one_of_many_tenants(ttft=4.0),
    "one of many tenants, others refused": lambda: one_of_many_tenants(refused=6),
}
