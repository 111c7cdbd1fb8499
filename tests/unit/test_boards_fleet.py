"""The board of the fleet, over a made fleet in a real Prometheus: each service is one line, with the right words in it."""

import math
from itertools import pairwise

import pytest

from llmvitals.dashboards.boards import fleet
from llmvitals.dashboards.boards.verdict import VERDICT
from llmvitals.dashboards.model import Kind
from llmvitals.dashboards.promql import kept, promql
from llmvitals.series import series
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.verdict import Outcome, Resource
from support.boards import filled
from support.made_servers import END, PAGES, PLACE, START, STEP, level, track
from support.prometheus import Points, prometheus_of

PANELS = {panel.title: panel for row in fleet.BOARD.rows for panel in row.panels}
TABLE = fleet.SERVICES

# What each step of the walk asks about, and so in which layer its causes lie.
USERS, BEFORE, ENGINE = "user experience", "queue and admission", "engine and hardware"
LAYER_OF_STEP = (USERS, ENGINE, ENGINE, ENGINE, ENGINE, BEFORE, BEFORE, ENGINE)
OF_CAUSES = "one-per-cause"


def service(
    instance: str,
    model: str = "tiny",
    *,
    outcome: Outcome = Outcome.HEALTHY,
    hurt: bool = False,
    cause: str = "",
    place: dict[str, str] = PLACE,
    **numbers: float,
) -> Points:
    """What the exporter says of one service; ``numbers``: gauges of it by their names, without the prefix."""
    scope = {"instance": instance, "model": model, **place}
    found = {series("llm_triage_verdict", **scope, verdict=o.value): level(o is outcome) for o in Outcome}
    found[series("llm_triage_hurt", **scope)] = level(hurt)
    if cause:
        found[series("llm_triage_leading", **scope, cause=cause)] = level(0.8)
    for name, value in numbers.items():
        found[series(f"llm_{name}", **scope)] = level(value)
    return found


def times(instance: str, model: str = "tiny", *, queue: float, decode: float) -> Points:
    """Finished requests: two a page, with these mean seconds in the queue, in prefill (0.5 s), in decode, and outside (0.25 s)."""
    scope = {"instance": instance, "model": model, **PLACE}
    parts = {"queue": queue, "prefill": 0.5, "decode": decode, "inference": 0.5 + decode, "e2e": queue + 0.75 + decode}
    found: Points = {}
    for part, mean in parts.items():
        found[series(f"llm_request_{part}_seconds_count", **scope)] = track(lambda page: 2 * page)
        found[series(f"llm_request_{part}_seconds_sum", **scope)] = track(lambda page, mean=mean: 2 * mean * page)
    found[series("llm_requests_finished_total", **scope, reason="stop")] = track(lambda page: 2 * page)
    return found


def binds(instance: str, resource_at) -> Points:
    """Which resource binds on each page: 1 for it, 0 for the others, as the exporter says it."""
    scope = {"instance": instance, "model": "tiny", **PLACE}
    return {
        series("llm_binding", **scope, resource=r.value): track(lambda page, r=r: resource_at(page) is r)
        for r in Resource
    }


def started(instance: str, *, in_time: int, late: int) -> Points:
    """First tokens: so many a page within a second, and so many within two to four."""
    scope = {"instance": instance, "model": "tiny", **PLACE}
    edges = {"1.0": in_time, "2.0": in_time, "4.0": in_time + late, "+Inf": in_time + late}
    return {
        series("llm_request_ttft_seconds_bucket", **scope, le=le): track(lambda page, n=n: n * page)
        for le, n in edges.items()
    }


def target(instance: str, *, up: bool = True, version: str = "0.11", **place: str) -> Points:
    """What is known of a target itself: its series name no model."""
    scope = {"instance": instance, **(place or PLACE)}
    found = {series("llm_target_up", **scope): level(up)}
    if up:
        found[series("llm_target_info", **scope, engine="vllm", version=version)] = level(1)
        found[series("llm_process_start_time_seconds", **scope)] = level(START - 3600)
    return found


MADE: tuple[Points, ...] = (
    *(service(check.cause, OF_CAUSES, outcome=Outcome.CAUSE, cause=check.cause) for check in CHECKS),
    # -- one model with three replicas, of which one holds most requests; and another cluster's server of the same name
    service(
        "busy",
        outcome=Outcome.CAUSE,
        hurt=True,
        cause="kv-cache-saturation",
        requests_running=8,
        requests_waiting=4,
        kv_usage_high_ratio=0.99,
        kv_capacity_tokens=10_000,
        mean_context_tokens=400,
        goodput_low_ratio=0.2,
        goodput_high_ratio=0.4,
    ),
    times("busy", queue=6.0, decode=1.5),
    target("busy"),
    {
        series("llm_kv_usage_ratio", instance="busy", model="tiny", **PLACE): track(lambda page: 0.5 + page / 100),
        series("llm_gpu_sm_active_ratio", instance="busy", gpu="GPU-0", index="0", **PLACE): level(0.25),
        series("llm_preemptions_total", instance="busy", model="tiny", **PLACE): track(lambda page: 3 * page),
    },
    started("busy", in_time=9, late=1),
    binds("busy", lambda page: Resource.KV if page >= 20 else Resource.NOTHING),
    service("calm", requests_running=3, requests_waiting=0, goodput_low_ratio=1.0, goodput_high_ratio=1.0),
    times("calm", queue=0.1, decode=1.5),
    target("calm", version="0.10"),
    binds("calm", lambda _: Resource.NOTHING),
    service("also-calm", requests_running=3, requests_waiting=0),
    target("also-calm"),
    service("busy", place={"cluster": "west"}, requests_running=1, requests_waiting=0),
    target("busy", cluster="west"),
    # -- other models, one server each
    {
        series(f"llm_request_e2e_seconds_{part}", instance="undivided", model="plain", **PLACE): track(
            lambda page, by=by: by * page
        )
        for part, by in (("count", 2), ("sum", 10))
    },
    service("slow-queue", "other", outcome=Outcome.UNDETERMINED, hurt=True, requests_running=0, requests_waiting=0),
    times("slow-queue", "other", queue=9.0, decode=0.1),
    service("refusing", "third", outcome=Outcome.SHEDDING),
    service("idle", "fourth", outcome=Outcome.NO_TRAFFIC, requests_running=0, requests_waiting=0),
    service("gone", "", outcome=Outcome.CAUSE, cause="not-serving"),
    target("gone", up=False),
    {series("llmvitals_targets", instance="10.0.0.9:9464", job="llmvitals"): level(7)},
)
SERVICES = len(CHECKS) + 8


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    points = {key: value for points in MADE for key, value in points.items()}
    with prometheus_of(tmp_path_factory.mktemp("fleet-board"), points) as server:
        yield server


def found(server, query, **chosen):
    return server.query(filled(promql(query), **chosen), at=END)


def column(server, panel, heading, **chosen):
    """A column of a table: by instance and cluster, the number."""
    query = next(query for query in panel.queries if query.column == heading)
    rows = found(server, query, **chosen)
    keys = [(labels.get("instance", labels.get("model", "")), labels.get("cluster", "")) for labels, _ in rows]
    assert len(keys) == len(set(keys)), "one line each"
    return {key if key[1] == "west" else key[0]: value for key, (_, value) in zip(keys, rows, strict=True)}


def words(query, value):
    return next(text for number, text, _ in query.names if number == value)


# -- without a Prometheus ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.cause)
def test_every_cause_of_the_table_lies_in_one_layer(check):
    layers = [name for number, name, _ in fleet.LAYERS if check.cause in fleet.causes_of(number).split("|")]
    assert layers == [LAYER_OF_STEP[check.step]]


def test_every_outcome_and_every_resource_has_a_number_and_words():
    assert {outcome for outcome, *_ in fleet.VERDICTS} == set(Outcome)
    assert {resource for resource, *_ in fleet.WALLS} == set(Resource)
    for rows in (fleet.VERDICTS, fleet.WALLS):
        assert len({row[1] for row in rows}) == len({row[2] for row in rows}) == len(rows)
        assert len({row[3] for row in rows}) == len(rows), "told apart by colour too"


def test_lines_of_a_replica_each_are_only_drawn_of_some():
    """What is asked along the time axis is bounded, or summed up by model."""
    for panel in PANELS.values():
        if panel.kind in (Kind.LINES, Kind.STACK, Kind.TIMELINE):
            for query in panel.queries:
                assert query.by == ("model",) or f"topk({fleet.DRAWN}, " in query.promql, panel.title
        if panel.kind is Kind.TIMELINE:
            assert 0 < panel.points <= 200, "each moment asks about all of them"


def test_a_choice_of_the_longest_is_the_same_at_every_moment():
    for panel in (fleet.OVER_TIME, fleet.BINDING):
        (query,) = panel.queries
        assert "[$__range] @ end()" in query.promql[query.promql.index("topk(") :]


# -- over the made fleet ------------------------------------------------------------------------------------------------


@pytest.mark.prometheus
def test_every_service_is_one_line_and_the_worst_comes_first(prometheus):
    verdicts = column(prometheus, TABLE, "Verdict")
    assert len(verdicts) == SERVICES
    assert TABLE.worst == "Verdict", "the largest number comes first"
    told = {name: words(TABLE.queries[0], value) for name, value in verdicts.items()}
    order = ["busy", "slow-queue", "gone", "refusing", "calm", "idle"]
    assert [told[name] for name in order] == [
        "cause found, users are hurt",
        "undetermined, users are hurt",
        "cause found",
        "load is refused",
        "healthy",
        "no traffic",
    ]
    assert all(verdicts[a] > verdicts[b] for a, b in pairwise(order))
    assert verdicts["busy", "west"] == verdicts["calm"], "a server of the same name elsewhere is another line"


@pytest.mark.prometheus
@pytest.mark.parametrize("query", TABLE.queries, ids=lambda query: query.column)
def test_no_cell_has_two_numbers_and_all_name_the_line(prometheus, query):
    rows = found(prometheus, query)
    lines = [tuple(labels.get(name, "") for name in kept(("instance", "model"))) for labels, _ in rows]
    assert lines
    assert len(lines) == len(set(lines))
    assert all(math.isfinite(value) for _, value in rows)


@pytest.mark.prometheus
def test_the_layer_is_that_of_the_cause_or_of_most_of_the_time(prometheus):
    query = TABLE.queries[1]
    layers = {name: words(query, value) for name, value in column(prometheus, TABLE, "Worst layer").items()}
    assert {check.cause: layers[check.cause] for check in CHECKS} == {
        check.cause: LAYER_OF_STEP[check.step] for check in CHECKS
    }
    assert (layers["busy"], layers["gone"], layers["refusing"]) == (ENGINE, USERS, BEFORE)
    assert (layers["slow-queue"], layers["calm"]) == ("most time: queue", "most time: engine")
    assert not {"idle", "also-calm"} & layers.keys(), "nothing finished, so nothing held its time"


@pytest.mark.prometheus
def test_what_nobody_knows_of_an_idle_service_is_no_zero(prometheus):
    known = {query.column for query in TABLE.queries if found(prometheus, query, instance="idle")}
    assert known == {"Verdict", "Waiting"}


@pytest.mark.prometheus
def test_the_numbers_of_a_line_are_those_that_were_loaded(prometheus):
    line = {query.column: found(prometheus, query, instance="busy", cluster="east") for query in TABLE.queries}
    assert {name: rows[0][1] for name, rows in line.items() if rows} == pytest.approx(
        {
            "Verdict": 9,
            "Worst layer": 3,
            "Confidence": 0.8,
            "Goodput, at least": 0.2,
            "At most": 0.4,
            "TTFT p95": 3.0,  # half of the late ones in the bucket from 2 to 4 s
            "Waiting": 4,
            "Queue share": 6 / 8,
            "KV high": 0.99,
            "SM active": 0.25,
            "Preempted/min": 12,
        }
    )
    assert line["Confidence"][0][0]["cause"] == "kv-cache-saturation"


@pytest.mark.prometheus
def test_the_tiles_count_services_and_targets(prometheus):
    told = {query.legend: found(prometheus, query)[0][1] for query in fleet.COUNTS.queries}
    causes = len(CHECKS) + 2
    assert told == {
        "users are hurt": 2,
        "cause found": causes,
        "load is refused": 1,
        "undetermined": 1,
        "healthy": 3,
        "no traffic": 1,
    }
    assert {query.legend: found(prometheus, query)[0][1] for query in fleet.TARGETS.queries} == {
        "expected": 7,
        "scraped": 5,
        "answering": 4,
    }


@pytest.mark.prometheus
def test_only_what_was_not_well_is_drawn_over_time(prometheus):
    drawn = {labels["instance"]: value for labels, value in found(prometheus, fleet.OVER_TIME.queries[0])}
    assert len(drawn) == fleet.DRAWN
    assert not {"calm", "also-calm", "idle"} & drawn.keys()
    assert found(prometheus, fleet.OVER_TIME.queries[0], instance="calm|idle") == []
    walls = found(prometheus, fleet.BINDING.queries[0])
    assert [(labels["instance"], words(fleet.BINDING.queries[0], value)) for labels, value in walls] == [
        ("busy", "KV memory")
    ]


@pytest.mark.prometheus
def test_room_is_free_tokens_over_what_a_request_holds(prometheus):
    assert column(prometheus, fleet.ROOM, "Free KV")["busy"] == pytest.approx(10_000 * (1 - 0.9))
    assert column(prometheus, fleet.ROOM, "More requests")["busy"] == 2  # 1,000 tokens free, 400 each
    # it grew by a hundredth a page of 15 s and has a tenth left
    assert column(prometheus, fleet.ROOM, "Full in")["busy"] == pytest.approx(10 * STEP, rel=0.01)


@pytest.mark.prometheus
def test_the_slowest_come_with_their_phases(prometheus):
    assert column(prometheus, fleet.PHASES, "Whole request") == pytest.approx(
        {"busy": 8.25, "slow-queue": 9.85, "calm": 2.35, "undivided": 5.0}
    )
    assert "undivided" not in column(prometheus, fleet.PHASES, "Prefill"), "its engine times whole requests only"
    assert column(prometheus, fleet.PHASES, "Queue") == pytest.approx({"busy": 6.0, "slow-queue": 9.0, "calm": 0.1})


@pytest.mark.prometheus
def test_replicas_are_compared_within_their_model_and_place(prometheus):
    panel = PANELS["Do the replicas of a model share the load?"]
    # 12 inside the busiest, 3 inside the median one; models with one server have nobody to share with
    assert column(prometheus, panel, "Busiest over median") == {"tiny": 4.0}
    ((labels, value),) = found(prometheus, panel.queries[1])
    assert (labels["instance"], labels["cluster"], value) == ("busy", "east", 12.0)
    assert column(prometheus, panel, "Replicas") == {"tiny": 3, ("tiny", "west"): 1, "other": 1, "fourth": 1}


@pytest.mark.prometheus
def test_versions_stand_side_by_side_where_a_model_has_several(prometheus):
    panel = PANELS["Versions side by side"]

    def by_version(heading):
        query = next(query for query in panel.queries if query.column == heading)
        return {(m["cluster"], m["model"], m["version"]): value for m, value in found(prometheus, query)}

    assert by_version("Versions of this model") == {
        ("east", "tiny", "0.11"): 2,
        ("east", "tiny", "0.10"): 2,
        ("west", "tiny", "0.11"): 1,
    }
    assert by_version("Replicas")["east", "tiny", "0.11"] == 2
    assert by_version("Waiting, each")["east", "tiny", "0.11"] == 2
    assert by_version("Users hurt")["east", "tiny", "0.11"] == 1


@pytest.mark.prometheus
def test_goodput_of_a_model_weighs_each_replica_by_what_it_finishes(prometheus):
    panel = PANELS["Goodput, model by model"]
    # both replicas that say it finish as many: the mean of 0.2 and 1, and of 0.4 and 1
    assert [found(prometheus, query)[0][1] for query in panel.queries[:2]] == pytest.approx([0.6, 0.7])


@pytest.mark.prometheus
def test_the_youngest_processes_are_told_with_their_restarts(prometheus):
    panel = PANELS["Youngest processes: restarts and cold starts"]
    ages = column(prometheus, panel, "Up for")
    assert set(ages) == {"busy", "calm", "also-calm", ("busy", "west")}
    assert set(ages.values()) == {3600 + STEP * (PAGES - 1)}
    assert set(column(prometheus, panel, "Restarts in this time").values()) == {0}


# -- ranks, an exporter that is scraped twice, servers behind one address ---------------------------------------------------


def of_ranks() -> Points:
    """A server of two ranks, each with 300 tokens free, of which the fuller one stays and the other fills."""
    found = service("ranks", mean_context_tokens=200, requests_waiting=0)
    for rank, tokens, usage in (("0", 3000, lambda _: 0.9), ("1", 500, lambda page: page / 100)):
        scope = {"instance": "ranks", "model": "tiny", "engine": "vllm", "rank": rank, **PLACE}
        found[series("llm_kv_capacity_tokens", **scope)] = level(tokens)
        found[series("llm_kv_usage_ratio", **scope)] = track(usage)
    return found


def twice(points: Points) -> Points:
    """As two jobs scrape it."""
    return {key.plus(job=job): samples for key, samples in points.items() for job in ("one", "two")}


def in_turns(instance: str, *, behind: bool) -> Points:
    """Start times that go back and forth, and whether that is known."""
    scope = {"instance": instance, **PLACE}
    found = {series("llm_process_start_time_seconds", **scope): track(lambda page: START - 3600 - page % 2)}
    if behind:
        found[series("llm_processes_behind", **scope, model="tiny", window="60s")] = level(2)
    return found


def ended(instance: str, reason: str) -> Points:
    """A container that ended once in the time shown: the increase is a little more than one."""
    return {
        series("llm_host_restarts_total", instance=instance, **PLACE, reason=reason): track(lambda page: page >= 20)
    }


UNKNOWN = {"cause": "cold-start", "state": "unknown"}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    scraped = service("twice", "double", hurt=True, outcome=Outcome.CAUSE, cause="cold-start", requests_running=1)
    scraped[series("llm_triage_check_state", instance="twice", model="double", **PLACE, **UNKNOWN)] = level(1)
    parts = (of_ranks(), twice(scraped), in_turns("shared", behind=True), in_turns("restarted", behind=False))
    parts += (ended("restarted", "oom"),)
    points = {key: value for points in parts for key, value in points.items()}
    with prometheus_of(tmp_path_factory.mktemp("odd-fleet"), points) as server:
        yield server


@pytest.mark.prometheus
def test_a_request_fits_into_one_rank_or_not_at_all(odd):
    # 300 tokens are free in each, of which a request takes 200: one fits into each, though 600 are free
    assert column(odd, fleet.ROOM, "Free KV")["ranks"] == pytest.approx(300 + 500 * 0.6)
    assert column(odd, fleet.ROOM, "More requests")["ranks"] == 2


@pytest.mark.prometheus
def test_the_rank_that_grows_is_the_one_that_will_be_full(odd):
    # the second rank grew by a hundredth a page and has six tenths left; the fuller one does not move
    assert column(odd, fleet.ROOM, "Full in")["ranks"] == pytest.approx(60 * STEP, rel=0.01)


@pytest.mark.prometheus
def test_an_exporter_that_is_scraped_twice_makes_no_second_service(odd):
    told = {query.legend: found(odd, query)[0][1] for query in fleet.COUNTS.queries}
    assert (told["users are hurt"], told["cause found"], told["healthy"]) == (1, 1, 1)
    hurt = next(q for q in PANELS["Replicas, model by model"].queries if q.legend == "users hurt")
    assert {labels["model"]: value for labels, value in found(odd, hurt)} == {"double": 1, "tiny": 0}
    blind = next(panel for panel in VERDICT.panels if panel.title == "Can the numbers be trusted?").queries[1]
    assert [value for _, value in found(odd, blind)] == [1]
    assert column(odd, TABLE, "Verdict")["twice"] == fleet._HURT + 4


@pytest.mark.prometheus
def test_servers_that_take_turns_did_not_begin_anew(odd):
    panel = PANELS["Youngest processes: restarts and cold starts"]
    assert column(odd, panel, "Restarts in this time") == {"restarted": PAGES - 1}
    assert column(odd, panel, "Ended by its host") == {"restarted": 1}


@pytest.mark.prometheus
@pytest.mark.parametrize("query", TABLE.queries, ids=lambda query: query.column)
def test_no_line_is_there_twice_of_an_exporter_that_is_scraped_twice(odd, query):
    rows = found(odd, query)
    assert len(rows) == len({tuple(labels.get(name, "") for name in kept(("instance", "model"))) for labels, _ in rows})
