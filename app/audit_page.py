"""The audit: how an engine is set up, held against the mistakes that cost most."""

from __future__ import annotations

import streamlit as st

import audit_parts
import parts
import picked
from llmvitals.app.runbook import languages
from llmvitals.audit import judge, live, reading
from llmvitals.audit.engines import TITLES
from llmvitals.audit.hardware import hardware
from llmvitals.audit.model import Finding, Hardware, Report, Setup, Severity, Traffic
from llmvitals.capacity import GPUS
from llmvitals.errors import LlmvitalsError
from llmvitals.sources.model_config import parse
from words import later, t

ABOUT = later(
    "Paste how an engine is started, or what it said at its start: what is wrong with it, why, and the line to write instead. "
    "Nothing is run, and what you paste is neither kept nor sent on."
)
EXAMPLE = "vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n  --max-num-seqs 256 --gpu-memory-utilization 0.9"
PASTE, SOURCE = "paste", "source"
FROM = {PASTE: later("Paste or upload"), SOURCE: later("From the source")}
UNKNOWN = ""


def main() -> None:
    """What is audited, what is known around it, and the findings."""
    st.html(parts.STYLE + audit_parts.STYLE)
    st.html(parts.top(t("Audit of a set-up"), t(ABOUT)))
    if st.session_state.get("from") != (wanted := _wanted()):
        st.session_state["from"] = wanted
    st.segmented_control(
        t("What is audited"),
        list(FROM),
        key="from",
        format_func=lambda one: t(FROM[one]),
        required=True,
        on_change=remember,
        label_visibility="collapsed",
    )
    try:
        found = from_source() if wanted == SOURCE else pasted()
        version, there, traffic = known(whole=wanted == PASTE)
        reports = [judge.audit(one, version=version, hardware=there, traffic=traffic) for one in found]
        for number, report in enumerate(reports):
            show(report, number)
    except LlmvitalsError as error:
        picked.wrong(error)


def _wanted() -> str:
    return SOURCE if st.query_params.get("from") == SOURCE else PASTE


def remember() -> None:
    """The address says where the set-up comes from; what was pasted never stands in it."""
    if st.session_state["from"] == SOURCE:
        st.query_params["from"] = SOURCE
    else:
        st.query_params.pop("from", None)


def pasted() -> tuple[Setup, ...]:
    """The set-ups of the text and of the files; none before there is something."""
    text = st.text_area(
        t("Command, manifest, metrics page or log of a start"), key="given", height=180, placeholder=EXAMPLE
    )
    files = st.file_uploader(t("Or files"), key="files", accept_multiple_files=True)
    st.button(t("Audit"), type="primary")
    found: list[Setup] = []
    if text.strip():
        found += reading.setups(text, place=t("the text"))
    for file in files:
        found += reading.setups(file.getvalue().decode("utf-8", errors="replace"), place=file.name)
    return tuple(found)


def from_source() -> tuple[Setup, ...]:
    """The set-ups that the engines of the chosen source tell."""
    found = picked.opened(picked.slots(), lambda: None)
    return live.setups(found[1], found[2]) if found else ()


def known(*, whole: bool) -> tuple[tuple[int, ...] | None, Hardware, Traffic]:
    """What a person knows around it. Raises :class:`LlmvitalsError` for what cannot be."""
    with st.expander(t("What is known beside it")):
        left, right = st.columns(2)
        version = left.text_input(t("Release of vLLM"), key="version", placeholder="0.11.0")
        names = [UNKNOWN, *(gpu.name for gpu in GPUS)]
        gpu = left.selectbox(t("GPU"), names, key="gpu", format_func=lambda one: one or t("not known")) if whole else ""
        gpus = left.number_input(t("GPUs of one engine"), 1, 64, value=None, key="gpus") if whole else None
        prompt = right.number_input(t("Mean tokens of a prompt"), 0, value=None, key="prompt")
        output = right.number_input(t("Mean tokens of an answer"), 0, value=None, key="output")
        longest = right.number_input(t("Tokens that 99.9 % of requests stay below"), 1, value=None, key="longest")
        wait = right.toggle(t("Users wait in the queue"), key="wait")
        config = st.text_area(t("The model's config.json"), key="config", height=100) if whole else ""
    release = judge.version_of(version) if version.strip() else None
    there = hardware(parse(config, "config.json") if config.strip() else None, gpu=gpu or "", gpus=gpus)
    return release, there, Traffic(prompt, output, longest, users_wait=wait)


def show(report: Report, number: int) -> None:
    """One engine's findings; what is only worth knowing is folded."""
    st.html(audit_parts.setup(report, TITLES[report.engine]))
    if report.worst is None or (report.remark and not report.findings):
        st.html(audit_parts.nothing(report, TITLES[report.engine]))
        return
    grave = [found for found in report.findings if found.severity > Severity.NOTE]
    notes = [found for found in report.findings if found.severity == Severity.NOTE]
    if not grave:
        st.html(parts.line(audit_parts.NOTHING_GRAVE, t("What is worth knowing stands below.")))
    for at, found in enumerate(grave):
        show_finding(found, f"{number}-{at}")
    if notes:
        with st.expander(t("Worth knowing: {count}", count=len(notes))):
            for at, found in enumerate(notes):
                show_finding(found, f"{number}-note-{at}")


def show_finding(found: Finding, number: str) -> None:
    """A card, and the line to copy."""
    line = audit_parts.said(found, found.fix)
    with st.container(key=f"finding-{number}"):
        st.html(audit_parts.finding(found, runbook=bool(found.cause and languages(found.cause))))
        if line:
            st.code(line, language=None, wrap_lines=True)


main()
