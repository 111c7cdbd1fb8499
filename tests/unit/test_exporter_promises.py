"""Promises and places on the exporter's page: counters of engines and of services, and labels that rules can group by."""

from __future__ import annotations

import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.judge import HURT, SETTING, Scoped, families
from llmvitals.exporters.otlp.values import Values
from llmvitals.exporters.page import openmetrics, text
from llmvitals.exporters.promises import NAMES
from llmvitals.schema import SCOPE, Kind
from llmvitals.settings import Alerts, Exporter, Service, Settings, Slo, Target
from llmvitals.signals.budget import JUDGED, MISSED
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.verdict import Action, Finding, Outcome, Verdict
from support.prometheus import binary

OLD, NEW = {"cluster": "east", "namespace": "chat", "team": "x"}, {"cluster": "east", "namespace": "beta"}


def page(late: int, *, ranks: int = 1, prompt: int = 10) -> bytes:
    """A vLLM page on which each rank served ten in time and ``late`` late ones."""
    lines = []
    for rank in range(ranks):
        at = f'engine="{rank}",model_name="m"'
        name = "vllm:time_to_first_token_seconds"
        lines += [
            f"vllm:num_requests_running{{{at}}} 1",
            f"vllm:num_requests_waiting{{{at}}} 0",
            f"vllm:generation_tokens_total{{{at}}} {100 * (prompt + late)}",
            f'{name}_bucket{{{at},le="0.5"}} {prompt}',
            f'{name}_bucket{{{at},le="1.0"}} {prompt}',
            f'{name}_bucket{{{at},le="+Inf"}} {prompt + late}',
            f"{name}_sum{{{at}}} {9.0 * late}",
            f"{name}_count{{{at}}} {prompt + late}",
        ]
    return ("\n".join(lines) + "\n").encode()


def published(bodies: dict[str, bytes | None], *, services: tuple[Service, ...] = (), turns: int = 1) -> Cycle:
    labels = {"a": OLD, "b": NEW, "plain": {}}
    targets = tuple(Target(url=f"http://{name}:8000", name=name, labels=labels[name]) for name in bodies)
    settings = Settings(
        targets=targets,
        services=services,
        slo=Slo(ttft_seconds=0.6),
        exporter=Exporter(timeout_seconds=0.5),
        alerts=Alerts(group_by=("cluster", "model")),
    )
    engine = Engine(settings, fetch=lambda url, timeout_s, access: RawPage(0.0), clock=lambda: 0.0)
    for turn in range(turns):
        t = 100.0 + 5.0 * turn
        pages = {n: RawPage(t, 0.01, 200 if body else None, body) for n, body in bodies.items()}
        cycle = engine.publish(t, engine.record(pages))
    return cycle


def samples(cycle: Cycle, *names: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = parse_text(text(cycle.blocks).decode())
    return {
        (s.name, frozenset(s.labels.items())): s.value
        for family in families
        for s in family.samples
        if not names or s.name in names
    }


def at(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


OF_A = {"instance": "a", "model": "m", "engine": "vllm", "rank": "0", "objective": "ttft", **OLD}


def test_an_engines_counters_stand_on_the_page_with_the_labels_of_its_histogram():
    assert samples(published({"a": page(3)}), *NAMES) == {at(JUDGED, **OF_A): 13.0, at(MISSED, **OF_A, edge="1"): 3.0}


def test_they_are_counters_in_both_forms_after_the_canonical_families():
    cycle = published({"a": page(3)})
    names = [block.name for block in cycle.blocks]
    assert names.index(JUDGED) == names.index("llm_family_gap") + 1
    for name in NAMES:
        assert f"# TYPE {name} counter\n" in text(cycle.blocks).decode()
    told = {f.name: f for f in parse_openmetrics(openmetrics(cycle.blocks).decode() + "# EOF\n")}
    assert told["llm_promise_missed"].type == "counter"
    assert [(s.name, s.value) for s in told["llm_promise_missed"].samples] == [(MISSED, 3.0)]


def test_a_target_that_is_down_has_none():
    assert samples(published({"a": None}), *NAMES) == {}


def test_a_service_has_them_rank_by_rank_under_its_own_name_and_only_where_it_is_for_sure():
    chat = Service(name="chat", engines=("a", "b"))
    cycle = published({"a": page(3), "b": page(1, ranks=2)}, services=(chat,), turns=4)
    own = {key: value for key, value in samples(cycle, *NAMES).items() if ("instance", "chat") in key[1]}
    who = {"instance": "chat", "model": "m", "engine": "vllm", "objective": "ttft", "cluster": "east"}
    ranks = {"a/0": (13.0, 3.0, {"team": "x"}), "b/0": (11.0, 1.0, {}), "b/1": (11.0, 1.0, {})}
    assert own == {
        **{at(JUDGED, **who, **more, rank=rank): seen for rank, (seen, _, more) in ranks.items()},
        **{at(MISSED, **who, **more, rank=rank, edge="1"): missed for rank, (_, missed, more) in ranks.items()},
    }


def test_an_engine_that_leaves_a_service_takes_its_series_and_changes_no_other():
    chat = Service(name="chat", engines=("a", "b"))
    both = published({"a": page(3), "b": page(1)}, services=(chat,), turns=4)
    one = published({"a": page(3), "b": None}, services=(chat,), turns=4)
    before, after = (
        {k: v for k, v in samples(cycle, *NAMES).items() if ("instance", "chat") in k[1]} for cycle in (both, one)
    )
    assert set(after) < set(before)
    assert {("rank", "a/0")} == {pair for key in after for pair in key[1] if pair[0] == "rank"}
    assert after.items() <= before.items()


# -- labels of what is concluded --------------------------------------------------------------------------------------
CONCLUDED = ("llm_triage_verdict", "llm_triage_check_state", HURT, "llm_binding", "llm_signal_gap", "llm_pages")


def places(cycle: Cycle, instance: str) -> set[frozenset[tuple[str, str]]]:
    own = {"window", "signal", "gap", "standing", "verdict", "cause", "state", "resource", *SCOPE}
    return {
        frozenset(pair for pair in labels if pair[0] not in own)
        for name, labels in samples(cycle, *CONCLUDED)
        if ("instance", instance) in labels
    }


def test_verdicts_and_signals_say_where_their_target_is_and_to_which_group_it_belongs():
    cycle = published({"a": page(3), "plain": page(0)}, turns=4)
    assert {name for name, _ in samples(cycle, *CONCLUDED)} == set(CONCLUDED)
    assert places(cycle, "a") == {frozenset({("cluster", "east"), ("namespace", "chat")})}, (
        "no team: nobody groups by it"
    )
    assert places(cycle, "plain") == {frozenset()}


def test_a_service_is_where_all_its_engines_are():
    cycle = published({"a": page(3), "b": page(1)}, services=(Service(name="chat", engines=("a", "b")),), turns=4)
    assert places(cycle, "chat") == {frozenset({("cluster", "east")})}


def test_no_series_of_a_scope_is_there_twice():
    cycle = published({"a": page(3), "b": page(1)}, services=(Service(name="chat", engines=("a", "b")),), turns=4)
    lines = [line.rpartition(" ")[0] for line in text(cycle.blocks).decode().splitlines() if line[0] != "#"]
    assert len(lines) == len(set(lines))
    verdicts = [key[1] for key in samples(cycle, "llm_triage_verdict")]
    assert len(verdicts) == 3 * len(Outcome)


# -- what a verdict tells beside its cause ----------------------------------------------------------------------------
def finding(cause: str, setting: str, value: float | None) -> Finding:
    return Finding(cause, 0.9, (), Action("Do.", setting, value), f"runbooks/{cause}.md")


def test_hurt_is_0_or_1_and_each_setting_with_a_value_is_told():
    leading = finding("kv-cache-saturation", "--max-num-seqs", 5.0)
    others = (finding("unbounded-queue", "--max-num-queued-reqs", 8.0), finding("fan-out", "a quota", None))
    others = (*others, finding("cold-start", "", 3.0))
    verdict = Verdict(Outcome.CAUSE, "Said.", leading, others, (), (), hurt=True)
    well = Verdict(Outcome.HEALTHY, "Said.", None, (), (), ())
    blocks = families([Scoped("a", "m", {}, verdict, (("cluster", "east"),)), Scoped("b", "m", {}, well)], 60.0)
    told = {
        (s.name, frozenset(s.labels.items())): s.value
        for f in parse_text(text(blocks).decode())
        for s in f.samples
        if s.name in {HURT, SETTING}
    }
    a = {"instance": "a", "model": "m", "cluster": "east"}
    assert told == {
        at(HURT, **a): 1.0,
        at(HURT, instance="b", model="m"): 0.0,
        at(SETTING, **a, cause="kv-cache-saturation", setting="--max-num-seqs"): 5.0,
        at(SETTING, **a, cause="unbounded-queue", setting="--max-num-queued-reqs"): 8.0,
    }


# -- other ways out ---------------------------------------------------------------------------------------------------
def test_otlp_sends_them_as_sums_that_only_rise():
    found = {metric.name: metric for metric in Values().of(published({"a": page(3)}))}
    for name, value in ((JUDGED, 13.0), (MISSED, 3.0)):
        assert found[name].kind is Kind.COUNTER
        (point,) = found[name].points
        assert point.value == value
        assert point.start > 0


@pytest.mark.prometheus
def test_the_page_passes_promtools_lint():
    cycle = published({"a": page(3), "b": page(1)}, services=(Service(name="chat", engines=("a", "b")),), turns=4)
    run = subprocess.run(
        [binary("promtool"), "check", "metrics"], input=cycle.page, capture_output=True, timeout=60, check=False
    )
    assert (run.stderr.decode().splitlines(), run.returncode) == ([], 0)
