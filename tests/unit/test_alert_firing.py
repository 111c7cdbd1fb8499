"""When alerts fire over courses that are written down."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
import yaml

from llmvitals.alerts.conditions import Burns, Condition, Hurt, Unless, Written
from llmvitals.alerts.firing import Episode, all_episodes, episodes, rules_of, seconds_of_wait
from llmvitals.alerts.model import Alert, Severity
from llmvitals.alerts.policy import ALERTS, BY_NAME
from llmvitals.settings import Alerts, Burn, Settings
from llmvitals.signals.promql_ast import Number
from support.courses import INSTANCE, MODEL, START, STEP, course, promise, sums
from support.prometheus import promtool_tests

SETTINGS = Settings()


def alert(
    wait: str = "0m", keep: str = "", *, when: Condition | None = None, by: tuple[str, ...] = ("instance", "model")
):
    return Alert("LLMMade", "Made", Severity.TICKET, when or Hurt(), wait, "made", "x", "made", keep=keep, by=by)


def spans(row: Alert, hurt: str) -> list[tuple[float, float, float | None]]:
    """Moments (by number) since which, at which and until which it fired, of a course written as ``..##.``."""
    found = episodes(row, course([{"hurt": one == "#"} for one in hurt]), SETTINGS)

    def number(t: float) -> float:
        return (t - START) / STEP

    return [(number(e.since), number(e.fired), None if e.ended is None else number(e.ended)) for e in found]


# -- waits ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wait", "keep", "hurt", "expected"),
    [
        ("0m", "", "..##.", [(2, 2, 4)]),
        ("0m", "", "..##", [(2, 2, None)]),
        ("1m", "", ".##..", []),
        ("1m", "", ".###..", [(1, 3, 4)]),
        ("1m", "", ".##.###..", [(4, 6, 7)]),
        ("45s", "", ".###..", [(1, 3, 4)]),
        ("0m", "1m", ".#....", [(1, 1, 4)]),
        ("0m", "1m", ".#.#....", [(1, 1, 6)]),
        ("0m", "1m", ".#..#...", [(1, 1, 7)]),
        ("0m", "1m", ".#...#..", [(1, 1, 4), (5, 5, None)]),
        ("1m", "1m", ".##.##.", []),
        ("1m", "1m", ".###.#..#.", [(1, 3, None)]),
        ("0m", "1m", ".#.", [(1, 1, None)]),
    ],
)
def test_an_alert_waits_and_is_kept(wait: str, keep: str, hurt: str, expected) -> None:
    assert spans(alert(wait, keep), hurt) == expected


def test_the_wait_is_counted_in_time_not_in_moments() -> None:
    went = course([{"hurt": True, "t": t} for t in (0.0, 10.0, 200.0)])
    (found,) = episodes(alert("1m"), went, SETTINGS)
    assert (found.since, found.fired) == (START, START + 200.0)


def test_no_wait_is_written_in_three_ways() -> None:
    assert [seconds_of_wait(text) for text in ("", "0m", "0s", "90s", "2m")] == [0.0, 0.0, 0.0, 90.0, 120.0]


# -- who and why ------------------------------------------------------------------------------------------------------
def test_an_episode_tells_the_cause_that_led_when_it_fired_and_those_that_did_later() -> None:
    led = ("cold-start", "", "preemption-thrash", "preemption-thrash", "", "kv-cache-saturation", "cold-start")
    went = course([{"hurt": at < 6, "leading": cause} for at, cause in enumerate(led)])
    (at_once,) = episodes(alert(), went, SETTINGS)
    assert at_once.leading == "cold-start"
    assert at_once.leading_later == ("cold-start", "preemption-thrash", "kv-cache-saturation")
    (waited,) = episodes(alert("30s"), went, SETTINGS)
    assert waited.leading == ""
    assert waited.leading_later == ("preemption-thrash", "kv-cache-saturation")


def test_it_tells_no_model_where_its_alert_tells_none() -> None:
    went = course([{"hurt": True}])
    (found,) = episodes(alert(by=("instance",)), went, SETTINGS)
    assert (found.instance, found.model) == (INSTANCE, "")
    (found,) = episodes(alert(), went, SETTINGS)
    assert (found.instance, found.model) == (INSTANCE, MODEL)


def test_it_fires_from_its_first_moment_to_before_its_end() -> None:
    one = Episode("LLMMade", "page", "", INSTANCE, MODEL, 0.0, 10.0, 20.0)
    assert [one.fires_at(t) for t in (9.9, 10.0, 19.9, 20.0)] == [False, True, True, False]
    assert Episode("LLMMade", "page", "", INSTANCE, MODEL, 0.0, 10.0, None).fires_at(1e9)


# -- budgets: a rule for each row -------------------------------------------------------------------------------------
FAST = Burn(severity="page", burn=6.0, long="2m", short="1m", wait="1m")
SLOW = Burn(severity="page", burn=2.0, long="4m", short="1m", wait="30s")
BURNS = msgspec.structs.replace(SETTINGS, alerts=Alerts(burns=(FAST, SLOW)))


def test_each_row_of_a_budget_is_a_rule_with_its_own_wait() -> None:
    judged = sums([20.0] * 16)
    missed = sums([0, 0, *[10] * 5, *[0] * 9])
    went = course([{"counts": promise("ttft", all_of, bad)} for all_of, bad in zip(judged, missed, strict=True)])
    found = episodes(alert("0m", when=Burns("ttft", "page")), went, BURNS)
    told = {one.window: (one.fired - START, one.ended and one.ended - START) for one in found}
    # fast, over 30 %: from 90 s on (20 of 60; at 60 s 10 of 40), to 210 s (of the last minute's 40 only 10), and a minute's
    # wait; slow, over 10 %: from 60 s on, to 240 s (of the last minute's 40 none), and half a minute's wait
    assert told == {"2m": (150.0, 210.0), "4m": (90.0, 240.0)}
    assert {one.alert for one in found} == {"LLMMade"}


def test_rows_are_those_of_the_severity_that_is_asked_for_however_deep() -> None:
    ticket = Burn(severity="ticket", burn=1.0, long="1h", short="5m")
    settings = msgspec.structs.replace(SETTINGS, alerts=Alerts(burns=(FAST, ticket, SLOW)))
    assert rules_of(alert(when=Burns("ttft", "page")), settings) == (FAST, SLOW)
    assert rules_of(alert(when=Unless(Burns("ttft", "ticket"), Hurt())), settings) == (ticket,)
    assert rules_of(alert(), settings) == (None,)


# -- all of them ------------------------------------------------------------------------------------------------------
def test_all_alerts_are_asked_but_those_on_the_watching_itself() -> None:
    thrash = frozenset({"preemption-thrash"})
    went = course([{"hurt": True, "firing": thrash, "outcome": "cause", "leading": "preemption-thrash"}] * 10)
    found = {one.alert: one for one in all_episodes(went, SETTINGS)}
    assert set(found) == {"LLMUsersHurt", "LLMPreemptionThrash"}
    assert found["LLMUsersHurt"].fired - START == seconds_of_wait(BY_NAME["LLMUsersHurt"].wait)
    assert found["LLMPreemptionThrash"].cause == "preemption-thrash"
    assert {found[name].severity for name in found} == {"page", "ticket"}
    with pytest.raises(ValueError, match="watching"):
        episodes(alert(when=Written(lambda _settings: Number(1.0))), went, SETTINGS)


# -- as Prometheus does it --------------------------------------------------------------------------------------------
WAITS, KEEPS, LENGTH, DRAWS = ("0m", "30s", "1m", "100s"), ("", "30s", "1m", "100s"), 40, 6


def _draw(random_: random.Random) -> str:
    """States of moments that last a while: held, not held, and nobody there to say."""
    text = ""
    while len(text) < LENGTH:
        text += random_.choice("##..x") * random_.choice((1, 1, 2, 3, 4, 6))
    return text[:LENGTH]


@pytest.mark.prometheus
def test_prometheus_fires_waits_and_keeps_the_same(tmp_path: Path) -> None:
    random_ = random.Random(20260731)
    drawn = [_draw(random_) for _ in range(DRAWS)]
    rows = {f"LLM{i}x{j}": alert(wait, keep) for i, wait in enumerate(WAITS) for j, keep in enumerate(KEEPS)}
    rules = [
        {"alert": name, "expr": "hurt == 1", "for": row.wait} | ({"keep_firing_for": row.keep} if row.keep else {})
        for name, row in rows.items()
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "made", "rules": rules}]}))
    words = {"#": "1", ".": "0", "x": "stale"}
    inputs = [
        {"series": f'hurt{{draw="{at}"}}', "values": " ".join(words[one] for one in text)}
        for at, text in enumerate(drawn)
    ]
    courses = [course([{"hurt": one == "#", "named": one != "x"} for one in text]) for text in drawn]
    expected: list[set[tuple[str, int, str]]] = [set() for _ in range(LENGTH)]
    for name, row in rows.items():
        for draw, went in enumerate(courses):
            for one in episodes(row, went, SETTINGS):
                for at in range(LENGTH):
                    if one.fires_at(START + at * STEP):
                        expected[at].add((name, draw, "firing"))
    checks = [
        {
            "expr": 'ALERTS{alertstate="firing"}',
            "eval_time": f"{at * STEP:g}s",
            "exp_samples": [
                {"labels": f'ALERTS{{alertname="{name}",alertstate="{state}",draw="{draw}"}}', "value": 1}
                for name, draw, state in sorted(told)
            ],
        }
        for at, told in enumerate(expected)
    ]
    assert sum(map(len, expected)) > 200
    promtool_tests(tmp_path, ["rules.yaml"], inputs, checks, interval=f"{STEP:g}s")


def test_every_alert_of_the_policy_has_a_wait_that_can_be_read() -> None:
    assert all(seconds_of_wait(row.wait) >= 0 and seconds_of_wait(row.keep) >= 0 for row in ALERTS)
