"""Public incident reports: no verdict on their figures names another cause, and what is not stated is said to be missing."""

from __future__ import annotations

import itertools
import math
import os
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from llmvitals.errors import LlmvitalsError
from llmvitals.gaps import GapKind
from llmvitals.lab.case_file import FOLDER, Case, Engine, Known, Late, left_out, load
from llmvitals.lab.cases import Grade, Judged, cases_table, judge_case, score_cases
from llmvitals.lab.snapshot import snapshot
from llmvitals.schema import Origin, origin_of
from llmvitals.settings import Settings
from llmvitals.triage.verdict import State
from llmvitals.triage.walk import states

SHARED = Path(os.environ.get("LLMVITALS_SHARED", "../shared")).resolve() / "incidents" / "cases"
SETTINGS = Settings()
CASES = load()
SCORE = score_cases()
IDS = [one.case.id for one in SCORE.judged]
needs_sources = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the reports' own figures (LLMVITALS_SHARED) are not here"
)

UNITS = (1.0, 1e-2, 1e-3, 1e3, 60.0, 3600.0)
"""A fact in base units: percent, milliseconds, thousands, minutes, hours."""


def ruled_out(one: Judged) -> bool:
    found = states(one.verdict).get(one.case.cause)
    return found is not None and found.state is State.CLEAR


@pytest.mark.parametrize("one", SCORE.judged, ids=IDS)
def test_no_report_gets_another_cause(one: Judged) -> None:
    assert one.grade is not Grade.WRONG
    assert one.pressed in {"", *one.case.accepted}, "taking what is unsaid for unremarkable, another cause leads"


@pytest.mark.parametrize("one", SCORE.judged, ids=IDS)
def test_an_answer_is_expected_where_the_figures_give_one(one: Judged) -> None:
    assert not one.pressed or one.case.expects == "answer"


@pytest.mark.parametrize("one", SCORE.judged, ids=IDS)
def test_without_a_verdict_what_would_settle_it_is_named(one: Judged) -> None:
    assert one.case.missing
    if one.verdict.leading is None:
        seen = {b.series for b in one.verdict.blind}
        others = {origin_of(series) for series in seen} - {Origin.ENGINE}  # a source that is not there is named as one
        assert any(m in seen or origin_of(m) in others for m in one.case.missing), sorted(seen)


@pytest.mark.parametrize("one", SCORE.judged, ids=IDS)
def test_where_figures_and_checks_disagree_the_case_says_why(one: Judged) -> None:
    assert bool(one.case.differs) == (ruled_out(one) or one.grade is Grade.SILENT)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_leaving_out_a_figure_never_gives_another_cause(case: Case) -> None:
    for name in case.known:
        less = msgspec.structs.replace(case, known={k: v for k, v in case.known.items() if k != name})
        assert judge_case(less, SETTINGS).grade is not Grade.WRONG, name
    for i in range(len(case.late)):
        less = msgspec.structs.replace(case, late=case.late[:i] + case.late[i + 1 :])
        assert judge_case(less, SETTINGS).grade is not Grade.WRONG, f"late {i}"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_number_is_a_fact_in_base_units_or_says_how_it_follows(case: Case) -> None:
    for name, known in case.known.items():
        edge = next(x for x in (known.value, known.at_least, known.at_most) if x is not None)
        told = any(math.isclose(edge, f * unit, rel_tol=1e-9) for f in known.facts for unit in UNITS)
        assert known.how or told, name


def test_reports_of_one_root_count_once_and_as_the_worst_of_them() -> None:
    assert SCORE.incidents == sum(SCORE.counts.values()) == len({case.group or case.id for case in CASES})
    assert SCORE.counts[Grade.WRONG] == 0
    assert len(SCORE.judged) == len(CASES) >= 35


def test_the_table_holds_every_report() -> None:
    table = cases_table(SCORE)
    for case in (*CASES, *left_out()):
        assert case.source in table
    assert f"{len(CASES)} reports of {SCORE.incidents} incidents" in table


# -- how a verdict is graded ------------------------------------------------------------------------------------------
STALLED = {"stalled_seconds": Known(at_least=60.0, how="nothing moves")}


def case_of(cause: str, known: dict[str, Known], *, expects: str = "answer", **more: object) -> Case:
    made = Case(
        id="900",
        source="made-up/report#1",
        engine=Engine(kind="vllm"),
        story="Made up.",
        cause=cause,
        expects=expects,
        known=known,
    )
    return msgspec.structs.replace(made, **more)


def test_the_established_cause_or_one_beside_it_is_right() -> None:
    assert judge_case(case_of("not-serving", STALLED), SETTINGS).grade is Grade.RIGHT
    assert judge_case(case_of("interconnect-bound", STALLED, also=("not-serving",)), SETTINGS).grade is Grade.RIGHT


@pytest.mark.parametrize("expects", ["answer", "undetermined"])
def test_another_cause_is_wrong_whatever_was_expected(expects: str) -> None:
    assert judge_case(case_of("retry-storm", STALLED, expects=expects), SETTINGS).grade is Grade.WRONG
    assert judge_case(case_of("undetermined", STALLED, expects=expects), SETTINGS).grade is Grade.WRONG
    assert judge_case(case_of("other: a bug", STALLED, expects=expects), SETTINGS).grade is Grade.WRONG


def test_no_verdict_is_right_only_where_none_was_expected() -> None:
    assert judge_case(case_of("retry-storm", {}), SETTINGS).grade is Grade.SILENT
    assert judge_case(case_of("retry-storm", {}, expects="undetermined"), SETTINGS).grade is Grade.ABSTAINED


def test_calling_an_incident_healthy_is_wrong_and_a_measuring_error_is_healthy() -> None:
    fine = {name: Known(value=1.0, how="well") for name in ("ttft_harm_p", "tpot_harm_p", "activity")}
    incident = case_of("batch-too-large", fine, expects="undetermined")
    assert judge_case(incident, SETTINGS).grade is Grade.WRONG
    assert judge_case(msgspec.structs.replace(incident, cause="other: the client"), SETTINGS).grade is Grade.ABSTAINED


# -- how figures become readings --------------------------------------------------------------------------------------
def test_a_bound_is_a_number_only_where_it_decides_every_limit_on_the_signal() -> None:
    # the only limit on it is ">= 15": at least 20 meets it, at most 10 breaks it, at least 10 leaves it open
    for known, value in (
        (Known(at_least=20.0, how="x"), 20.0),
        (Known(at_most=10.0, how="x"), 10.0),
        (Known(at_least=10.0, how="x"), None),
        (Known(at_most=20.0, how="x"), None),
    ):
        reading = snapshot(case_of("not-serving", {"stalled_seconds": known}), SETTINGS)["stalled_seconds"]
        assert reading.value == value
        assert (reading.gap is not None) == (value is None)


def test_late_requests_give_the_chance_of_so_many() -> None:
    two = snapshot(case_of("not-serving", {}, late=(Late(slo="ttft", late=2, of=2, how="both"),)), SETTINGS)
    assert two["ttft_harm_p"].value == pytest.approx(0.05**2)  # both of two beyond a promise to 95 %
    assert two["harm_p"].value == two["ttft_harm_p"].value
    one = snapshot(case_of("not-serving", {}, late=(Late(slo="ttft", late=1, of=2, how="one"),)), SETTINGS)
    assert one["ttft_harm_p"].gap is not None  # 0.0975 at most is neither below 0.01 nor above it


def test_what_is_not_stated_is_missing_and_what_the_server_cannot_show_is_unsupported() -> None:
    bare = case_of("not-serving", {})
    old = replace_engine(bare, version="0.14.1", generation="V1")  # waiting by reason came with 0.20.2
    assert kind(bare, "deferred_share_ratio") is GapKind.MISSING
    assert kind(old, "deferred_share_ratio") is GapKind.UNSUPPORTED
    assert kind(old, "preemptions_per_minute") is GapKind.MISSING
    plain = replace_engine(bare, plain=True)
    assert kind(bare, "draft_acceptance_ratio") is GapKind.MISSING
    assert kind(plain, "draft_acceptance_ratio") is GapKind.UNSUPPORTED


def replace_engine(case: Case, **fields: object) -> Case:
    return msgspec.structs.replace(case, engine=msgspec.structs.replace(case.engine, **fields))


def kind(case: Case, signal: str) -> GapKind:
    gap = snapshot(case, SETTINGS)[signal].gap
    assert gap is not None
    return gap.kind


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"known": {"no_such_signal": {"value": 1, "facts": [1]}}}, "no signal 'no_such_signal'"),
        ({"known": {"pages": {"value": 1, "at_most": 2, "facts": [1]}}}, "exactly one of"),
        ({"known": {"pages": {"value": 1}}}, "how it follows"),
        ({"late": [{"slo": "ttft", "late": 3, "of": 2, "how": "x"}]}, "more are late"),
        ({"cause": "gremlins"}, "no cause 'gremlins'"),
        ({"expects": "maybe"}, "answer or undetermined"),
        ({"id": "901"}, "Name the file after the id"),
    ],
)
def test_a_case_that_cannot_be_judged_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    case = yaml.safe_load((FOLDER / "053.yaml").read_text())
    (tmp_path / "053.yaml").write_text(yaml.safe_dump(case))
    assert [c.id for c in load(tmp_path)] == ["053"]
    (tmp_path / "053.yaml").write_text(yaml.safe_dump(case | change))
    with pytest.raises(LlmvitalsError, match=re.escape(said)) as refused:
        load(tmp_path)
    assert "053.yaml" in str(refused.value)


# -- against the reports themselves -----------------------------------------------------------------------------------
def numbers(value: object) -> set[float]:
    """Every number of a report, those inside its sentences too."""
    if isinstance(value, dict):
        return set().union(*(numbers(k) | numbers(v) for k, v in value.items())) if value else set()
    if isinstance(value, list):
        return set().union(*map(numbers, value)) if value else set()
    if isinstance(value, bool) or value is None:
        return set()
    if isinstance(value, int | float):
        return {float(value)}
    found = re.findall(r"\d+(?:,\d{3})+|\d+(?:\.\d+)?", str(value))
    return {float(n.replace(",", "")) for n in found}


@needs_sources
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_figures_and_cause_are_the_reports_own(case: Case) -> None:
    report = yaml.safe_load((SHARED / f"{case.id}.yaml").read_text())
    assert case.source.split(",")[0] in report["source"]
    assert case.group == report.get("group", "")
    theirs = report["established_cause"]
    assert case.cause == theirs or (case.cause.startswith("other: ") and theirs.startswith("other: "))
    stated = numbers({k: report[k] for k in ("observed", "flags", "symptom", "cause_detail", "hardware", "source")})
    for name, known in itertools.chain(case.known.items(), ((late.slo, late) for late in case.late)):
        assert set(known.facts) <= stated, name


@needs_sources
def test_every_report_is_judged_or_left_out_with_a_reason() -> None:
    ours = [case.id for case in (*CASES, *left_out())]
    assert len(ours) == len(set(ours))
    assert set(ours) == {path.stem for path in SHARED.glob("*.yaml")}
    assert all(one.why for one in left_out())
