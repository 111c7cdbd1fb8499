"""The engines' example Deployments: found by the exporter, never killed for being busy, ended without cutting a stream."""

from __future__ import annotations

import pytest

from llmvitals.sources.pod_words import PREFIX, read
from support.command import llmvitals
from support.manifests import KUBERNETES, Manifest, built, pods, problems, round_trip, selects

pytestmark = pytest.mark.kubernetes
FOLDER = KUBERNETES / "engines"
ENGINES = ("vllm-chat", "sglang-code")


def template(name: str) -> Manifest:
    (found,) = [template for one, template in pods(built(FOLDER)) if one["metadata"]["name"] == name]
    return found


def engine(name: str) -> Manifest:
    return template(name)["spec"]["containers"][0]


def patience(probe: Manifest) -> int:
    """Seconds for which a container may fail a probe."""
    return probe["periodSeconds"] * probe["failureThreshold"]


def test_objects_meet_their_schemas_and_survive_a_round_trip():
    assert [problem for one in built(FOLDER) for problem in problems(one)] == []
    assert all(round_trip(one) == one for one in built(FOLDER))


@pytest.mark.parametrize("name", ENGINES)
def test_it_loads_as_long_as_it_must_and_lives_while_it_is_busy(name):
    probes = {way: engine(name)[f"{way}Probe"] for way in ("startup", "liveness", "readiness")}
    assert patience(probes["startup"]) >= 1800
    assert patience(probes["liveness"]) >= 120
    assert patience(probes["readiness"]) < patience(probes["liveness"]), "out of the Service long before it is ended"
    assert {probe["httpGet"]["path"] for probe in probes.values()} == {"/health"}
    assert probes["liveness"]["timeoutSeconds"] >= 10


@pytest.mark.parametrize("name", ENGINES)
def test_a_pod_that_ends_has_time_for_its_streams(name):
    spec = template(name)["spec"]
    (_, seconds) = engine(name)["lifecycle"]["preStop"]["exec"]["command"]
    drains = [int(one.partition("=")[2]) for one in engine(name)["args"] if one.startswith("--shutdown-timeout=")] or [
        300
    ]
    assert spec["terminationGracePeriodSeconds"] > int(seconds) + drains[0]


@pytest.mark.parametrize("name", ENGINES)
def test_the_exporter_finds_it_and_its_service_and_budget_take_it(name):
    metadata = template(name)["metadata"]
    ports = {port["name"]: port["containerPort"] for port in engine(name)["ports"]}
    told = {
        key.removeprefix(PREFIX): read(key.removeprefix(PREFIX), text) for key, text in metadata["annotations"].items()
    }
    assert told["scrape"] is True
    assert metadata["annotations"][f"{PREFIX}port"] in ports
    beside = {one["kind"]: one["spec"] for one in built(FOLDER) if one["metadata"]["name"] == name}
    assert beside["Service"]["selector"].items() <= metadata["labels"].items()
    assert beside["Service"]["ports"][0]["targetPort"] in ports
    assert selects(beside["PodDisruptionBudget"]["selector"], metadata["labels"])
    assert selects(beside["Deployment"]["selector"], metadata["labels"])


@pytest.mark.parametrize("name", ENGINES)
def test_workers_have_shared_memory_and_nothing_is_latest(name):
    volumes = {one["name"]: one for one in template(name)["spec"]["volumes"]}
    (shm,) = [one for one in engine(name)["volumeMounts"] if one["mountPath"] == "/dev/shm"]
    assert volumes[shm["name"]]["emptyDir"]["medium"] == "Memory"
    assert engine(name)["image"].rpartition(":")[2] not in ("", "latest")


@pytest.mark.parametrize("file", ["vllm.yaml", "sglang.yaml"])
def test_our_own_audit_has_nothing_against_it(file):
    done = llmvitals("audit", str(FOLDER / file))
    assert done.code == 0, done
    assert "warning" not in done.out
    assert "error" not in done.out
