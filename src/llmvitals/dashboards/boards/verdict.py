"""What stands on top of a service's board: the verdict, the causes over time, and the two separations.

Where the time goes (queue, prefill, decode, front end), and what binds (KV memory next to compute): most of what is wrong with a
server can be told apart by these two.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.phases import bands
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
    gpu,
    of_target,
    q,
)

LEADING = f"max by (instance, model, cause) (llm_triage_leading{{{SELECTOR}}} > 0)"
"""The cause that leads, and how often such a verdict was right."""

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
            moved=("chat", "idle", "kv-cache-saturation"),
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
                    promql=LEADING,
                ),
            ),
            "The one cause that explains the rest, and how often such a verdict was right in the lab. Click it for"
            " the runbook: meaning, impact, diagnosis, and the setting to change.",
            "no cause leads; read the verdict",
            moved=("kv-cache-saturation", "preemption-thrash", "api-server-bound"),
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
                    promql=of_target("llm_target_up", agg="min"),
                    by=("instance",),
                    names=((1, "answers", GREEN), (0, "does not answer", VERMILLION)),
                ),
                Query(
                    "checks without input",
                    GREY,
                    promql="sum by (instance, model) (max by (instance, model, cause)"
                    f' (llm_triage_check_state{{state="unknown",{SELECTOR}}}))',
                ),
                Query(
                    "servers",
                    BLUE,
                    promql=f'count by () (llm_target_up{{exported_instance!="",{INSTANCE}}}) > bool 0'
                    f" or on () count by () (llm_target_up{{{INSTANCE}}}) * 0",
                    by=(),
                    names=((0, "told apart", GREEN), (1, "taken for one", VERMILLION)),
                ),
            ),
            "Whether each target gave a readable page, how many checks lack a number they need, and whether servers are told"
            " apart. A check without its input is neither green nor red. If a target does not answer, everything below it is"
            " old. Taken for one: the exporter's scrape job lacks honor_labels: true.",
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
            moved=("kv-cache-saturation", "preemption-thrash", "api-server-bound"),
            width=24,
            height=6,
            leads=Leads.RUNBOOK,
        ),
        Panel(
            Kind.STACK,
            "Where the time goes: queue, prefill, decode, front end",
            "s",
            bands("front end"),
            "Mean seconds of a finished request by phase, over everything selected; the bands add up to its whole time. Queue wide:"
            " admission or capacity, go to 'Queue and admission'. Prefill or decode wide: go to 'Engine'. Front end wide: tokenizer"
            " or API process, go to 'GPUs and host'. Not told apart: engines that time no phases. Only finished requests count:"
            " while a queue stands still, read the age of the oldest request. Preempted time shows as decode.",
            "no traffic, or no engine here times whole requests",
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
