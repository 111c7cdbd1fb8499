"""The contract for gateways: its page names every family, its examples are read as they say, and extra labels do no harm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmvitals.cli import contract_table
from llmvitals.cli.generate import END, begin
from llmvitals.errors import PageError
from llmvitals.schema import BY_NAME, Kind
from llmvitals.telemetry.gateways.contract import CONTRACT, NEEDS
from llmvitals.telemetry.mapping import exposed
from support.gateway_pages import adapter, canonical, gaps, unknown

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "gateway-contract.md").read_text(encoding="utf-8")
OTEL, PROMETHEUS_NET = re.findall(r"^```text\n(.*?)^```$", PAGE, flags=re.M | re.S)
CODE = "\n".join(re.findall(r"^```csharp\n(.*?)^```$", PAGE, flags=re.M | re.S))
_, _, _REST = PAGE.partition(begin("gateway families"))
TABLE, _, PROSE = _REST.partition(END)
METER = CODE.partition("Dispose")[0]
INSTRUMENTS = re.findall(r'Create\w+(?:<\w+>)?\("(\w+)"(?:, unit: "(\w+)")?', CODE)
UNITS = {"": "", "s": "_seconds"}


def test_its_title_stands_in_a_table_beside_names() -> None:
    assert adapter("gateway").title[0].isupper()


@pytest.mark.parametrize("family", CONTRACT, ids=lambda family: family.name)
def test_every_family_is_in_the_table_and_explained(family) -> None:  # type: ignore[no-untyped-def]
    assert f"| `{family.name}` | {family.kind.value} | {family.unit} |" in TABLE
    assert f"`{family.name.removeprefix('llm_gateway_')}" in PROSE, "no sentence says when it counts"


def test_the_table_is_the_schemas() -> None:
    assert TABLE.strip() == contract_table.full().strip()


def test_what_families_need_is_said_of_families() -> None:
    assert NEEDS.keys() <= {family.name for family in CONTRACT}
    assert all(NEEDS.values())


def test_prose_names_no_family_that_is_not() -> None:
    named = re.findall(
        r"`([a-z_]+(?:_total|_seconds|_limit|_peak|_median|_up|_open|_tokens|_waiting|_running))`", PROSE
    )
    assert named
    assert [name for name in named if f"llm_gateway_{name}" not in BY_NAME] == ["max_tokens"]


@pytest.mark.parametrize(("name", "unit"), INSTRUMENTS)
def test_instruments_of_the_example_are_families(name: str, unit: str) -> None:
    shown = f"{name}{UNITS[unit]}"
    known = exposed(adapter("gateway").rows)
    rows = known.get(shown) or known.get(f"{shown}_bucket", ())
    assert len({row.family for row, _ in rows}) == 1


def test_the_page_of_the_example_shows_its_instruments() -> None:
    shown = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\w+)", OTEL, flags=re.M)}
    made = {f"{name}{UNITS[unit]}" for name, unit in INSTRUMENTS if f'"{name}"' in METER}
    assert made - shown == {"llm_gateway_ttft_seconds"}, "one histogram is enough to look at"


def test_the_page_of_the_example_is_read_right() -> None:
    found = canonical(OTEL)
    assert found['llm_gateway_requests_total{gateway="gateway",status="503",tenant="search"}'] == 9
    assert found['llm_gateway_queue_dropped_total{gateway="gateway",reason="full"}'] == 31
    assert found['llm_gateway_queue_seconds_bucket{gateway="gateway",le="2",tenant="search"}'] == 880
    assert found['llm_gateway_concurrency_limit{gateway="gateway"}'] == 48
    assert not any("otel_scope" in name for name in found)
    assert unknown(OTEL, "gateway") == set()


def test_a_page_that_renames_nothing_is_read_right() -> None:
    found = canonical(PROMETHEUS_NET)
    assert found['llm_gateway_queue_waiting{gateway="gateway"}'] == 7
    assert found['llm_gateway_requests_total{gateway="gateway",status="503",tenant="search"}'] == 9
    assert gaps(PROMETHEUS_NET)["llm_gateway_cache_hits_total"] == (
        "unsupported",
        "answers are personal: nothing may be cached",
    )
    assert unknown(PROMETHEUS_NET, "gateway") == set()


@pytest.mark.parametrize("family", [f for f in CONTRACT if f.kind is Kind.COUNTER], ids=lambda f: f.name)
def test_counters_with_and_without_total(family) -> None:  # type: ignore[no-untyped-def]
    short = family.name.removesuffix("_total")
    assert canonical(f"{short} 4\n") == canonical(f"{short}_total 4\n")
    assert canonical(f"{short} 4\n")[f'{family.name}{{gateway="gateway"}}'] == 4


@pytest.mark.parametrize("family", [f for f in CONTRACT if f.kind is Kind.GAUGE], ids=lambda f: f.name)
def test_gauges_that_opentelemetry_calls_ratios(family) -> None:  # type: ignore[no-untyped-def]
    assert canonical(f"{family.name}_ratio 1\n")[f'{family.name}{{gateway="gateway"}}'] == 1


def test_durations_in_milliseconds_are_told_by_their_name() -> None:
    buckets = "".join(f'llm_gateway_ttft_milliseconds_bucket{{le="{le}"}} 3\n' for le in ("2000", "+Inf"))
    page = f"{buckets}llm_gateway_ttft_milliseconds_sum 4500\n"
    found = canonical(page)
    assert found['llm_gateway_ttft_seconds_bucket{gateway="gateway",le="2"}'] == 3
    assert found['llm_gateway_ttft_seconds_sum{gateway="gateway"}'] == pytest.approx(4.5)


def test_other_labels_are_dropped_and_added() -> None:
    lines = [f'llm_gateway_tokens_total{{tenant="a",user="u{i}",session="s{i}"}} {i}\n' for i in range(50)]
    found = {k: v for k, v in canonical("".join(lines)).items() if k.startswith("llm_gateway")}
    assert found == {'llm_gateway_tokens_total{gateway="gateway",tenant="a"}': sum(range(50))}


def test_states_and_peaks_are_not_added() -> None:
    page = "".join(f'llm_gateway_{name}{{pod="{pod}"}} 1\n' for name in ("breaker_open", "upstream_up") for pod in "ab")
    found = canonical(page)
    assert found['llm_gateway_breaker_open{gateway="gateway"}'] == 1
    assert found['llm_gateway_upstream_up{gateway="gateway"}'] == 1


def test_medians_that_differ_are_withheld_and_alike_ones_are_not() -> None:
    median = "llm_gateway_session_calls_median"
    assert gaps(f'{median}{{pod="a"}} 3\n{median}{{pod="b"}} 4\n')[median][0] == "missing"
    assert canonical(f'{median}{{pod="a"}} 3\n{median}{{pod="b"}} 3\n')[f'{median}{{gateway="gateway"}}'] == 3


def test_a_clients_retry_and_the_gateways_own_stay_apart() -> None:
    found = canonical('llm_gateway_retries_total 3\nllm_gateway_retries_total{by="gateway"} 8\n')
    assert found['llm_gateway_retries_total{gateway="gateway"}'] == 3
    assert found['llm_gateway_retries_total{by="gateway",gateway="gateway"}'] == 8


def test_a_family_that_every_gateway_has_is_missing_and_others_are_not() -> None:
    told = gaps("llm_gateway_calls_total 4\n")
    assert told["llm_gateway_requests_total"][0] == "missing"
    assert told["llm_gateway_semantic_cache_wrong_total"][0] == "unsupported"
    assert "semantic cache" in told["llm_gateway_semantic_cache_wrong_total"][1]


@pytest.mark.parametrize(
    "told",
    [
        'llm_family_gap{family="llm_requests_running",gap="unsupported",reason="x"} 1',
        'llm_family_gap{family="llm_gateway_cache_hits_total",gap="because",reason="x"} 1',
        'llm_family_gap{family="llm_gateway_cache_hits_total",gap="unsupported",reason="x"} 0',
        'llm_family_gap{family="llm_gateway_calls_total",gap="unsupported",reason="x"} 1',
    ],
)
def test_a_gap_is_taken_only_where_it_can_be_one(told: str) -> None:
    assert not any(reason == "x" for _, reason in gaps(f"llm_gateway_calls_total 4\n{told}\n").values())


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf"])
def test_a_number_that_cannot_be_is_a_gap(value: str) -> None:
    told = gaps(f'llm_gateway_calls_total 4\nllm_gateway_breaker_open{{upstream="a"}} {value}\n')
    assert told["llm_gateway_breaker_open"][0] == "missing"


@pytest.mark.parametrize("status", ["success", "2XX", "OK", "1000", "20"])
def test_a_status_that_is_none_is_not_passed_on(status: str) -> None:
    """Other gateways use these names for words of their own: counted as answered, their failures would look served."""
    page = f'llm_gateway_calls_total 4\nllm_gateway_requests_total{{status="{status}"}} 4\n'
    assert gaps(page)["llm_gateway_requests_total"][0] == "missing"
    assert not any(name.startswith("llm_gateway_requests_total") for name in canonical(page))


@pytest.mark.parametrize("status", ["200", "499", "5xx", "ok", "error", "answered"])
def test_statuses_of_the_contract(status: str) -> None:
    found = canonical(f'llm_gateway_requests_total{{status="{status}"}} 4\n')
    assert found[f'llm_gateway_requests_total{{gateway="gateway",status="{status}"}}'] == 4


def test_the_exporters_own_page_is_not_taken_for_a_gateways() -> None:
    page = 'llm_target_up{instance="a"} 1\nllm_gateway_calls_total{instance="a",gateway="g"} 4\n'
    assert not any(name.startswith("llm_target_info") for name in canonical(page))


def test_keda_is_no_gateway() -> None:
    """Its names changed over releases, units with them; what it reads stands on the engines' own pages."""
    with pytest.raises(PageError, match="KEDA"):
        canonical('keda_scaler_metrics_value{scaler="s"} 4\nkeda_scaler_metrics_latency{scaler="s"} 12\n')
