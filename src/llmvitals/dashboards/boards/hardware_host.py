"""The host under the engine: starts and restarts, readiness, and what its processes use and may use."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import labels_alone, told
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    ORANGE,
    PURPLE,
    RANGE,
    SELECTOR,
    SKY,
    VERMILLION,
    WINDOW,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
    cell,
    each,
    of_target,
    q,
)

NO_HOST = "no host telemetry: let the exporter run on the engine's node and read its /proc"
NO_PODS = "no restarts are counted: the exporter does not read pods on this node"

_BY = ("instance",)
_RESTARTS = f"llm_host_restarts_total{{{INSTANCE}}}"
_STARTED = of_target("llm_host_started_time_seconds")
_BEGAN = of_target("llm_process_start_time_seconds")
_READY = of_target("llm_host_ready_time_seconds")

READY = Panel(
    Kind.TIMELINE,
    "Is it ready, and does it answer?",
    "none",
    (
        Query(
            "pod",
            GREY,
            promql=of_target("llm_host_ready", agg="min"),
            by=_BY,
            names=((1, "yes", GREEN), (0, "no", VERMILLION)),
        ),
        each("llm_target_up", "page", GREY),
    ),
    "Two lines for each replica: whether its pod is ready, so that it gets traffic, and whether its metrics page"
    " answers. A page that answers under a pod that is not ready: a probe or a rollout keeps traffic from a server"
    " that would serve. Neither: it starts, hangs, or has gone.",
    "no target is told of, or the exporter does not read pods on this node",
    causes=("rollout-and-probes", "not-serving", "cold-start"),
    moved=("kept-out-by-probe",),
)


def _ended(reason: str) -> str:
    return f'sum by (instance) (round(increase(llm_host_restarts_total{{reason="{reason}",{INSTANCE}}}{RANGE})))'


def _last() -> str:
    """How long ago the newest restart was seen, with its reason: one for each replica. It is a window late at most."""
    grew = f"timestamp(({_RESTARTS} > bool {_RESTARTS} offset {WINDOW}) > 0)[$__range:{WINDOW}] @ end()"
    last = f"max by (instance, reason) (max_over_time({grew}))"
    return f"time() - ({last} == on (instance) group_left () max by (instance) ({last}))"


RESTARTS = Panel(
    Kind.TABLE,
    "Restarts in this time, by what ended the container",
    "none",
    (
        cell("container runs for", "s", promql=f"time() - {_STARTED}", by=_BY),
        cell("last one, ago", "s", promql=_last(), by=(*_BY, "reason")),
        cell("out of memory", "none", promql=_ended("oom"), by=_BY),
        cell("error", "none", promql=_ended("error"), by=_BY),
        cell("probe", "none", promql=_ended("probe"), by=_BY),
        cell("rollout", "none", promql=_ended("rollout"), by=_BY),
        cell("not told", "none", promql=_ended("unknown"), by=_BY),
        cell(
            "requests cut, at least",
            "none",
            promql=f"max by (instance) (max_over_time(llm_lost_by_restarts{{{SELECTOR}}}{RANGE}))",
            by=_BY,
        ),
    ),
    "How often each replica's container ended in the chosen time, and of what; beside it the reason of the newest"
    " one and how long ago it was seen. Out of memory: the container's own limit where the host's memory is near it,"
    " else the card's. A probe that ends a busy engine is too impatient: keep liveness apart from inference.",
    NO_PODS,
    causes=("rollout-and-probes", "vram-headroom", "cold-start"),
    worst="-container runs for",
    width=16,
    leads=Leads.APP,
)

STAGES = Panel(
    Kind.TABLE,
    "Cold start, stage by stage",
    "s",
    (
        cell("to its process", "s", promql=f"clamp_min({_BEGAN} - {_STARTED}, 0)", by=_BY),
        cell("to ready", "s", promql=f"{_READY} - {_STARTED} >= 0", by=_BY),
        cell("process runs for", "s", promql=f"time() - {_BEGAN}", by=_BY),
        cell(
            "a first token since",
            "none",
            promql=f"sum by (instance) (llm_request_ttft_seconds_count{{{SELECTOR}}}) > bool 0",
            by=_BY,
            names=((1, "yes", GREEN), (0, "not yet", ORANGE)),
        ),
    ),
    "The newest start of each replica: from the container's start to that of the server's process, then to ready"
    " (weights, graphs, warm-up), how long it has been up, and whether a first token came since. Younger than"
    " {thresholds.cold_start_seconds:g} s it explains slow first tokens by itself. Long to ready: load weights from"
    " a local disk, and keep a spare replica.",
    "the page does not say when its process started",
    causes=("cold-start", "rollout-and-probes"),
    width=16,
    worst="-process runs for",
    leads=Leads.APP,
)

STARTS = Row("Starts and readiness", (READY, RESTARTS, STAGES))

FRONT = Panel(
    Kind.LINES,
    "The process in front",
    "s",
    (
        q("frontend_residual_seconds", "outside the engine", PURPLE),
        q("page_answer_seconds", "page answered in", ORANGE),
        q("api_cpu_cores", "API CPU cores", GREY, dashed=True, unit="none"),
    ),
    "Time of a finished request outside queue and engine, the time the metrics page took (an event loop that is late"
    " is late there too), and the CPU of the API process (right axis). Near one core with an idle GPU: more API"
    " servers.",
    "no page answered in this window",
    causes=("api-server-bound", "connection-exhaustion"),
)

CPU = Panel(
    Kind.LINES,
    "CPU: the busiest thread, the process, its limit",
    "suffix: cores",
    (
        each("llm_host_busiest_thread_cores", "busiest thread", VERMILLION, "process"),
        each("llm_host_cpu_cores", "process", BLUE, "process", dashed=True),
        each("llm_host_cpu_limit_cores", "limit", GREY, "process", dashed=True),
        each("llm_process_cpu_seconds_total", "API, by its own page", SKY, agg="sum", rate=True, dashed=True),
    ),
    "CPU of the API process and of the engine's others. One thread at a full core is a full process, however many"
    " cores are free: tokenizers and event loops do not spread. More API servers help, more cores do not.",
    NO_HOST,
    causes=("api-server-bound",),
)

THREADS = Panel(
    Kind.LINES,
    "CPU by thread",
    "suffix: cores",
    (each("llm_host_thread_cores", "", ORANGE, "process", "thread", agg="sum"),),
    "CPU of the busiest threads by name. It tells a tokenizer from an event loop, a detokenizer or a garbage"
    " collector, and which of them needs another process.",
    NO_HOST,
    causes=("api-server-bound", "grammar-compilation"),
)

QUOTA = Panel(
    Kind.LINES,
    "Time held by the CPU quota",
    "percentunit",
    (
        each("llm_host_cpu_throttled_seconds_total", "held", VERMILLION, "process", agg="sum", rate=True),
        q("api_throttled_ratio", "held, API over the window", ORANGE, dashed=True),
        q("api_cpu_full_ratio", "of what it can use", BLUE, dashed=True),
        q("stalled_front_ratio", "page stalled", PURPLE),
    ),
    "Share of the time in which a container's quota stopped a process although it had work, how much of the CPU it may"
    " use the API process uses, and the share of the time in which its page, and so everybody, had to wait for it. Held"
    " at all while GPUs idle: raise or remove the CPU limit.",
    NO_HOST,
    causes=("api-server-bound",),
)

MEMORY = Panel(
    Kind.LINES,
    "Memory of the processes and their container",
    "bytes",
    (
        each("llm_host_resident_bytes", "resident", BLUE, "process", agg="sum"),
        each("llm_host_memory_bytes", "container", ORANGE, agg="max"),
        each("llm_host_memory_limit_bytes", "limit", GREY, dashed=True),
        each("llm_process_resident_bytes", "API, by its own page", SKY, agg="sum", dashed=True),
    ),
    "Resident memory by process, what the container counts (page cache left out), and what it may use. Where the"
    " exporter does not run on the node, the API server's own page still tells its part. Near the limit the kernel"
    " ends the process: raise the limit, or lower swap space and CPU offload.",
    NO_HOST,
    causes=("rollout-and-probes", "not-serving"),
)

MEMORY_SHARE = Panel(
    Kind.LINES,
    "Memory of the container, of its limit",
    "percentunit",
    (q("host_memory_ratio", "", ORANGE),),
    "The highest share of its memory limit that the container used in the exporter's window. At the line,"
    " {thresholds.resource_limit:g}, a restart for want of memory is put down to this limit and not to the card. A"
    " container without a limit has no such share: the whole node is its limit.",
    "no limit is set, or no host telemetry",
    causes=("rollout-and-probes", "vram-headroom"),
    limits=(Limit("thresholds.resource_limit"),),
    top=1,
)

DESCRIPTORS = Panel(
    Kind.LINES,
    "File descriptors and ports in use",
    "percentunit",
    (
        q("fd_usage_ratio", "file descriptors", ORANGE),
        q("port_usage_ratio", "ephemeral ports", BLUE, dashed=True),
        q("close_wait_ratio", "left by clients, not closed", VERMILLION),
    ),
    "How much of its descriptors the process has open, how much of its ports the host has in use (those that wait"
    " after a close included), and the share of descriptors that are connections which clients left and nobody"
    " closes. The line is {thresholds.resource_limit:g}: above it new connections soon fail.",
    NO_HOST,
    causes=("connection-exhaustion",),
    limits=(Limit("thresholds.resource_limit"),),
    top=1,
)

COUNTS = Panel(
    Kind.LINES,
    "Descriptors and ports, counted",
    "none",
    (
        each("llm_host_open_fds", "open", ORANGE, "process", agg="sum"),
        each("llm_host_max_fds", "may be open", GREY, "process", dashed=True),
        each("llm_host_ephemeral_ports_used", "ports in use", BLUE),
        each("llm_host_ephemeral_ports", "ports", SKY, dashed=True),
    ),
    "Open file descriptors of each process and ephemeral ports of its host, with how many there may be. Each"
    " connection takes a descriptor here and a port at the caller. A limit of 1,024 is a leftover of the login"
    " shell: raise it.",
    NO_HOST,
    causes=("connection-exhaustion",),
)

SOCKETS = Panel(
    Kind.LINES,
    "Sockets by state",
    "none",
    (each("llm_host_sockets", "", SKY, "state", agg="sum"),),
    "TCP sockets of the engine's processes. CLOSE_WAIT that grows: the process does not close what its clients left."
    " TIME_WAIT that grows: connections are not reused, keep them alive.",
    NO_HOST,
    causes=("connection-exhaustion",),
)

PROCESSES = Panel(
    Kind.LINES,
    "Age of each process",
    "s",
    (
        Query(
            "",
            BLUE,
            promql=f"time() - {of_target('llm_host_process_start_time_seconds', 'process')}",
            by=(*_BY, "process"),
        ),
        Query("by the page", GREY, promql=f"time() - {_BEGAN}", by=_BY, dashed=True),
    ),
    "How long the newest of each replica's processes has run, as the host and as the page itself say. A line that"
    " falls to 0 is a start. The engine's process that is younger than the API server's: it was ended and started"
    " again behind a page that never went away.",
    NO_HOST,
    causes=("cold-start", "rollout-and-probes"),
)

_FOUND = (*_BY, "node", "pod", "container", "join")
_INFO = f"llm_host_info{{{INSTANCE}}}"

WHERE = Panel(
    Kind.TABLE,
    "Where each engine runs, and how that was found",
    "none",
    (labels_alone("found", f"max by ({', '.join(_FOUND)}) ({told(_INFO, 'none', 'pod')})", _FOUND),),
    "The machine, pod and container of each engine's processes, and how the exporter found them. An engine that is"
    " missing here runs on another machine, or the exporter cannot see its processes: the app says which, and what"
    " it lacks (hostPID, a mount of /proc).",
    NO_HOST,
    symptoms=("half-blind",),
    apart="an exporter on the engine's own machine, which finds its processes there",
    width=16,
)

HOST = Row(
    "The host under the engine (needs the exporter on its node)",
    (
        FRONT,
        CPU,
        QUOTA,
        THREADS,
        MEMORY,
        MEMORY_SHARE,
        DESCRIPTORS,
        COUNTS,
        SOCKETS,
        PROCESSES,
        WHERE,
    ),
    collapsed=True,
)
