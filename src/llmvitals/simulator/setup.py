"""Everything that is simulated, as one frozen value: engine, traffic, API process, gateway, host, and what goes wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class Front:
    """The API process: it takes requests up, tokenizes, hands tokens out, and answers ``/metrics``, one thing at a time.

    Seconds of CPU: ``request_seconds`` a request, ``prompt_token_seconds`` a prompt token, ``output_token_seconds`` a
    generated token, ``step_seconds`` the outputs of an engine step whatever they hold, ``page_seconds`` a metrics page.
    ``cores``: how much of a core each of the ``processes`` gets (under 1: starved). Recorded servers on slow cores spent 1 ms a
    request, 0.12 ms a token, 1 ms a step and 21 ms a page.
    """

    processes: int = 1
    request_seconds: float = 0.003
    prompt_token_seconds: float = 1e-6
    output_token_seconds: float = 2e-5
    page_seconds: float = 0.004
    step_seconds: float = 0.0
    cores: float = 1.0


@dataclass(frozen=True, slots=True)
class Gateway:
    """A proxy in front of the engine.

    ``concurrency``: calls that it has open to the engine at most (0: no limit, and no queue); more wait in its queue, of
    which ``queue_limit`` bounds the length (None: nothing does; more are answered 429) and ``ttl`` the wait (seconds; 504).
    ``read_timeout`` cuts a stream after so many seconds. ``cancel_seconds``: how long after a client left the engine hears
    of it (inf: never, and the call keeps its place until the engine is done). The breaker opens for ``breaker_seconds``
    when the error ratio of the last 30 s exceeds ``breaker_ratio`` (1: never), then lets one call through to see.
    ``response_cache``: exact repeats are answered from it. ``keep_alive`` False: each call takes a new connection, whose
    port stays in TIME_WAIT for 60 s (Linux' TCP_TIMEWAIT_LEN). ``connection_limit``: to clients and to the engine together,
    as nginx' worker_connections; without one, or without a port, a call is answered 503. ``planned_calls``: model calls
    that a user request was planned to make. ``weights``: shares that tenants were given; the queue serves by them.
    """

    name: str = "gateway"
    concurrency: int = 0
    queue_limit: int | None = None
    ttl: float = math.inf
    read_timeout: float = math.inf
    cancel_seconds: float = 0.0
    breaker_ratio: float = 1.0
    breaker_seconds: float = 15.0
    response_cache: bool = False
    keep_alive: bool = True
    connection_limit: int = 65_536
    ephemeral_ports: int = 28_232  # net.ipv4.ip_local_port_range 32768-60999, Linux' default
    planned_calls: float = 1.0
    weights: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """The machine under the engine: descriptors and CPU of the API process."""

    max_fds: int = 65_536
    fds_before: int = 44  # open without any request
    cpu_limit_cores: float = 8.0


@dataclass(frozen=True, slots=True)
class Slow:
    """The GPU's clocks held down to ``factor`` (0-1) of their highest, for ``reason`` (DCGM: power, thermal, ...)."""

    start: float
    end: float
    factor: float
    reason: str = "thermal"


@dataclass(frozen=True, slots=True)
class Restart:
    """The process ends at ``down`` and answers again at ``up``; ``reason``: oom (of the host), gpu-oom, error, probe, rollout."""

    down: float
    up: float
    reason: str = "error"


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and when (seconds of simulated time).

    ``stalls`` (start, end): no engine step begins; ``front_stalls``: the API process does nothing; ``dies_at``: the engine
    and its page are gone; ``failing`` (start, end): every request is answered 500, none reaches the engine;
    ``first_step_seconds``: what the first step of a process costs more (graph capture, compilation); ``xid`` (moment,
    code); ``ecc`` moments; ``row_remap_at``; ``other_memory`` (start, end, bytes): another process on the GPU;
    ``fd_leak``: descriptors that each ended request leaves open; ``foreign_ports``: ephemeral ports others use; ``unready``
    (start, end): its readiness probe fails, so that nobody sends it calls, though it would serve them.
    """

    stalls: tuple[tuple[float, float], ...] = ()
    front_stalls: tuple[tuple[float, float], ...] = ()
    failing: tuple[tuple[float, float], ...] = ()
    dies_at: float = math.inf
    restarts: tuple[Restart, ...] = ()
    first_step_seconds: float = 0.0
    slow: tuple[Slow, ...] = ()
    xid: tuple[tuple[float, int], ...] = ()
    ecc: tuple[float, ...] = ()
    row_remap_at: float = math.inf
    other_memory: tuple[tuple[float, float, float], ...] = ()
    fd_leak: float = 0.0
    foreign_ports: int = 0
    unready: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Setup:
    """A simulated deployment. ``uptime``: age of the server process at time 0 (seconds)."""

    engine: EngineConfig = field(default_factory=EngineConfig)
    workload: Workload = field(default_factory=Workload)
    front: Front = field(default_factory=Front)
    gateway: Gateway | None = None
    host: Host = field(default_factory=Host)
    faults: Faults = field(default_factory=Faults)
    uptime: float = 600.0
