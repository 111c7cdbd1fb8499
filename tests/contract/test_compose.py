"""The compose file: right by its specification, every mount is in the checkout, and what the parts are told of each other fits."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml

from llmvitals import __version__
from llmvitals.settings import load
from support.command import llmvitals
from support.tools import needed, tool

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "exporters" / "compose"
SCHEMA = ROOT / "tests" / "fixtures" / "compose-schema" / "compose-spec.json"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
EACH = pytest.mark.parametrize("name", sorted(SERVICES))
WRITTEN = {"prometheus": "/prometheus", "alertmanager": "/alertmanager", "grafana": "/var/lib/grafana"}
"""What each keeps, and where its image is told to keep it."""


def mounts(name: str) -> list[tuple[str, str, str]]:
    """(what, where in the container, how) of each mount."""
    parts = (one.split(":") for one in SERVICES[name].get("volumes", ()))
    return [(what, where, *(how or ["rw"])) for what, where, *how in parts]


def mounted(name: str, where: str) -> Path:
    """The file of the checkout that lies there in the container."""
    (what,) = [what for what, there, _ in mounts(name) if there == where]
    return (FOLDER / what).resolve()


def listening(name: str) -> int:
    """The port that a service publishes, on loopback alone."""
    (published,) = SERVICES[name]["ports"]
    address, _, inside = published.split(":")
    assert address == "127.0.0.1"
    return int(inside)


def reaches(asking: str, url: str) -> None:
    """The address is that of a service on a network of the one that asks, and of the port it listens on."""
    where = urlsplit(url if "//" in url else f"//{url}")
    assert where.hostname in SERVICES, url
    assert set(SERVICES[asking]["networks"]) & set(SERVICES[where.hostname]["networks"]), (asking, url)
    assert where.port == listening(where.hostname), url


def test_it_meets_the_specification():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"].setdefault(
        "name", {"type": "string"}
    )  # of the project: newer than the package that has the schema
    validator = jsonschema.Draft201909Validator(schema)
    assert [f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(COMPOSE)] == []
    wrong = COMPOSE | {"services": {"exporter": SERVICES["exporter"] | {"read_onyl": True}}}
    assert not validator.is_valid(wrong), "the schema would let anything pass"


@EACH
def test_every_mount_is_in_the_checkout_and_read_only_but_what_is_kept(name):
    for what, where, how in mounts(name):
        if what.startswith("."):
            assert (FOLDER / what).resolve().is_file(), f"{what}: docker would make an empty folder of that name"
            assert how == "ro"
        else:
            assert what in COMPOSE["volumes"]
            assert where == WRITTEN[name]


@EACH
def test_each_is_contained(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    user, _, group = service["user"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert service["mem_limit"]
    assert "privileged" not in service
    assert re.fullmatch(r"[^:]+:v?\d+(\.\d+)+", service["image"]), "no tag that moves"
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    listening(name)


@EACH
def test_each_has_a_healthcheck_that_asks_itself(name):
    if name == "exporter":
        dockerfile = (ROOT / SERVICES[name]["build"]["dockerfile"]).read_text(encoding="utf-8")
        assert f"127.0.0.1:{listening(name)}/healthz" in dockerfile
    else:
        assert f"127.0.0.1:{listening(name)}/" in " ".join(SERVICES[name]["healthcheck"]["test"])


def test_the_image_is_the_one_of_this_version_and_made_once():
    assert {SERVICES[name]["image"] for name in ("exporter", "app")} == {f"llmvitals:{__version__}"}
    assert (FOLDER / SERVICES["exporter"]["build"]["context"]).resolve() == ROOT


def test_the_settings_are_read_and_fit_the_ports():
    settings = load(mounted("exporter", "/etc/llmvitals/llmvitals.yaml"))
    assert settings.exporter.listen == f"0.0.0.0:{listening('exporter')}"
    hosts = {one.partition(":")[0] for one in SERVICES["exporter"]["extra_hosts"]}
    assert {urlsplit(target.url).hostname for target in settings.targets} <= hosts | set(SERVICES)
    app = load(mounted("app", "/etc/llmvitals/app.yaml"))
    for source in app.sources:
        reaches("app", source.url)
    assert {source.kind for source in app.sources} == {"exporter", "prometheus"}


@pytest.mark.parametrize("name", ["exporter", "app"])
def test_the_command_is_one_that_the_program_has(name):
    command, *words = SERVICES[name]["command"]
    helped = llmvitals(command, "--help")
    assert helped.code == 0
    assert all(word in helped.out for word in words if word.startswith("--"))
    files = {where for _, where, _ in mounts(name)}
    assert {word for word in words if word.startswith("/etc/")} <= files


@pytest.mark.prometheus
def test_prometheus_takes_its_configuration_with_all_rules(tmp_path):
    """In a folder laid out as in the container, whose absolute paths become those of the folder."""
    for what, where, how in mounts("prometheus"):
        if how == "ro":
            there = tmp_path / where.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(FOLDER / what, there)
    path = tmp_path / "etc/prometheus/prometheus.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("/etc/", f"{tmp_path}/etc/"), encoding="utf-8")
    done = subprocess.run(
        [needed("promtool"), "check", "config", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rules = re.findall(r"SUCCESS: (\d+) rules found", done.stdout)
    assert len(rules) == 2
    assert all(int(count) > 0 for count in rules)


def test_prometheus_scrapes_the_exporter_and_tells_alertmanager():
    config = yaml.safe_load(mounted("prometheus", "/etc/prometheus/prometheus.yaml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert (job["job_name"], job["honor_labels"]) == (load(None).alerts.job, True)
    for address in job["static_configs"][0]["targets"]:
        reaches("prometheus", address)
    for address in config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]:
        reaches("prometheus", address)


@pytest.mark.prometheus
def test_alertmanager_takes_its_configuration():
    amtool = tool("amtool")
    assert amtool, "it comes with Debian's prometheus-alertmanager"
    config = mounted("alertmanager", "/etc/alertmanager/alertmanager.yaml")
    done = subprocess.run([amtool, "check-config", str(config)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_finds_its_source_and_the_boards_of_one_kind():
    (source,) = yaml.safe_load(
        mounted("grafana", "/etc/grafana/provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8")
    )["datasources"]
    reaches("grafana", source["url"])
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    (provider,) = yaml.safe_load(
        mounted("grafana", "/etc/grafana/provisioning/dashboards/llmvitals.yaml").read_text(encoding="utf-8")
    )["providers"]
    boards = {where: FOLDER / what for what, where, _ in mounts("grafana") if where.endswith(".json")}
    assert {str(Path(where).parent) for where in boards} == {provider["options"]["path"]}
    assert {path.resolve() for path in boards.values()} == set((ROOT / "dashboards").glob("*.json"))
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in boards


def test_no_password_stands_in_it():
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    assert re.findall(r"PASSWORD: (\S+)", text) == ["${GRAFANA_PASSWORD:?give"]
