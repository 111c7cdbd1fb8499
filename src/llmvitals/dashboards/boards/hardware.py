"""What the board shows of the machine: replicas by KV usage against compute, then GPUs and links, then the host."""

from __future__ import annotations

from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    Board,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
    each,
    gpu,
    q,
)

NO_GPU = "no GPU is joined to this target: a GPU exporter's page, or NVML on its node"
NO_HOST = "no host telemetry: let the exporter run on the engine's node and read its /proc"

KV, SM, WAITING = "<kv_usage_high_ratio>", "<gpu_sm_active_mean_ratio>", "<requests_waiting>"
BUSY = "(<gpu_engine_active_mean_ratio> or <gpu_busy_mean_ratio>)"

X, Y = "KV usage that is reached", "GPU activity"


def _points(legend: str, color: str, activity: str, which: str, *, dashed: bool = False) -> tuple[Query, ...]:
    """A group of points: replicas with this ``activity``, of those the ones that ``which`` leaves.

    A GPU's series name no model, so its number is added to a zero that has one.
    """

    def of(column: str, promql: str) -> Query:
        return Query(legend, color, promql=f"{promql} {which}", dashed=dashed, column=column)

    return (
        of(X, f"({KV} and on (instance) {activity})"),
        of(Y, f"({KV} * 0 + on (instance) group_left () {activity})"),
        of("waiting", f"({WAITING} and on (instance, model) ({KV} and on (instance) {activity}))"),
    )


PLACED = Panel(
    Kind.XY,
    "KV usage against compute, replica by replica",
    "percentunit",
    (
        *_points("Nobody is seen waiting", BLUE, SM, f"unless on (instance, model) ({WAITING} > 0)"),
        *_points("Requests wait", VERMILLION, SM, f"and on (instance, model) ({WAITING} > 0)"),
        *_points("Utilisation only, which is not compute", GREY, BUSY, f"unless on (instance) {SM}", dashed=True),
    ),
    "Each point is a replica: KV usage that is reached, and for how much of the time its SMs are active. Right and low:"
    " memory binds, seats are lost to KV. Right and high: full and working. Left and high: compute binds. Left and low:"
    " idle, or held up in front if requests wait. The lines are those of the checks: KV {lines[0]:g}, SMs {lines[1]:g}."
    " Hollow squares: only utilisation is known, and one that is high says that something ran, not how much of the chip it"
    " used. Hover for the name, click for the triage.",
    "no replica has both numbers: KV usage, and a GPU joined to it",
    causes=("kv-cache-saturation", "preemption-thrash", "batch-too-small", "prefill-bound"),
    lines=(Limit("thresholds.kv_free_floor", rest=True), Limit("thresholds.gpu_active")),
    present=f"{KV} and on (instance) ({SM} or {BUSY})",
    width=16,
    height=11,
    leads=Leads.APP,
)

REPLICAS = f"count by (instance, model) (llm_requests_running{{{SELECTOR}}})"
UNPLACED = Panel(
    Kind.STAT,
    "Not in the picture, and what is missing",
    "none",
    (
        Query("no GPU activity:", PURPLE, promql=f"{REPLICAS} unless on (instance) ({SM} or {BUSY})"),
        Query("no KV usage:", GREY, promql=f"{REPLICAS} unless on (instance, model) {KV}"),
    ),
    "Replicas that have no place beside, for want of one of the two numbers. No GPU activity: no GPU is joined, or its"
    " exporter shows neither activity nor utilisation. No KV usage: the engine does not say it, or not enough to rule out"
    " that the gauge under-reads. The app's page of replicas has the reason of each.",
    "every replica has its place, or none answers",
    causes=("telemetry-broken",),
    width=8,
    height=11,
    leads=Leads.APP,
    by_name=True,
)

GPUS = Row(
    "GPUs and the links between them",
    (
        Panel(
            Kind.LINES,
            "Activity, GPU by GPU",
            "percentunit",
            (
                each("llm_gpu_sm_active_ratio", "SMs", GREEN, "index", agg="avg"),
                each("llm_gpu_engine_active_ratio", "engine", SKY, "index", agg="avg", dashed=True),
                each("llm_gpu_busy_ratio", "utilisation", GREY, "index", agg="avg", dashed=True),
            ),
            "How busy each joined GPU is. SMs active is compute; engine active and utilisation (dashed) say only that"
            " something ran. One GPU far from the others of its replica: look at links, clocks and throttling. The line is"
            " {thresholds.gpu_active:g}: lower while requests wait means under-used.",
            NO_GPU,
            causes=("batch-too-small", "interconnect-bound", "hardware-event"),
            limits=(Limit("thresholds.gpu_active", GREEN),),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Tensor pipes and memory, GPU by GPU",
            "percentunit",
            (
                each("llm_gpu_tensor_active_ratio", "tensor", BLUE, "index", agg="avg"),
                each("llm_gpu_dram_active_ratio", "DRAM", SKY, "index", agg="avg", dashed=True),
            ),
            "What the activity is made of. Tensor pipes busy: prefill computes. DRAM busy (dashed): decode reads weights and"
            " KV, and bandwidth binds. SMs active with both low: kernels wait, for a link or for the host.",
            "no profiling counters: the GPU exporter's list has none, or the card gives none",
            causes=("prefill-bound", "batch-too-large", "interconnect-bound"),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "GPU memory",
            "percentunit",
            (
                gpu("gpu_memory_used_ratio", "used", ORANGE),
                q("gpu_memory_free_low_ratio", "free at least", GREEN, dashed=True),
                q("gpu_memory_other_ratio", "other processes", VERMILLION),
            ),
            "Framebuffer in use, least share that was free, and what processes beside the engine hold. High use is normal:"
            " the engine reserves it at start. The line is {thresholds.vram_margin:g}: less free is near an out-of-memory.",
            NO_GPU,
            causes=("vram-headroom",),
            limits=(Limit("thresholds.vram_margin", GREEN),),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Power against its limit",
            "watt",
            (
                each("llm_gpu_power_watts", "draws", ORANGE, "index"),
                each("llm_gpu_power_limit_watts", "limit", GREY, "index", dashed=True),
            ),
            "Power draw of each GPU beside the limit that is enforced. At the limit under dense load is how a card works."
            " Far under its usual at the same load: look at clocks and throttling, or at what keeps work away.",
            NO_GPU,
            causes=("hardware-event",),
        ),
        Panel(
            Kind.LINES,
            "SM clock against the card's highest",
            "hertz",
            (
                each("llm_gpu_sm_clock_hertz", "SM clock", BLUE, "index", agg="min"),
                each("llm_gpu_sm_clock_max_hertz", "highest", GREY, "index", dashed=True),
            ),
            "The clock of each GPU's SMs. An idle GPU lowers it by design; a busy one well below the others, or below its"
            " own past at the same load, is held down: the panel beside says by what.",
            NO_GPU,
            causes=("hardware-event",),
        ),
        Panel(
            Kind.LINES,
            "Clocks held down, by reason",
            "percentunit",
            (each("llm_gpu_throttle_seconds_total", "", VERMILLION, "index", "reason", agg="sum", rate=True),),
            "Share of the time in which something held a GPU's clocks down. Power under dense load is normal. Heat, hardware"
            " or the board are not: check cooling, the power supply and the card's neighbours.",
            "not counted: the GPU exporter's list lacks the violation fields",
            causes=("hardware-event",),
        ),
        Panel(
            Kind.LINES,
            "Temperatures",
            "celsius",
            (
                each("llm_gpu_temperature_celsius", "core", ORANGE, "index"),
                each("llm_gpu_memory_temperature_celsius", "memory", PURPLE, "index", dashed=True),
            ),
            "Core and memory temperature of each GPU. One card that is hotter than its neighbours at the same load has an"
            " airflow or a cooling problem; memory (HBM) often limits before the core does.",
            NO_GPU,
            causes=("hardware-event",),
        ),
        Panel(
            Kind.LINES,
            "Errors of the cards",
            "none",
            (
                q("gpu_xid_errors", "XID", VERMILLION),
                q("gpu_ecc_errors", "uncorrectable ECC", ORANGE, dashed=True),
                q("gpu_remap_pending", "remap waits for a reset", PURPLE, dashed=True),
            ),
            "New errors in the exporter's window. XID codes that are the program's own are left out. Anything above 0 here"
            " is the card's: drain the node, read the codes in the driver's log, and reset or replace the card.",
            "the GPU exporter's list lacks XID, ECC and remapped rows",
            causes=("hardware-event",),
        ),
        Panel(
            Kind.LINES,
            "Link traffic against what the link carries",
            "Bps",
            (
                each("llm_gpu_nvlink_bytes_per_second", "NVLink", GREEN, "index", agg="sum"),
                each("llm_gpu_pcie_bytes_per_second", "PCIe", BLUE, "index", agg="sum"),
                each("llm_gpu_link_limit_bytes_per_second", "limit", GREY, "index", "link", dashed=True),
            ),
            "Traffic of each GPU to its peers and to the host, both ways, beside what each link carries (dashed). GPUs that"
            " share a layer and talk over PCIe, or a link near its limit with tensor pipes idle: the link binds.",
            "no link counters: the GPU exporter's list has none, or there is one GPU",
            causes=("interconnect-bound",),
        ),
        Panel(
            Kind.LINES,
            "Link errors per second",
            "none",
            (each("llm_gpu_link_errors_total", "", VERMILLION, "index", "link", agg="sum", rate=True),),
            "Replays and errors of each GPU's links. Now and then one is normal; a steady rate means a bad cable, riser or"
            " connector, and costs bandwidth before anything fails.",
            "no link errors are counted",
            causes=("interconnect-bound", "hardware-event"),
        ),
    ),
    collapsed=True,
)

HOST = Row(
    "The host under the engine",
    (
        Panel(
            Kind.LINES,
            "The process in front",
            "s",
            (
                q("frontend_residual_seconds", "outside the engine", PURPLE),
                q("page_answer_seconds", "page answered in", ORANGE),
                q("api_cpu_cores", "API CPU cores", GREY, dashed=True, unit="none"),
            ),
            "Time of a finished request outside queue and engine, the time the metrics page took (an event loop that"
            " is late is late there too), and the CPU of the API process (right axis). Near one core with an idle"
            " GPU: more API servers.",
            "no page answered in this window",
            causes=("api-server-bound", "connection-exhaustion"),
        ),
        Panel(
            Kind.LINES,
            "CPU: the busiest thread, the process, its limit",
            "suffix: cores",
            (
                each("llm_host_busiest_thread_cores", "busiest thread", VERMILLION, "process"),
                each("llm_host_cpu_cores", "process", BLUE, "process", dashed=True),
                each("llm_host_cpu_limit_cores", "limit", GREY, "process", dashed=True),
            ),
            "CPU of the API process and of the engine's others. One thread at a full core is a full process, however many"
            " cores are free: tokenizers and event loops do not spread. More API servers help, more cores do not.",
            NO_HOST,
            causes=("api-server-bound",),
        ),
        Panel(
            Kind.LINES,
            "CPU by thread",
            "suffix: cores",
            (each("llm_host_thread_cores", "", ORANGE, "process", "thread", agg="sum"),),
            "CPU of the busiest threads by name. It tells a tokenizer from an event loop, a detokenizer or a garbage"
            " collector, and which of them needs another process.",
            NO_HOST,
            causes=("api-server-bound", "grammar-compilation"),
        ),
        Panel(
            Kind.LINES,
            "Time held by the CPU quota",
            "percentunit",
            (
                each("llm_host_cpu_throttled_seconds_total", "held", VERMILLION, "process", agg="sum", rate=True),
                q("api_cpu_full_ratio", "of what it can use", BLUE, dashed=True),
            ),
            "Share of the time in which a container's quota stopped the process although it had work, and how much of the"
            " CPU it may use is used. Held at all while GPUs idle: raise or remove the CPU limit.",
            NO_HOST,
            causes=("api-server-bound",),
        ),
        Panel(
            Kind.LINES,
            "Memory of the processes and their container",
            "bytes",
            (
                each("llm_host_resident_bytes", "resident", BLUE, "process", agg="sum"),
                each("llm_host_memory_bytes", "container", ORANGE, agg="sum"),
                each("llm_host_memory_limit_bytes", "limit", GREY, dashed=True),
            ),
            "Resident memory, what the container counts (page cache left out), and what it may use. Near the limit the"
            " kernel ends the process: raise the limit, or lower swap space and CPU offload.",
            NO_HOST,
            causes=("rollout-and-probes", "not-serving"),
        ),
        Panel(
            Kind.LINES,
            "File descriptors and ports in use",
            "percentunit",
            (
                q("fd_usage_ratio", "file descriptors", ORANGE),
                q("port_usage_ratio", "ephemeral ports", BLUE, dashed=True),
            ),
            "How much of its descriptors the process has open, and of its ports the host has in use (those that wait after"
            " a close included). The line is {thresholds.resource_limit:g}: above it new connections soon fail.",
            NO_HOST,
            causes=("connection-exhaustion",),
            limits=(Limit("thresholds.resource_limit"),),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Sockets by state",
            "none",
            (each("llm_host_sockets", "", SKY, "state", agg="sum"),),
            "TCP sockets of the engine's processes. CLOSE_WAIT that grows: the process does not close what its clients"
            " left. TIME_WAIT that grows: connections are not reused, keep them alive.",
            NO_HOST,
            causes=("connection-exhaustion",),
        ),
        Panel(
            Kind.LINES,
            "Restarts by reason, and whether it is ready",
            "none",
            (
                Query(
                    "restart:",
                    VERMILLION,
                    promql='sum by (instance, reason) (increase(llm_host_restarts_total{instance=~"$instance"}[$__rate_interval]))',
                    by=("instance", "reason"),
                ),
                each("llm_host_ready", "ready", GREEN, agg="min", dashed=True),
            ),
            "Restarts of the engine's container by what ended it (out of memory, an error, a probe, a rollout), and 1 while"
            " its pod is ready. A probe that ends a busy engine is too impatient: keep liveness apart from inference.",
            "no restarts are counted: the exporter does not read pods on this node",
            causes=("rollout-and-probes", "cold-start"),
        ),
    ),
    collapsed=True,
)

PLACES = Row("", (PLACED, UNPLACED))

BOARD = Board(
    uid="llmvitals-hardware",
    file="dashboards/hardware.json",
    title="LLM GPUs and hosts",
    description="The machine under the engines: what their GPUs do, the links between them, and the host.",
    rows=(
        PLACES,
        GPUS,
        HOST,
    ),
)
