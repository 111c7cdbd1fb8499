"""The boards as data: rows of panels, panels of signal ids. ``grafana.py`` draws them; nothing here knows its JSON."""

from __future__ import annotations

from llmvitals.dashboards.alerting import ALERTS, PROMISES, WATCHING
from llmvitals.dashboards.hardware import GPUS, HOST, PLACED, UNPLACED
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    NO_TRAFFIC,
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
    gpu,
    q,
    total,
)
from llmvitals.dashboards.requests import REQUESTS

VERDICT = Row(
    "",
    (
        Panel(
            Kind.STAT,
            "Verdict",
            "none",
            (
                Query(
                    "{{verdict}}",
                    GREY,
                    promql=f"max by (instance, model, verdict) (llm_triage_verdict{{{SELECTOR}}} == 1)",
                ),
            ),
            "What the ordered triage concludes right now. healthy: nobody is hurt. cause: one cause leads, named"
            " beside it. shedding: load is refused and what is admitted is served in time. undetermined: something is"
            " wrong that the numbers cannot name; click for what it is blind to.",
            NO_EXPORTER,
            symptoms=("users-hurt", "half-blind"),
            height=5,
            leads=Leads.APP,
            by_name=True,
            names=(
                ("healthy", GREEN),
                ("cause", VERMILLION),
                ("shedding", ORANGE),
                ("no-traffic", GREY),
                ("undetermined", PURPLE),
            ),
        ),
        Panel(
            Kind.STAT,
            "Leading cause and its confidence",
            "percentunit",
            (
                Query(
                    "{{cause}}",
                    VERMILLION,
                    promql=f"max by (instance, model, cause) (llm_triage_leading{{{SELECTOR}}} > 0)",
                ),
            ),
            "The one cause that explains the rest, and how often such a verdict was right in the lab. Click it for"
            " the runbook: meaning, impact, diagnosis, and the setting to change.",
            "no cause leads; read the verdict",
            height=5,
            leads=Leads.RUNBOOK,
        ),
        Panel(
            Kind.STAT,
            "Can the numbers be trusted?",
            "none",
            (
                Query(
                    "target",
                    GREY,
                    promql=f"min by (instance) (llm_target_up{{{INSTANCE}}})",
                    by=("instance",),
                    names=((1, "answers", GREEN), (0, "does not answer", VERMILLION)),
                ),
                Query(
                    "checks without input",
                    GREY,
                    promql=f'sum by (instance, model) (llm_triage_check_state{{state="unknown",{SELECTOR}}})',
                ),
            ),
            "Whether each target gave a readable page, and how many checks lack a number they need. A check without"
            " its input is neither green nor red. If a target does not answer, everything below it is old.",
            NO_EXPORTER,
            symptoms=("target-gone", "nobody-watches"),
            causes=("telemetry-broken", "not-serving"),
            height=5,
        ),
        Panel(
            Kind.TIMELINE,
            "Causes over time",
            "none",
            (
                Query(
                    "{{cause}}",
                    VERMILLION,
                    promql="max by (instance, model, cause) "
                    f'(llm_triage_check_state{{state="firing",{SELECTOR}}} * 2'
                    f' or llm_triage_check_state{{state="shadowed",{SELECTOR}}})'
                    " and on (instance, model, cause)"
                    f' max_over_time(llm_triage_check_state{{state=~"firing|shadowed",{SELECTOR}}}[$__range] @ end()) > 0',
                    names=((2, "firing", VERMILLION), (1, "explained by another", ORANGE), (0, "not firing", GREY)),
                ),
            ),
            "One line per cause whose check fired in this time. 'explained by another' means that its condition holds"
            " but an earlier cause accounts for it. Begin with the line that began first. Click one for its runbook.",
            "no check fired, or no exporter: read the verdict",
            width=24,
            height=6,
            leads=Leads.RUNBOOK,
        ),
        Panel(
            Kind.STACK,
            "Where the time goes: queue, prefill, decode, front end",
            "s",
            (
                total("queue_mean_seconds", "queue", ORANGE),
                total("prefill_mean_seconds", "prefill", SKY),
                total("decode_mean_seconds", "decode", BLUE),
                total("frontend_residual_seconds", "front end", PURPLE),
            ),
            "Mean seconds of a finished request by phase, over everything selected; the bands add up to its whole"
            " time. Queue wide: admission or capacity, go to 'Queue and admission'. Prefill or decode wide: go to"
            " 'Engine and hardware'. Front end wide: tokenizer or API process. Only finished requests count: while a"
            " queue stands still, read the age of the oldest request below. Time spent preempted shows as decode.",
            "no traffic: no request finished in this window",
            causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "api-server-bound"),
            width=12,
            height=9,
        ),
        Panel(
            Kind.LINES,
            "What binds: KV cache next to GPU compute",
            "percentunit",
            (
                q("kv_usage_ratio", "KV", ORANGE),
                q("kv_usage_high_ratio", "KV high", ORANGE, dashed=True),
                gpu("gpu_sm_active_ratio", "SM", GREEN),
                gpu("gpu_tensor_active_ratio", "tensor", BLUE),
                gpu("gpu_dram_active_ratio", "DRAM", SKY),
            ),
            "KV memory and GPU activity on one axis. KV near 1 with the GPU low: memory binds, more compute does not"
            " help. GPU near 1 with KV low: compute binds (tensor: prefill; DRAM: decode). Both low while requests"
            " wait: the batch limits or the front end bind. Lines: KV {thresholds.kv_lines[0]:g} and"
            " {thresholds.kv_lines[1]:g} (a full pool is fine while nobody waits), GPU {thresholds.gpu_active:g}"
            " (lower while requests wait means under-used). The GPU needs a dcgm-exporter joined to the target.",
            "no KV or GPU series for this selection",
            causes=("kv-cache-saturation", "preemption-thrash", "batch-too-small", "batch-too-large"),
            limits=(Limit("thresholds.kv_lines"), Limit("thresholds.gpu_active", GREEN)),
            top=1,
            width=12,
            height=9,
        ),
    ),
)

USER = Row(
    "User experience",
    (
        Panel(
            Kind.LINES,
            "Time to first token",
            "s",
            (
                q("ttft_p50_seconds", "p50", SKY),
                q("ttft_p95_seconds", "p95", BLUE),
                q("ttft_p99_seconds", "p99", PURPLE, dashed=True),
            ),
            "Arrival to first token, as the API process saw it. The line is the promise for p95: {slo.ttft_seconds:g}"
            " s. Above it, look at the queue band on top first. Quantiles lie inside a bucket; the last bucket shows"
            " its lower bound.",
            NO_TRAFFIC,
            symptoms=("users-hurt", "first-tokens-late"),
            causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "cold-start"),
            limits=(Limit("slo.ttft_seconds"),),
        ),
        Panel(
            Kind.LINES,
            "Time per output token, per request",
            "s",
            (q("tpot_p50_seconds", "p50", SKY), q("tpot_p95_seconds", "p95", BLUE)),
            "Mean pace of each finished request after its first token. The line is the promise for p95:"
            " {slo.tpot_seconds:g} s. p50 above it too: slow for everybody, the batch is too large. Only p95: some"
            " requests are stalled or preempted.",
            NO_TRAFFIC,
            symptoms=("users-hurt", "tokens-slow"),
            causes=("batch-too-large", "prefill-decode-interference", "preemption-thrash"),
            limits=(Limit("slo.tpot_seconds"),),
        ),
        Panel(
            Kind.LINES,
            "Gap between tokens",
            "s",
            (q("itl_p50_seconds", "p50", SKY), q("itl_p99_seconds", "p99", PURPLE, dashed=True)),
            "Gap between two engine outputs of one request. A p99 many times p50 with a normal p50 means that long"
            " prefills stall running streams: lower max_num_batched_tokens.",
            NO_TRAFFIC,
            causes=("prefill-decode-interference",),
        ),
        Panel(
            Kind.LINES,
            "Whole request",
            "s",
            (q("e2e_p50_seconds", "p50", SKY), q("e2e_p95_seconds", "p95", BLUE)),
            "Arrival to last token of finished requests. It follows the length of the answers: judge the server by"
            " the first token and the pace, and use this to explain a client's timeout.",
            NO_TRAFFIC,
            causes=("unbounded-output",),
        ),
        Panel(
            Kind.LINES,
            "Goodput: share inside every promise",
            "percentunit",
            (
                q("goodput_low_ratio", "at least", BLUE),
                q("goodput_high_ratio", "at most", SKY, dashed=True),
                q("slo_goodput_ratio", "exact", GREEN),
                q("slo_ttft_attainment_ratio", "first tokens in time", ORANGE, dashed=True),
                q("slo_tpot_attainment_ratio", "pace in time", PURPLE, dashed=True),
            ),
            "Requests that met both promises (first token {slo.ttft_seconds:g} s, pace {slo.tpot_seconds:g} s). Two"
            " histograms give an interval, never one number; failed, rejected and overdue requests count against it."
            " Where traces tell every request, the exact share is drawn, each held to its own class."
            " The line is the objective, {slo.objective:g}.",
            "no traffic, or too many requests in flight to say",
            symptoms=("users-hurt", "goodput-low"),
            causes=("unbounded-queue", "batch-too-large"),
            limits=(Limit("slo.objective"),),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Errors and rejections",
            "percentunit",
            (
                q("error_ratio", "5xx", VERMILLION),
                q("rejection_ratio", "rejected", ORANGE, dashed=True),
                q("client_error_ratio", "4xx", GREY, dashed=True),
                q("lost_call_ratio", "lost at the gateway", PURPLE, dashed=True),
            ),
            "Share of answers that were server errors (5xx) or the client's fault (4xx), share refused at"
            " admission, and share of the calls that the gateway in front refused or failed. The line,"
            " {thresholds.error_ratio:g}, is where a client should stop trying. Rejections with"
            " a bounded queue are load shed on purpose.",
            "no traffic, or the page has no HTTP series",
            symptoms=("answers-fail",),
            causes=("not-serving", "rollout-and-probes", "retry-storm", "overloaded-and-shedding"),
            limits=(Limit("thresholds.error_ratio"),),
        ),
    ),
)

QUEUE = Row(
    "Queue and admission",
    (
        Panel(
            Kind.LINES,
            "Running and waiting",
            "none",
            (
                q("requests_running", "running", BLUE),
                q("requests_waiting", "waiting", ORANGE),
                q("requests_waiting_deferred", "deferred", PURPLE, dashed=True),
                q("preempted_waiting", "preempted", VERMILLION, dashed=True),
            ),
            "Requests in the batch and in the queue. Deferred ones wait for an adapter, a grammar or a transfer, not"
            " for room. Preempted ones were running and wait again: they must be computed anew.",
            "no queue series for this selection",
            causes=("kv-cache-saturation", "batch-too-small", "adapter-slots", "grammar-compilation"),
        ),
        Panel(
            Kind.LINES,
            "How old is the queue?",
            "s",
            (
                q("queue_age_seconds", "oldest is at least", VERMILLION),
                q("wait_ahead_seconds", "newcomer will wait", ORANGE, dashed=True),
            ),
            "The oldest waiting request, as a lower bound from the exporter's own history, and what a request that"
            " arrives now has ahead of it. Live: queue time itself is only known when a request finishes. The line is"
            " the promise for the first token, {slo.ttft_seconds:g} s: above it newcomers are late before they start.",
            "nobody waits, or the exporter has too little history",
            causes=("unbounded-queue", "kv-cache-saturation"),
            limits=(Limit("slo.ttft_seconds"),),
        ),
        Panel(
            Kind.LINES,
            "Share of time spent queued",
            "percentunit",
            (q("queue_share_ratio", "queued", ORANGE),),
            "Queue time as a share of queue and engine time of finished requests. Most of the time queued: the engine"
            " is not slow, it is full or held back by its limits.",
            "no traffic: no request finished in this window",
            causes=("kv-cache-saturation", "batch-too-small", "unbounded-queue"),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Arrivals and completions",
            "reqps",
            (q("arrival_rate", "arrive", ORANGE), q("completion_rate", "finish", BLUE)),
            "Requests that arrive and that finish, per second. Arrivals above completions for long means a queue"
            " without an end: cap it at service rate times the wait you accept, and answer 429 beyond.",
            NO_TRAFFIC,
            symptoms=("throughput-fell",),
            causes=("unbounded-queue", "noisy-tenant", "runaway-agent", "fan-out"),
        ),
        Panel(
            Kind.LINES,
            "Tokens that wait for room",
            "suffix: tok",
            (
                q("waiting_tokens", "waiting (estimate)", ORANGE),
                q("kv_capacity_tokens", "KV pool", BLUE, dashed=True),
            ),
            "Prompt tokens of waiting requests (estimate: waiting times the mean prompt) next to all that the KV pool"
            " holds. Waiting above the pool: no setting admits it at once, add a replica or cap admission.",
            "no capacity on this page, and nobody waits",
            causes=("kv-cache-saturation", "unbounded-queue"),
        ),
        Panel(
            Kind.LINES,
            "Work for clients that left",
            "percentunit",
            (
                q("wasted_decode_ratio", "decode wasted", VERMILLION),
                q("aborted_requests", "aborted", ORANGE, dashed=True, unit="none"),
            ),
            "Requests whose client went away in the window (right axis), and the share of generated tokens nobody"
            " received. Pass cancellation on and switch off proxy buffering.",
            "no aborts seen",
            causes=("ghost-compute",),
        ),
    ),
)

ENGINE = Row(
    "Engine and hardware",
    (
        PLACED,
        UNPLACED,
        Panel(
            Kind.LINES,
            "Seats: how many contexts fit",
            "none",
            (
                q("seats", "seats", GREEN),
                q("requests_running", "running", BLUE),
                q("mean_context_tokens", "mean context", GREY, dashed=True, unit="suffix: tok"),
            ),
            "KV tokens divided by the mean resident context (right axis), next to the requests running. Running above"
            " the seats: preemption is near, set max_num_seqs to the seats. Running far below with requests waiting:"
            " the batch limits bind.",
            "no traffic, or no capacity on this page",
            causes=("preemption-thrash", "batch-too-small", "context-imbalance"),
        ),
        Panel(
            Kind.LINES,
            "Preemptions",
            "suffix: /min",
            (
                q("preemptions_per_minute", "per minute", VERMILLION),
                q("preemptions_per_completion", "per finished request", ORANGE, dashed=True, unit="none"),
            ),
            "Running requests evicted to make room; each is computed anew. The line is"
            " {thresholds.preemptions_per_minute:g} a minute. Above {thresholds.preemptions_per_completion:g} per"
            " finished request (right axis) the engine works against itself: admit fewer.",
            "no preemption counter on this page",
            causes=("preemption-thrash", "preemption-mode"),
            limits=(Limit("thresholds.preemptions_per_minute"),),
        ),
        Panel(
            Kind.LINES,
            "Prefix cache",
            "percentunit",
            (
                q("prefix_hit_ratio", "hit ratio", GREEN),
                q("prefix_turnover_seconds", "pool turns over in", GREY, dashed=True, unit="s"),
            ),
            "Share of prompt tokens found in the cache, and how long the pool takes to be overwritten (right axis)."
            " Low hits with a short turnover: prefixes are evicted. Low hits with a long one: they never match, move"
            " varying fields to the end of the prompt.",
            "no traffic, or prefix caching is off",
            causes=("prefix-cache-miss", "prefix-caching-off", "uncached-repeats"),
        ),
        Panel(
            Kind.LINES,
            "Tokens per second",
            "suffix: tok/s",
            (
                q("prompt_tokens_rate", "prompt", SKY),
                q("generation_tokens_rate", "generated", BLUE),
            ),
            "Throughput in and out. Prompt tokens on a plateau while requests wait: prefill binds. A fall at an"
            " unchanged number of running requests: the engine became slower.",
            NO_TRAFFIC,
            symptoms=("throughput-fell",),
            causes=("prefill-bound", "batch-too-large"),
        ),
        Panel(
            Kind.LINES,
            "Step size and draft acceptance",
            "suffix: tok",
            (
                q("iteration_tokens_mean", "tokens per step", BLUE),
                q("draft_acceptance_ratio", "drafts accepted", GREEN, dashed=True, unit="percentunit"),
            ),
            "Tokens handled in one engine step, and the share of speculative tokens that were accepted (right axis)."
            " Acceptance under {thresholds.draft_acceptance:g} does not pay: another draft model, or none.",
            "no traffic",
            causes=("draft-rejected", "prefill-decode-interference"),
        ),
    ),
)

BOARDS: tuple[Board, ...] = (
    Board(
        uid="llmvitals-serving",
        file="dashboards/llm-serving.json",
        title="LLM serving",
        description="Why is it slow, and what to change: the verdict, the two separations, the three layers, the machine.",
        rows=(VERDICT, ALERTS, USER, PROMISES, REQUESTS, QUEUE, ENGINE, GPUS, HOST, WATCHING),
    ),
)
