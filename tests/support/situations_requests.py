"""Windows with traces and probes: causes that requests told one by one show, classes that are hurt, and their look-alikes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llmvitals.series import Window
from support.made import Server, healthy, run
from support.situation import PAGES, Situation
from support.situations_gateway import all_large, all_small, mixed
from support.situations_hardware import Beside, idle

EDGES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
PROMISES: Mapping[str, tuple[float, float, float]] = {"default": (2.0, 0.05, 0.95)}
"""A class: seconds to the first token, seconds per token, and the share that must meet both."""


class Traces(Beside):
    """What traces tell of a made server's requests, as the exporter counts them. All that is told is there from the start."""

    def __init__(
        self,
        server: Server,
        *,
        vantage: str = "engine",
        promises: Mapping[str, tuple[float, float, float]] = PROMISES,
        whole: float | None = None,
    ) -> None:
        super().__init__(server)
        self.vantage, self.promises, self.whole = vantage, promises, whole
        for name, (ttft, tpot, share) in promises.items():
            self.set("llm_slo_objective_ratio", share, slo_class=name)
            limits = {"ttft": ttft, "tpot": tpot} | ({} if whole is None else {"e2e": whole})
            for objective, seconds in limits.items():
                self.set("llm_slo_threshold_seconds", seconds, slo_class=name, objective=objective)
            for objective in (*limits, "failed"):
                self.add("llm_slo_missed_total", 0, name, objective=objective)
            for met in ("yes", "no", "unknown"):
                self.add("llm_slo_requests_total", 0, name, met=met)
            for ended in ("ok", "error", "refused", "client-error", "left"):
                self.add("llm_span_requests_total", 0, name, ended=ended)
            if vantage == "engine":
                for part in ("queue", "prefill", "decode"):
                    self.observe(f"llm_span_{part}_seconds", 0.0, 0, slo_class=name)
                self.around(0, 0.0, name)

    def add(self, family: str, amount: float, name: str, **labels: str) -> None:
        """A counter of a class goes up."""
        self.count(family, amount, model="m", slo_class=name, vantage=self.vantage, **labels)

    def observe(self, family: str, value: float, times: float, **labels: str) -> None:
        """A histogram sees a value so many times."""
        for edge in (*EDGES, math.inf):
            le = "+Inf" if math.isinf(edge) else f"{edge:g}"
            self.count(f"{family}_bucket", times if value <= edge else 0, model="m", le=le, **labels)
        self.count(f"{family}_sum", value * times, model="m", **labels)
        self.count(f"{family}_count", times, model="m", **labels)

    def tell(
        self,
        n: float,
        name: str = "default",
        *,
        ttft: float = 0.1,
        tpot: float = 0.02,
        e2e: float = 2.0,
        queue: float = 0.0,
        prefill: float = 0.1,
        size: str = "small",
    ) -> None:
        """``n`` requests of a class ended well, and their spans came."""
        limits = self.promises[name]
        missed = {
            "ttft": ttft > limits[0],
            "tpot": tpot > limits[1],
            "e2e": self.whole is not None and e2e > self.whole,
        }
        self.add("llm_slo_requests_total", n, name, met="no" if any(missed.values()) else "yes")
        self.add("llm_span_requests_total", n, name, ended="ok")
        for objective, late in missed.items():
            if late:
                self.add("llm_slo_missed_total", n, name, objective=objective)
        seen = {"slo_class": name, "vantage": self.vantage}
        self.observe("llm_span_ttft_seconds", ttft, n, size=size, **seen)
        self.observe("llm_span_tpot_seconds", tpot, n, **seen)
        self.observe("llm_span_e2e_seconds", e2e, n, **seen)
        if self.vantage == "engine":
            for part, seconds in (("queue", queue), ("prefill", prefill), ("decode", 1.0)):
                self.observe(f"llm_span_{part}_seconds", seconds, n, slo_class=name)
        self.newest()

    def fail(self, n: float, name: str = "default", ended: str = "error") -> None:
        """``n`` requests of a class failed, and their spans came."""
        self.add("llm_slo_requests_total", n, name, met="no")
        self.add("llm_slo_missed_total", n, name, objective="failed")
        self.add("llm_span_requests_total", n, name, ended=ended)
        self.newest()

    def around(self, n: float, seconds: float, name: str = "default", parent: str = "gateway") -> None:
        """The spans of ``n`` requests' callers came: what was around the engine."""
        self.observe("llm_span_frontend_seconds", seconds, n, slo_class=name, parent=parent)

    def newest(self) -> None:
        """The newest request ended a second before the next page."""
        self.set("llm_span_last_end_seconds", self.server.t + self.server.step - 1, vantage=self.vantage)


class Probes(Beside):
    """Small requests from outside. All that is counted is there from the start."""

    def __init__(self, server: Server, *outcomes: str) -> None:
        super().__init__(server)
        for outcome in ("ok", *outcomes):
            self.ended(0, outcome)
        for part in ("ttft", "tpot", "e2e"):
            self.seen(part, 0.0, 0)

    def ended(self, n: float, outcome: str = "ok") -> None:
        """``n`` probes ended so."""
        self.count("llm_probe_requests_total", n, model="m", outcome=outcome)

    def seen(self, part: str, seconds: float, n: float = 1) -> None:
        """``n`` probes took so long."""
        family = f"llm_probe_{part}_seconds"
        for edge in (*EDGES, math.inf):
            le = "+Inf" if math.isinf(edge) else f"{edge:g}"
            self.count(f"{family}_bucket", n if seconds <= edge else 0, model="m", le=le)
        self.count(f"{family}_sum", seconds * n, model="m")
        self.count(f"{family}_count", n, model="m")

    def well(self, n: float = 1, *, ttft: float = 0.1, tpot: float = 0.02) -> None:
        """``n`` probes were answered."""
        self.ended(n)
        for part, seconds in (("ttft", ttft), ("tpot", tpot), ("e2e", ttft + 15 * tpot)):
            self.seen(part, seconds, n)


def traced(
    each: Callable[[Server, Traces, int], None],
    server: Server | None = None,
    *,
    vantage: str = "engine",
    promises: Mapping[str, tuple[float, float, float]] = PROMISES,
    whole: float | None = None,
    took: float = 0.03,
    pages: int = PAGES,
) -> Window:
    """A window of a server whose requests are told one by one; its page takes ``took`` seconds to come."""
    server = server or Server()
    told = Traces(server, vantage=vantage, promises=promises, whole=whole)
    server.page(took=took)
    for i in range(1, pages + 1):
        each(server, told, i)
        server.page(took=took)
    return server.window()


def probed(load: Callable[[Server, int], None], each: Callable[[Probes, int], None], *outcomes: str) -> Window:
    """A window of a server under ``load`` that is probed, too."""
    server = Server()
    probes = Probes(server, *outcomes)

    def both(s: Server, i: int) -> None:
        load(s, i)
        each(probes, i)

    return run(PAGES, both, server)


# -- not-serving ------------------------------------------------------------------------------------------------------
def nobody_answers(*, outcome: str = "500", load: Callable[[Server, int], None] = idle, every: int = 1) -> Window:
    """No user asks, the page looks idle, and no probe gets an answer; all of them do but each ``every``-th, for 2 and more."""

    def each(probes: Probes, i: int) -> None:
        if i % every:
            probes.well()
        else:
            probes.ended(1, outcome)

    return probed(load, each, outcome)


def some_probes_fail(*, failed: int, well: int) -> Window:
    """So many of the probes fail on an idle server."""

    def each(probes: Probes, i: int) -> None:
        if i <= failed:
            probes.ended(1, "unreachable")
        elif i <= failed + well:
            probes.well()

    return probed(idle, each, "unreachable")


# -- api-server-bound -------------------------------------------------------------------------------------------------
def around_the_engine(
    *,
    front: float = 2.5,
    took: float = 0.6,
    prefill: float = 0.1,
    gap: float = 0.02,
    waiting: int = 0,
    asked: bool = True,
) -> Window:
    """Callers wait around the engine; the engine's own clock starts late and holds none of it. A request waits on ``waiting`` of
    each ten pages.
    """
    server = Server()
    told, callers = Traces(server), Traces(server, vantage="gateway")
    server.page(took=took)
    for i in range(PAGES):
        server.serve(20, ttft=0.15, prompt=100, gap=gap, front=0.01, prefill=prefill)
        server.gauges(running=3 + i % 2, waiting=float(i % 10 < waiting), kv=0.1)
        told.tell(20, ttft=0.15, prefill=prefill)
        callers.tell(20, ttft=front + 0.15)
        if asked:
            told.around(20, front)
        server.page(took=took)
    return server.window()


def busy_and_traced(*, front: float, ttft: float = 0.9) -> Window:
    """A front end that is slow by its own page, and how long callers waited around the engine."""

    def each(server: Server, told: Traces, i: int) -> None:
        server.serve(20, ttft=ttft, front=0.8, prompt=100)
        server.gauges(running=3 + i % 2, kv=0.1)
        told.tell(20, ttft=ttft)
        told.around(20, front)

    return traced(each, took=0.6)


def busy_and_probed(*, ttft: float, inside: float = 0.2) -> Window:
    """A front end that is slow by its own page, and how long a probe waits for its first token."""
    server = Server()
    probes = Probes(server)
    server.page(took=0.6)
    for i in range(PAGES):
        server.serve(20, ttft=inside, front=0.8, prompt=100)
        server.gauges(running=3 + i % 2, kv=0.1)
        probes.well(ttft=ttft)
        server.page(took=0.6)
    return server.window()


# -- head-of-line-blocking --------------------------------------------------------------------------------------------
def sizes(
    load: Callable[[Server, int], None] = mixed,
    *,
    small: tuple[float, float] = (18, 6.0),
    large: tuple[float, float] = (2, 6.0),
) -> Window:
    """First tokens by size of the prompt, as traces tell them: how many in an interval, and after how long."""
    server = Server()
    server.facts(blocks=10_000)

    def each(s: Server, told: Traces, i: int) -> None:
        load(s, i)
        told.tell(small[0], ttft=small[1], tpot=0.4, size="small")
        told.tell(large[0], ttft=large[1], tpot=0.4, size="large")

    return traced(each, server)


# -- classes ----------------------------------------------------------------------------------------------------------
CHAT_AND_BATCH: Mapping[str, tuple[float, float, float]] = {
    "chat": (0.5, 0.05, 0.95),
    "batch": (30.0, 0.5, 0.9),
    **PROMISES,
}


def two_classes(*, chat: float = 0.2, batch: float = 6.0, late: float = 10, told: float = 1.0) -> Window:
    """Ten chats and ten batch calls in an interval; ``late`` of the chats wait ``chat`` seconds. ``told``: share of the spans that
    come.
    """

    def each(server: Server, spans: Traces, _: int) -> None:
        server.serve(late, ttft=chat)
        server.serve(10 - late, ttft=0.1)
        server.serve(10, ttft=batch, prefill=min(batch, 0.4))
        server.gauges(running=6, kv=0.2)
        spans.tell(late * told, "chat", ttft=chat)
        spans.tell((10 - late) * told, "chat", ttft=0.1)
        spans.tell(10 * told, "batch", ttft=batch)

    return traced(each, promises=CHAT_AND_BATCH)


def late_tokens_at_the_gateway(late: float, of: float = 100) -> Window:
    """The engine is well. Of so many calls in the whole window that the gateway's traces tell, some have tokens that are late."""

    def each(server: Server, spans: Traces, i: int) -> None:
        if i == 1:
            server.serve(of)
            spans.tell(late, tpot=0.2)
            spans.tell(of - late)
        else:
            spans.newest()
        server.gauges(running=2, kv=0.1)

    return traced(each, vantage="gateway")


def told_and_well(vantage: str = "engine") -> Window:
    """Moderate load, and traces of all of it."""

    def each(server: Server, spans: Traces, i: int) -> None:
        healthy(server, i)
        spans.tell(50)

    return traced(each, vantage=vantage)


def probed_and_well() -> Window:
    """Moderate load, and probes that are answered."""
    return probed(healthy, lambda probes, _: probes.well())


REQUESTS: tuple[Situation, ...] = (
    Situation(
        "not-serving",
        {"nobody asks, and probes fail": nobody_answers},
        {
            "probes ask wrongly": lambda: nobody_answers(outcome="404"),
            "users are served": lambda: nobody_answers(load=healthy),
            "one probe in three fails": lambda: nobody_answers(every=3),
        },
    ),
    Situation(
        "api-server-bound",
        {"its clock starts late": around_the_engine},
        {
            "the page comes at once": lambda: around_the_engine(took=0.03),
            "little around the engine": lambda: around_the_engine(front=0.05),
            "nobody's caller tells": lambda: around_the_engine(asked=False),
        },
    ),
    Situation(
        "head-of-line-blocking",
        {"small ones behind large ones, by traces": sizes},
        {
            "small ones are well, by traces": lambda: sizes(small=(18, 0.1)),
            "all are small, by traces": lambda: sizes(all_small, small=(60, 6.0), large=(0, 0.1)),
            "all are large, by traces": lambda: sizes(all_large, small=(2, 6.0), large=(8, 6.0)),
        },
    ),
)

WELL_REQUESTS: Mapping[str, Callable[[], Window]] = {
    "told one by one": told_and_well,
    "told by the gateway": lambda: told_and_well("gateway"),
    "probed": probed_and_well,
    "a few probes fail": lambda: nobody_answers(outcome="timeout", load=healthy, every=7),
    "batch work that was promised less": two_classes,
}
"""Windows with traces or probes in which nobody is hurt."""

BOUNDS_REQUESTS: Mapping[str, Callable[[], Window]] = {
    "two probes fail": lambda: some_probes_fail(failed=2, well=0),
    "four probes fail": lambda: some_probes_fail(failed=4, well=0),
    "half of the probes fail": lambda: some_probes_fail(failed=5, well=5),
    "late tokens at the gateway, one too many": lambda: late_tokens_at_the_gateway(12, of=108),
    "late tokens at the gateway, hardly by chance": lambda: late_tokens_at_the_gateway(11),
    "late tokens at the gateway, perhaps by chance": lambda: late_tokens_at_the_gateway(10),
    "somewhat long around the engine": lambda: around_the_engine(front=0.4),
    "not long around the engine": lambda: around_the_engine(front=0.2),
    "long around the engine, a long prefill": lambda: around_the_engine(front=0.4, prefill=0.3),
    "long around the engine, a longer prefill": lambda: around_the_engine(front=0.4, prefill=1.0),
    "long around the engine, a page of middling speed": lambda: around_the_engine(took=0.3),
    "long around the engine, a page somewhat slow": lambda: around_the_engine(took=0.15),
    "long around the engine, long gaps": lambda: around_the_engine(gap=0.35),
    "long around the engine, longish gaps": lambda: around_the_engine(gap=0.2),
    "long around the engine, and one waits at times": lambda: around_the_engine(waiting=3),
    "long around the engine, and most of the time one waits": lambda: around_the_engine(waiting=8),
    "a slow front end, traced": lambda: busy_and_traced(front=0.4),
    "a slow front end, traced, little around it": lambda: busy_and_traced(front=0.2),
    "a slow front end, probed": lambda: busy_and_probed(ttft=0.8, inside=0.04),
    "a slow front end, probed, little waited": lambda: busy_and_probed(ttft=0.8),
    "a slow front end, probed, much waited": lambda: busy_and_probed(ttft=4.0),
    "a class is hurt that the page cannot tell": lambda: two_classes(chat=0.7),
}
