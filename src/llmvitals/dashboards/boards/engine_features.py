"""Rows of the engine's board that need a feature: drafts, adapters, KV that moves, and the engine's own estimate of its work."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import APART, asked, gauge, mean, over, quantile, rate
from llmvitals.dashboards.boards.engine_steps import STEPS_OF_A_RANK
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    WINDOW,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    q,
)
from llmvitals.simulator.hardware import GPUS

_NO_DRAFTS = "no traffic with drafts: the engine does not speculate, or does not count it"
_DRAFTS, _DRAFTED, _TAKEN = "llm_spec_drafts_total", "llm_spec_draft_tokens_total", "llm_spec_accepted_tokens_total"
_LENGTH = f"(1 + {over(rate(_TAKEN), rate(_DRAFTS))})"

DRAFTS = Row(
    "Speculative decoding (needs a draft model or n-grams)",
    (
        Panel(
            Kind.LINES,
            "Draft tokens accepted",
            "percentunit",
            (q("draft_acceptance_ratio", "accepted", GREEN),),
            "Share of proposed tokens that the model accepted. Under the line, {thresholds.draft_acceptance:g}, speculation costs"
            " more than it saves as a rule: another draft model, fewer tokens per draft, or none. 0.7 to 0.9 is usual.",
            _NO_DRAFTS,
            causes=("draft-rejected",),
            limits=(Limit("thresholds.draft_acceptance"),),
            top=1,
            moved=("drafts-accepted",),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Is it worth it? Tokens of a step beside its time",
            "suffix: tok",
            (
                asked("tokens that a request gets per step", BLUE, _LENGTH),
                asked(
                    "a step takes",
                    ORANGE,
                    f"1 / {STEPS_OF_A_RANK}"
                    f" and on (instance, model) {rate(_DRAFTS)} > 0 and on (instance, model) <requests_running> > 0",
                    dashed=True,
                    unit="s",
                ),
            ),
            "One token of its own plus the accepted ones of a draft, and the time of a step (right axis). Speculation pays while"
            " the first grows by more than the second compared with a run without drafts: 2 tokens in a step of 1.5 times the"
            " length is a gain of a third.",
            _NO_DRAFTS,
            causes=("draft-rejected",),
            moved=("drafts-accepted",),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Accepted by position in the draft",
            "percentunit",
            (
                asked(
                    "position",
                    GREEN,
                    f"{rate('llm_spec_accepted_tokens_by_position_total', f'{APART}, position')}"
                    f" / on (instance, model) group_left () ({rate(_DRAFTS)} > 0)",
                    "instance",
                    "model",
                    "position",
                ),
            ),
            "Share of drafts whose token at each position was accepted. It falls with the position, as each needs all before it."
            " Positions that are hardly ever accepted are work for nothing: shorten the draft to those before.",
            "no traffic with drafts, or no positions: vLLM from 0.8.5 counts them",
            causes=("draft-rejected",),
            top=1,
            moved=("drafts-accepted",),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Rejected drafts",
            "suffix: tok/s",
            (
                asked("rejected", VERMILLION, f"clamp_min({rate(_DRAFTED)} - {rate(_TAKEN)}, 0)"),
                asked("accepted", GREEN, rate(_TAKEN), dashed=True),
            ),
            "Draft tokens per second that were computed and thrown away, beside those that were kept. At a full batch rejected ones"
            " take compute from other requests: many engines should speculate only while few run.",
            "the engine does not speculate, or does not count it",
            causes=("draft-rejected",),
            moved=("drafts-accepted",),
            width=12,
        ),
    ),
    collapsed=True,
)

_NO_LORA = "no adapters: the engine serves none, was started without --enable-lora, or does not say"
ADAPTERS = Row(
    "Adapters (needs --enable-lora)",
    (
        Panel(
            Kind.LINES,
            "Adapter slots",
            "none",
            (
                q("lora_slots", "slots", GREY, dashed=True),
                asked("adapters running", BLUE, gauge("llm_lora_running_adapters", agg="max")),
                asked("adapters waited for", PURPLE, gauge("llm_lora_waiting_adapters", agg="max")),
            ),
            "Adapters in the running batch, those that waiting requests need and that do not run, and how many may run at once"
            " (max_loras). Running at the slots while others are waited for: raise max_loras, or keep an adapter's requests"
            " on one replica. SGLang does not say what is waited for.",
            _NO_LORA,
            causes=("adapter-slots",),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "What adapters hold back",
            "percentunit",
            (
                q("adapters_short_ratio", "waiting with every slot taken", PURPLE),
                q("deferred_share_ratio", "waiting, and none of them for room", ORANGE, dashed=True),
            ),
            "Of the moments with waiting requests, the share in which every adapter slot was taken, and in which nobody waited for"
            " room. Both high: slots are the bound, and a larger KV pool or more seats change nothing.",
            "nobody waited long enough to tell, or this engine tells neither adapters nor who waits for what",
            causes=("adapter-slots",),
            top=1,
            width=12,
        ),
    ),
    collapsed=True,
)

_SECONDS, _BYTES, _FAILED = (f"llm_kv_transfer_{what}" for what in ("seconds", "bytes", "failures_total"))
_LINK = ("instance", "model", "connector")
_BY_LINK = ", ".join(_LINK)
_ROLE = f"max by (instance, role) (llm_engine_role{{{SELECTOR}}})"
_NO_MOVES = "no traffic between engines: no KV moved, or this engine has no KV connector or does not say it"
_NO_TIER = "no slower tier: the engine offloads no KV, or does not say it"


def _per_link(legend: str, color: str, promql: str, *, dashed: bool = False, unit: str = "") -> Query:
    return asked(legend, color, promql, *_LINK, dashed=dashed, unit=unit)


MOVEMENT = Row(
    "KV that moves (needs a KV connector, an offload tier, or roles)",
    (
        Panel(
            Kind.LINES,
            "Time of a KV transfer",
            "s",
            (
                _per_link("mean", BLUE, mean(_SECONDS, _BY_LINK)),
                quantile(0.95, _SECONDS, "p95", PURPLE, "connector", dashed=True),
            ),
            "How long KV takes from one engine to another, by connector. It is part of the wait for the first token on a decode"
            " worker. Longer at unchanged bytes: the link is shared, or slower than it was.",
            _NO_MOVES,
            causes=("kv-transfer-bound",),
        ),
        Panel(
            Kind.LINES,
            "Transfer's share of the first token",
            "percentunit",
            (asked("transfer", PURPLE, f"clamp_max({over('<kv_transfer_mean_seconds>', '<ttft_mean_seconds>')}, 1)"),),
            "Mean transfer over mean time to first token, an estimate since the two are not of the same requests. Most of it: the"
            " link between prefill and decode is the bound, and neither worker's GPU.",
            _NO_MOVES,
            causes=("kv-transfer-bound",),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Bandwidth of KV transfers",
            "Bps",
            (
                _per_link(
                    "while one moves", BLUE, over(rate(f"{_BYTES}_sum", _BY_LINK), rate(f"{_SECONDS}_sum", _BY_LINK))
                ),
                _per_link("moved per second", SKY, rate(f"{_BYTES}_sum", _BY_LINK), dashed=True),
            ),
            "Bytes over the seconds that transfers took, which is what one of them gets of the link, and bytes moved per second of"
            " the clock. The second near what the link can carry: it is full. The first far below it with the second low:"
            " transfers are small, or wait for something else.",
            "this engine has no KV connector, or does not count its bytes",
            causes=("kv-transfer-bound",),
        ),
        Panel(
            Kind.LINES,
            "Share of KV transfers that fail",
            "percentunit",
            (
                _per_link(
                    "failed",
                    VERMILLION,
                    over(
                        rate(_FAILED, _BY_LINK),
                        f"({rate(_FAILED, _BY_LINK)} + {rate(f'{_SECONDS}_count', _BY_LINK)})",
                    ),
                ),
            ),
            "Failed transfers over all of them. The prompt of a failed one is computed again where it was to be received, after the"
            " connector's timeout: users see a long wait for the first token.",
            _NO_MOVES,
            causes=("kv-transfer-bound",),
            top=1,
        ),
        Panel(
            Kind.LINES,
            "Slower tier in use",
            "percentunit",
            (asked("in use", ORANGE, gauge("llm_kv_offload_usage_ratio", agg="max")),),
            "How full the tier is that KV is offloaded to: host memory, a disk, a store. Full is its purpose; it matters whether"
            " what is in it is ever loaded again, beside.",
            _NO_TIER,
            causes=("prefix-cache-miss",),
            top=1,
            apart="an engine with a slower KV tier, which the simulated one does not have",
        ),
        Panel(
            Kind.LINES,
            "Traffic of the slower tier",
            "Bps",
            (
                asked(
                    "{{direction}}",
                    BLUE,
                    rate("llm_kv_offload_bytes_total", "instance, model, direction"),
                    "instance",
                    "model",
                    "direction",
                ),
            ),
            "KV bytes per second to the slower tier (store) and back (load). Stores without loads: it keeps what nobody asks for"
            " again. Loads near what PCIe or the store can carry: computing anew may be quicker.",
            _NO_TIER,
            causes=("prefix-cache-miss",),
            apart="an engine with a slower KV tier, which the simulated one does not have",
        ),
        Panel(
            Kind.LINES,
            "Prefill and decode workers: who is short?",
            "none",
            tuple(
                asked(
                    legend,
                    color,
                    f"sum by (role) ({_ROLE} * on (instance) group_left () {gauge(family, 'instance')})",
                    "role",
                    dashed=dashed,
                )
                for legend, color, family, dashed in (
                    ("run at", BLUE, "llm_requests_running", False),
                    ("wait at", ORANGE, "llm_requests_waiting", False),
                )
            ),
            "Requests that run and wait at workers that only prefill, only decode, or do both. Waiting at prefill with decode at"
            " ease: too few prefill workers for these prompts. The other way round: too few for these answers. The ratio of the"
            " two queues is the balance to set.",
            "no roles here: engines that do both, or that do not say (set role in the settings)",
            causes=("kv-transfer-bound", "prefill-bound"),
            apart="servers of several roles, and a play has one server",
            width=24,
        ),
    ),
    collapsed=True,
)

_NO_MFU = (
    "no traffic, or the engine does not estimate its work: --enable-mfu-metrics (vLLM from 0.17, SGLang from 0.5.10)"
)
_MFU_APART = "an engine that estimates its work, which the simulated one does not do"


def _per_gpu(what: str) -> str:
    """What a rank estimates for each of its GPUs, the mean of a replica's ranks: their sum would be of several GPUs."""
    return f"avg by ({APART}) (rate(llm_estimated_{what}_total{{{SELECTOR}}}[{WINDOW}]))"


_FLOPS, _READ, _WRITTEN = (_per_gpu(what) for what in ("flops", "read_bytes", "write_bytes"))
_MOVED = f"({_READ} + {_WRITTEN})"


def _peak(what: str) -> str:
    """The peak of each replica's cards by their product's name, from the table that the simulator's cards come from."""
    each = (
        f'(max by (instance) (llm_gpu_info{{product="{product}",{INSTANCE}}}) * 0 + {peak:g})'
        for product, peak in {card.product: getattr(card, what) for card in GPUS.values()}.items()
    )
    return f"({' or '.join(each)})"


ESTIMATED = Row(
    "Work as the engine estimates it (needs --enable-mfu-metrics)",
    (
        Panel(
            Kind.LINES,
            "Compute, per GPU",
            "flops",
            (asked("estimated", BLUE, f"{_FLOPS} > 0"),),
            "Floating-point operations per second and GPU, as the engine estimates them from its model and the tokens of each step."
            " It is no measurement: what kernels do beside the model's own arithmetic is not in it.",
            _NO_MFU,
            causes=("prefill-bound",),
            apart=_MFU_APART,
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Memory traffic, per GPU",
            "Bps",
            (
                asked("read", SKY, f"{_READ} > 0"),
                asked("written", ORANGE, f"{_WRITTEN} > 0", dashed=True),
            ),
            "Bytes per second that a GPU moves, as the engine estimates them: weights and KV. Near what the card's memory can"
            " carry, decode is bound by bandwidth, and a larger batch gets more out of the same reads.",
            _NO_MFU,
            causes=("batch-too-large",),
            apart=_MFU_APART,
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Share of the card's peak",
            "percentunit",
            (
                asked("compute (MFU)", BLUE, f"({_FLOPS} > 0) / on (instance) group_left () {_peak('flops')}"),
                asked(
                    "memory bandwidth",
                    SKY,
                    f"({_MOVED} > 0) / on (instance) group_left () {_peak('bandwidth')}",
                    dashed=True,
                ),
            ),
            "The estimates over what the card can do at best by its data sheet: dense 16-bit operations, and memory bandwidth. With"
            " 8-bit weights compute may pass 1. Compute high: prefill binds. Bandwidth high: decode does. Both low: steps wait"
            " for something else. Only for cards whose data sheet is known here.",
            f"{_NO_MFU}, or its card is not known here",
            causes=("prefill-bound", "batch-too-small"),
            apart=_MFU_APART,
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Operations per byte",
            "suffix: FLOP/B",
            (asked("intensity", PURPLE, over(_FLOPS, _MOVED)),),
            "Arithmetic intensity as the engine estimates it. Low, as in decode with a small batch: memory bandwidth is the bound."
            " It rises with the batch and with prefill; where it passes the card's own ratio of compute to bandwidth (about 200 to"
            " 300 on data-centre cards) compute takes over.",
            _NO_MFU,
            causes=("batch-too-large", "prefill-bound"),
            apart=_MFU_APART,
            width=12,
        ),
    ),
    collapsed=True,
)
