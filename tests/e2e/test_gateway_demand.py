"""From calls at the example gateway to the named cause: its real pages beside an engine's, over half a minute of made time."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.simulator.live import Live
from llmvitals.simulator.scenarios import scenario
from llmvitals.sources.assemble import Feed, observed
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.verdict import Outcome, Verdict
from llmvitals.triage.walk import diagnose
from support.gateway import Running, body, serve
from support.gateway_calls import has, looping, raw
from support.upstream import Plan, Upstream
from support.waiting import wait_for

ORIGIN, SETTLED, STEP, PAGES = 1_800_000_000.0, 120.0, 5.0, 7
DEMAND = frozenset({"retry-storm", "runaway-agent", "noisy-tenant", "fan-out", "uncached-repeats", "ghost-compute"})
_ANSWERED = re.compile(rb'^(http_requests_total\{[^}]*status="2xx"[^}]*\}) (\S+)$', re.M)


@dataclass
class World:
    """A gateway, what answers behind it, and the page that a simulated engine shows at the same made moments."""

    gateway: Running
    engine: Upstream
    clock: Clock
    live: Live
    pages: dict[str, list[RawPage]] = field(default_factory=lambda: {"engine": [], "gateway": []})
    asked: int = 0

    def scrape(self) -> None:
        """Both pages as they are now. The engine's counts the calls that were really cancelled behind the gateway."""
        left = sum(
            call.ended == "left" for call in self.engine.asked
        )  # answered with 200 and never finished, as vLLM has it
        page, found = _ANSWERED.subn(lambda m: b"%s %d" % (m[1], float(m[2]) + left), self.live.page_at(self.clock.now))
        assert found == 1
        self.pages["engine"].append(RawPage(self.clock.now, 0.01, 200, page))
        self.pages["gateway"].append(RawPage(self.clock.now, 0.01, 200, self.gateway.text().encode()))

    def fresh(self, **more: object) -> int:
        """The status of a question that nobody asked before, by a session and a user of its own."""
        self.asked += 1
        headers = {
            "x-tenant": "abc"[self.asked % 3],
            "x-session": f"session-{self.asked}",
            "x-user-request": f"request-{self.asked}",
            **more.pop("headers", {}),  # type: ignore[dict-item]
        }
        return self.gateway.ask(f"question {self.asked}", headers=headers, **more).status_code

    def judged(self) -> Verdict:
        """The verdict on the engine with its gateway in front."""
        feeds = [Feed("engine", "vllm", self.pages["engine"]), Feed("chat", "gateway", self.pages["gateway"])]
        (seen,) = observed(feeds)
        ((_, window),) = scopes(seen.snapshots).items()
        return diagnose(window, Settings())


@dataclass
class Clock:
    """Made time, for the kit and for pages."""

    now: float

    def __call__(self) -> float:
        return self.now


Traffic = Callable[[World], None]


def played(traffic: Traffic, *, load: str = "healthy", **config: object) -> Verdict:
    """The verdict after so many pages with this traffic between any two."""
    clock = Clock(ORIGIN + SETTLED)
    with Upstream() as engine, serve(engine.url, kit={"clock": clock}, **config) as gateway:
        world = World(gateway, engine, clock, scenario(load).live(origin=ORIGIN))
        world.scrape()
        for _ in range(PAGES - 1):
            traffic(world)
            clock.now += STEP
            world.scrape()
        return world.judged()


def named(verdict: Verdict) -> set[str]:
    """Demand causes that lead or contribute."""
    told = {finding.cause for finding in verdict.contributing}
    return DEMAND & (told | ({verdict.leading.cause} if verdict.leading else set()))


# -- what each of them looks like -------------------------------------------------------------------------------------
def usual(world: World) -> None:
    """Three tenants alike, each question once."""
    assert [world.fresh() for _ in range(6)] == [200] * 6


def storm(world: World) -> None:
    """Half of the calls fail, and their clients repeat each at once."""
    for _ in range(3):
        usual_call, key = world.fresh(), f"key-{world.asked}"
        assert usual_call == 200
        world.engine.next.extend([Plan(status=500), Plan(status=500)])
        for _ in range(2):
            assert world.gateway.ask(f"urgent {key}", headers={"idempotency-key": key}).status_code == 500


def failing(world: World) -> None:
    """As many calls fail, and nobody repeats them."""
    for _ in range(3):
        assert world.fresh() == 200
        world.engine.next.extend([Plan(status=500), Plan(status=500)])
        assert [world.fresh() for _ in range(2)] == [500, 500]


def runaway(world: World) -> None:
    """One session calls the same tool over and over."""
    usual(world)
    for _ in range(6):
        world.asked += 1
        world.gateway.ask(
            messages=looping(world.asked), headers={"x-session": "loop", "x-user-request": f"l-{world.asked}"}
        )


def busy_session(world: World) -> None:
    """One session calls as often, and each call is another."""
    usual(world)
    for _ in range(6):
        world.fresh(headers={"x-session": "busy"})


def flood(world: World) -> None:
    """One tenant holds both places with long calls; of the others' calls a third is turned away meanwhile."""
    assert [world.fresh() for _ in range(4)] == [200] * 4
    long = [Plan(answering=False, prompt_tokens=2000) for _ in range(2)]
    world.engine.next.extend(long)
    before = len(world.engine.asked)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(world.fresh, headers={"x-tenant": "flood"}) for _ in range(2)]
        wait_for(lambda: len(world.engine.asked) == before + 2)
        assert [world.fresh() for _ in range(2)] == [429, 429]
        for plan in long:
            plan.answering = True
        assert [call.result() for call in calls] == [200, 200]


def heavy(world: World) -> None:
    """One tenant takes as much, and there is room for all."""
    assert [world.fresh() for _ in range(4)] == [200] * 4
    for _ in range(2):
        world.engine.next.append(Plan(prompt_tokens=2000))
        world.fresh(headers={"x-tenant": "flood"})


def fan_out(world: World) -> None:
    """Each request of a user makes three calls where one was planned."""
    for i in range(2):
        for _ in range(3):
            world.fresh(headers={"x-user-request": f"request-{world.clock.now}-{i}"})


def repeats(world: World) -> None:
    """Half of the questions were asked before."""
    for i in range(3):
        world.fresh()
        world.fresh(messages=[{"role": "user", "content": f"the same question {i % 2}"}])


def ghosts(world: World) -> None:
    """Of eight clients four leave in the middle, and the engine goes on."""
    leaving(world, ghost=True)


def stopped(world: World) -> None:
    """As many leave, and the engine stops what they asked for."""
    leaving(world, ghost=False)


def leaving(world: World, *, ghost: bool) -> None:
    assert [world.fresh() for _ in range(4)] == [200] * 4
    for _ in range(4):
        plan = Plan(tokens=5, allowed=1, ghost=ghost)
        world.engine.next.append(plan)
        world.asked += 1
        client = raw(
            world.gateway.port, body(f"question {world.asked}", stream=True), {"x-user-request": f"{world.asked}"}
        )
        has(client, b"word")
        client.close()
        wait_for(lambda: not world.gateway.kit.calls.live, "the end of the call at the gateway")
        plan.allowed = 5
        wait_for(lambda: world.engine.asked[-1].ended == ("done" if ghost else "left"))


# -- what is said of them ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cause", "traffic", "config"),
    [
        ("retry-storm", storm, {"failures": 1000}),
        ("retry-storm", storm, {"failures": 3, "rest": 0.0}),
        ("runaway-agent", runaway, {}),
        ("noisy-tenant", flood, {"concurrency": 2, "waiting": 0}),
        ("ghost-compute", ghosts, {}),
    ],
)
def test_what_holds_somebody_who_is_hurt_leads_though_the_engine_is_well(cause, traffic, config):
    verdict = played(traffic, **config)
    assert verdict.leading is not None, verdict.sentence
    assert verdict.leading.cause == cause


@pytest.mark.parametrize(("cause", "traffic"), [("fan-out", fan_out), ("uncached-repeats", repeats)])
def test_what_costs_and_hurts_nobody_is_mentioned(cause, traffic):
    verdict = played(traffic)
    assert verdict.outcome is Outcome.HEALTHY, verdict.sentence
    assert named(verdict) == {cause}


@pytest.mark.parametrize(("cause", "traffic"), [("fan-out", fan_out), ("uncached-repeats", repeats)])
def test_it_leads_where_the_engine_is_overloaded_by_it(cause, traffic):
    verdict = played(traffic, load="kv-full")
    assert verdict.leading is not None, verdict.sentence
    assert verdict.leading.cause == cause


@pytest.mark.parametrize(
    ("traffic", "config"),
    [(usual, {}), (failing, {"failures": 1000}), (busy_session, {}), (heavy, {}), (stopped, {})],
)
def test_its_look_alike_is_not_called_so(traffic, config):
    verdict = played(traffic, **config)
    assert named(verdict) == set(), verdict.sentence


def test_usual_traffic_is_healthy():
    assert played(usual).outcome is Outcome.HEALTHY
