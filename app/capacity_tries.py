"""The two tabs of the capacity page that ask before they work something out: a plan for users, and what a change would
do.
"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

import capacity_parts
import picked
from llmvitals.audit import defaults
from llmvitals.capacity.changes import Running, compare
from llmvitals.capacity.model import Model
from llmvitals.capacity.plan import OUTPUT, PROMPT, Demand, repeatable
from llmvitals.capacity.report import KV_DTYPES, WEIGHT_DTYPES, Answer, planned
from llmvitals.capacity.whatif import Load, Promise
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings
from llmvitals.sources.now import Now
from words import t

RATE = 2.0
"""Calls per second where no running engine tells."""

MOST = 10_000_000.0


def ask_plan(model: Model, found: Answer, now: Now | None, settings: Settings) -> None:
    """Users, their calls and tokens; then replicas, and what binds."""
    tag = now.instance if now is not None else ""  # another engine fills the fields anew
    with st.form("plan", border=False):
        (users, asks, calls), (turns, prompt, output), (added, cached, pace) = (
            st.columns(3, vertical_alignment="bottom") for _ in range(3)
        )
        demand = Demand(
            users=number(users, t("Users active at once"), f"plan-users-{tag}", 500.0),
            requests_per_minute=number(asks, t("Requests per user and minute"), f"plan-requests-{tag}", 1.0),
            calls=number(calls, t("Model calls side by side"), f"plan-calls-{tag}", 1.0),
            turns=int(number(turns, t("Rounds per request"), f"plan-turns-{tag}", 1.0, high=1000, whole=True)),
            prompt=number(
                prompt, t("Prompt tokens of the first call"), f"plan-prompt-{tag}", told(now, "prompt", PROMPT)
            ),
            output=number(output, t("Output tokens of a call"), f"plan-output-{tag}", told(now, "output", OUTPUT)),
            added=number(added, t("Tokens that a tool adds"), f"plan-added-{tag}", 0.0, low=0.0),
            cached=number(
                cached,
                t("Share of prompts from cache"),
                f"plan-cached-{tag}",
                told(now, "cached", 0.0),
                low=0.0,
                high=1.0,
            ),
            pace=number(pace, t("Seconds per output token"), f"plan-pace-{tag}", settings.slo.tpot_seconds, high=10.0),
        )
        asked = st.form_submit_button(t("Work out the plan"))
    if asked:
        st.session_state["planned"] = demand
    if not isinstance(st.session_state.get("planned"), Demand):
        st.html(
            capacity_parts.facts(t("An agent that calls tools in rounds repeats its whole context in each of them."))
        )
        return
    demand = st.session_state["planned"]
    try:
        plan = planned(model, found.question, demand)
    except LlmvitalsError as error:
        picked.wrong(error)
        return
    st.html(capacity_parts.plan(plan))
    if demand.turns > 1:
        most = t(
            "Of all prompt tokens, {share} repeat what a round before said: the most that a prefix cache gives back to one agent.",
            share=capacity_parts.share(repeatable(demand)),
        )
        st.html(capacity_parts.facts(most))
    st.html(
        capacity_parts.facts(
            t("An estimate by a roofline, with pools at most 90 % full and prompts at most 80 % of the time.")
        )
    )


def ask_change(model: Model, found: Answer, now: Now | None, settings: Settings) -> None:
    """The deployment as it is, and one or several changes; both are simulated when the button is pressed."""
    question = found.question
    tag = now.instance if now is not None else ""
    usual_seats, usual_step = defaults.usual(question.gpu, question.memory_gb or 0.0)
    with st.form("whatif", border=False):
        one, two = st.columns(2, gap="medium")
        one.markdown(f"**{t('As it is')}**")
        two.markdown(f"**{t('What if')}**")
        with one:
            rate = number(
                one, t("Calls per second"), f"now-rate-{tag}", now.rate if now is not None and now.rate else RATE
            )
            replicas = int(number(one, t("Replicas"), f"now-replicas-{tag}", 1.0, whole=True))
            seats = int(number(one, t("max_num_seqs"), f"now-seats-{tag}-{question.gpu}", usual_seats, whole=True))
            batch = int(
                number(one, t("max_num_batched_tokens"), f"now-batch-{tag}-{question.gpu}", usual_step, whole=True)
            )
            prompt = number(one, t("Prompt tokens"), f"now-prompt-{tag}", told(now, "prompt", PROMPT))
            output = number(one, t("Output tokens"), f"now-output-{tag}", told(now, "output", OUTPUT))
            cached = number(
                one, t("Share of prompts from cache"), f"now-cached-{tag}", told(now, "cached", 0.0), low=0.0, high=1.0
            )
        with two:
            wanted = {
                "rate": optional(two, t("Calls per second"), "if-rate"),
                "replicas": optional(two, t("Replicas"), "if-replicas"),
                "max_num_seqs": optional(two, t("max_num_seqs"), "if-seats"),
                "max_num_batched_tokens": optional(two, t("max_num_batched_tokens"), "if-batch"),
                "gpus": optional(two, t("GPUs of a replica"), "if-gpus"),
                "kv_dtype": two.selectbox(t("KV cache"), KV_DTYPES, index=None, key="if-kv", placeholder=t("as it is"))
                or "",
                "weight_dtype": two.selectbox(
                    t("Weights"), WEIGHT_DTYPES, index=None, key="if-weights", placeholder=t("as it is")
                )
                or "",
            }
        asked = st.form_submit_button(t("Simulate both"))
    if asked:
        pool = question.kv_capacity / replicas if question.kv_capacity is not None else None
        running = Running(
            replace(question, kv_capacity=pool), Load(rate, prompt, output, cached=cached), replicas, seats, batch
        )
        changes = {name: value for name, value in wanted.items() if value}
        promise = Promise(settings.slo.ttft_seconds, settings.slo.tpot_seconds)
        st.session_state.pop("compared", None)
        try:
            with st.spinner(t("Both are simulated.")):
                st.session_state["compared"] = compare(model, running, changes, promise)
        except LlmvitalsError as error:
            picked.wrong(error)
            return
    kept = st.session_state.get("compared")
    if kept is None:
        st.html(
            capacity_parts.facts(
                t("Change something on the right. Both sides are simulated, which takes some seconds.")
            )
        )
        return
    st.html(capacity_parts.compared(kept, now))


def told(now: Now | None, name: str, usual: float) -> float:
    """A number of the running engine, or what usually stands there."""
    value = getattr(now, name) if now is not None else None
    return usual if value is None else float(value)


def number(
    place: st.delta_generator.DeltaGenerator,
    label: str,
    key: str,
    usual: float,
    *,
    low: float = 0.001,
    high: float = MOST,
    whole: bool = False,
) -> float:
    """A number of a form."""
    if whole:
        return float(place.number_input(label, min_value=1, max_value=int(high), value=round(usual), step=1, key=key))
    kept = min(high, max(low, usual))
    return float(
        place.number_input(label, min_value=low, max_value=high, value=float(f"{kept:.4g}"), key=key, format="%.10g")
    )


def optional(place: st.delta_generator.DeltaGenerator, label: str, key: str) -> str:
    """A change: empty for none, a number, ``+1``, or of the rate ``x2``."""
    return str(place.text_input(label, key=key, placeholder=t("as it is")) or "").strip()
