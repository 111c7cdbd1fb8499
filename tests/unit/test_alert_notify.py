"""What people are told of episodes that are written down, by configurations that are."""

from __future__ import annotations

from typing import Any

import pytest

from llmvitals.alerts.alertmanager import config as example
from llmvitals.alerts.firing import Episode
from llmvitals.alerts.notify import Notice, labels_of, notices
from llmvitals.alerts.routing import inhibitions, matcher_of, routes_of, waits
from llmvitals.settings import Settings

HOUR = 3600.0


def episode(
    alert: str,
    fired: float,
    ended: float | None = None,
    *,
    severity: str = "page",
    instance: str = "a",
    model: str = "m",
    window: str = "",
) -> Episode:
    return Episode(alert, severity, "", instance, model, fired, fired, ended, window=window)


def configured(*, rules: list[dict[str, Any]] | None = None, resolved: bool = True, **route: Any) -> dict[str, Any]:
    whole = {"receiver": "all", "group_by": ["model"], "group_wait": "10s", "group_interval": "1m"} | route
    return {
        "route": {"repeat_interval": "1h", **whole},
        "receivers": [{"name": "all", "webhook_configs": [{"url": "http://x", "send_resolved": resolved}]}],
        "inhibit_rules": rules or [],
    }


def told(episodes: list[Episode], config: dict[str, Any], until: float | None = None) -> list[tuple[Any, ...]]:
    """(when, kind, alerts that fire, alerts that are over) of each notification."""

    def name(many: tuple[Episode, ...]) -> str:
        return " ".join(sorted(one.alert for one in many))

    return [(n.t, n.kind, name(n.episodes), name(n.resolved)) for n in notices(episodes, config, until=until)]


# -- groups and their waits -------------------------------------------------------------------------------------------
def test_alerts_that_fire_together_are_one_notification() -> None:
    both = [episode("A", 0.0, 300.0), episode("B", 9.0, 300.0)]
    assert told(both, configured()) == [(10.0, "firing", "A B", ""), (310.0, "resolved", "", "A B")]


def test_what_comes_later_is_told_at_the_groups_next_look() -> None:
    both = [episode("A", 0.0, 300.0), episode("B", 11.0, 300.0)]
    assert told(both, configured())[:2] == [(10.0, "firing", "A", ""), (70.0, "firing", "A B", "")]


def test_what_is_over_while_others_fire_is_an_update_and_no_news() -> None:
    both = [episode("A", 0.0, 30.0), episode("B", 0.0, 100.0)]
    assert told(both, configured()) == [
        (10.0, "firing", "A B", ""),
        (70.0, "update", "B", "A"),
        (130.0, "resolved", "", "B"),
    ]


def test_what_fires_and_ends_between_two_looks_is_never_told() -> None:
    assert told([episode("A", 0.0, 9.0)], configured()) == []
    assert told([episode("A", 0.0, 200.0), episode("B", 20.0, 40.0)], configured()) == [
        (10.0, "firing", "A", ""),
        (70.0, "update", "A", "B"),
        (250.0, "resolved", "", "A"),
    ]


def test_other_labels_are_another_group() -> None:
    both = [episode("A", 0.0), episode("A", 0.0, model="n")]
    found = notices(both, configured())
    assert [n.labels for n in found] == [(("model", "m"),), (("model", "n"),)]
    assert len(notices([episode("A", 0.0), episode("A", 0.0, instance="b")], configured())) == 1
    assert len(notices([episode("A", 0.0), episode("A", 0.0, instance="b")], configured(group_by=["..."]))) == 2
    assert [n.labels for n in notices(both, configured(group_by=["cluster"]))] == [()]


def test_what_goes_on_is_repeated_and_no_oftener() -> None:
    times = [t for t, *_ in told([episode("A", 0.0)], configured(), until=3 * HOUR)]
    assert times == [10.0, 10.0 + HOUR, 10.0 + 2 * HOUR]
    kinds = {kind for _, kind, *_ in told([episode("A", 0.0)], configured(), until=3 * HOUR)[1:]}
    assert kinds == {"repeat"}
    uneven = [t for t, *_ in told([episode("A", 0.0)], configured(repeat_interval="90s"), until=300.0)]
    assert uneven == [10.0, 130.0, 250.0]


def test_news_begin_the_repeating_anew() -> None:
    both = [episode("A", 0.0), episode("B", 1800.0)]
    assert [t for t, *_ in told(both, configured(), until=2 * HOUR)] == [10.0, 1810.0, 1810.0 + HOUR]


def test_a_group_that_is_over_begins_anew_with_its_wait() -> None:
    twice = [episode("A", 0.0, 30.0), episode("A", 100.0, 130.0)]
    assert told(twice, configured()) == [
        (10.0, "firing", "A", ""),
        (70.0, "resolved", "", "A"),
        (110.0, "firing", "A", ""),
        (170.0, "resolved", "", "A"),
    ]


def test_what_flaps_between_two_looks_is_one_firing() -> None:
    assert told([episode("A", 0.0, 30.0), episode("A", 60.0, 120.0)], configured()) == [
        (10.0, "firing", "A", ""),
        (130.0, "resolved", "", "A"),
    ]


def test_nobody_is_told_of_ends_who_does_not_want_to() -> None:
    both = [episode("A", 0.0, 30.0), episode("B", 0.0, 100.0), episode("A", 140.0, 200.0)]
    assert told(both, configured(resolved=False)) == [(10.0, "firing", "A B", ""), (150.0, "firing", "A", "")]


# -- who silences whom ------------------------------------------------------------------------------------------------
RULE = {"source_matchers": ['alertname="A"'], "target_matchers": ['alertname=~"A|B|C"'], "equal": ["instance"]}


def test_a_silenced_alert_is_left_out_while_its_source_fires() -> None:
    both = [episode("A", 0.0, 100.0), episode("B", 0.0, 400.0)]
    assert told(both, configured(rules=[RULE])) == [
        (10.0, "firing", "A", ""),
        (130.0, "firing", "B", "A"),
        (430.0, "resolved", "", "B"),
    ]


def test_a_source_silences_what_shares_its_labels_and_no_other() -> None:
    both = [episode("A", 0.0), episode("B", 0.0), episode("B", 0.0, instance="b")]
    (found,) = notices(both, configured(rules=[RULE]))
    assert [(e.alert, e.instance) for e in found.episodes] == [("A", "a"), ("B", "b")]


def test_what_was_told_and_ends_in_silence_is_not_told_as_over() -> None:
    both = [episode("B", 0.0, 100.0), episode("A", 80.0, 300.0)]
    assert told(both, configured(rules=[RULE])) == [
        (10.0, "firing", "B", ""),
        (130.0, "firing", "A", ""),
        (310.0, "resolved", "", "A"),
    ]


def test_a_group_that_is_all_silenced_is_told_neither_as_firing_nor_as_over() -> None:
    config = configured(rules=[RULE], group_by=["alertname"])
    both = [episode("B", 0.0, 400.0), episode("A", 80.0, 300.0)]
    assert told(both, config) == [
        (10.0, "firing", "B", ""),
        (90.0, "firing", "A", ""),
        (330.0, "resolved", "", "A"),
        (430.0, "resolved", "", "B"),
    ]


def test_what_is_over_before_it_is_told_is_no_end_either() -> None:
    assert told([episode("A", 0.0, 30.0), episode("B", 100.0, 105.0)], configured()) == [
        (10.0, "firing", "A", ""),
        (70.0, "resolved", "", "A"),
    ]


def test_an_alert_that_is_source_and_target_does_not_silence_itself() -> None:
    assert told([episode("A", 0.0)], configured(rules=[RULE])) == [(10.0, "firing", "A", "")]


def test_silences_reach_over_routes() -> None:
    config = configured(
        rules=[RULE], routes=[{"receiver": "pager", "matchers": ['severity="page"'], "group_wait": "1s"}]
    )
    both = [episode("A", 0.0), episode("C", 0.0, severity="ticket")]
    assert [(n.t, n.receiver) for n in notices(both, config)] == [(1.0, "pager")]


# -- the same alert from several rules --------------------------------------------------------------------------------
def test_the_same_labels_are_one_alert_however_many_scopes_tell_it() -> None:
    same = [episode("A", 0.0, 50.0, model=""), episode("A", 40.0, 200.0, model="")]
    assert told(same, configured(group_by=["instance"])) == [(10.0, "firing", "A", ""), (250.0, "resolved", "", "A A")]


def test_the_rows_of_a_budget_are_alerts_of_their_own_in_one_group() -> None:
    rows = [episode("A", 0.0, 100.0, window="5m"), episode("A", 0.0, 200.0, window="1h")]
    found = told(rows, configured())
    assert found == [
        (10.0, "firing", "A A", ""),
        (130.0, "update", "A", "A"),
        (250.0, "resolved", "", "A"),
    ]


# -- reading a configuration ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "meets", "fails"),
    [
        ('a="x"', {"a": "x"}, {"a": "xx"}),
        ("a=x", {"a": "x"}, {}),
        (' a != "x" ', {}, {"a": "x"}),
        ('a=~"x|y.*"', {"a": "yes"}, {"a": "xx"}),
        ('a!~"x|y"', {"a": "xy"}, {"a": "y"}),
        (r'a="x\"y"', {"a": 'x"y'}, {"a": "xy"}),
        ('a="x.y"', {"a": "x.y"}, {"a": "xzy"}),
        ('a=""', {"b": "x"}, {"a": "x"}),
    ],
)
def test_matchers_are_read_as_alertmanager_reads_them(text: str, meets: dict[str, str], fails: dict[str, str]) -> None:
    assert matcher_of(text).meets(meets)
    assert not matcher_of(text).meets(fails)


@pytest.mark.parametrize("text", ["a", '{a="x"}', 'a="x",b="y"', "=x"])
def test_what_is_no_matcher_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no matcher"):
        matcher_of(text)


def test_routes_inherit_and_the_first_that_matches_takes_it_unless_it_continues() -> None:
    config: dict[str, Any] = {
        "route": {
            "receiver": "root",
            "group_by": ["x"],
            "routes": [
                {"receiver": "log", "continue": True, "group_wait": "1s"},
                {
                    "receiver": "p",
                    "matchers": ["severity=page"],
                    "routes": [{"matchers": ["team=a"], "receiver": "pa"}],
                },
                {"receiver": "last", "matchers": ['severity=~".+"']},
            ],
        }
    }

    def take(**labels: str) -> list[tuple[str, float, tuple[str, ...]]]:
        return [(r.receiver, r.group_wait, r.group_by) for r in routes_of(config, labels)]

    assert take(severity="page") == [("log", 1.0, ("x",)), ("p", 30.0, ("x",))]
    assert take(severity="page", team="a") == [("log", 1.0, ("x",)), ("pa", 30.0, ("x",))]
    assert take(severity="t") == [("log", 1.0, ("x",)), ("last", 30.0, ("x",))]
    assert take() == [("log", 1.0, ("x",))]
    assert sorted(waits(config)) == sorted([30.0, 300.0, 1.0, 300.0, 30.0, 300.0, 30.0, 300.0, 30.0, 300.0])


def test_labels_are_those_of_the_rule_and_no_empty_ones() -> None:
    assert labels_of(episode("A", 0.0, model="")) == {"alertname": "A", "severity": "page", "instance": "a"}
    assert labels_of(episode("A", 0.0, window="5m"))["window"] == "5m"


# -- the example that is generated ------------------------------------------------------------------------------------
def by_receiver(found: tuple[Notice, ...]) -> dict[str, list[list[str]]]:
    told: dict[str, list[list[str]]] = {}
    for one in found:
        told.setdefault(one.receiver, []).append(sorted(e.alert for e in one.episodes))
    return told


def test_the_example_pages_once_and_keeps_the_tickets_of_a_page_quiet() -> None:
    config = example(Settings())
    assert inhibitions(config)
    incident = [
        episode("LLMUsersHurt", 0.0, 900.0),
        episode("LLMFirstTokensLate", 30.0, 900.0),
        episode("LLMPreemptionThrash", 60.0, 880.0, severity="ticket"),
    ]
    assert by_receiver(notices(incident, config)) == {"pager": [["LLMUsersHurt"], []]}
    alone = by_receiver(notices(incident[2:], config))
    assert alone == {"tickets": [["LLMPreemptionThrash"], []]}


def test_nothing_fires_and_nobody_is_told() -> None:
    assert notices((), example(Settings())) == ()
