"""A fleet in a real Prometheus: who is listed, who is shown, and what is said where verdicts are not stored."""

from dataclasses import replace

import pytest

from llmvitals.app.ask import Failure, ask
from llmvitals.app.chosen import MADE_HERE, MOST_JUDGED
from llmvitals.app.fleet import ask_fleet
from llmvitals.app.fleet_promql import standings
from llmvitals.app.fleet_stored import WHY, stored_fleet
from llmvitals.exporters.judge import groups, judge
from llmvitals.series import Series
from llmvitals.settings import Exporter, Service, Settings, Source
from llmvitals.signals.window import scopes
from llmvitals.simulator.scenarios import scenario
from llmvitals.sources import Observed
from llmvitals.sources.assemble import joined as assembled
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose_with
from support.prometheus import joined, points_of, prometheus_of

pytestmark = pytest.mark.prometheus
START, SECONDS, STEP = 1_700_000_000.0, 90, 5
AT = START + SECONDS
SETTINGS = Settings(exporter=Exporter(window_seconds=60.0))
ANY = {"instance": "", "model": ""}
CALM = 4
ILL = "ill-0"


def pages(kind, name):
    """What the exporter reads of a simulated server."""
    live, ingest = scenario(kind).live(origin=START), Ingest(instance=name)
    moments = [START + second for second in range(0, SECONDS + 1, STEP)]
    return [ingest.snapshot(RawPage(t, 0.01, 200, live.page_at(t), "")) for t in moments]


def verdicts(snapshots, engines=None, places=None, until=AT):
    """The gauges that the exporter makes of them, at each page of the last half minute."""
    found = {}
    for t in sorted({s.t for s in snapshots}):
        if until - 30 <= t <= until:
            window = [s for s in snapshots if t - 60 <= s.t <= t]
            for group in groups(judge(window, SETTINGS, engines, places)[0], 60.0):
                for labels, value in group.samples.items():
                    found.setdefault(Series(group.name, tuple(sorted(labels))), []).append((round(t * 1000), value))
    return found


def placed(points, **labels):
    """The same as a server stores them that adds labels of its own."""
    return {key.plus(**labels): samples for key, samples in points.items()}


def renamed(points):
    """As a server stores them without honor_labels."""
    return {Series(key.name, tuple(sorted(_moved(key.labels)))): samples for key, samples in points.items()}


def _moved(labels):
    yield "instance", "exporter:9464"
    yield from ((f"exported_{name}" if name == "instance" else name, value) for name, value in labels)


@pytest.fixture(scope="module")
def seen():
    """One ill server and some calm ones."""
    calm = pages("healthy", "calm-0")
    others = {f"calm-{n}": [relabelled(page, f"calm-{n}") for page in calm] for n in range(CALM)}
    return {ILL: pages("preemption", ILL), **others}


def relabelled(page, name):
    """A page under another name."""
    return replace(page, samples={key.plus(instance=name): value for key, value in page.samples.items()})


def of(server, **more):
    """It as a source."""
    return Source(name="fleet", url=server.url, kind="prometheus", **more)


@pytest.fixture(scope="module")
def fleet(seen, tmp_path_factory):
    """Verdicts and samples of all of them, of one that fell silent, and of a service."""
    every = [page for one in seen.values() for page in one]
    service = Service(name="chat", engines=(ILL, "calm-0"))
    whole = assembled([Observed(name, "vllm", tuple(seen[name])) for name in service.engines], [service])
    told = verdicts([*every, *whole[0].snapshots], {"chat": service.engines})
    silent = verdicts([relabelled(page, "silent") for page in seen["calm-0"] if page.t <= START + 60], until=START + 60)
    with prometheus_of(
        tmp_path_factory.mktemp("fleet"), joined([points_of(every), told, silent]), flags=["--query.lookback-delta=12s"]
    ) as server:
        yield server


def test_the_list_is_told_by_stored_verdicts_and_the_worst_is_shown(fleet):
    found = standings(of(fleet), AT, SETTINGS)
    assert [one.instance for one in found if one.verdict == "cause"] == sorted([ILL, "chat"])
    assert {one.instance: one.verdict for one in found if not one.gone}["calm-0"] == "healthy"
    answer = ask(of(fleet), ANY, AT, SETTINGS)
    assert answer.verdict.scope["instance"] == ILL  # of the service there are verdicts alone
    assert answer.verdict.leading.cause == "preemption-thrash"
    assert answer.members[0].leading == "preemption-thrash"
    assert {m.instance for m in answer.members} == {ILL, "chat", *(f"calm-{n}" for n in range(CALM))}


def test_a_scope_that_gave_no_verdict_for_a_while_is_gone_and_says_since_when(fleet):
    (silent,) = [one for one in standings(of(fleet), AT, SETTINGS) if one.gone]
    assert (silent.instance, silent.newest) == ("silent", START + 60)
    failure = ask(of(fleet), {"instance": "silent", "model": ""}, AT, SETTINGS)
    assert isinstance(failure, Failure)
    assert "22:14:20 UTC" in failure.remedy  # 1 700 000 060
    assert failure.members


def test_a_link_to_a_scope_reads_that_one(fleet):
    model = standings(of(fleet), AT, SETTINGS)[0].model
    answer = ask(of(fleet), {"instance": "calm-2", "model": model}, AT, SETTINGS)
    assert answer.verdict.scope == {"instance": "calm-2", "model": model}
    assert answer.verdict.outcome is Outcome.HEALTHY


def test_a_service_is_judged_over_its_engines_where_the_settings_name_it(fleet):
    settings = Settings(exporter=SETTINGS.exporter, services=(Service(name="chat", engines=(ILL, "calm-0")),))
    answer = ask(of(fleet), {"instance": "chat", "model": ""}, AT, settings)
    assert answer.verdict.scope["engines"] == [ILL, "calm-0"]
    failure = ask(of(fleet), {"instance": "chat", "model": ""}, AT, SETTINGS)
    assert "name it under services" in failure.remedy


def test_without_stored_verdicts_the_walk_makes_them_and_says_so(seen, tmp_path):
    every = [page for one in seen.values() for page in one]
    with prometheus_of(tmp_path, points_of(every)) as server:
        answer = ask(of(server), ANY, AT, SETTINGS)
        assert answer.notes == (MADE_HERE,)
        assert answer.verdict.scope["instance"] == ILL
        assert len(answer.members) == CALM + 1


def test_without_stored_verdicts_no_more_are_judged_than_a_person_waits_for(seen, tmp_path):
    few = [page for page in seen["calm-0"] if page.t >= AT - 60]
    every = [relabelled(page, f"calm-{n:03}") for n in range(MOST_JUDGED + 10) for page in few]
    with prometheus_of(tmp_path, points_of([*every, *seen[ILL]])) as server:
        answer = ask(of(server), ANY, AT, SETTINGS)
        assert sum(bool(m.verdict) for m in answer.members) == MOST_JUDGED
        assert len(answer.members) == MOST_JUDGED + 11
        assert answer.verdict.scope["instance"] == ILL  # many wait there
        assert f"judged are {MOST_JUDGED} of its {MOST_JUDGED + 11} targets" in answer.notes[1]
        last = ask(of(server), {"instance": f"calm-{MOST_JUDGED + 9:03}", "model": ""}, AT, SETTINGS)
        assert last.verdict.outcome is Outcome.HEALTHY


def test_two_clusters_with_one_name_are_not_mixed_and_it_is_told_which(seen, tmp_path):
    ill = [relabelled(page, "vllm-0") for page in seen[ILL]]
    calm = [relabelled(page, "vllm-0") for page in seen["calm-0"] if page.t > AT - 20]
    east = placed(joined([points_of(ill), verdicts(ill)]), cluster="east")
    west = placed(joined([points_of(calm), verdicts(calm)]), cluster="west")
    with prometheus_of(tmp_path, joined([east, west])) as server:
        answer = ask(of(server), ANY, AT, SETTINGS)
        assert answer.verdict.leading.cause == "preemption-thrash"
        assert answer.notes == ("another vllm-0 is at cluster west; shown is the one at cluster east",)
        assert [m.leading for m in answer.members] == ["preemption-thrash"]
        assert answer.verdict.window["pages"] == 13  # of the east alone


def test_what_a_server_renamed_is_found(seen, tmp_path):
    with prometheus_of(tmp_path, renamed(joined([points_of(seen[ILL]), verdicts(seen[ILL])]))) as server:
        answer = ask(of(server), {"instance": ILL, "model": ""}, AT, SETTINGS)
        assert answer.verdict.leading.cause == "preemption-thrash"
        assert [m.instance for m in answer.members] == [ILL]


def test_the_fleet_is_told_by_stored_gauges_alone(fleet, seen):
    found = stored_fleet(of(fleet), AT, SETTINGS)
    replicas = {one.instance: one for one in found.replicas}
    assert set(replicas) == {ILL, "silent", *(f"calm-{n}" for n in range(CALM))}
    assert [(one.name, one.verdict) for one in found.services] == [("chat", "cause")]
    ((_, window),) = scopes(seen[ILL][-13:]).items()
    verdict, readings = diagnose_with(window, SETTINGS)
    ill = replicas[ILL]
    assert (ill.verdict, ill.leading, ill.hurt) == ("cause", verdict.leading.cause, verdict.hurt)
    assert ill.kv == pytest.approx(readings["kv_usage_high_ratio"].value)
    assert ill.waiting == readings["requests_waiting"].value
    assert ill.numbers["queue_mean_seconds"] == pytest.approx(readings["queue_mean_seconds"].value)
    assert ill.binds == verdict.binding.resource.value
    assert ill.activity is None  # no GPU is joined to it, and why is said
    assert ill.activity_why == WHY[readings["gpu_sm_active_mean_ratio"].gap.kind.value]
    assert (ill.newest, ill.gone) == (AT, False)
    assert (replicas["silent"].newest, replicas["silent"].gone) == (START + 60, True)


def test_a_fleet_without_stored_verdicts_is_judged_and_says_so(seen, tmp_path):
    every = [page for one in seen.values() for page in one]
    with prometheus_of(tmp_path, points_of(every)) as server:
        found = ask_fleet(of(server), AT, SETTINGS)
        assert found.notes == (MADE_HERE,)
        assert {one.instance: one.leading for one in found.replicas}[ILL] == "preemption-thrash"


def test_two_servers_that_hold_the_same_count_it_once_and_ranks_are_added(seen, tmp_path):
    points = joined([points_of(seen[ILL]), verdicts(seen[ILL])])
    held = [placed(points, replica=name) for name in ("a", "b")]
    ranks = [
        {key.plus(rank=rank): samples for key, samples in part.items() if key.name == "llm_requests_waiting"}
        for part in held
        for rank in ("7",)
    ]
    with prometheus_of(tmp_path, joined([*held, *ranks])) as server:
        (ill,) = stored_fleet(of(server), AT, SETTINGS).replicas
        newest = seen[ILL][-1].samples
        waiting = sum(value for key, value in newest.items() if key.name == "llm_requests_waiting")
        assert ill.waiting == 2 * waiting > 0


def test_the_one_that_was_judged_now_is_listed_as_it_stands_now(seen, tmp_path):
    """Stored was a verdict of the time before; the walk wins."""
    told = verdicts([relabelled(page, ILL) for page in seen["calm-0"]])
    with prometheus_of(tmp_path, joined([points_of(seen[ILL]), told])) as server:
        assert [one.verdict for one in standings(of(server), AT, SETTINGS)] == ["healthy"]
        answer = ask(of(server), ANY, AT, SETTINGS)
        assert answer.verdict.outcome is Outcome.CAUSE
        assert [member.leading for member in answer.members] == ["preemption-thrash"]
