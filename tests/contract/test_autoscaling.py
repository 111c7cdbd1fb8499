"""Scaling by what users wait for: the objects are right, and their queries, on a real Prometheus over simulated incidents, ask for
replicas where there are too few, and for none where there are enough or where no replica would help.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest
import yaml

from llmvitals.lab.base import Base
from llmvitals.lab.draw import Longer
from llmvitals.lab.play import ORIGIN, Run, watch
from llmvitals.schema import FAMILIES
from llmvitals.series import Window, series
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS, compute
from support.backfilled import backfilled
from support.manifests import KUBERNETES, built, named, problems, round_trip
from support.plays import jobs
from support.prometheus import Points, PrometheusServer, joined, points_of
from support.tools import needed

FOLDER = KUBERNETES / "autoscaling"
WAYS = ("rules", "keda", "hpa")
RULES = yaml.safe_load((FOLDER / "rules" / "rules.yaml").read_text())["spec"]["groups"][0]
SCALED = yaml.safe_load((FOLDER / "keda" / "scaledobject.yaml").read_text())["spec"]
HPA = yaml.safe_load((FOLDER / "hpa" / "hpa.yaml").read_text())["spec"]
ADAPTER = yaml.safe_load((FOLDER / "hpa" / "adapter-values.yaml").read_text())["rules"]["external"][0]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES["rules"]}
QUERY = re.compile(r"avg\((llm:scale_\w+:\w+)\{namespace=\"serving\",model=\"chat\"\}\)")
TOLERANCE = 0.1
"""Kubernetes, --horizontal-pod-autoscaler-tolerance: a metric this close to its target changes nothing."""


def read_by_keda() -> dict[str, float]:
    """The recorded series that the ScaledObject reads, with what one replica should have."""
    found = {}
    for one in SCALED["triggers"]:
        match = QUERY.fullmatch(one["metadata"]["query"])
        assert match, one["metadata"]["query"]
        found[match[1]] = float(one["metadata"]["threshold"])
    return found


# -- the objects -------------------------------------------------------------------------------------------------------
@pytest.mark.kubernetes
@pytest.mark.parametrize("way", WAYS)
def test_objects_meet_their_schemas_and_survive_a_round_trip(way):
    objects = built(FOLDER / way)
    assert [problem for one in objects for problem in problems(one)] == []
    assert all(round_trip(one) == one for one in objects)


@pytest.mark.kubernetes
def test_the_page_applies_what_can_be_built_and_shows_the_numbers_that_are_set():
    page = (KUBERNETES.parents[1] / "docs" / "autoscaling.md").read_text(encoding="utf-8")
    applied = re.findall(r"kubectl apply -k (\S+)", page)
    assert {KUBERNETES.parents[1] / path for path in applied} == {FOLDER / way for way in WAYS}
    assert all(built(KUBERNETES.parents[1] / path) for path in applied)
    rows = dict(re.findall(r"^\| `(llm:scale_\S+)` \|[^|]*\| ([\d.]+)", page, re.MULTILINE))
    assert {name: float(value) for name, value in rows.items()} == read_by_keda()


@pytest.mark.kubernetes
def test_the_two_ways_do_not_come_together_and_scale_the_deployment_of_the_engines():
    (scaled,), (hpa,) = built(FOLDER / "keda"), built(FOLDER / "hpa")
    deployment = named(built(KUBERNETES / "engines"), "Deployment", "vllm-chat")
    assert (scaled["kind"], hpa["kind"]) == ("ScaledObject", "HorizontalPodAutoscaler")
    assert "replicas" not in deployment["spec"], "apply would undo what the autoscaler did"
    for one in (scaled, hpa):
        target = one["spec"]["scaleTargetRef"]
        assert target == {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]}
        assert one["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--served-model-name=chat" in arguments


def test_nothing_of_a_gpu_and_nothing_unknown_is_read():
    told = {f.name for f in FAMILIES} | {f"llm_{signal.id}" for signal in SIGNALS}
    assert {name.removesuffix("_bucket") for name in READ} <= told
    assert not any("gpu" in name or "kv_usage" in name for name in READ)


def test_both_ways_read_the_same_and_do_the_same():
    def external(series: str) -> str:
        return re.sub(ADAPTER["name"]["matches"], ADAPTER["name"]["as"].replace("$1", r"\1"), series)

    metrics = {one["external"]["metric"]["name"]: one["external"] for one in HPA["metrics"]}
    assert {external(series): limit for series, limit in read_by_keda().items()} == {
        name: float(one["target"]["value"]) for name, one in metrics.items()
    }
    assert set(read_by_keda()) == set(RECORDED)
    assert {one["target"]["type"] for one in metrics.values()} == {one["metricType"] for one in SCALED["triggers"]}
    assert ADAPTER["metricsQuery"].startswith("avg(")
    assert HPA["behavior"] == SCALED["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert (HPA["minReplicas"], HPA["maxReplicas"]) == (SCALED["minReplicaCount"], SCALED["maxReplicaCount"])


def test_it_goes_up_fast_and_down_slowly_and_never_to_zero():
    up, down = (HPA["behavior"][way] for way in ("scaleUp", "scaleDown"))
    loading = down["policies"][0]["periodSeconds"]
    assert up["stabilizationWindowSeconds"] == 0
    assert down["stabilizationWindowSeconds"] >= 3 * loading
    assert {policy["periodSeconds"] for policy in up["policies"]} == {loading}
    assert max(policy["value"] for policy in down["policies"]) == 1
    assert SCALED["minReplicaCount"] >= 2
    assert "idleReplicaCount" not in SCALED
    assert all(one["metadata"]["ignoreNullValues"] == "false" for one in SCALED["triggers"])


# -- the queries -------------------------------------------------------------------------------------------------------
WAIT = 1.0
"""Seconds that a request may wait: half of the promise to the first token."""

MORE = (
    "unbounded-queue",
    "kv-cache-saturation",
    "preemption-thrash",
    "prefill-bound",
    "batch-too-small",
)
ENOUGH = (
    "idle",
    "chat",
    "bursts",
    "documents",
    "busy",
    "full-but-fine",
    "one-burst",
    "drained-burst",
)
NO_HELP = (
    "impatient-clients",
    "never-cancelled",
    "connection-exhaustion",
    "api-server-bound",
    "grammar-compilation",
    "adapter-slots",
    "prefill-decode-interference",
    "only-errors",
)
"""Clients, front ends, schemas and adapters: users are hurt, and another replica is not what they lack."""

REFUSING, GONE = "shedding", "engine-died"
END = ORIGIN + 1200
READY = 2
LOOK = 180.0
"""Seconds that rules look back from the moment at which they are asked."""

READ = frozenset(re.findall(r"\bllm_\w+", " ".join(RECORDED.values())))
GAUGES = [s.id for s in SIGNALS if f"llm_{s.id}" in READ - {f.name for f in FAMILIES}]


@dataclass(frozen=True)
class Fleet:
    """A Prometheus with one server per scenario, and what each was drawn as."""

    server: PrometheusServer
    runs: Mapping[str, Run]

    def values(self, scenario: str) -> dict[str, float | None]:
        """What each query answers for one scenario's server; None for an empty answer."""
        found = {}
        for one in SCALED["triggers"]:
            query = one["metadata"]["query"].replace('namespace="serving",model="chat"', f'model=~".+-{scenario}"')
            rows = self.server.query(query, at=END)
            found[QUERY.fullmatch(one["metadata"]["query"])[1]] = rows[0][1] if rows else None
        return found

    def asks(self, scenario: str, ready: int = READY) -> dict[str, int]:
        """Replicas that an HPA makes of each answer, with so many ready (all of them)."""
        limits = thresholds(self.runs[scenario].base)
        return {
            name: replicas(value / limits[name], ready)
            for name, value in self.values(scenario).items()
            if value is not None
        }


def replicas(ratio: float, ready: int) -> int:
    """Kubernetes' documentation of the HPA, "Algorithm details", for a target of type Value; before bounds and policies."""
    return ready if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * ready)


def thresholds(base: Base) -> dict[str, float]:
    """The formulas of docs/autoscaling.md with a deployment's own numbers."""
    engine = base.setup.engine
    seats = min(engine.max_num_seqs, engine.pool_tokens / (base.prompt + base.output))
    return read_by_keda() | {
        "llm:scale_requests:1m": 0.8 * seats,
        "llm:scale_waiting:1m": base.rate * WAIT,
        "llm:scale_wait_seconds:1m": WAIT,
        "llm:scale_waiting_tokens:1m": base.rate * base.prompt * WAIT,
    }


def drawn(scenario: str, lasts: float) -> Run:
    """A play whose pages are as far apart as documented at most, and whose fault lasts so many seconds longer."""
    for job in jobs(scenario):
        run = watch(job, longer=Longer(fault=lasts))
        if run.base.times.interval <= 15:
            return run
    raise AssertionError(scenario)


def shown(run: Run) -> Points:
    """What rules read of a play as an exporter shows it, its gauges over the last minutes; its last page is at END."""
    own = {"instance": run.row.name, "model": f"{run.labels['model']}-{run.row.name}"}
    window = run.base.times.window
    pages = []
    for at, page in enumerate(run.snapshots):
        samples = {key.plus(**own): value for key, value in page.samples.items() if key.name in READ}
        if page.t >= run.snapshots[-1].t - LOOK:
            seen = Window.of(run.snapshots[: at + 1][-round(window / run.base.times.interval) - 1 :])
            readings = compute(seen, Settings(), only=GAUGES)
            found = {series(f"llm_{name}", **own): reading.value for name, reading in readings.items()}
            samples |= {key: value for key, value in found.items() if value is not None}
        pages.append(replace(page, t=page.t + END - ORIGIN - run.last, samples=samples))
    return points_of(pages)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    lasts = dict.fromkeys((*ENOUGH, *NO_HELP), 0) | dict.fromkeys((*MORE, REFUSING), 120) | {GONE: 240}
    runs = {name: drawn(name, seconds) for name, seconds in lasts.items()}
    # one group after the other: promtool's backfill does not see what its own group recorded before
    groups = [{"name": str(at), "rules": rules} for at, rules in enumerate((RULES["rules"][:1], RULES["rules"][1:]))]
    points = joined(map(shown, runs.values()))
    with backfilled(tmp_path_factory.mktemp("scaling"), points, groups, start=END - 120, end=END) as server:
        yield Fleet(server, runs)


@pytest.mark.prometheus
def test_the_rules_are_ones_that_prometheus_takes(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [RULES]}))
    done = subprocess.run(
        [needed("promtool"), "check", "rules", "--lint=all", str(path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prometheus
@pytest.mark.parametrize("scenario", MORE)
def test_a_saturated_server_asks_for_more(fleet, scenario):
    asked = fleet.asks(scenario)
    waiting = ("llm:scale_waiting:1m", "llm:scale_wait_seconds:1m", "llm:scale_waiting_tokens:1m")
    assert all(asked[name] > READY for name in (*waiting, "llm:scale_ttft_p95_seconds:2m")), asked


@pytest.mark.prometheus
@pytest.mark.parametrize("scenario", [*ENOUGH, *NO_HELP])
def test_who_has_enough_or_lacks_something_else_asks_for_none(fleet, scenario):
    asked = fleet.asks(scenario)
    assert set(asked) == set(RECORDED), "who is watched gives a number for each"
    assert max(asked.values()) <= READY, asked


@pytest.mark.prometheus
def test_preemptions_count_where_they_go_on(fleet):
    assert fleet.asks("preemption-thrash")["llm:scale_preemptions_per_minute:3m"] > READY
    assert fleet.values("one-burst")["llm:scale_preemptions_per_minute:3m"] == 0


@pytest.mark.prometheus
def test_a_server_that_refuses_asks_for_what_it_was_offered(fleet):
    """Its queue has a limit: nothing but the refusals tells how much comes."""
    asked = fleet.asks(REFUSING)
    assert asked.pop("llm:scale_offered_ratio:2m") > READY
    assert asked.pop("llm:scale_requests:1m") > READY, "its seats are all taken"
    assert max(asked.values()) <= READY


@pytest.mark.prometheus
def test_a_full_pool_without_a_queue_is_no_reason(fleet):
    pages = fleet.runs["full-but-fine"].snapshots
    usage = [value for page in pages for key, value in page.samples.items() if key.name == "llm_kv_usage_ratio"]
    assert max(usage) > 0.85
    assert max(fleet.asks("full-but-fine").values()) <= READY


@pytest.mark.prometheus
def test_an_empty_queue_does_not_take_replicas_from_a_busy_fleet(fleet):
    """Of all that is read only the requests in the servers hold replicas where nobody waits."""
    asked = fleet.asks("chat", ready=4)
    held = asked.pop("llm:scale_requests:1m")
    assert set(asked.values()) == {0}
    assert 0 < held < 4


@pytest.mark.prometheus
def test_who_is_not_seen_is_not_idle(fleet):
    """An empty answer, which is an error to KEDA and stops an HPA from scaling down; 0 would have asked for none."""
    assert set(fleet.values(GONE).values()) == {None}
    assert set(fleet.values("nobody-of-that-name").values()) == {None}
