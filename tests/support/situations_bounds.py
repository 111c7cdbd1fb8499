"""Windows near a bound: not a cause's best example, nor its usual look-alike, but what a bound of the table decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmvitals.series import Window
from support.made import Server, healthy, run
from support.situation import PAGES
from support.situations import adapter_slots
from support.situations_gateway import CALLS, Gate


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


BOUNDS: Mapping[str, Callable[[], Window]] = {
    "mostly bad requests": mostly_bad_requests,
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
