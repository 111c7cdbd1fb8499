"""Boards of raw series: how queries are read and translated, and that whatever is missing is named."""

from __future__ import annotations

import json
import re

import pytest

from llmvitals.dashboards import grafana
from llmvitals.dashboards.boards import BOARDS, watching
from llmvitals.dashboards.model import Kind
from llmvitals.dashboards.promql import promql, queries
from llmvitals.dashboards.raw import boards
from llmvitals.dashboards.raw.editions import EDITIONS, Edition
from llmvitals.dashboards.raw.names import CannotError
from llmvitals.dashboards.raw.translate import translated
from llmvitals.dashboards.raw.tree import Matcher, read, show
from llmvitals.settings import Settings
from support.boards import raw_boards

SETTINGS = Settings()
BY_STEM = {edition.stem: edition for edition in EDITIONS}
EACH = pytest.mark.parametrize("edition", EDITIONS, ids=lambda edition: edition.stem)
SCOPE = 'cluster=~"$cluster",namespace=~"$namespace",instance=~"$instance",model=~"$model"'
VLLM = 'job=~"$job",instance=~"$instance",model_name=~"$model",server=""'
DRAWN = raw_boards()


def every_query() -> list[str]:
    return [
        promql(query, SETTINGS)
        for board in BOARDS
        for row in board.rows
        for panel in row.panels
        for query in queries(panel, SETTINGS)
    ]


@pytest.mark.parametrize("text", sorted(set(every_query())))
def test_every_query_of_a_board_is_read_and_written_to_the_same_tree(text: str) -> None:
    assert read(show(read(text))) == read(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a - b - c", "(a - b) - c"),
        ("a - (b - c)", "a - (b - c)"),
        ("2 ^ 3 ^ 2", "2 ^ (3 ^ 2)"),
        ("a or b or c", "a or b or c"),
        ("a + b * c > bool 1", "(a + (b * c)) > bool 1"),
        ("sum(rate(a[5m])) by (x)", "sum by (x) (rate(a[5m]))"),
        ("a * on (x) group_left (y) b", "a * on (x) group_left (y) b"),
        ('max_over_time(a{x=~"y|"}[$__range] @ end())', 'max_over_time(a{x=~"y|"}[$__range] @ end())'),
        (
            "avg_over_time(sum by () (a)[1h:5m] offset $__range)",
            "avg_over_time((sum by () (a))[1h:5m] offset $__range)",
        ),
        ("-a", "-1 * a"),
    ],
)
def test_a_tree_is_written_as_it_binds(text: str, written: str) -> None:
    assert show(read(text)) == written
    assert read(written) == read(text)


@pytest.mark.parametrize("text", ["a b", "sum by (x (a)", "a{x}", "", "a +", "a ! b"])
def test_what_is_no_query_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(text)


@pytest.mark.parametrize(
    ("op", "pattern", "value", "holds"),
    [
        ("=", "a", "a", True),
        ("!=", "a", "a", False),
        ("=~", "a|b", "b", True),
        ("=~", "a", "ab", False),
        ("!~", "a|", "", False),
    ],
)
def test_matchers_are_anchored(op: str, pattern: str, value: str, *, holds: bool) -> None:
    assert Matcher("x", op, pattern).holds(value) is holds


@pytest.mark.parametrize(
    ("stem", "text", "raw"),
    [
        # names, labels and place
        (
            "vllm",
            f"sum by (cluster, namespace, instance, model) (llm_requests_running{{{SCOPE}}})",
            f"sum by (job, instance, model_name) (vllm:num_requests_running{{{VLLM}}})",
        ),
        # a label of the family is asked for by the engine's name for it, and shown by ours
        (
            "vllm",
            f'sum by (reason) (rate(llm_requests_finished_total{{reason!="abort",{SCOPE}}}[5m]))',
            'sum by (reason) (label_replace(rate(vllm:request_success_total{job=~"$job",instance=~"$instance",'
            'model_name=~"$model",server="",finished_reason!="abort"}[5m]), "reason", "$1", "finished_reason", "(.*)"))',
        ),
        # two names in turn, never both
        (
            "vllm-0.9.2-0.11",
            f"max by (cluster, namespace, instance, model) (llm_kv_usage_ratio{{{SCOPE}}})",
            f"max by (job, instance, model_name) (vllm:kv_cache_usage_perc{{{VLLM}}} or on (job, instance, model_name)"
            f" vllm:gpu_cache_usage_perc{{{VLLM}}})",
        ),
        # the opposite of what is asked
        (
            "vllm",
            f"max by (cluster, namespace, instance, model) (llm_engine_asleep{{{SCOPE}}})",
            'max by (job, instance, model_name) ((vllm:engine_sleep_state{job=~"$job",instance=~"$instance",'
            'model_name=~"$model",server="",sleep_state="awake"} * -1.0) + 1.0)',
        ),
        # edges in milliseconds
        (
            "sglang",
            f"histogram_quantile(0.5, sum by (le) (rate(llm_kv_transfer_seconds_bucket{{{SCOPE}}}[5m])))",
            "histogram_quantile(0.5, sum by (le) (max without (tp_rank, pp_rank, moe_ep_rank, pid) (rate("
            'sglang:kv_transfer_latency_ms_bucket{job=~"$job",instance=~"$instance",model_name=~"$model",priority=""}[5m]))))'
            " * 0.001",
        ),
        # a sum of two counters, and no label for a model
        (
            "llamacpp",
            f"sum by (cluster, namespace, instance, model) (rate(llm_prompt_tokens_total{{{SCOPE}}}[5m]))",
            'sum by (job, instance) (rate(llamacpp:prompt_tokens_total{job=~"$job",instance=~"$instance"}[5m])'
            ' + rate(llamacpp:prompt_tokens_cached_total{job=~"$job",instance=~"$instance"}[5m]))',
        ),
        # processes that repeat each other's numbers
        (
            "sglang",
            f"max by (cluster, namespace, instance, model) (llm_kv_usage_ratio{{{SCOPE}}})",
            "max by (job, instance, model_name) (max without (tp_rank, pp_rank, moe_ep_rank, pid) (sglang:token_usage{"
            'job=~"$job",instance=~"$instance",model_name=~"$model",priority=""}))',
        ),
        # one of several kinds of one name
        (
            "tgi",
            f'sum by (cluster, namespace, instance, model) (rate(llm_requests_finished_total{{reason="error",{SCOPE}}}[5m]))',
            'sum by (job, instance) (rate(tgi_request_failure{job=~"$job",instance=~"$instance",'
            'err=~"generation|incomplete"}[5m]))',
        ),
        # what one canonical sample equals
        (
            "tgi",
            f"sum by (instance) (rate(llm_generation_tokens_total{{{SCOPE}}}[5m]))",
            'sum by (job, instance) (rate(tgi_request_generated_tokens_sum{job=~"$job",instance=~"$instance"}[5m]))',
        ),
        ("vllm", "min by (instance) (llm_target_up)", "min by (job, instance) (up)"),
    ],
)
def test_a_query_in_an_engines_own_words(stem: str, text: str, raw: str) -> None:
    assert translated(text, BY_STEM[stem]) == raw


@pytest.mark.parametrize(
    ("stem", "text", "why"),
    [
        ("vllm", f"max (llm_queue_age_seconds{{{SCOPE}}})", "exporter"),
        ("vllm", "max (llm_triage_leading)", "exporter"),
        ("vllm", 'count (llm_target_up{exported_instance!=""}) or count (llm_target_up) * 0', "exported_instance"),
        ("vllm", "max (llm_gpu_busy_ratio)", "GPU"),
        ("vllm", "max (llm_gateway_calls_total)", "gateway"),
        ("vllm", f"max (llm_kv_capacity_tokens{{{SCOPE}}})", "label"),
        ("tgi", f"sum (rate(llm_request_ttft_seconds_sum{{{SCOPE}}}[5m]))", "first token"),
        ("sglang", f"sum (llm_requests_waiting_by_reason{{{SCOPE}}})", "several series"),
        ("triton", f"sum (rate(llm_requests_finished_total{{{SCOPE}}}[5m]))", "several series"),
        # each of several series alone is not the number
        ("sglang", f"max (rate(llm_prompt_tokens_total{{{SCOPE}}}[5m]))", "added first"),
        # blocks or tokens: only a share of one in the other is known
        ("vllm-0.4-0.9.1", f"sum (rate(llm_prefix_cache_hit_tokens_total{{{SCOPE}}}[5m]))", "blocks or tokens"),
        ("triton", f"sum by (le) (rate(llm_request_ttft_seconds_bucket{{{SCOPE}}}[5m]))", "another unit"),
        ("trtllm-1.1", f"max (llm_kv_usage_ratio{{{SCOPE}}})", "does not|nothing"),
    ],
)
def test_what_would_not_be_the_same_number_is_refused_with_a_reason(stem: str, text: str, why: str) -> None:
    with pytest.raises(CannotError, match=why):
        translated(text, BY_STEM[stem])


def test_a_share_of_blocks_in_blocks_is_that_of_tokens_in_tokens() -> None:
    hits, asked = (f"sum (rate(llm_prefix_cache_{what}_tokens_total{{{SCOPE}}}[5m]))" for what in ("hit", "query"))
    raw = translated(f"{hits} / ({asked} > 0)", BY_STEM["vllm-0.4-0.9.1"])
    assert "gpu_prefix_cache_hits_total" in raw
    with pytest.raises(CannotError):
        translated(f"{hits} / sum (rate(llm_prompt_tokens_total{{{SCOPE}}}[5m]))", BY_STEM["vllm-0.4-0.9.1"])


def panels(edition: Edition) -> list[dict]:
    rows = DRAWN[f"dashboards/raw/{edition.stem}.json"]["panels"]
    return [panel for row in rows for panel in (row, *row.get("panels", [])) if panel["type"] != "row"]


@EACH
def test_every_panel_of_the_other_boards_is_there_or_named_as_missing(edition: Edition) -> None:
    words, *drawn = panels(edition)
    assert words["type"] == "text"
    titles = {panel["title"].partition(" (here: ")[0] for panel in drawn}
    for board in BOARDS:
        for row in board.rows if board is not watching.BOARD else ():
            for panel in row.panels:
                if panel.kind is not Kind.TEXT:
                    assert panel.title in titles or panel.title in words["options"]["content"]


@EACH
def test_a_panel_that_lost_a_query_says_so_in_its_title_and_its_description(edition: Edition) -> None:
    by_title = {panel["title"].partition(" (here: ")[0]: panel for panel in panels(edition)}
    for kept in boards.kept(edition, SETTINGS):
        panel = by_title[kept.panel.title]
        assert ("(here: " in panel["title"]) is bool(kept.lost)
        assert panel["description"].startswith("Part of it is not here: ") is bool(kept.lost)
        assert all(one.what in panel["description"] for one in kept.lost)
        stacked = panel["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode", "none")
        assert not kept.lost or stacked == "none", "a stack that lacks a band is no whole"


@EACH
def test_a_board_of_raw_series_asks_for_nothing_of_ours(edition: Edition) -> None:
    board = DRAWN[f"dashboards/raw/{edition.stem}.json"]
    text = json.dumps([*panels(edition)[1:], board["templating"], board["annotations"]])
    asked = [target["expr"] for panel in panels(edition) for target in panel.get("targets", [])]
    assert asked
    assert not [expr for expr in asked if re.search(r"\bllm_", expr)]
    assert "$cluster" not in text
    assert "$namespace" not in text
    assert "app_url" not in text


@EACH
def test_what_is_chosen_at_the_top_is_chained(edition: Edition) -> None:
    variables = DRAWN[f"dashboards/raw/{edition.stem}.json"]["templating"]["list"]
    names = [v["name"] for v in variables]
    assert names == ["datasource", "job", *(["model"] if edition.model else []), "instance", "runbook_url"]
    asked = [v for v in variables if v["type"] == "query"]
    for at, variable in enumerate(asked):
        assert all(f"${earlier['name']}" in variable["query"]["query"] for earlier in asked[:at])


@EACH
def test_restarts_are_marked_as_on_the_other_boards_where_the_page_tells_of_them(edition: Edition) -> None:
    marks = DRAWN[f"dashboards/raw/{edition.stem}.json"]["annotations"]["list"]
    telling = {"vllm", "vllm-0.9.2-0.11", "vllm-0.4-0.9.1"}
    start = 'process_start_time_seconds{job=~"$job",instance=~"$instance"}'
    asked = f"max by (job, instance) ({start} > min_over_time({start}[$__range] @ end())) * 1000"
    assert [mark["expr"] for mark in marks] == ([asked] if edition.stem in telling else [])
    ours = next(m for m in grafana.drawn(BOARDS[0], SETTINGS)["annotations"]["list"] if m["name"] == "Engine restarts")
    for mark in marks:
        assert mark == {**ours, "expr": mark["expr"]}


@EACH
def test_a_board_opens_with_few_panels_and_each_has_a_title_of_its_own(edition: Edition) -> None:
    rows = DRAWN[f"dashboards/raw/{edition.stem}.json"]["panels"]
    assert sum(panel["type"] != "row" for panel in rows) <= 25
    titles = [panel["title"] for panel in panels(edition)]
    assert len(set(titles)) == len(titles)
    assert len(titles) > 5
