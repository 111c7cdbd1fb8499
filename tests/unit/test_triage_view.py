"""What is shown of a verdict: words and tones, never green without data, never a gap as 0."""

import pytest

from llmvitals.triage.verdict import Action, Blind, CheckResult, Evidence, Finding, Outcome, State, Step, Verdict
from llmvitals.triage.view import NOTICES, OUTCOMES, STATES, Tone, cause_title, present, row, setting_line, trust

FULL = Evidence("kv_free_low_ratio", "KV that stays free", 0.02, "ratio", "<= 0.05", True, bound=0.05)
ABSENT = Evidence("gpu_sm_active_ratio", "GPU", None, "ratio", "< 0.6", None, gap="missing: no GPU page", bound=0.6)
CAUSE = Finding("kv-cache-saturation", 0.5, (FULL,), Action("Cap admission.", "max_num_seqs", 12.0), "", "A note.")


def verdict(outcome=Outcome.CAUSE, leading=CAUSE, checks=(), sentence="KV is full."):
    return Verdict(outcome, sentence, leading, (), (Step(1, "Memory", tuple(checks)),), (Blind("GPU", "no page", "x"),))


def test_a_missing_number_is_a_word_with_its_reason_and_never_zero():
    shown = row(ABSENT)
    assert shown.value == "no data"
    assert shown.note == "missing: no GPU page"
    assert shown.badge.tone is Tone.UNSURE
    assert "0" not in shown.value


def test_a_condition_is_shown_with_its_unit_and_a_readable_limit():
    shown = row(FULL)
    assert (shown.value, shown.limit, shown.badge.word) == ("2 %", "≤ 5 %", "Speaks for it")


@pytest.mark.parametrize("standing", ["estimate", "lower bound", "upper bound"])
def test_a_number_that_is_not_exact_says_so(standing):
    assert row(Evidence("s", "S", 1.0, "", "> 0", True, standing=standing, bound=0.0)).note == standing


def test_only_data_are_green():
    assert {o for o, badge in OUTCOMES.items() if badge.tone is Tone.GOOD} == {Outcome.HEALTHY}
    assert {s for s, badge in STATES.items() if badge.tone is Tone.GOOD} == {State.CLEAR}
    assert not [name for name, badge in NOTICES.items() if badge.tone is Tone.GOOD]


def test_every_outcome_and_state_has_a_word_an_icon_and_its_own_badge():
    for table, kinds in ((OUTCOMES, Outcome), (STATES, State)):
        assert set(table) == set(kinds)
        assert len({(b.word, b.icon) for b in table.values()}) == len(table)
        assert all(b.word and b.icon for b in table.values())


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ((State.CLEAR, State.FIRING), State.FIRING),
        ((State.CLEAR, State.UNKNOWN), State.UNKNOWN),
        ((State.CLEAR, State.NOT_APPLICABLE), State.CLEAR),
        ((State.NOT_APPLICABLE,), State.NOT_APPLICABLE),
        ((), State.UNKNOWN),
    ],
)
def test_a_step_shows_what_most_needs_attention(states, shown):
    checks = [CheckResult("c", state, (), "why") for state in states]
    assert present(verdict(checks=checks)).stages[0].badge == STATES[shown]


def test_a_cause_is_shown_with_its_number_confidence_and_source():
    view = present(verdict())
    assert (view.title, view.sentence) == ("KV cache saturation", "KV is full.")
    assert view.leading.setting == "max_num_seqs = 12"
    assert view.leading.trust == "suspicion"
    assert "bottleneck" in view.leading.source


def test_without_a_sentence_the_outcome_still_says_what_it_means():
    assert present(verdict(Outcome.NO_TRAFFIC, None, sentence="")).sentence.startswith("No requests")


@pytest.mark.parametrize(("value", "word"), [(0.97, "high"), (0.8, "moderate"), (0.5, "suspicion"), (0.0, "suspicion")])
def test_words_for_confidence(value, word):
    assert trust(value) == word


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (Action("x", "max_num_seqs", 4.0), "max_num_seqs = 4"),
        (Action("x", "--max-num-seqs", 30.0), "--max-num-seqs 30"),
        (Action("x", "gpu_memory_utilization", 0.9), "gpu_memory_utilization = 0.9"),
        (Action("x", "--enable-prefix-caching"), "--enable-prefix-caching"),
        (Action("x", "replicas"), ""),
        (Action("x"), ""),
    ],
)
def test_the_line_to_put_into_the_configuration(action, line):
    assert setting_line(action) == line


def test_titles():
    assert cause_title("kv-cache-saturation") == "KV cache saturation"
    assert cause_title("api-server-bound") == "API server bound"
    assert cause_title("head-of-line-blocking") == "Head of line blocking"


def test_the_window_is_told_in_utc():
    shown = present(Verdict(Outcome.HEALTHY, "", None, (), (), (), {"start": 0.0, "end": 60.0, "pages": 13}))
    assert shown.window == "60 s ending 1970-01-01 00:01:00 UTC · 13 pages"
