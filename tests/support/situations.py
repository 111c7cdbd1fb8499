"""One made window for each cause that a page can show, and its look-alikes: what must not be called by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmvitals.series import Window
from support.made import Server, healthy, run, without
from support.situation import PAGES, Situation, merged
from support.situations_gateway import GATEWAY, WELL_GATEWAY
from support.situations_hardware import HARDWARE, WELL_HARDWARE, api_process
from support.situations_hardware import restarted as ended
from support.situations_requests import REQUESTS, WELL_REQUESTS


# -- 0: is it serving -------------------------------------------------------------------------------------------------
def died() -> Window:
    server = Server()
    for i in range(8):
        healthy(server, i)
        server.page()
    for _ in range(4):
        server.fail()
    return server.window()


def failing_silently() -> Window:
    def each(server: Server, _: int) -> None:
        server.answer(20, "5xx")

    return run(PAGES, each)


def stalled() -> Window:
    server = Server()
    for i in range(8):
        healthy(server, i)
        server.page()
    for _ in range(6):
        server.page()
    return server.window()


def stalled_empty() -> Window:
    """Nothing inside the engine; connections pile up in the API process."""

    def each(server: Server, i: int) -> None:
        server.set("llm_process_open_fds", 50 + 4 * i)

    server = Server()
    server.serve(100)
    return run(PAGES, each, server)


def idle() -> Window:
    server = Server()
    server.serve(100)
    return run(PAGES, lambda s, _: s.gauges(), server)


def long_prefill_step() -> Window:
    """Every few pages one step takes 10 s: nothing moves meanwhile, then all that waited comes."""

    def each(server: Server, i: int) -> None:
        if i % 3 == 0:
            server.serve(20, ttft=0.9, prompt=4000, prefill=0.8)
        server.gauges(running=4, kv=0.4)

    return run(PAGES, each)


def one_refused_scrape() -> Window:
    server = Server()
    for i in range(13):
        healthy(server, i)
        if i == 6:
            server.fail()
        else:
            server.page()
    return server.window()


def some_5xx() -> Window:
    def each(server: Server, i: int) -> None:
        healthy(server, i)
        server.answer(5, "5xx")

    return run(PAGES, each)


def shedding(*, refused: float = 30) -> Window:
    def each(server: Server, _: int) -> None:
        server.serve(50, ttft=0.5)
        server.gauges(running=20, waiting=2, kv=0.3)
        server.count("llm_requests_rejected_total", refused, reason="max_num_queued_reqs")
        server.answer(refused, "5xx")

    return run(PAGES, each)


def a_few_refused() -> Window:
    return shedding(refused=1)


# -- 7: what passes, restarts -----------------------------------------------------------------------------------------
def cold_start(*, age: float = 5, late_until: int = 5, waiting_end: float = 0) -> Window:
    def each(server: Server, i: int) -> None:
        slow = i <= late_until
        server.serve(10, ttft=8.0 if slow else 0.1, front=7.0 if slow else 0.01)
        server.gauges(running=4, waiting=waiting_end if i == PAGES else 0, kv=0.1)

    return run(PAGES, each, Server(age=age))


def just_started_and_well() -> Window:
    return run(PAGES, healthy, Server(age=5))


def slow_all_along_after_start() -> Window:
    return cold_start(late_until=PAGES)


def restarted() -> Window:
    server = Server()
    for i in range(6):
        healthy(server, i)
        server.page()
    server.fail()
    server.restart()
    for i in range(7):
        healthy(server, i)
        server.page()
    return server.window()


def restarted_and_slow() -> Window:
    """A new process between two scrapes, none of which failed; the streams it cut come back all at once."""
    server = Server()
    for i in range(6):
        healthy(server, i)
        server.page()
    server.restart()
    for _ in range(7):
        server.serve(20, ttft=6.0)
        server.gauges(running=20, kv=0.3)
        server.page()
    return server.window()


def restarted_before_the_window() -> Window:
    return run(PAGES, healthy, Server(age=300))


# -- 5: waits that are not for capacity -------------------------------------------------------------------------------
def adapter_slots(*, busy: float = 1, deferred: float = 6, hurt: bool = True) -> Window:
    def each(server: Server, _: int) -> None:
        server.set("llm_lora_slots", 1)
        server.set("llm_lora_running_adapters", busy)
        server.serve(10, ttft=6.0 if hurt else 0.2, queue=5.8 if hurt else 0.1)
        server.gauges(running=4, waiting=6, deferred=deferred, kv=0.2)

    server = Server()
    server.set("llm_lora_slots", 1)
    server.set("llm_lora_running_adapters", 0)
    return run(PAGES, each, server)


def grammar(*, hurt: bool = True, deferred: float = 6) -> Window:
    def each(server: Server, _: int) -> None:
        server.serve(10, ttft=6.0 if hurt else 0.2, queue=5.8 if hurt else 0.1)
        server.gauges(running=4, waiting=6, deferred=deferred, kv=0.2)

    return run(PAGES, each)


# -- 1: memory --------------------------------------------------------------------------------------------------------
def thrash() -> Window:
    """Ten answers of 900 tokens finish in an interval, four are thrown out and done again."""

    def each(server: Server, i: int) -> None:
        server.serve(10, ttft=5.0, prompt=150, output=900, tpot=0.03, queue=4.0)
        server.count("llm_preemptions_total", 4)
        server.gauges(running=14 + i % 2, waiting=8, kv=0.98)

    return run(PAGES, each)


def one_burst_of_preemptions() -> Window:
    def each(server: Server, i: int) -> None:
        healthy(server, i)
        server.count("llm_preemptions_total", 90 if i == 5 else 0)
        server.gauges(running=20, kv=0.98 if i == 5 else 0.6)

    return run(PAGES, each)


def kv_full(*, waiting: float = 5, ttft: float = 6.0, deferred: float = 0) -> Window:
    def each(server: Server, i: int) -> None:
        server.serve(10, ttft=ttft, prompt=3000, output=200, queue=ttft - 0.4, prefill=0.4, max_tokens=500, front=0.01)
        server.gauges(running=5 - i % 2, waiting=waiting, kv=0.97, deferred=deferred)

    return run(PAGES, each)


def capped_where_the_pool_ends(*, kv: float = 0.6, served: float = 20) -> Window:
    """Eight seats in a pool of 2,560 tokens; a request grows to 304, so a ninth would be thrown out later."""
    server = Server()
    server.facts(blocks=160)

    def each(s: Server, _: int) -> None:
        s.serve(served, ttft=6.0, queue=5.8)
        s.gauges(running=8, waiting=9, kv=kv)

    return run(PAGES, each, server)


def capped_far_from_the_pools_end() -> Window:
    """The same seats, but what runs holds 30 %: at twice as long the pool would not be full."""
    return capped_where_the_pool_ends(kv=0.3, served=5)


def kv_high_nobody_waits() -> Window:
    return kv_full(waiting=0, ttft=0.5)


def fragmentation(*, block: float = 256) -> Window:
    """Short chats in large blocks: 20 of 250 tokens hold 95 % of a pool of 32,000 tokens."""
    server = Server()
    server.facts(blocks=125, block=block)

    def each(s: Server, i: int) -> None:
        s.serve(20, ttft=6.0, prompt=40, output=20, queue=5.9, prefill=0.05)
        s.gauges(running=110 + i % 2, waiting=9, kv=0.96)

    return run(PAGES, each, server)


def context_imbalance() -> Window:
    """A pool of two contexts of 8,192 tokens, for chats that need 300."""
    return kv_full_short(longest=8192)


def kv_full_short(*, longest: float) -> Window:
    server = Server()
    server.facts(longest=longest)

    def each(s: Server, i: int) -> None:
        s.serve(30, ttft=6.0, queue=5.8)
        s.gauges(running=60 + i % 2, waiting=8, kv=0.97)

    return run(PAGES, each, server)


def context_in_proportion() -> Window:
    return kv_full_short(longest=512)


def preemption_mode(*, prompt: float = 4500) -> Window:
    def each(server: Server, i: int) -> None:
        server.serve(10, ttft=6.0, prompt=prompt, output=200, queue=5.0, prefill=0.9)
        server.count("llm_preemptions_total", 3)
        server.gauges(running=3 + i % 2, waiting=6, kv=0.98)

    return run(PAGES, each)


# -- 2: batch ---------------------------------------------------------------------------------------------------------
def batch_too_small(*, kv: float = 0.1, waiting: float = 12, gap: float = 0.02, prompt: float = 100) -> Window:
    def each(server: Server, _: int) -> None:
        server.serve(20, ttft=8.0, queue=7.9, gap=gap, prompt=prompt, output=200)
        server.gauges(running=8, waiting=waiting, kv=kv)

    return run(PAGES, each)


def batch_too_large(*, running: float = 60, tpot: float = 0.09, prompt: float = 60) -> Window:
    def each(server: Server, i: int) -> None:
        server.serve(20, tpot=tpot, prompt=prompt, output=200)
        server.gauges(running=running - i % 2, kv=0.5)

    return run(PAGES, each)


def interference(*, ttft: float = 0.6, stalls: float = 20, waiting: float = 0) -> Window:
    """Most gaps are 8 ms; a few per request are 0.8 s because a whole long prompt shared the step."""

    def each(server: Server, i: int) -> None:
        server.facts(blocks=10_000)
        server.first(20, ttft=ttft)
        server.gaps(20 * 100, 0.008)
        server.gaps(20 * stalls, 0.8)
        server.finish(18, prompt=300 + 100 * (i % 3), output=121, tpot=0.14)
        server.finish(2, prompt=6000, output=121, tpot=0.14, prefill=0.8)
        server.gauges(running=10 + i % 3, waiting=waiting, kv=0.3)

    return run(PAGES, each)


def prefill_bound(*, prompt: float = 4000, deferred: float = 0) -> Window:
    server = Server()
    server.facts(blocks=10_000)

    def each(s: Server, i: int) -> None:
        s.first(8, ttft=6.0)
        s.gaps(8 * 20, 0.4)
        s.finish(8, prompt=prompt, output=21, queue=4.0, prefill=2.0, tpot=0.4)
        s.gauges(running=4 + i % 5, waiting=9, kv=0.2, deferred=deferred)

    return run(PAGES, each, server)


def drafts(*, accepted: float = 20, tpot: float = 0.09, ttft: float = 0.1) -> Window:
    def each(server: Server, i: int) -> None:
        server.count("llm_spec_draft_tokens_total", 100)
        server.count("llm_spec_accepted_tokens_total", accepted)
        server.serve(20, tpot=tpot, ttft=ttft, prompt=60, output=200)
        server.gauges(running=6 - i % 2, kv=0.3)

    server = Server()
    server.count("llm_spec_draft_tokens_total", 0)
    server.count("llm_spec_accepted_tokens_total", 0)
    return run(PAGES, each, server)


def head_of_line() -> Window:
    server = Server()
    server.facts(blocks=10_000)

    def each(s: Server, i: int) -> None:
        s.first(20, ttft=6.0)
        s.gaps(20 * 20, 0.4)
        s.finish(18, prompt=80, output=21, queue=5.0, prefill=0.5, tpot=0.4)
        s.finish(2, prompt=4000, output=21, queue=4.0, prefill=2.0, tpot=0.4)
        s.gauges(running=4 + i % 5, waiting=9, kv=0.2)

    return run(PAGES, each, server)


# -- 3: caches --------------------------------------------------------------------------------------------------------
def caching_off(*, caching: float = 0, prompt: float = 1200, output: float = 60) -> Window:
    server = Server()
    server.facts(blocks=10_000, caching=caching)

    def each(s: Server, i: int) -> None:
        s.serve(10, ttft=3.0, prompt=prompt, output=output, prefill=2.9, max_tokens=100)
        if not caching:
            for name in ("query", "hit"):
                s.values[s.key(f"llm_prefix_cache_{name}_tokens_total")] = 0.0
        s.gauges(running=6 + i % 3, kv=0.3)

    return run(PAGES, each, server)


def prefix_miss(*, hits: float = 0.0, uneven: float = 0.0) -> Window:
    server = Server()
    server.facts(blocks=10_000)

    def each(s: Server, i: int) -> None:
        prompt = 1200 + (uneven if i % 2 else -uneven)
        s.serve(10, ttft=3.0, prompt=prompt, output=60, prefill=2.9, hits=hits * prompt)
        s.gauges(running=6 + i % 3, kv=0.3)

    return run(PAGES, each, server)


def evicted(*, ttft: float = 3.0) -> Window:
    """Prompts of all lengths fill the pool every 1.8 s: nothing survives until it is asked for again."""

    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=ttft, prompt=2000 + (400 if i % 2 else -400), output=60, prefill=0.3)
        server.gauges(running=3 + i % 3, kv=0.3)

    return run(PAGES, each)


# -- 4, 5: network, the process in front ------------------------------------------------------------------------------
def kv_transfer(*, seconds: float = 2.0, ttft: float = 3.5, failures: float = 0) -> Window:
    def each(server: Server, i: int) -> None:
        server.observe("llm_kv_transfer_seconds", seconds, 10, connector="nixl")
        server.count("llm_kv_transfer_failures_total", failures, connector="nixl")
        server.serve(10, ttft=ttft, prompt=100)
        server.gauges(running=5 + i % 2, kv=0.3)

    server = Server()
    server.observe("llm_kv_transfer_seconds", 0.0, 0, connector="nixl")
    server.count("llm_kv_transfer_failures_total", 0, connector="nixl")
    return run(PAGES, each, server)


def api_server(*, front: float = 0.8, took: float = 0.6, waiting: float = 0, ttft: float = 0.9) -> Window:
    server = Server()
    server.page(took=took)
    for i in range(PAGES):
        server.serve(20, ttft=ttft, front=front, prompt=100, queue=3.0 if waiting else 0.0)
        server.gauges(running=3 + i % 2, waiting=waiting, kv=0.1)
        server.page(took=took)
    return server.window()


def one_slow_page() -> Window:
    server = Server()
    for i in range(PAGES):
        healthy(server, i)
        server.page(took=4.5 if i == 7 else 0.03)
    return server.window()


# -- 6: demand --------------------------------------------------------------------------------------------------------
def growing_queue() -> Window:
    """20 requests more arrive in each interval than are served; the batch is neither full nor idle, prompts are short."""

    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=0.1 + 0.8 * i, queue=0.8 * i, prompt=20, gap=0.3)
        server.gauges(running=6 + i % 5, waiting=20 * i, kv=0.3)

    return run(PAGES, each)


def burst_that_drains() -> Window:
    queue = [0, 0, 60, 50, 40, 30, 20, 10, 0, 0, 0, 0, 0, 0, 0]

    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=1.5 if queue[i] else 0.1, prompt=20)
        server.gauges(running=8 - i % 3, waiting=queue[i], kv=0.3)

    return run(PAGES, each)


def ghosts(*, left: float = 15, finished: float = 10) -> Window:
    def each(server: Server, _: int) -> None:
        server.serve(finished)
        server.first(left)
        server.gaps(left * 300, 0.02)
        server.answer(left)
        server.gauges(running=10, kv=0.2)

    return run(PAGES, each)


def long_requests_still_running() -> Window:
    """Much is generated that has not finished yet; nobody left."""

    def each(server: Server, i: int) -> None:
        server.serve(2)
        server.first(4)
        server.gaps(4 * 300 * i, 0.02)
        server.gauges(running=4 * i, kv=0.05 * i)

    return run(PAGES, each)


def unbounded_output(*, max_tokens: float = 8000, long: float = 1500) -> Window:
    def each(server: Server, _: int) -> None:
        server.serve(45, output=60, max_tokens=100)
        server.serve(5, output=long, max_tokens=max_tokens)
        server.gauges(running=12, kv=0.3)

    return run(PAGES, each)


def long_answers_asked_for() -> Window:
    return unbounded_output(max_tokens=2000)


# -- 0 again: telemetry -----------------------------------------------------------------------------------------------
def half_the_scrapes_fail() -> Window:
    server = Server()
    for i in range(16):
        healthy(server, i)
        if i % 3 == 1:
            server.fail()
        else:
            server.page()
    return server.window()


def two_behind_one_address() -> Window:
    """Two healthy servers, of unlike age and traffic, whose pages come in turns from one address."""
    old, new = run(2 * PAGES, healthy), run(2 * PAGES, healthy, Server(age=600.0))
    pairs = zip(old.snapshots, new.snapshots, strict=True)
    return Window.of(pair[i % 3 == 2] for i, pair in enumerate(pairs))


def contradicting(*, answers: float = 20) -> Window:
    def each(server: Server, _: int) -> None:
        server.answer(answers)
        server.count("llm_process_cpu_seconds_total", 1)

    server = Server()
    server.serve(100)
    return run(PAGES, each, server)


def high_load_and_well() -> Window:
    """A large batch in a pool that is nearly full, all promises kept, a request waiting now and then."""

    def each(server: Server, i: int) -> None:
        server.serve(200, ttft=0.6, tpot=0.04, queue=0.1)
        server.gauges(running=120 - i % 4, waiting=3 if i % 4 == 0 else 0, kv=0.9)

    server = Server()
    server.facts(blocks=3000)
    return run(PAGES, each, server)


ENGINE: tuple[Situation, ...] = (
    Situation(
        "not-serving",
        {"died": died, "5xx only": failing_silently, "stalled": stalled, "stalled while empty": stalled_empty},
        {
            "idle": idle,
            "a long prefill step": long_prefill_step,
            "one refused scrape": one_refused_scrape,
            "some 5xx beside good answers": some_5xx,
        },
    ),
    Situation("overloaded-and-shedding", {"refused": shedding}, {"a few refused": a_few_refused}),
    Situation(
        "cold-start",
        {"slow first requests": cold_start},
        {
            "just started and well": just_started_and_well,
            "slow all along": slow_all_along_after_start,
            "old process": lambda: cold_start(age=3600),
            "a queue at the end": lambda: cold_start(waiting_end=9),
        },
    ),
    Situation(
        "rollout-and-probes",
        {
            "restarted": restarted,
            "restarted between two scrapes": restarted_and_slow,
            "rolled out": lambda: ended("rollout", free=0.2),
            "a probe killed it": lambda: ended("probe", free=0.2, failed=False),
        },
        {
            "restarted before the window": restarted_before_the_window,
            "one refused scrape": one_refused_scrape,
            "crashed": lambda: ended("error", free=0.2),
        },
    ),
    Situation(
        "adapter-slots",
        {"one slot": adapter_slots},
        {
            "grammar": grammar,
            "a free slot": lambda: adapter_slots(busy=0),
            "capacity": lambda: adapter_slots(deferred=0),
        },
    ),
    Situation(
        "grammar-compilation",
        {"deferred": grammar},
        {
            "adapter slots": adapter_slots,
            "cheap schemas": lambda: grammar(hurt=False),
            "waiting for capacity": lambda: grammar(deferred=0),
        },
    ),
    Situation("preemption-thrash", {"sustained": thrash}, {"one burst": one_burst_of_preemptions, "full": kv_full}),
    Situation(
        "block-fragmentation",
        {"large blocks": fragmentation},
        {"long contexts really held": kv_full},
    ),
    Situation(
        "kv-cache-saturation",
        {"full": kv_full, "full and waiting for it": lambda: kv_full(deferred=5), "capped": capped_where_the_pool_ends},
        {
            "full and nobody waits": kv_high_nobody_waits,
            "thrash": thrash,
            "too few seats": batch_too_small,
            "capped in a pool half empty": capped_far_from_the_pools_end,
        },
    ),
    Situation(
        "context-imbalance",
        {"two contexts in the pool": context_imbalance},
        {"in proportion": context_in_proportion},
    ),
    Situation(
        "preemption-mode",
        {"long prompts": preemption_mode},
        {"short prompts": lambda: preemption_mode(prompt=300), "no preemption": kv_full},
    ),
    Situation(
        "batch-too-small",
        {"eight seats": batch_too_small},
        {
            "KV full": kv_full,
            "long steps": lambda: batch_too_small(gap=0.6),
            "nobody waits": lambda: batch_too_small(waiting=0),
            "prefill is the work": lambda: batch_too_small(prompt=1500),
            "API process": api_server,
        },
    ),
    Situation(
        "batch-too-large",
        {"every token slow": batch_too_large},
        {
            "prefills between": interference,
            "few running": lambda: batch_too_large(running=4),
            "inside the target": lambda: batch_too_large(tpot=0.04),
            "prompts dominate": lambda: batch_too_large(prompt=2000),
        },
    ),
    Situation(
        "api-server-bound",
        {
            "slow pages": lambda: api_server(ttft=3.0, front=1.5),
            "residual of the target's size": lambda: api_server(front=2.5, took=0.05, ttft=2.9),
            "stalls before it measures": lambda: api_server(front=0.05, took=1.2, ttft=0.1),
            "a thread at one core": api_process,
            "held by its quota": lambda: api_process(thread=0.5, held=0.5),
        },
        {
            "the engine's own queue": lambda: api_server(waiting=6, ttft=4.0),
            "one slow page": one_slow_page,
            "idle": idle,
            "a busy thread and a busy GPU": lambda: api_process(sm=0.9),
            "room on the CPU": lambda: api_process(thread=0.3),
        },
    ),
    Situation(
        "kv-transfer-bound",
        {"slow": kv_transfer, "failing": lambda: kv_transfer(seconds=0.02, failures=1)},
        {
            "fast transfers": lambda: kv_transfer(seconds=0.02),
            "slow and nobody hurt": lambda: kv_transfer(ttft=0.2),
        },
    ),
    Situation(
        "prefix-caching-off",
        {"off": caching_off},
        {
            "on and missing": lambda: caching_off(caching=1),
            "short prompts": lambda: caching_off(prompt=100),
            "decode dominates": lambda: caching_off(output=2000),
        },
    ),
    Situation(
        "prefix-cache-miss",
        {"same length, never a hit": prefix_miss, "evicted": evicted},
        {
            "hits": lambda: prefix_miss(hits=0.6),
            "prompts of all lengths": lambda: prefix_miss(uneven=600),
            "switched off": caching_off,
        },
    ),
    Situation(
        "prefill-bound",
        {"long prompts wait": prefill_bound},
        {
            "running streams suffer, nobody waits": interference,
            "the seats are the cap": batch_too_small,
            "KV is full": kv_full,
            "deferred": grammar,
        },
    ),
    Situation(
        "prefill-decode-interference",
        {"long gaps": interference},
        {
            "slow for all": batch_too_large,
            "everybody waits": prefill_bound,
        },
    ),
    Situation(
        "draft-rejected",
        {"slow tokens": drafts, "slow first tokens": lambda: drafts(tpot=0.02, ttft=4.0)},
        {"most accepted": lambda: drafts(accepted=80), "nobody hurt": lambda: drafts(tpot=0.02)},
    ),
    Situation("head-of-line-blocking", {"mixed lengths": head_of_line}, {"one length": prefill_bound}),
    Situation(
        "unbounded-queue",
        {"growing": growing_queue},
        {"a burst that drains": burst_that_drains, "a standing queue": kv_full},
    ),
    Situation(
        "ghost-compute",
        {"clients leave": ghosts},
        {"long requests under way": long_requests_still_running, "a few leave": lambda: ghosts(left=1, finished=30)},
    ),
    Situation(
        "unbounded-output",
        {"no max_tokens": unbounded_output},
        {"long answers asked for": long_answers_asked_for, "all of one length": lambda: unbounded_output(long=60)},
    ),
    Situation(
        "telemetry-broken",
        {
            "scrapes fail": half_the_scrapes_fail,
            "answers nobody counts": contradicting,
            "two servers take turns": two_behind_one_address,
            "basic families absent": lambda: without(
                run(PAGES, healthy), "llm_generation_tokens_total", "llm_requests_finished_total"
            ),
        },
        {"one refused scrape": one_refused_scrape, "idle": idle},
    ),
)

SITUATIONS = merged(ENGINE, HARDWARE, GATEWAY, REQUESTS)

WELL: Mapping[str, Callable[[], Window]] = {
    "moderate load": lambda: run(PAGES, healthy),
    "high load": high_load_and_well,
    "KV full and nobody waits": kv_high_nobody_waits,
    "a burst that drains": burst_that_drains,
    "one burst of preemptions": one_burst_of_preemptions,
    "one refused scrape": one_refused_scrape,
    "just started": just_started_and_well,
    "long steps": long_prefill_step,
    "cheap schemas": lambda: grammar(hurt=False),
    "long requests under way": long_requests_still_running,
    "evicted prefixes": lambda: evicted(ttft=0.3),
    "slow KV transfers": lambda: kv_transfer(ttft=0.2),
    **WELL_HARDWARE,
    **WELL_GATEWAY,
    **WELL_REQUESTS,
}
"""Windows in which nobody is hurt."""
