"""Links from dashboards in the app's own words."""

import pytest

from llmvitals.app.choices import moment
from llmvitals.app.link import PAST_SECONDS, understood

NOW = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
HOUR_AGO = {"at": "2023-11-14 21:13:20"}


def told(keeps_past=True, **query):
    named = {
        name.replace("var_", "var-"): value if isinstance(value, list) else [value] for name, value in query.items()
    }
    return understood(named, keeps_past=keeps_past, now=NOW)


def test_an_address_of_the_app_itself_is_left_alone():
    assert told(source="prod", instance="a", model="m", at="2023-11-14 21:00:00", lang="tr") is None
    assert told() is None


def test_a_panels_link_narrows_to_what_is_chosen_on_the_board():
    found = told(source="prod", var_cluster="east", var_namespace="chat", var_instance="vllm-0", var_model="llama")
    assert found == {"source": "prod", "instance": "vllm-0", "model": "llama"}


@pytest.mark.parametrize("every", [".*", "$__all", "All", "", ["a", "b"], ["a", "$__all"]])
def test_all_and_several_are_no_scope(every):
    assert told(var_instance=every, var_model="llama") == {"model": "llama"}


def test_a_variable_that_says_one_value_twice_says_one():
    assert told(var_instance=["a", "a"]) == {"instance": "a"}


def test_a_values_link_has_the_apps_own_words():
    assert told(instance="a", model="m", to="1700000000000", **{"from": "1699996400000"}) == {
        "instance": "a",
        "model": "m",
    }
    assert told(instance="a", model="", to="now") == {"instance": "a"}


def test_the_apps_own_words_win():
    assert told(instance="a", var_instance="b", at="2023-11-14 20:00:00", to="1699996400000") == {
        "instance": "a",
        "at": "2023-11-14 20:00:00",
    }


@pytest.mark.parametrize("to", ["1699996400000", "now-1h", "now-60m", "now-3600s"])
def test_a_range_that_ends_in_the_past_is_that_moment_where_the_source_keeps_it(to):
    assert told(instance="a", to=to) == {"instance": "a"} | HOUR_AGO
    assert told(keeps_past=False, instance="a", to=to) == {"instance": "a"}


@pytest.mark.parametrize("to", ["now", "now/d", "now-1h/h", "yesterday", "", "1e3", "-5", "1700003600000"])
def test_now_the_future_and_what_cannot_be_read_are_now(to):
    assert told(instance="a", to=to) == {"instance": "a"}


@pytest.mark.parametrize(("seconds", "past"), [(PAST_SECONDS, False), (PAST_SECONDS + 1, True)])
def test_a_moment_ago_is_now(seconds, past):
    assert ("at" in told(to=str(int((NOW - seconds) * 1000)))) is past


def test_a_moment_is_one_that_the_app_reads():
    assert moment(told(to="1699996400000")["at"]) == NOW - 3600


@pytest.mark.parametrize("to", ["now-999999999w", "now-3000w"])
def test_a_time_before_anything_was_measured_shows_now(to):
    assert told(instance="a", to=to) == {"instance": "a"}
