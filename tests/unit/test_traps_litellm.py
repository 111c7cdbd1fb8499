"""Each trap of LiteLLM's page: what would be misread, and what it must become."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.ingest import Ingest, RawPage
from support.gateway_pages import canonical, gaps

WHO = 'api_key_alias="None",end_user="None",hashed_api_key="k",team="None",team_alias="None",user="u"'


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def requests(text: str) -> dict[str, float]:
    return {s: v for s, v in canonical(text).items() if s.startswith("llm_gateway_requests_total")}


def state(model: str, value: float, deployment: str = "d1") -> str:
    return (
        f'litellm_deployment_state{{api_base="http://10.0.0.5:8000/v1",api_provider="openai",litellm_model_name="{model}",'
        f'model_id="{deployment}"}} {value}'
    )


UP = 'llm_gateway_upstream_up{gateway="litellm",upstream="d1"}'


# -- deployments ------------------------------------------------------------------------------------------------------
def test_the_second_state_stays_bad_and_is_not_the_deployments():
    """The one under the name that was asked for is set by the first cooldown and never again."""
    assert canonical(page(state("made/model", 0), state("asked-for", 2)))[UP] == 1.0
    assert canonical(page(state("asked-for", 2), state("made/model", 0)))[UP] == 1.0
    assert canonical(page(state("made/model", 1), state("asked-for", 2)))[UP] == 0.0


@pytest.mark.parametrize(("value", "up"), [(0, 1.0), (1, 0.0), (2, 0.0)])
def test_states_are_codes_and_0_is_the_good_one(value, up):
    assert canonical(page(state("made/model", value)))[UP] == up


def test_of_two_processes_one_that_saw_a_failure_counts():
    one = state("made/model", 0).replace("model_id", 'pid="7",model_id')
    two = state("made/model", 1).replace("model_id", 'pid="8",model_id')
    assert canonical(page(one, two))[UP] == 0.0


def test_what_never_came_to_a_deployment_is_no_deployments():
    def failure(kind: str, code: str, n: float, deployment: str = "d1") -> str:
        labels = f'exception_class="{kind}",exception_status="{code}",model_id="{deployment}"'
        return f"litellm_deployment_failure_responses_total{{{labels}}} {n}"

    text = page(
        state("made/model", 0),
        state("nosuch", 1, "").replace("http://10.0.0.5:8000/v1", ""),
        failure("ProxyException", "None", 4, ""),
        failure("RouterRateLimitError", "None", 9),
        failure("Timeout", "408", 2),
    )
    found = {s: v for s, v in canonical(text).items() if "upstream=" in s}
    assert found == {
        UP: 1.0,
        'llm_gateway_upstream_requests_total{gateway="litellm",status="408",upstream="d1"}': 2.0,
    }


# -- statuses ---------------------------------------------------------------------------------------------------------
def answered(code: str, n: float, who: str = WHO) -> str:
    return f'litellm_proxy_total_requests_metric_total{{{who},requested_model="m",status_code="{code}"}} {n}'


def failed(kind: str, code: str, n: float) -> str:
    return (
        f'litellm_proxy_failed_requests_metric_total{{{WHO},exception_class="{kind}",exception_status="{code}",'
        f'requested_model="m"}} {n}'
    )


def test_failures_are_not_counted_beside_the_answers_that_they_are():
    text = page(answered("200", 30), answered("429", 7), failed("Openai.RateLimitError", "429", 7))
    assert sum(requests(text).values()) == 37


def test_an_answer_without_a_status_is_told_by_its_failure():
    """A bad key without a database is answered with 400 and has no status here: it must not pass as 401, 400 or 429."""
    text = page(
        answered("200", 30),
        answered("None", 5),
        failed("RouterRateLimitError", "None", 1),
        failed("ProxyException", "None", 4),
    )
    assert requests(text) == {
        'llm_gateway_requests_total{gateway="litellm",status="200"}': 30.0,
        'llm_gateway_requests_total{gateway="litellm",status="429"}': 1.0,
        'llm_gateway_requests_total{gateway="litellm",status="error"}': 4.0,
    }


def test_without_the_count_of_failures_it_is_an_error():
    assert requests(page(answered("None", 5))) == {'llm_gateway_requests_total{gateway="litellm",status="error"}': 5.0}


def test_where_the_status_was_configured_away_none_is_invented():
    text = page('litellm_proxy_total_requests_metric_total{requested_model="m"} 12', failed("X", "500", 3))
    assert requests(text) == {'llm_gateway_requests_total{gateway="litellm"}': 12.0}


# -- labels (T47) -----------------------------------------------------------------------------------------------------
def test_label_sets_are_the_operators_and_all_of_them_are_added():
    one = answered("200", 10, 'end_user="a",client_ip="192.0.2.1",user_email="jo@example.org",tag="x"')
    two = answered("200", 5, 'end_user="b"')
    three = answered("200", 1, 'hashed_api_key="k",custom_thing="v"')
    assert requests(page(one, two, three)) == {'llm_gateway_requests_total{gateway="litellm",status="200"}': 16.0}


def test_no_label_holds_user_data():
    who = (
        'api_key_alias="jo@example.org",end_user="jo",client_ip="192.0.2.1",hashed_api_key="secret-hash",user="u-1",'
        'user_email="jo@example.org",user_agent="curl",team="t-1",team_alias="None"'
    )
    text = page(answered("200", 3, who), f"litellm_input_tokens_metric_total{{{who}}} 30", state("made/model", 0))
    told = "\n".join(s for s in canonical(text) if "family_gap" not in s)
    for private in ("jo", "192.0.2.1", "secret-hash", "u-1", "curl", "t-1"):
        assert private not in told


def test_a_tenant_is_a_team_or_else_a_key():
    text = page(
        answered("200", 4, 'team_alias="search",api_key_alias="batch"'),
        answered("200", 2, 'team_alias="None",api_key_alias="batch"'),
        answered("200", 1, 'team_alias="None",api_key_alias="None"'),
    )
    assert requests(text) == {
        'llm_gateway_requests_total{gateway="litellm",status="200",tenant="search"}': 4.0,
        'llm_gateway_requests_total{gateway="litellm",status="200",tenant="batch"}': 2.0,
        'llm_gateway_requests_total{gateway="litellm",status="200"}': 1.0,
    }


def test_models_are_no_label_since_families_name_different_ones():
    text = page(
        answered("200", 3),
        f'litellm_llm_api_time_to_first_token_metric_bucket{{{WHO},model="made/model",le="+Inf"}} 3',
        f'litellm_llm_api_time_to_first_token_metric_sum{{{WHO},model="made/model"}} 0.6',
        f'litellm_llm_api_time_to_first_token_metric_count{{{WHO},model="made/model"}} 3',
    )
    assert not [s for s in canonical(text) if 'model="' in s and "family_gap" not in s]


# -- what names do not say --------------------------------------------------------------------------------------------
def test_latencies_are_seconds_though_no_name_says_so():
    text = page(
        f'litellm_request_total_latency_metric_bucket{{{WHO},le="2.0"}} 3',
        f'litellm_request_total_latency_metric_bucket{{{WHO},le="+Inf"}} 4',
        f"litellm_request_total_latency_metric_sum{{{WHO}}} 7.5",
        f"litellm_request_total_latency_metric_count{{{WHO}}} 4",
    )
    found = canonical(text)
    assert found['llm_gateway_request_seconds_sum{gateway="litellm"}'] == 7.5
    assert found['llm_gateway_request_seconds_bucket{gateway="litellm",le="2"}'] == 3


def test_t47_latency_per_output_token_is_no_time_per_token():
    """Of a stream it is the time to its first token over all its tokens: 0.2 s over 100 makes 2 ms, however slow the rest."""
    text = page(
        f'litellm_deployment_latency_per_output_token_bucket{{{WHO},model_id="d1",le="0.005"}} 1',
        f'litellm_deployment_latency_per_output_token_bucket{{{WHO},model_id="d1",le="+Inf"}} 1',
        f'litellm_deployment_latency_per_output_token_sum{{{WHO},model_id="d1"}} 0.002',
        f'litellm_deployment_latency_per_output_token_count{{{WHO},model_id="d1"}} 1',
        answered("200", 1),
    )
    assert not [s for s in canonical(text) if s.startswith("llm_gateway_tpot_seconds")]
    assert gaps(text)["llm_gateway_tpot_seconds"][0] == "unsupported"


def test_a_release_without_a_clock_for_its_queue_is_not_waited_for():
    assert gaps(page(answered("200", 3)))["llm_gateway_queue_seconds"] == (
        "unsupported",
        "it shows only with a release after 1.80",
    )
    declared = page("# TYPE litellm_request_queue_time_seconds histogram", answered("200", 3))
    assert gaps(declared)["llm_gateway_queue_seconds"][0] == "no-traffic"


def test_cache_hits_are_answers_and_cached_tokens_are_not():
    text = page(
        "# TYPE litellm_cache_hits_metric_total counter",
        f"litellm_cache_hits_metric_total{{{WHO}}} 5",
        f"litellm_cached_tokens_metric_total{{{WHO}}} 700",
        f"litellm_input_cached_tokens_metric_total{{{WHO}}} 900",
    )
    found = canonical(text)
    assert found['llm_gateway_cache_hits_total{gateway="litellm"}'] == 5
    assert not [s for s, v in found.items() if v in (700, 900)]


def test_a_cache_that_never_hit_is_0_and_a_release_without_one_says_nothing():
    declared = page("# TYPE litellm_cache_hits_metric_total counter", answered("200", 1))
    assert canonical(declared)['llm_gateway_cache_hits_total{gateway="litellm"}'] == 0
    assert gaps(page(answered("200", 1)))["llm_gateway_cache_hits_total"][0] == "unsupported"


def test_the_total_of_tokens_is_not_added_to_its_parts():
    text = page(
        f"litellm_input_tokens_metric_total{{{WHO}}} 70",
        f"litellm_output_tokens_metric_total{{{WHO}}} 30",
        f"litellm_total_tokens_metric_total{{{WHO}}} 100",
    )
    found = canonical(text)
    assert found['llm_gateway_tokens_total{gateway="litellm"}'] == 100
    assert found['llm_gateway_prompt_tokens_total{gateway="litellm"}'] == 70


def test_an_infinite_limit_is_none():
    text = page("litellm_global_max_parallel_requests_limit +Inf")
    assert not [s for s in canonical(text) if s.startswith("llm_gateway_concurrency_limit")]
    assert gaps(text)["llm_gateway_concurrency_limit"] == ("unsupported", "no limit is in force")
    held = canonical(page("litellm_global_max_parallel_requests_limit 64"))
    assert held['llm_gateway_concurrency_limit{gateway="litellm"}'] == 64


def test_what_is_left_of_no_quota_is_no_number():
    text = page(answered("200", 1), 'litellm_remaining_api_key_requests_for_model{model="m"} 9.223372036854776e+18')
    assert not [s for s, v in canonical(text).items() if v > 1e15]


@pytest.mark.parametrize("number", ["NaN", "-1", "+Inf"])
def test_an_impossible_count_is_a_gap_and_not_0(number):
    text = page(
        f'litellm_proxy_total_requests_metric_total{{{WHO},status_code="200"}} {number}', state("made/model", 0)
    )
    assert requests(text) == {}
    assert gaps(text)["llm_gateway_requests_total"][0] == "missing"


# -- a page on which nothing has happened -----------------------------------------------------------------------------
def test_a_proxy_without_a_call_is_a_page_and_not_an_error():
    text = page(
        "# TYPE process_start_time_seconds gauge",
        "process_start_time_seconds 1.7e9",
        "# TYPE litellm_proxy_total_requests_metric_total counter",
        "# TYPE litellm_deployment_state gauge",
    )
    assert 'llm_target_info{engine="litellm",version=">=1.80"}' in canonical(text)
    assert gaps(text)["llm_gateway_requests_total"] == ("no-traffic", "it is declared on the page and has no value yet")


def test_openmetrics_names_without_total_are_read():
    text = page("# TYPE litellm_proxy_total_requests_metric counter", answered("200", 4), "# EOF")
    assert sum(requests(text).values()) == 4


def test_a_status_that_is_born_later_joins_the_others():
    ingest = Ingest(instance="it")
    first = ingest.read(RawPage(1.0, 0.01, 200, page(answered("200", 10)).encode()))
    second = ingest.read(RawPage(2.0, 0.01, 200, page(answered("200", 12), answered("429", 7)).encode()))
    assert [s.label("status") for s in first.samples if s.name == "llm_gateway_requests_total"] == ["200"]
    told = {s.label("status"): v for s, v in second.samples.items() if s.name == "llm_gateway_requests_total"}
    assert told == {"200": 12.0, "429": 7.0}
