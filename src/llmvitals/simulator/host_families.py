"""The canonical families that the host under a simulated engine gives: CPU, descriptors, sockets, ports, restarts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from llmvitals.series import Series, series
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.setup import Gateway
from llmvitals.simulator.world import World

USAGE_SECONDS = 5.0
"""The interval over which CPU use is a mean: this exporter's own between two scrapes."""

REASONS = ("oom", "error", "probe", "rollout")

Sample = tuple[str, dict[str, str], float]


class Meter:
    """CPU that the API and the engine process used, interval by interval (seconds of simulated time).

    ``api_seconds``, ``engine_seconds``: CPU of the present processes, all API processes together and the engine's loop.
    ``throttled``: seconds since its container started in which the API process had work and its quota held it back.
    """

    def __init__(self) -> None:
        self.t = 0.0
        self.throttled = 0.0
        self.api_seconds = self.engine_seconds = 0.0
        self._of: Counters | None = None
        self._history: deque[tuple[float, float, float]] = deque()  # interval, CPU of the API, of the engine

    def sample(self, world: World) -> None:
        """The interval up to the world's present moment is over."""
        span, counters, front = world.now - self.t, world.engine.counters, world.setup.front
        if span <= 0.0:
            return
        if counters is not self._of:
            self._of, self.api_seconds, self.engine_seconds, self.throttled = counters, 0.0, 0.0, 0.0
        width = front.cores * front.processes
        # What the process has been given, less what still stands before it; while it does nothing the latter grows.
        standing = world.front.standing * width
        # A step counts where it ends: what is more than the interval had is of the next one.
        api = min(span * width, max(0.0, counters.process_seconds - standing - self.api_seconds))
        engine = min(span, max(0.0, _engine_seconds(world) - self.engine_seconds))
        self.api_seconds += api
        self.engine_seconds += engine
        self._history.append((span, api, engine))
        if front.cores < 1.0:
            self.throttled += api / width * (1.0 - front.cores)
        while sum(x for x, _, _ in self._history) - self._history[0][0] >= USAGE_SECONDS:
            self._history.popleft()
        self.t = world.now

    def cores(self) -> tuple[float, float]:
        """Mean cores of the API process, all of its processes together, and of the engine's loop, lately."""
        span = sum(x for x, _, _ in self._history)
        if not span:
            return 0.0, 0.0
        return sum(x for _, x, _ in self._history) / span, min(1.0, sum(x for _, _, x in self._history) / span)


def _engine_seconds(world: World) -> float:
    """CPU of the engine's loop: the host's part of its steps, and waiting for kernels, which CUDA does by spinning."""
    counters, machine = world.engine.counters, world.setup.engine.machine
    host = counters.steps * machine.step_seconds + counters.generated_tokens * machine.sequence_seconds
    return counters.busy_seconds + host


def samples(world: World, meter: Meter, labels: Mapping[str, str]) -> dict[Series, float]:
    """All ``llm_host_*`` samples at the world's present moment; those of the processes only while there are any.

    ``labels``: the identity labels, as ``instance`` and ``model``.
    """
    rows = [*(_processes(world, meter) if world.up else ()), *_sockets(world), *_restarts(world)]
    return {series(f"llm_host_{name}", **labels, **own): float(value) for name, own, value in rows}


def _processes(world: World, meter: Meter) -> Iterator[Sample]:
    """CPU and descriptors. With tensor parallelism each GPU has a worker beside the engine's loop, which spins with it."""
    front, host, gpus = world.setup.front, world.setup.host, world.setup.engine.machine.gpus
    api, engine = meter.cores()
    starved = front.cores < 1.0
    for process, thread, whole, limit in (
        ("api", min(1.0, api / front.processes), api, front.cores * front.processes if starved else None),
        ("engine", engine, engine * (gpus + 1 if gpus > 1 else 1), None),
    ):
        own = {"process": process}
        yield "busiest_thread_cores", own, thread
        yield "cpu_cores", own, whole
        yield "cpu_limit_cores", own, host.cpu_limit_cores if limit is None else limit
    yield "cpu_throttled_seconds_total", {"process": "api"}, meter.throttled
    yield "open_fds", {"process": "api"}, world.front.open_fds
    yield "max_fds", {"process": "api"}, host.max_fds


def _sockets(world: World) -> Iterator[Sample]:
    """TCP sockets of the host, the gateway's included: a leaked one stands in CLOSE_WAIT, the client being gone.

    Where there is no gateway, connections end at the clients' hosts, and so does their TIME_WAIT.
    """
    gateway, front, host = world.gateway, world.front, world.setup.host
    calls = len(front.calls)
    kept = gateway.quiet_ports - gateway.time_wait if gateway is not None else 0
    for state, number in (
        ("established", calls + kept),
        ("time_wait", gateway.time_wait if gateway is not None else 0),
        ("close_wait", max(0, front.open_fds - host.fds_before - calls) if world.up else 0),
    ):
        yield "sockets", {"state": state}, number
    yield "ephemeral_ports", {}, (world.setup.gateway or Gateway()).ephemeral_ports
    yield (
        "ephemeral_ports_used",
        {},
        gateway.ports_used if gateway is not None else world.setup.faults.foreign_ports,
    )


def _restarts(world: World) -> Iterator[Sample]:
    counts = dict.fromkeys(REASONS, 0)
    for restart in world.restarts:
        counts[restart.reason] = counts.get(restart.reason, 0) + 1
    for reason, number in counts.items():
        yield "restarts_total", {"reason": reason}, number
