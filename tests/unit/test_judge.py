"""One check against made readings: when a limit holds, what state follows, how sure it is, what it is blind to."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from llmvitals.gaps import Gap, GapKind
from llmvitals.settings import Settings, Slo
from llmvitals.signals.catalogue import BY_ID, SIGNALS
from llmvitals.signals.reading import Reading, Standing
from llmvitals.triage.judge import belief, blind_spots, bound_of, confidence, explained, finding, judge, proved, weigh
from llmvitals.triage.model import Check, Limit, Proof, Remedy
from llmvitals.triage.verdict import State

SETTINGS = Settings()
A, B, C = Limit("waiting_last", ">", 3), Limit("running_max", "<=", 8), Limit("kv_room_ratio", ">", 0.0)
REMEDY = Remedy("Do something.", "--knob", lambda r, _: r["running_max"].value)


def readings(**known: float | Gap | None) -> dict[str, Reading]:
    """Every signal is MISSING but those given: a number, or a gap of its own."""
    out = {s.id: Reading(None, Gap(GapKind.MISSING, "not there", f"llm_of_{s.id}")) for s in SIGNALS}
    for name, found in known.items():
        out[name] = Reading(None, found) if isinstance(found, Gap) else Reading(found)
    return out


def check(*when: tuple[Limit, ...], **more: object) -> Check:
    return Check("a-cause", 1, "A cause", "inference guide, x", REMEDY, when=when, **more)  # type: ignore[arg-type]


NOTHING = Gap(GapKind.NO_TRAFFIC, "no requests in the window")
CANNOT = Gap(GapKind.UNSUPPORTED, "too old", "llm_x")
LOST = Gap(GapKind.MISSING, "not there", "llm_x")


# -- limits -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("op", "value", "holds"),
    [
        ("<", 2.9, True),
        ("<", 3.0, False),
        ("<=", 3.0, True),
        ("<=", 3.1, False),
        (">", 3.0, False),
        (">", 3.1, True),
        (">=", 3.0, True),
        (">=", 2.9, False),
    ],
)
def test_a_limit_holds_on_its_side_of_the_bound(op, value, holds):
    assert weigh(Limit("waiting_last", op, 3), readings(waiting_last=value), SETTINGS).holds is holds


def test_a_bound_may_be_a_setting_times_a_factor():
    slow = msgspec.structs.replace(SETTINGS, slo=Slo(ttft_seconds=4.0))
    limit = Limit("frontend_residual_seconds", ">=", "slo.ttft_seconds", 0.5)
    assert (bound_of(limit, SETTINGS), bound_of(limit, slow)) == (1.0, 2.0)
    shown = weigh(limit, readings(frontend_residual_seconds=1.2), SETTINGS)
    assert (shown.holds, shown.limit, shown.bound) == (True, ">= 1 s", 1.0)


def test_what_did_not_happen_does_not_hold_and_what_is_absent_is_open():
    assert weigh(A, readings(waiting_last=NOTHING), SETTINGS).holds is False
    for kind in (GapKind.MISSING, GapKind.UNSUPPORTED, GapKind.TOO_SHORT, GapKind.STALE, GapKind.CENSORED):
        shown = weigh(A, readings(waiting_last=Gap(kind, "so it is")), SETTINGS)
        assert shown.holds is None
        assert shown.gap == f"{kind}: so it is"


def test_evidence_carries_the_standing():
    found = readings(waiting_last=5.0)
    found["waiting_last"] = Reading(5.0, standing=Standing.LOWER)
    assert weigh(A, found, SETTINGS).standing == "lower bound"


# -- states -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({"waiting_last": 5.0, "running_max": 8.0}, State.FIRING),
        ({"waiting_last": 5.0, "running_max": 9.0}, State.CLEAR),
        ({"waiting_last": 1.0}, State.CLEAR),  # one that fails settles it, whatever is unseen
        ({"waiting_last": 5.0}, State.UNKNOWN),
        ({"waiting_last": 5.0, "running_max": CANNOT}, State.NOT_APPLICABLE),
        ({"waiting_last": LOST, "running_max": CANNOT}, State.NOT_APPLICABLE),  # it can never be shown here
        ({"waiting_last": 5.0, "running_max": NOTHING}, State.CLEAR),
        ({}, State.UNKNOWN),
    ],
)
def test_the_state_of_a_conjunction(known, state):
    assert judge(check((A, B)), readings(**known), SETTINGS).state is state


def test_one_alternative_is_enough():
    found = judge(check((A, B), (C,)), readings(waiting_last=0.0, kv_room_ratio=0.5), SETTINGS)
    assert found.state is State.FIRING
    assert [e.signal for e in found.evidence] == ["kv_room_ratio"]


def test_an_open_alternative_keeps_a_check_open():
    found = judge(check((A, B), (C,)), readings(waiting_last=0.0), SETTINGS)
    assert found.state is State.UNKNOWN
    assert "kv" in found.reason.lower()


def test_the_reason_says_what_speaks_against_it():
    found = judge(check((A, B)), readings(waiting_last=1.0, running_max=2.0), SETTINGS)
    assert found.reason == "Requests waiting at the end is 1, not > 3"


def test_a_check_without_conditions_says_what_it_needs():
    found = judge(check(needs="a gateway", needs_series="llm_gateway_*"), readings(), SETTINGS)
    assert (found.state, found.reason, found.evidence) == (State.NOT_APPLICABLE, "needs a gateway", ())


@pytest.mark.parametrize(("seen", "told"), [({"seats": 8.0}, "Already so."), ({"seats": 9.0}, ""), ({}, "")])
def test_a_setting_that_is_so_already_says_that_it_changes_nothing(seen, told):
    remedy = Remedy("Do something.", "--knob", lambda r, _: 8.0, already=("seats", "Already so."))
    made = replace(check((A,)), remedy=remedy)
    known = readings(waiting_last=5.0, **seen)
    assert finding(made, judge(made, known, SETTINGS), known, SETTINGS).note == told


# -- what another source adds -----------------------------------------------------------------------------------------
SURE = Proof((C,), 0.9, explains=("unbounded-queue",), note="It is certain.")


@pytest.mark.parametrize(
    ("seen", "sure", "certain"),
    [({"kv_room_ratio": 0.5}, 0.9, True), ({"kv_room_ratio": -0.5}, 0.4, False), ({}, 0.4, False)],
)
def test_a_proof_makes_a_suspicion_certain_and_nothing_else_does(seen, sure, certain):
    made = check((A,), proof=SURE, confidence=0.4, explains=("cold-start",), note="A suspicion.")
    known = readings(waiting_last=5.0, **seen)
    found = judge(made, known, SETTINGS)
    assert found.state is State.FIRING
    assert (belief(made, found), proved(made, found)) == (sure, certain)
    assert explained(made, found) == (("cold-start", "unbounded-queue") if certain else ("cold-start",))
    assert finding(made, found, known, SETTINGS).note == ("It is certain." if certain else "A suspicion.")
    assert [e.signal for e in found.evidence] == ["waiting_last", "kv_room_ratio"]


def test_a_proof_proves_nothing_of_a_check_that_does_not_fire():
    made = check((A,), proof=SURE)
    found = judge(made, readings(waiting_last=1.0, kv_room_ratio=0.5), SETTINGS)
    assert found.state is State.CLEAR
    assert not proved(made, found)
    assert explained(made, found) == ()


def test_a_limit_that_an_alternative_and_the_proof_share_is_told_once():
    made = check((A, C), proof=SURE)
    found = judge(made, readings(waiting_last=5.0, kv_room_ratio=0.5), SETTINGS)
    assert [e.signal for e in found.evidence] == ["waiting_last", "kv_room_ratio"]
    assert proved(made, found)


def test_what_confirms_counts_beside_a_proof():
    made = check((A,), proof=SURE, confirms=(B,), confidence=0.4)
    found = judge(made, readings(waiting_last=5.0, kv_room_ratio=0.5, running_max=4.0), SETTINGS)
    assert belief(made, found) == 0.91  # 0.9 by the proof, and 0.01


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        ({"kv_room_ratio": 0.5}, State.CLEAR),  # ruled out
        ({"kv_room_ratio": -0.5}, State.FIRING),
        ({"kv_room_ratio": CANNOT}, State.FIRING),  # a source that is not there rules nothing out
        ({"kv_room_ratio": NOTHING}, State.FIRING),
        ({"kv_room_ratio": LOST}, State.UNKNOWN),  # it should be there, and might rule it out
    ],
)
def test_what_excludes_a_cause_rules_it_out(seen, state):
    found = judge(check((A,), unless=(C,)), readings(waiting_last=5.0, **seen), SETTINGS)
    assert found.state is state
    if state is State.CLEAR:
        assert found.reason == "KV left beyond what the next request needs is 50 %: that rules it out"
    if state is State.UNKNOWN:
        assert "not there" in found.reason


# -- belief and confidence --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("more", "sure"),
    [
        ({"kv_room_ratio": 0.5}, 0.81),  # confirmed
        ({"kv_room_ratio": -0.5}, 0.75),  # contradicted
        ({}, 0.78),  # unseen
    ],
)
def test_what_confirms_moves_the_belief(more, sure):
    made = check((A,), confirms=(C,), confidence=0.8)
    found = judge(made, readings(waiting_last=5.0, **more), SETTINGS)
    assert found.state is State.FIRING
    assert belief(made, found) == sure


def test_belief_stays_inside_its_bounds():
    high = check((A,), confirms=(B, C), confidence=0.97)
    found = judge(high, readings(waiting_last=5.0, running_max=1.0, kv_room_ratio=1.0), SETTINGS)
    assert belief(high, found) == 0.98  # not 0.99
    low = check((A,), confirms=(B, C), confidence=0.1)
    found = judge(low, readings(waiting_last=5.0, running_max=100.0, kv_room_ratio=-1.0), SETTINGS)
    assert belief(low, found) == 0.05  # not 0


def test_what_is_stated_is_the_share_that_such_verdicts_hold(monkeypatch):
    monkeypatch.setattr("llmvitals.triage.judge.calibrated", lambda belief: belief / 2)
    made, known = check((A,), confirms=(C,), confidence=0.8), readings(waiting_last=5.0, kv_room_ratio=-0.5)
    found = judge(made, known, SETTINGS)
    assert confidence(made, found) == 0.375  # half of 0.8 - 0.05
    assert finding(made, found, known, SETTINGS).confidence == 0.375


def test_a_finding_carries_its_action_with_a_number_and_its_runbook():
    made = check((A,), note="Mind this.")
    known = readings(waiting_last=5.0, running_max=6.0)
    found = finding(made, judge(made, known, SETTINGS), known, SETTINGS)
    assert (found.action.setting, found.action.value) == ("--knob", 6.0)
    assert found.runbook == "runbooks/a-cause.md"
    assert found.note == "Mind this."
    unknown = readings(waiting_last=5.0)
    assert finding(made, judge(made, unknown, SETTINGS), unknown, SETTINGS).action.value is None


# -- blindness --------------------------------------------------------------------------------------------------------
def test_blind_to_what_is_absent_and_not_to_what_did_not_happen():
    made = (check((A, B)), Check("b", 2, "B", "x", REMEDY, needs="a gateway", needs_series="llm_gateway_*"))
    known = readings(waiting_last=NOTHING, running_max=LOST)
    results = {c.cause: judge(c, known, SETTINGS) for c in made}
    assert [(b.what, b.series) for b in blind_spots(made, results, known)] == [
        ("Most requests seen running", "llm_x"),
        ("B", "llm_gateway_*"),
    ]


def test_two_signals_of_one_title_that_lack_the_same_thing_are_one_blind_spot():
    twins = ("open_max_tokens_ratio", "open_max_tokens_requests")
    assert len({BY_ID[name].title for name in twins}) == 1
    known = readings(**dict.fromkeys(twins, Gap(GapKind.UNSUPPORTED, "not counted", "")))
    made = check(tuple(Limit(name, ">", 0.0) for name in twins))
    (found,) = blind_spots((made,), {"a-cause": judge(made, known, SETTINGS)}, known)
    assert found.series == "llm_open_max_tokens_ratio"


def test_a_blind_spot_is_told_once():
    made = (check((A,)), check((A, B)))
    known = readings()
    results = {c.cause: judge(c, known, SETTINGS) for c in made}
    assert len(blind_spots(made[:1] * 3, results, known)) == 1 + (len(results["a-cause"].evidence) - 1)
