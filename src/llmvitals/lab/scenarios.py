"""The table of scenarios: every cause of the catalogue with what shows it, what must not be called by its name, what is
healthy, and what is two things at once.
"""

from __future__ import annotations

from dataclasses import replace

from llmvitals.lab import compounds, faults, hazards, mimics
from llmvitals.lab.result import Kind
from llmvitals.lab.scenario import Scenario

V1 = ("vllm",)
VLLM = ("vllm", "vllm-v0")
ENGINE = frozenset({"engine"})
GPU = frozenset({"engine", "gpu"})
HOST = frozenset({"engine", "host"})
GATEWAY = frozenset({"engine", "gateway"})


F, C, L, H = Kind.FAULT, Kind.COMPOUND, Kind.LOOKALIKE, Kind.HEALTHY

_ROWS: tuple[Scenario, ...] = (
    # -- causes ---------------------------------------------------------------------------------------------------
    Scenario("kv-cache-saturation", F, faults.kv_saturation, ("kv-cache-saturation",)),
    Scenario("preemption-thrash", F, faults.preemption_thrash, ("preemption-thrash",), hazard=hazards.thrash),
    Scenario("preemption-mode", F, faults.preemption_mode, ("preemption-mode",), hazard=hazards.thrash),
    Scenario(
        "vram-headroom",
        F,
        faults.vram_headroom,
        ("vram-headroom",),
        shown_by=GPU | HOST,
        hazard=hazards.restarted,
        lasts=0.9,
    ),
    Scenario("block-fragmentation", F, faults.block_fragmentation, ("block-fragmentation",), dialects=V1),
    Scenario(
        "context-imbalance", C, faults.context_imbalance, ("context-imbalance", "kv-cache-saturation"), dialects=V1
    ),
    Scenario("batch-too-small", F, faults.batch_too_small, ("batch-too-small",)),
    Scenario("batch-too-large", F, faults.batch_too_large, ("batch-too-large",)),
    Scenario(
        "prefill-decode-interference",
        F,
        faults.interference,
        ("prefill-decode-interference",),
        dialects=("vllm", "sglang"),
    ),
    Scenario("head-of-line-blocking", F, faults.head_of_line, ("head-of-line-blocking",), shown_by=GATEWAY),
    Scenario("prefill-bound", F, faults.prefill_bound, ("prefill-bound",)),
    Scenario("draft-rejected", F, faults.draft_rejected, ("draft-rejected",), dialects=V1),
    Scenario(
        "unbounded-output",
        F,
        faults.unbounded_output,
        ("unbounded-output",),
        hazard=hazards.runaway_answers,
        dialects=VLLM,
    ),
    Scenario(
        "prefix-cache-miss",
        F,
        faults.prefix_cache_miss,
        ("prefix-cache-miss",),
        shown_by=GATEWAY,
        dialects=("vllm", "sglang"),
    ),
    Scenario("prefix-caching-off", F, faults.prefix_caching_off, ("prefix-caching-off",), dialects=V1),
    Scenario("uncached-repeats", F, faults.uncached_repeats, ("uncached-repeats",), shown_by=GATEWAY),
    Scenario("interconnect-bound", F, faults.interconnect, ("interconnect-bound",), shown_by=GPU),
    Scenario(
        "connection-exhaustion", F, faults.connection_exhaustion, ("connection-exhaustion",), shown_by=HOST | GATEWAY
    ),
    Scenario("kv-transfer-bound", F, faults.kv_transfer, ("kv-transfer-bound",), dialects=V1),
    Scenario("api-server-bound", F, faults.api_server, ("api-server-bound",), dialects=V1),
    Scenario("grammar-compilation", F, faults.grammar, ("grammar-compilation",), dialects=V1),
    Scenario("adapter-slots", F, faults.adapter_slots, ("adapter-slots",), dialects=V1),
    Scenario("unbounded-queue", F, faults.unbounded_queue, ("unbounded-queue",)),
    Scenario("noisy-tenant", F, faults.noisy_tenant, ("noisy-tenant",), shown_by=GATEWAY),
    Scenario("retry-storm", F, faults.retry_storm, ("retry-storm",), shown_by=GATEWAY, lasts=2.2),
    Scenario("impatient-clients", F, faults.impatient, ("ghost-compute",), hazard=hazards.wasted, dialects=V1),
    Scenario("never-cancelled", F, faults.never_cancelled, ("ghost-compute",), shown_by=GATEWAY, hazard=hazards.wasted),
    Scenario("fan-out", F, faults.fan_out, ("fan-out",), shown_by=GATEWAY),
    Scenario("runaway-agent", F, faults.runaway_agent, ("runaway-agent",), shown_by=GATEWAY, hazard=hazards.loops),
    Scenario("cold-start", F, faults.cold_start, ("cold-start",), young=True, dialects=VLLM),
    Scenario(
        "rollout-and-probes",
        F,
        faults.rollout,
        ("rollout-and-probes",),
        hazard=hazards.restarted,
        dialects=VLLM,
        lasts=0.9,
    ),
    Scenario("kept-out-by-probe", F, faults.kept_out, ("rollout-and-probes",), shown_by=HOST),
    Scenario("hardware-throttled", F, faults.throttled, ("hardware-event",), shown_by=GPU),
    Scenario("hardware-error", F, faults.gpu_error, ("hardware-event",), shown_by=GPU, hazard=hazards.broke, lasts=0.9),
    Scenario("engine-stalled", F, faults.stall, ("not-serving",)),
    Scenario("engine-died", F, faults.death, ("not-serving",), lasts=0.6),
    Scenario("only-errors", F, faults.errors, ("not-serving",), dialects=V1),
    Scenario("scrapes-fail", F, faults.broken_scrapes, ("telemetry-broken",), hazard=hazards.spoiled),
    Scenario("page-filtered", F, faults.filtered_page, ("telemetry-broken",), hazard=hazards.spoiled, dialects=V1),
    Scenario(
        "two-behind-one-address", F, faults.shared_address, ("telemetry-broken",), hazard=hazards.spoiled, dialects=V1
    ),
    Scenario("shedding", F, faults.shedding, ("overloaded-and-shedding",), hazard=hazards.refused, dialects=V1),
    # -- two at once ----------------------------------------------------------------------------------------------
    *compounds.ROWS,
    # -- look-alikes ----------------------------------------------------------------------------------------------
    Scenario("full-but-fine", L, mimics.full_but_fine, mimics="kv-cache-saturation"),
    Scenario("one-burst", L, mimics.one_burst, mimics="preemption-thrash"),
    Scenario("reserved-memory", L, mimics.reserved_memory, mimics="vram-headroom"),
    Scenario("slow-for-all", L, mimics.slow_for_all, mimics="prefill-decode-interference", truth=("batch-too-large",)),
    Scenario("nothing-shared", L, mimics.nothing_shared, mimics="prefix-cache-miss", truth=("prefill-bound",)),
    Scenario("everybody-waits", L, mimics.everybody_waits, mimics="head-of-line-blocking", truth=("batch-too-small",)),
    Scenario("every-tenant-grew", L, mimics.every_tenant_grew, mimics="noisy-tenant", truth=("unbounded-queue",)),
    Scenario("fast-link", L, mimics.fast_link, mimics="interconnect-bound"),
    Scenario("drained-burst", L, mimics.drained_burst, mimics="unbounded-queue"),
    Scenario("organic-growth", L, mimics.organic_growth, mimics="retry-storm", truth=("unbounded-queue",)),
    Scenario("asked-for", L, mimics.asked_for, mimics="unbounded-output"),
    Scenario("still-running", L, mimics.still_running, mimics="ghost-compute"),
    Scenario("personal-answers", L, mimics.personal_answers, mimics="uncached-repeats", truth=("batch-too-small",)),
    Scenario("more-users", L, mimics.more_users, mimics="fan-out", truth=("unbounded-queue",)),
    Scenario("batch-job", L, mimics.batch_job, mimics="runaway-agent"),
    Scenario(
        "many-connections", L, mimics.many_connections, mimics="connection-exhaustion", truth=("batch-too-small",)
    ),
    Scenario("idle-gpu", L, mimics.idle_gpu, mimics="api-server-bound"),
    Scenario(
        "adapters-not-grammars",
        L,
        mimics.adapters_not_grammars,
        mimics="grammar-compilation",
        truth=("adapter-slots",),
        dialects=V1,
    ),
    Scenario("cheap-schemas", L, mimics.cheap_schemas, mimics="grammar-compilation", dialects=V1),
    Scenario(
        "overload-from-the-start",
        L,
        mimics.overload_from_the_start,
        mimics="cold-start",
        truth=("batch-too-small",),
        young=True,
    ),
    Scenario(
        "out-of-memory",
        L,
        mimics.out_of_memory,
        mimics="rollout-and-probes",
        truth=("vram-headroom",),
        hazard=hazards.restarted,
        shown_by=HOST,
        lasts=0.9,
    ),
    Scenario("low-clocks", L, mimics.low_clocks, mimics="hardware-event"),
    Scenario("capped-harmless", L, mimics.capped_harmless, mimics="hardware-event"),
    Scenario("held-blocks", L, mimics.held_blocks, mimics="block-fragmentation", truth=("kv-cache-saturation",)),
    Scenario(
        "short-recompute",
        L,
        mimics.short_recompute,
        mimics="preemption-mode",
        truth=("preemption-thrash",),
        hazard=hazards.thrash,
    ),
    Scenario(
        "caching-off-nothing-shared",
        L,
        mimics.caching_off_nothing_shared,
        mimics="prefix-caching-off",
        truth=("prefill-bound",),
        shown_by=GATEWAY,
        dialects=V1,
    ),
    Scenario("in-proportion", L, mimics.in_proportion, mimics="context-imbalance", truth=("kv-cache-saturation",)),
    Scenario(
        "front-not-seats", L, mimics.front_not_seats, mimics="batch-too-small", truth=("api-server-bound",), dialects=V1
    ),
    Scenario(
        "few-steps-long",
        L,
        mimics.few_steps_long,
        mimics="batch-too-large",
        truth=("prefill-decode-interference",),
        dialects=("vllm", "sglang"),
    ),
    Scenario("poor-but-harmless", L, mimics.poor_but_harmless, mimics="draft-rejected", dialects=V1),
    Scenario("seats-not-compute", L, mimics.seats_not_compute, mimics="prefill-bound", truth=("batch-too-small",)),
    Scenario("long-step", L, mimics.long_step, mimics="not-serving"),
    Scenario(
        "grammars-not-adapters",
        L,
        mimics.grammars_not_adapters,
        mimics="adapter-slots",
        truth=("grammar-compilation",),
        dialects=V1,
    ),
    Scenario(
        "prefill-not-transfer",
        L,
        mimics.prefill_not_transfer,
        mimics="kv-transfer-bound",
        truth=("batch-too-small",),
        dialects=V1,
    ),
    Scenario("left-and-cancelled", L, mimics.left_and_cancelled, mimics="ghost-compute"),
    Scenario("quiet-page", L, mimics.quiet_page, mimics="telemetry-broken"),
    Scenario("open-queue", L, mimics.open_queue, mimics="overloaded-and-shedding", truth=("unbounded-queue",)),
    # -- healthy --------------------------------------------------------------------------------------------------
    Scenario("idle", H, mimics.idle),
    Scenario("chat", H, mimics.chat),
    Scenario("few", H, mimics.few),
    Scenario("bursts", H, mimics.bursts),
    Scenario("heavy-tail", H, mimics.heavy_tail),
    Scenario("documents", H, mimics.documents),
    Scenario("closed-loop", H, mimics.closed),
    Scenario("busy", H, mimics.busy),
    Scenario("prefix-hits", H, mimics.hits),
    Scenario("drafts-accepted", H, mimics.drafts),
    Scenario("after-too-few-seats", H, faults.batch_too_small, after=True),
    Scenario("after-restart", H, faults.rollout, after=True, dialects=VLLM),
    Scenario("after-prefill-surge", H, faults.prefill_bound, after=True),
    Scenario("after-full-pool", H, faults.kv_saturation, after=True),
)

SCENARIOS: tuple[Scenario, ...] = (
    *_ROWS,
    # every fault's deployment without it
    *(
        replace(
            row,
            name=f"without-{row.name}",
            kind=H,
            draw=mimics.without(row.draw),
            causes=(),
            hazard=None,
            shown_by=ENGINE,
        )
        for row in _ROWS
        if row.kind is F
    ),
)

BY_NAME: dict[str, Scenario] = {row.name: row for row in SCENARIOS}
