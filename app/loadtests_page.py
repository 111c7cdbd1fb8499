"""Load tests: goodput against concurrency from result files, what it suggests, and a load like the live one to test with."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import streamlit as st

import loadtests_parts as shown
import parts
import picked
from llmvitals.errors import LlmvitalsError
from llmvitals.loadtest.goodput import Promises
from llmvitals.loadtest.live import windows
from llmvitals.loadtest.read import SUFFIXES, Results, read_contents
from llmvitals.loadtest.spec import LoadSpec, load_spec
from llmvitals.loadtest.suggest import suggest
from llmvitals.loadtest.sweep import compared, sweeps
from llmvitals.loadtest.tools import TOOLS, Where, files
from llmvitals.series import Window
from llmvitals.settings import Settings, Source
from llmvitals.signals.window import Scope
from words import later, t

TITLE = later("Load tests")
ABOUT = later(
    "Requests that keep both promises, at each level of load. Beyond the peak more requests in flight mean fewer of them in time: "
    "the peak is where max_num_seqs belongs."
)
TOOL_NAMES: Mapping[str, str] = {"vllm": "vllm bench serve", "guidellm": "GuideLLM", "aiperf": "AIPerf"}
MOST_SECONDS = 3600
Loads = dict[Scope, LoadSpec | LlmvitalsError]


def main() -> None:
    """Results first; below them a load made from the chosen source."""
    st.html(parts.STYLE + shown.STYLE)
    sidebar = picked.slots()
    try:
        settings = picked.settings_of_app()
    except LlmvitalsError as error:
        picked.wrong(error)
        return
    st.html(parts.top(t(TITLE), t(ABOUT)))
    promises = choose_promises(settings)
    results(promises)
    st.html(parts.heading(t("A load like the live one")))
    found = picked.opened(sidebar, forget, settings)
    if found is not None:
        live(*found, promises)


def forget() -> None:
    """Another source has other scopes, and another load."""
    picked.forget_scope()
    st.session_state.pop("load", None)


def choose_promises(settings: Settings) -> Promises:
    """The promises of the settings, which can be changed here."""
    first, pace = st.columns(2)
    ttft = first.number_input(
        t("First token within (seconds)"), min_value=0.001, value=settings.slo.ttft_seconds, step=0.1, format="%.3g"
    )
    tpot = pace.number_input(
        t("Time per output token within (ms)"),
        min_value=0.1,
        value=settings.slo.tpot_seconds * 1000,
        step=1.0,
        format="%.4g",
    )
    return Promises(ttft, tpot / 1000)


def results(promises: Promises) -> None:
    """What the uploaded files say."""
    uploaded = st.file_uploader(
        t("Result files of vllm bench serve, GuideLLM, AIPerf or GenAI-Perf"),
        type=[suffix.lstrip(".") for suffix in SUFFIXES],
        accept_multiple_files=True,
        key="results",
    )
    if not uploaded:
        st.caption(t("The files stay on the machine that serves this page, and only while it is open."))
        return
    engines, seats = st.columns(2)
    shared = engines.number_input(t("Engines that shared the load"), min_value=1, value=1)
    ran = seats.number_input(t("max_num_seqs that each ran with (0: not known)"), min_value=0, value=0)
    try:
        found = read(tuple((one.name, one.getvalue()) for one in uploaded))
    except LlmvitalsError as error:
        picked.wrong(error)
        return
    told = sweeps(found.runs, promises)
    for index, sweep in enumerate(told):
        st.html(parts.heading(shown.title_of(sweep)))
        if sweep.points:
            st.html(shown.legend(sweep))
            st.altair_chart(shown.draw(sweep), width="stretch", key=f"goodput-{index}")
        st.html(shown.suggestion(sweep, suggest(sweep, engines=shared, seats=ran or None)))
        if sweep.points:
            st.html(shown.table(sweep))
            st.html(shown.notes(shown.remarks(sweep)))
    st.html(shown.notes(map(shown.say, (*compared(told), *found.notes))))


@st.cache_data(show_spinner=False, max_entries=8)
def read(uploaded: tuple[tuple[str, bytes], ...]) -> Results:
    """The runs of these files; the same for other promises."""
    return read_contents(uploaded)


def live(settings: Settings, source: Source, at: float | None, promises: Promises) -> None:
    """A load from what the source holds: made when it is asked for, kept until it is asked for again."""
    with st.form("make", border=False):
        tool = st.selectbox(t("For"), list(TOOLS), format_func=TOOL_NAMES.__getitem__)
        url = st.text_input(t("Server to test (not the one that users are on)"), value="http://127.0.0.1:8000")
        seconds = settings.exporter.window_seconds
        if source.kind == "prometheus":
            seconds = st.number_input(t("Seconds to read back"), min_value=20, max_value=MOST_SECONDS, value=300)
        asked = st.form_submit_button(t("Read lengths and rate from {source}", source=source.name))
    if asked:
        try:
            with st.spinner(t("Reading from {source}", source=source.name)):
                st.session_state["load"] = loads(windows(source, at, float(seconds), settings), settings)
        except LlmvitalsError as error:
            st.session_state.pop("load", None)
            picked.wrong(error, "unreachable")
            return
    made: Loads | None = st.session_state.get("load")
    if made is None:
        st.caption(t("Lengths, arrival rate and shared prefix come from the engine's own counters: no prompt is read."))
    elif not made:
        picked.notice("no-replicas", remedy=t("Give the exporter targets, or choose another source."))
    else:
        names = {" · ".join(filter(None, key)): one for key, one in made.items()}
        one = names[st.selectbox(t("Whose load"), list(names))]
        if isinstance(one, LlmvitalsError):
            picked.wrong(one)
        else:
            offer(one, tool, Where(url, one.model), promises)


def loads(found: Mapping[Scope, Window], settings: Settings) -> Loads:
    """The load of each scope, or why there is none."""
    made: Loads = {}
    for key, window in found.items():
        try:
            made[key] = load_spec(*key, window, settings)
        except LlmvitalsError as error:
            made[key] = error
    return made


def offer(spec: LoadSpec, tool: str, where: Where, promises: Promises) -> None:
    """The commands, what they stand on, and all files in one download."""
    made = files(tool, spec, where, promises)
    st.html(shown.notes(map(shown.say, spec.notes)))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in made.items():
            archive.writestr(name, content)
    st.download_button(
        t("Download {files}", files=", ".join(made)), packed.getvalue(), f"load-{tool}.zip", "application/zip"
    )
    st.code(made["run.sh"], language="bash", wrap_lines=True)


main()
