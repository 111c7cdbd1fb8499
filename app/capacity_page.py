"""What fits where: KV pool and seats of a model on GPUs, layouts, queues, a plan for users, and what a change would do."""

from __future__ import annotations

import json

import streamlit as st

import capacity_charts
import capacity_parts
import capacity_tries
import parts
import picked
from llmvitals.app import capacity
from llmvitals.app.answer import Answer as AskedAnswer
from llmvitals.app.ask import Failure, ask
from llmvitals.capacity.document import document
from llmvitals.capacity.known import KNOWN
from llmvitals.capacity.model import Model
from llmvitals.capacity.report import Answer, answer
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings, Source
from llmvitals.sources.model_config import model_of, parse
from llmvitals.sources.model_fields import LARGEST_FILE
from llmvitals.sources.now import Now
from words import later, t

PASTED = "config.json"
LABELS = {
    "gpus": later("GPUs of a replica"),
    "total": later("GPUs in all"),
    "weights": later("Weights"),
    "kv": later("KV cache"),
    "context": later("Tokens of a request"),
    "wait": later("Acceptable wait, s"),
    "rate": later("Finished per second"),
    "stages": later("Pipeline stages"),
}
ROWS = (("gpus", "total"), ("weights", "kv"), ("context", "stages"), ("rate", "wait"))
"""Two fields beside one another; on a phone one below the other, in the same order."""


def main() -> None:
    """The form on the left, what comes of it on the right; below one another on a phone."""
    st.html(parts.STYLE + capacity_parts.STYLE)
    st.html(
        parts.top(
            t("Capacity"),
            t(
                "How many requests a model holds at once on which GPUs, from its config and from what runs. What follows from the "
                "config is exact; memory beside the weights and all speeds are estimates."
            ),
        )
    )
    settings = loaded()
    now = from_engine(settings) if settings.sources else None
    filled = capacity.fills(now) if now is not None else {}
    form, wrong = capacity.read(st.query_params.to_dict(), filled)
    for name in wrong:
        picked.notice(
            "settings",
            t("'{name}' in the address cannot mean that", name=name),
            "",
            t("It is left at what it usually is."),
        )
    left, right = st.columns((4, 7), gap="large")
    with left:
        model = ask_model(form)
        ask_form(form, filled)
    remember(form, filled)
    with right:
        if model is None:
            if now is not None and now.kv_capacity is not None:
                st.html(capacity_parts.measured(now, now.kv_capacity, float(form["context"])))
            st.html(
                capacity_parts.facts(t("Paste a model's config.json on the left, upload it, or choose a known model."))
            )
        else:
            show(model, form, now, settings)


def loaded() -> Settings:
    """The settings; without any, or with a file that is not valid (which is said), the defaults."""
    try:
        return picked.settings_of_app()
    except LlmvitalsError as error:
        picked.wrong(error)
        return Settings()


def from_engine(settings: Settings) -> Now | None:
    """What runs, from the chosen source and scope; None where nothing is taken from there."""
    sidebar = picked.slots()
    found = picked.opened(sidebar, picked.forget_scope, settings)
    if found is None or not st.toggle(
        t("Fill in what runs"), value=st.query_params.get("live") == "1", key="live", on_change=fill
    ):
        return None
    _, source, at = found
    scope = {key: st.query_params.get(key, "") for key in ("instance", "model")}
    first = look(source, scope, at, settings)
    if not isinstance(first, AskedAnswer):
        picked.wrong(first, "unreachable")
        return None
    listed = first.choices(scope)
    keys, current = list(listed), first.current(scope)
    key = st.selectbox(
        t("Scope"), keys, index=keys.index(current), format_func=lambda one: listed[one].name, on_change=refill
    )
    st.query_params.update(dict(zip(("instance", "model"), key, strict=True)))
    now, why = running(source, key, at, settings)
    if why:
        picked.notice("no-history", why)
        return None
    st.html(capacity_parts.live(now))
    return now


@st.cache_data(ttl=60.0, show_spinner=False, max_entries=16)
def look(source: Source, scope: dict[str, str], at: float | None, settings: Settings) -> AskedAnswer | Failure:
    """Which scopes there are. For a minute: the form must not change while somebody fills it in."""
    return ask(source, scope, at, settings)


@st.cache_data(ttl=60.0, show_spinner=False, max_entries=64)
def running(source: Source, key: tuple[str, str], at: float | None, settings: Settings) -> tuple[Now, str]:
    """What runs, as it was read at most a minute ago."""
    return capacity.running(source, key, at, settings)


def fill() -> None:
    """The numbers that the engine tells take the place of what stood there."""
    if st.session_state["live"]:
        st.query_params["live"] = "1"
    else:
        st.query_params.pop("live", None)
    refill()


def refill() -> None:
    """What stood there gives way to what the engine tells."""
    for name in ("context", "rate"):
        st.session_state.pop(name, None)
        st.query_params.pop(name, None)


def ask_model(form: capacity.Form) -> Model | None:
    """A known model, or a config that is uploaded or pasted. What is wrong with it is said under it."""
    names = {capacity.OWN: t("its own config.json")} | {name: name for name in KNOWN}
    form["known"] = pick(t("Model"), "known", form, names)
    if form["known"]:
        return KNOWN[str(form["known"])]
    file = st.file_uploader(t("Upload config.json"), type=["json"], key="file")
    pasted = st.text_area(
        t("or paste it"), key="config", height=130, max_chars=400_000, placeholder='{"num_hidden_layers": 80, ...}'
    )
    if file is not None and file.size > LARGEST_FILE:
        picked.notice(
            "settings", t("has {bytes} bytes, far more than a config.json", bytes=f"{file.size:,}"), file.name
        )
        return None
    text, place = (file.getvalue().decode("utf-8", "replace"), file.name) if file is not None else (pasted, PASTED)
    if not text.strip():
        return None
    try:
        return model_of(parse(text, place), place=place)
    except LlmvitalsError as error:
        picked.wrong(error)
        return None


def ask_form(form: capacity.Form, filled: dict[str, float]) -> None:
    """GPUs, data types, length and queue."""
    form["gpu"] = pick(t("GPU"), "gpu", form)
    for row in ROWS:
        for place, name in zip(st.columns(2, vertical_alignment="bottom"), row, strict=True):
            with place:
                form[name] = (
                    number(t(LABELS[name]), name, form)
                    if name in capacity.BY_NAME
                    else pick(t(LABELS[name]), name, form)
                )
    with st.expander(t("Memory that the engine takes")):
        form["share"] = number(t("gpu_memory_utilization"), "share", form)
        form["overhead"] = number(t("Activations and graphs, GB per GPU"), "overhead", form)
    if filled:
        st.caption(t("Tokens and rate are those of the running engine until you change them."))


def pick(label: str, name: str, form: capacity.Form, words: dict[str, str] | None = None) -> str:
    """One of the choices, as the address has it at first."""
    options = next(choice.options for choice in capacity.CHOICES if choice.name == name)
    if name not in st.session_state:
        st.session_state[name] = form[name]
    said = words or {}
    return str(st.selectbox(label, options, key=name, format_func=lambda one: said.get(one, one)))


def number(label: str, name: str, form: capacity.Form) -> float:
    """One of the numbers, as the address or the running engine has it at first."""
    limits = capacity.BY_NAME[name]
    kind = int if limits.whole else float
    if name not in st.session_state:
        st.session_state[name] = kind(form[name])
    return float(
        st.number_input(
            label,
            min_value=kind(limits.low),
            max_value=kind(limits.high),
            step=kind(1) if limits.whole else 0.1,
            key=name,
        )
    )


def remember(form: capacity.Form, filled: dict[str, float]) -> None:
    """The address says what was chosen, so that it can be sent; a config is not put there."""
    told = capacity.address(form, filled)
    for name in (*(one.name for one in capacity.NUMBERS), *(one.name for one in capacity.CHOICES)):
        if name in told:
            st.query_params[name] = told[name]
        else:
            st.query_params.pop(name, None)


def show(model: Model, form: capacity.Form, now: Now | None, settings: Settings) -> None:
    """The answer, part by part."""
    asked = capacity.question(form, now.kv_capacity if now is not None else None)
    try:
        found = answer(model, asked, total_gpus=int(form["total"]))
    except LlmvitalsError as error:
        picked.wrong(error)
        return
    if not found.budget_tokens:
        picked.notice("note", t("The model does not fit"), "", t("Use more GPUs or a smaller weight type."))
    if found.apart is not None:
        picked.notice(
            "note",
            t("The measured pool is {times} times the estimate", times=f"{found.apart:,.1f}"),
            "",
            t("Check the model, the GPU and the data types."),
        )
    st.html(capacity_parts.headline(found, now))
    tabs = st.tabs([t("Memory and seats"), t("Layouts"), t("Queue"), t("Plan for users"), t("What if")])
    with tabs[0]:
        show_memory(model, found)
    with tabs[1]:
        st.html(capacity_parts.layouts(found.layouts, (asked.gpus // asked.pipeline_parallel, asked.pipeline_parallel)))
        st.html(
            capacity_parts.facts(
                t(
                    "Seats follow from memory. Paces are estimates of a roofline: data sheets' peaks, and what kernels are assumed "
                    "to reach of them. More tensor parallelism makes one stream faster; more replicas are simpler and fail apart."
                )
            )
        )
    with tabs[2]:
        show_queue(found)
    with tabs[3]:
        capacity_tries.ask_plan(model, found, now, settings)
    with tabs[4]:
        capacity_tries.ask_change(model, found, now, settings)
    st.download_button(
        t("All of it as JSON"),
        json.dumps(document(model, found), indent=2),
        file_name="capacity.json",
        mime="application/json",
        on_click="ignore",
    )


def show_memory(model: Model, found: Answer) -> None:
    """Where the memory goes, and how many requests of which length it holds."""
    st.html(capacity_parts.memory(model, found))
    st.html(capacity_parts.keeps(model, found))
    if not any(count for _, count in found.by_context):
        return
    st.html(parts.heading(t("Seats by length")))
    one, two = st.columns((3, 2))
    one.altair_chart(capacity_charts.seats_chart(found), width="stretch", key="seats")
    two.html(capacity_parts.seats_table(found))


def show_queue(found: Answer) -> None:
    """The longest queue that keeps its promise, and how waits grow with the load."""
    question = found.question
    st.html(
        capacity_parts.facts(
            t(
                "Little's law: at {rate} requests per second, whoever is number {count} in the queue waits {wait} s. A longer "
                "queue makes promises that cannot be kept: answer 429 beyond it.",
                rate=f"{question.service_rate:g}",
                count=capacity.tokens(found.queue_ceiling or 0),
                wait=f"{question.acceptable_wait:g}",
            )
        )
    )
    one, two = st.columns((3, 2))
    one.altair_chart(capacity_charts.waits_chart(found), width="stretch", key="waits")
    two.html(capacity_parts.waits_table(found))
    st.html(
        capacity_parts.facts(
            t(
                "M/M/1 shows the shape, not an engine's own numbers: an engine serves many at once. From 80 % to 90 % of what "
                "it can do the wait more than doubles; at 100 % it has no end."
            )
        )
    )


main()
