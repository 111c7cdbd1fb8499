"""Windows for the causes that only GPUs, the host and the proxy's connections show, and their look-alikes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmvitals.series import Series, Window, series
from support.made import Server, healthy, run
from support.situation import PAGES, Situation

GIB = 2.0**30
CARD = 80 * GIB
TOP = 1.98e9  # Hz
MIDDLE = PAGES // 2

Load = Callable[[Server, int], None]


def slow(server: Server, i: int) -> None:
    """Every token comes late; few run, so that no batch is too large."""
    server.serve(20, tpot=0.09, prompt=60, output=200)
    server.gauges(running=6 - i % 2, kv=0.3)


def slow_for_the_batch(server: Server, i: int) -> None:
    """Every token comes late, and 60 run."""
    server.serve(20, tpot=0.09, prompt=60, output=200)
    server.gauges(running=60 - i % 2, kv=0.5)


def idle(server: Server, _: int) -> None:
    """No request at all."""
    server.gauges()


class Beside:
    """What stands beside an engine's page: samples of GPUs, the host or a gateway, which no restart of the engine touches."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.values: dict[Series, float] = {}

    def set(self, name: str, value: float, **labels: str) -> None:
        """A gauge."""
        self.values[series(name, instance="made", **labels)] = float(value)
        self.server.values |= self.values

    def count(self, name: str, amount: float, **labels: str) -> None:
        """A counter goes up."""
        self.set(name, self.values.get(series(name, instance="made", **labels), 0.0) + amount, **labels)

    def card(
        self,
        gpu: int = 0,
        *,
        sm: float = 0.9,
        dram: float = 0.8,
        tensor: float = 0.2,
        clock: float = 1.0,
        top: bool = True,
        free: float = 0.1,
        other: float = 0.0,
    ) -> None:
        """One joined GPU; ``clock``, ``free`` and ``other`` as shares of its highest clock and its memory."""
        mine = {"gpu": f"GPU-{gpu}", "index": str(gpu), "join": "configured"}
        for name, value in (
            ("engine_active_ratio", sm),
            ("sm_active_ratio", sm),
            ("dram_active_ratio", dram),
            ("tensor_active_ratio", tensor),
            ("sm_clock_hertz", clock * TOP),
            ("memory_used_bytes", (1.0 - free) * CARD),
            ("memory_free_bytes", free * CARD),
            ("memory_other_bytes", other * CARD),
        ):
            self.set(f"llm_gpu_{name}", value, **mine)
        if top:
            self.set("llm_gpu_sm_clock_max_hertz", TOP, **mine)
        self.server.set("llm_gpu_memory_utilization_setting", 0.92)
        self.event("xid_events_total", 0, gpu)
        self.event("ecc_uncorrected_total", 0, gpu)
        self.set("llm_gpu_row_remap_pending", 0.0, **mine)

    def event(self, name: str, by: float, gpu: int = 0, **labels: str) -> None:
        """A counter of one GPU goes up."""
        self.count(f"llm_gpu_{name}", by, gpu=f"GPU-{gpu}", index=str(gpu), join="configured", **labels)


def beside(load: Load, each: Callable[[Beside, int], None]) -> Window:
    """A window of a server under ``load``; ``each`` sets what stands beside it, for the first page with number 0."""
    server = Server()
    apart = Beside(server)
    each(apart, 0)

    def step(s: Server, i: int) -> None:
        load(s, i)
        each(apart, i)

    return run(PAGES, step, server)


# -- the card ---------------------------------------------------------------------------------------------------------
def xid(code: str = "79", *, since: int = MIDDLE, load: Load = healthy) -> Window:
    """The driver reports an error from page ``since`` on."""

    def each(apart: Beside, i: int) -> None:
        apart.card()
        if i == since:
            apart.event("xid_events_total", 1, xid=code)

    return beside(load, each)


def replays(per_minute: float = 12, *, link: str = "pcie", load: Load = slow) -> Window:
    """A link repeats so many transfers a minute."""

    def each(apart: Beside, i: int) -> None:
        apart.card()
        apart.event("link_errors_total", per_minute / 12 * bool(i), link=link)

    return beside(load, each)


def corrected(load: Load = slow_for_the_batch) -> Window:
    """Memory errors come often, and every one is corrected."""

    def each(apart: Beside, _: int) -> None:
        apart.card()
        apart.event("ecc_corrected_total", 40)

    return beside(load, each)


def ecc() -> Window:
    def each(apart: Beside, i: int) -> None:
        apart.card()
        apart.event("ecc_uncorrected_total", 1 if i == MIDDLE else 0)

    return beside(healthy, each)


def remap() -> Window:
    def each(apart: Beside, _: int) -> None:
        apart.card()
        apart.set("llm_gpu_row_remap_pending", 1.0, gpu="GPU-0", index="0", join="configured")

    return beside(healthy, each)


def died_of_xid() -> Window:
    """The card falls off the bus, and the engine with it."""
    server = Server()
    apart = Beside(server)
    for i in range(8):
        healthy(server, i)
        apart.card()
        server.page()
    apart.event("xid_events_total", 1, xid="79")
    for _ in range(4):
        failed = server.fail()
        server.pages[-1] = type(failed)(failed.t, {**failed.samples, **apart.values}, failed.detail)
    return server.window()


def held_down(
    reason: str = "thermal", *, share: float = 0.5, clock: float = 0.7, tensor: float = 0.2, load: Load = slow
) -> Window:
    """Two cards under one engine; the second one's clocks are held down."""

    def each(apart: Beside, i: int) -> None:
        for gpu in (0, 1):
            apart.card(gpu, tensor=tensor, clock=clock if gpu else 1.0)
            held = 5.0 * share if gpu and i else 0.0
            for name in ("power", "thermal"):
                apart.event("throttle_seconds_total", held if name == reason else 0.0, gpu, reason=name)

    return beside(load, each)


def slower_than_its_peer() -> Window:
    """No reason and no highest clock are shown; one card of two runs at half the clock of the other."""

    def each(apart: Beside, _: int) -> None:
        apart.card(0, top=False)
        apart.card(1, clock=0.5, top=False)

    return beside(slow, each)


def idle_clocks() -> Window:
    return beside(idle, lambda apart, _: apart.card(sm=0.0, dram=0.0, tensor=0.0, clock=0.17))


def well_card(load: Load) -> Window:
    """Slow, but not for the card: clocks at their highest, memory busy."""
    return beside(load, lambda apart, _: apart.card())


# -- memory beside the pool ----------------------------------------------------------------------------------------------
def restarted(
    reason: str = "", *, free: float = 0.02, other: float = 0.0, failed: bool = True, host: float | None = None
) -> Window:
    """The engine's container ends in the middle of the window; the host says why where there is a ``reason``. ``host``: how
    full the container's memory is, of its limit.
    """
    server = Server()
    apart = Beside(server)

    def page() -> None:
        apart.card(free=free, other=other)
        if reason:
            apart.count("llm_host_restarts_total", 0, reason=reason)
            apart.set("llm_host_open_fds", 60, process="api")
        if host is not None:
            apart.set("llm_host_memory_bytes", host * 64 * GIB)
            apart.set("llm_host_memory_limit_bytes", 64 * GIB)
        server.page()

    for i in range(7):
        healthy(server, i)
        page()
    if failed:
        server.fail()
    server.restart()
    if reason:
        apart.count("llm_host_restarts_total", 1, reason=reason)
    for i in range(7):
        healthy(server, i)
        page()
    return server.window()


def crowded(load: Load = slow, *, free: float = 0.01, other: float = 0.08) -> Window:
    """Another process holds memory on the card."""
    return beside(load, lambda apart, _: apart.card(free=free, other=other))


# -- the link between cards ----------------------------------------------------------------------------------------------
def linked(
    *,
    gpus: int = 2,
    sm: float = 0.95,
    dram: float = 0.25,
    tensor: float = 0.1,
    use: float | None = 0.6,
    load: Load = slow_for_the_batch,
    path: str = "",
    size: int = 0,
) -> Window:
    """Cards that share one engine over PCIe; ``use``: how full the link is, None where its limit is not shown. ``path``: what
    lies between them, ``size``: how many share a layer, '' and 0 where nobody says.
    """
    limit = 64e9

    def each(apart: Beside, _: int) -> None:
        for gpu in range(gpus):
            apart.card(gpu, sm=sm, dram=dram, tensor=tensor)
            mine = {"gpu": f"GPU-{gpu}", "index": str(gpu), "join": "configured"}
            apart.set("llm_gpu_pcie_bytes_per_second", limit * (0.6 if use is None else use), **mine)
            if use is not None:
                apart.set("llm_gpu_link_limit_bytes_per_second", limit, link="pcie", **mine)
            for peer in range(gpus) if path else ():
                if peer != gpu:
                    apart.set("llm_gpu_peer_link", 1, peer=f"GPU-{peer}", link=path, **mine)
        if size:
            apart.set("llm_tensor_parallel_size", size, source="settings")

    return beside(load, each)


# -- connections ---------------------------------------------------------------------------------------------------------
def many_files(share: float = 0.95, *, limit: float = 1024) -> Window:
    """The API process has this share of its descriptors open, by its own page."""

    def each(apart: Beside, i: int) -> None:
        apart.server.set("llm_process_max_fds", limit)
        apart.server.set("llm_process_open_fds", limit * share if i else 50)

    return beside(healthy, each)


def leaking(share: float = 0.7, *, left: float = 0.7, limit: float = 1024) -> Window:
    """This share of the descriptors is open, and ``left`` of those are sockets whose clients have gone."""

    def each(apart: Beside, i: int) -> None:
        apart.server.set("llm_process_max_fds", limit)
        apart.server.set("llm_process_open_fds", limit * share)
        apart.set("llm_host_sockets", limit * share * left, state="close_wait")
        apart.set("llm_host_open_fds", limit * share, process="api")

    return beside(healthy, each)


def many_ports(share: float = 0.95, *, said: bool = True) -> Window:
    """The host runs out of ephemeral ports: connections end up in TIME_WAIT."""

    def each(apart: Beside, _: int) -> None:
        apart.set("llm_host_ephemeral_ports", 28_232)
        apart.set("llm_host_sockets", share * 28_232, state="time_wait")
        if said:
            apart.set("llm_host_ephemeral_ports_used", share * 28_232)

    return beside(healthy, each)


def proxy(
    *, connections: float = 100, refused: float = 0, cut: float = 0, load: Load = healthy, reason: str = "timeout"
) -> Window:
    """A gateway of 1,024 connections and 50 calls in an interval in front of the engine."""

    def each(apart: Beside, i: int) -> None:
        apart.set("llm_gateway_connections", connections, gateway="g")
        apart.set("llm_gateway_connection_limit", 1024, gateway="g")
        apart.count("llm_gateway_requests_total", 50 * bool(i), gateway="g", tenant="t", status="2xx")
        apart.count("llm_gateway_connect_errors_total", refused * bool(i), gateway="g")
        apart.count("llm_gateway_streams_cut_total", cut * bool(i), gateway="g", reason=reason)

    return beside(load, each)


def refused_while_down() -> Window:
    """The engine restarts; of course nobody can connect meanwhile."""
    server = Server()
    apart = Beside(server)
    for i in range(PAGES):
        healthy(server, i)
        apart.count("llm_gateway_requests_total", 50, gateway="g", tenant="t", status="2xx")
        apart.count("llm_gateway_connect_errors_total", 40 if i == MIDDLE else 0, gateway="g")
        if i == MIDDLE:
            server.fail()
            server.restart()
        server.page()
    return server.window()


# -- the API process -----------------------------------------------------------------------------------------------------
def api_process(*, thread: float = 0.99, held: float = 0.0, sm: float = 0.2, front: float = 0.5) -> Window:
    """First tokens come late because the API process is at its limit."""

    def load(server: Server, i: int) -> None:
        server.serve(20, ttft=3.0, front=front, prompt=60)
        server.gauges(running=3 + i % 2, kv=0.1)

    def each(apart: Beside, i: int) -> None:
        apart.card(sm=sm, dram=sm, tensor=0.05)
        apart.set("llm_host_busiest_thread_cores", thread, process="api")
        apart.set("llm_host_cpu_cores", thread, process="api")
        apart.set("llm_host_cpu_limit_cores", 4.0, process="api")
        apart.count("llm_host_cpu_throttled_seconds_total", 5.0 * held * bool(i), process="api")

    return beside(load, each)


# -- the pod -------------------------------------------------------------------------------------------------------------
def not_ready(
    share: float = 1.0, *, since: float = 3600, failed: bool = False, load: Load = healthy, young: bool = False
) -> Window:
    """The page answers, and the pod is not ready on this share of the pages; its container started ``since`` seconds before."""
    server = Server()
    apart = Beside(server)
    began = server.t - since
    for i in range(PAGES):
        load(server, i)
        apart.set("llm_host_open_fds", 60, process="api")
        apart.set("llm_host_ready", 0 if i < share * PAGES else 1)
        apart.set("llm_host_started_time_seconds", server.t if young else began)
        if failed and i == 0:
            server.fail()
        else:
            server.page()
    return server.window()


HARDWARE: tuple[Situation, ...] = (
    Situation(
        "hardware-event",
        {
            "XID": xid,
            "fell off the bus": died_of_xid,
            "uncorrectable error": ecc,
            "row remap pending": remap,
            "heat, one card of two": held_down,
            "power limit without dense work": lambda: held_down("power", share=0.9, clock=0.75),
            "half the clock of its peer": slower_than_its_peer,
            "PCIe repeats itself": replays,
            "NVLink errs": lambda: replays(9000, link="nvlink"),
        },
        {
            "low clocks because idle": idle_clocks,
            "the program's own error": lambda: xid("43"),
            "an error of long ago": lambda: xid(since=0),
            "slow for the batch": lambda: well_card(slow_for_the_batch),
            "dense work at the power limit": lambda: held_down("power", share=0.9, clock=0.75, tensor=0.7),
            "hot and nobody hurt": lambda: held_down(load=healthy),
            "a moment of heat": lambda: held_down(share=0.02, clock=0.98),
            "as many replays as a sound link has": lambda: replays(6, load=slow_for_the_batch),
            "replays and nobody hurt": lambda: replays(load=healthy),
            "checksums of NVLink": lambda: replays(3000, link="nvlink", load=slow_for_the_batch),
            "corrected memory errors": corrected,
        },
    ),
    Situation(
        "vram-headroom",
        {
            "out of memory": lambda: restarted("oom"),
            "crowded out": lambda: restarted(other=0.08, free=0.01),
            "a neighbour and slow tokens": crowded,
        },
        {
            "full by design": lambda: crowded(slow_for_the_batch, free=0.02, other=0.0),
            "rolled out": lambda: restarted("rollout"),
            "the host's memory": lambda: restarted("oom", free=0.2),
            "the host's memory, on a card that is full by design": lambda: restarted("oom", host=0.98),
            "a neighbour and nobody hurt": lambda: crowded(healthy),
            "a small neighbour": lambda: crowded(slow_for_the_batch, free=0.04, other=0.01),
        },
    ),
    Situation(
        "interconnect-bound",
        {
            "link full": linked,
            "limit not shown": lambda: linked(use=None),
            "through the host's bridge": lambda: linked(path="PHB", size=2),
        },
        {
            "memory-bound decode": lambda: linked(dram=0.85),
            "dense prefill": lambda: linked(tensor=0.6),
            "one card": lambda: linked(gpus=1),
            "link idle": lambda: linked(use=0.05),
            "nobody hurt": lambda: linked(load=healthy),
            "cards idle": lambda: linked(sm=0.2),
            "two replicas": lambda: linked(size=1, path="PHB"),
            "two replicas over a link of unknown use": lambda: linked(size=1, use=None),
        },
    ),
    Situation(
        "rollout-and-probes",
        {"serves and is never ready": not_ready, "serves and is mostly not ready": lambda: not_ready(0.7)},
        {
            "not ready at times": lambda: not_ready(0.3),
            "only now up": lambda: not_ready(failed=True),
            "ready in a moment": lambda: not_ready(young=True),
        },
    ),
    Situation(
        "connection-exhaustion",
        {
            "descriptors": many_files,
            "ports": many_ports,
            "ports in TIME_WAIT": lambda: many_ports(said=False),
            "connections of the proxy": lambda: proxy(connections=1000),
            "connections refused": lambda: proxy(refused=5),
            "streams cut": lambda: proxy(cut=5),
            "connections that nobody closes": leaking,
        },
        {
            "few are left open": lambda: leaking(left=0.35),
            "left open with much room": lambda: leaking(0.35),
            "half the descriptors": lambda: many_files(0.5),
            "half the ports": lambda: many_ports(0.5),
            "many connections": lambda: proxy(connections=700),
            "a stream cut now and then": lambda: proxy(cut=1),
            "slow for the batch": lambda: proxy(load=slow_for_the_batch),
            "refused while down": refused_while_down,
        },
    ),
)

WELL_HARDWARE: Mapping[str, Callable[[], Window]] = {
    "a hot card and nobody hurt": lambda: held_down(load=healthy),
    "an XID of long ago": lambda: xid(since=0),
    "two cards that talk much": lambda: linked(load=healthy),
    "a crowded card and nobody hurt": lambda: crowded(healthy),
    "many connections": lambda: proxy(connections=700, refused=1, cut=1),
}
"""Windows in which nobody is hurt, whatever stands beside the engine."""
