"""Advice names a setting as the engine that it is for does, with the number only where it means the same there."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from llmvitals.gaps import Gap, GapKind
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import compute
from llmvitals.signals.reading import Reading
from llmvitals.telemetry.registry import ADAPTERS
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.flags import SETTINGS, TITLES, kinds, named
from llmvitals.triage.report import document
from llmvitals.triage.verdict import Action, Finding
from llmvitals.triage.view import setting_line
from llmvitals.triage.walk import diagnose
from support.made import Server, run

EVERYWHERE = {
    "restart",
    "node",
    "replicas",
    "startupProbe",
    "terminationGracePeriodSeconds",
    "structured outputs",
    "retry budget (retries per minute)",
    "calls per session and minute",
    "TPM quota",
    "model calls per user request",
    "response cache",
    "ulimit -n",
    "prompt template",
    "split between pools (prompt tokens)",
    "client timeout",
    "max_tokens",
    "scrape target",
}
"""What a remedy asks for outside the engine, or in a request, whose name is the same for all."""

ROWS = [(setting, kind) for setting in SETTINGS for kind in TITLES]


def of(engine: str, window: Window) -> Window:
    """The same pages as another engine's."""
    return Window.of(
        Snapshot(s.t, {_relabelled(k, engine): v for k, v in s.samples.items()}, s.detail) for s in window.snapshots
    )


def _relabelled(key: Series, engine: str) -> Series:
    return Series(key.name, tuple((n, engine if n == "engine" else v) for n, v in key.labels))


def both(one: Window, other: Window) -> Window:
    """Two engines' pages in one window."""
    pairs = zip(one.snapshots, other.snapshots, strict=True)
    return Window.of(Snapshot(a.t, {**a.samples, **b.samples}, "") for a, b in pairs)


def _crowded(s: Server, i: int) -> None:
    s.serve(10, ttft=6.0, prompt=3000, output=200, queue=5.6, prefill=0.4, max_tokens=500)
    s.gauges(running=5 - i % 2, waiting=5, kv=0.97)


def _growing(s: Server, i: int) -> None:
    s.serve(10, queue=0.0, prompt=100, output=400, max_tokens=400)
    s.gauges(running=4 + i % 4, waiting=10 * i, kv=0.3)


FULL, QUEUE = run(13, _crowded, Server()), run(13, _growing, Server())


def told(window: Window) -> Finding:
    leading = diagnose(window, Settings()).leading
    assert leading is not None
    return leading


def made(setting: str, value: float | None = 16.0, text: str = "Change it.", note: str = "") -> Finding:
    return Finding("made", 0.9, (), Action(text, setting, value), "", note)


# -- the table --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.cause)
def test_every_setting_of_a_check_has_a_row_or_is_the_same_for_every_engine(check):
    assert (check.remedy.setting in SETTINGS) != (check.remedy.setting in EVERYWHERE)


def test_no_row_is_for_a_setting_that_no_check_names():
    assert set(SETTINGS) | EVERYWHERE == {check.remedy.setting for check in CHECKS}


def test_every_column_is_an_engine_that_is_read():
    assert set(TITLES) <= {adapter.kind for adapter in ADAPTERS}


@pytest.mark.parametrize(("setting", "kind"), ROWS)
def test_every_engine_has_a_name_for_a_setting_or_a_reason(setting, kind):
    row = SETTINGS[setting].names[kind]
    assert row.name or row.why
    assert row.holds or row.why  # a name whose number is dropped says why
    assert not row.why or re.fullmatch(r"([A-Z]|llama|trtllm).{4,}\.", row.why)


@pytest.mark.parametrize("setting", SETTINGS)
def test_vllm_is_told_what_the_check_says(setting):
    assert SETTINGS[setting].names["vllm"].name == setting
    found = made(setting, text="Raise max_num_seqs; enforce_eager.")
    assert named(found, ("vllm",)) is found


@pytest.mark.parametrize(("setting", "kind"), [(s, k) for s, k in ROWS if k != "vllm"])
def test_a_number_stays_only_where_it_means_the_same(setting, kind):
    row, action = SETTINGS[setting].names[kind], named(made(setting), (kind,)).action
    assert action.setting == row.name
    assert action.value == (16.0 if row.name and row.same else None)


@pytest.mark.parametrize("check", [c for c in CHECKS if c.remedy.setting in SETTINGS], ids=lambda check: check.cause)
@pytest.mark.parametrize("engines", [*((kind,) for kind in TITLES if kind != "vllm"), (), ("vllm", "tgi")])
def test_no_sentence_for_another_engine_speaks_vllms_words(check, engines):
    action = named(made(check.remedy.setting, text=check.remedy.text), engines).action
    theirs = r"max_num_seqs|max_model_len|max_loras|gpu_memory_utilization|enforce_eager"
    assert not re.search(theirs, action.text.replace(action.setting or "-", ""))


# -- in a verdict -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("window", "cause", "vllm", "sglang"),
    [
        (FULL, "kv-cache-saturation", "--max-num-seqs", "--max-running-requests"),
        (QUEUE, "unbounded-queue", "--max-num-queued-reqs", "--max-queued-requests"),
    ],
)
def test_sglang_gets_its_own_flag_with_the_same_number(window, cause, vllm, sglang):
    before, after = told(window), told(of("sglang", window))
    assert (before.cause, after.cause) == (cause, cause)
    assert before.action.setting == vllm
    assert before.action.value is not None
    # vLLM's limit on the queue counts what runs as well, SGLang's does not
    counted = compute(window, Settings())["running_max"].value if vllm == "--max-num-queued-reqs" else 0.0
    assert after.action == replace(before.action, setting=sglang, value=before.action.value - counted)
    assert setting_line(after.action) == f"{sglang} {after.action.value:.10g}"
    verdict = diagnose(of("sglang", window), Settings())
    assert f"Set {sglang} to {after.action.value:,.10g}." in verdict.sentence
    assert vllm not in str(document([verdict]))


def test_tgis_token_budget_does_not_get_a_number_of_seats():
    found = told(of("tgi", FULL))
    assert found.action.setting == "--max-batch-total-tokens"
    assert found.action.value is None
    assert "TGI has no limit on running requests" in found.note
    assert " Set " not in diagnose(of("tgi", FULL), Settings()).sentence


def test_an_engine_without_such_a_setting_gets_none_and_the_reason():
    found = told(of("llamacpp", QUEUE))
    assert found.action == replace(told(QUEUE).action, setting="", value=None)
    assert "bound them at the gateway" in found.note


@pytest.mark.parametrize("engine", ["dynamo-worker", "somebody-elses"])
def test_an_unknown_engine_is_told_in_words(engine):
    found, known = told(of(engine, FULL)), told(FULL)
    assert found.action == replace(known.action, setting="limit on running requests")
    assert found.note == known.note


def test_several_kinds_get_words_and_each_ones_name_once():
    found = told(both(FULL, of("sglang", FULL)))
    assert found.action.setting == "limit on running requests"
    assert found.action.value is not None
    assert found.note.count("vLLM: --max-num-seqs. SGLang: --max-running-requests.") == 1


def test_a_kind_that_the_number_does_not_fit_takes_it_from_all():
    action = named(made("--max-num-seqs"), ("vllm", "tgi")).action
    assert (action.setting, action.value) == ("limit on running requests", None)


def test_kinds_that_agree_get_the_name_and_the_number():
    action = named(made("--tensor-parallel-size"), ("vllm", "sglang")).action
    assert (action.setting, action.value) == ("--tensor-parallel-size", 16.0)


def test_what_is_known_already_stays_before_the_reason():
    assert named(made("--block-size", note="Known."), ("ollama",)).note == "Known. Ollama has no KV blocks."


def test_what_stands_beside_an_engine_is_no_engine():
    info = Series("llm_target_info", (("engine", "sglang"), ("instance", "router")))
    store = Series("llm_kv_usage_ratio", (("engine", "mooncake"), ("instance", "store"), ("rank", "0")))
    beside = Window.of(Snapshot(s.t, {**s.samples, info: 1.0, store: 0.5}, "") for s in FULL.snapshots)
    assert kinds(beside) == kinds(FULL) == ("vllm",)
    assert kinds(Window.of(())) == ()


def test_what_an_engine_counts_in_comes_on_top_and_is_told():
    """vLLM refuses beyond so many that wait or run: a limit on the waiting alone would leave no room for them."""
    readings = compute(QUEUE, Settings())
    rate, running = readings["completion_rate"].value, readings["running_max"].value
    found = told(QUEUE)
    assert running > 0
    assert found.action.value == round(max(1, round(rate * Settings().slo.ttft_seconds)) + running)
    assert f"most requests seen running {running:,.0f}" in found.note


def test_what_is_counted_in_and_not_known_takes_the_number_away():
    unknown = compute(QUEUE, Settings()) | {"running_max": Reading(None, gap=Gap(GapKind.MISSING, "not there"))}
    found = named(made("--max-num-queued-reqs"), ("vllm",), unknown)
    assert found.action.value is None
    assert "not known" in found.note


def test_kinds_that_count_differently_get_no_common_number():
    assert named(made("--max-num-queued-reqs"), ("vllm", "sglang"), compute(QUEUE, Settings())).action.value is None
