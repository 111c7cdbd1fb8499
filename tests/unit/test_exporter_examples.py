"""What an operator copies works as it is: settings decode, probes and ports exist, commands are the program's own."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest
import yaml

from llmvitals.cli.serve import command
from llmvitals.errors import SettingsError
from llmvitals.exporters import web_config
from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.server import Site
from llmvitals.settings import Settings, decode, load

DEPLOY = Path(__file__).parents[2] / "exporters"
MANIFESTS = [DEPLOY / "kubernetes" / name for name in ("daemonset.yaml", "sidecar.yaml")]
OPTIONS = {name for parameter in command.params for name in parameter.opts}


def test_the_example_settings_decode_and_show_the_defaults():
    settings = load(DEPLOY / "llmvitals.yaml")
    assert Engine(settings).instances == ("chat-0",)
    assert settings.exporter == Settings().exporter
    assert settings.slo == Settings().slo


def test_the_example_web_configuration_lacks_nothing_but_its_certificate(tmp_path):
    example = tmp_path / "web-config.yaml"
    example.write_text((DEPLOY / example.name).read_text())
    with pytest.raises(SettingsError, match=r"tls\.crt: cert_file cannot be read"):
        web_config.load(example)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_names_real_routes_flags_and_settings(path):
    workload, config = yaml.safe_load_all(path.read_text())
    spec = workload["spec"]["template"]["spec"]
    (container,) = [c for c in spec["containers"] if c["name"] == "llmvitals"]
    routes = {route.path for route in Site(Board(), Settings()).app().routes}
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} <= routes
    assert container["args"][0] == "serve"
    assert {arg for arg in container["args"] if arg.startswith("-")} <= OPTIONS
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "llmvitals"]
    (volume,) = [v for v in spec["volumes"] if v["name"] == "llmvitals"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert container["args"][2] == f"{mount['mountPath']}/{next(iter(config['data']))}"
    settings = decode(yaml.safe_load(config["data"]["llmvitals.yaml"]), place=str(path))
    assert settings.exporter.listen.rpartition(":")[2] == str(container["ports"][0]["containerPort"])
    assert (
        workload["spec"]["selector"]["matchLabels"].items()
        <= workload["spec"]["template"]["metadata"]["labels"].items()
    )
    assert Engine(settings).instances or settings.node.kubernetes.discover


def test_the_unit_starts_the_program_and_reloads_by_signal():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "llmvitals.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("-")} <= OPTIONS
    assert "-HUP" in unit["Service"]["ExecReload"]


def test_the_unit_leaves_what_reading_the_machine_takes():
    service = dict(
        line.split("=", 1) for line in (DEPLOY / "llmvitals.service").read_text().splitlines() if "=" in line[1:]
    )
    for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
        assert set(service[key].split()) == {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    assert "AF_NETLINK" in service["RestrictAddressFamilies"]
    assert "PrivateDevices" not in service
    assert service["DeviceAllow"].startswith("char-nvidia")


def test_the_image_starts_what_the_manifests_start():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    (started,) = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD ")]
    args = yaml.safe_load(started)
    assert args[0] == "serve"
    assert {arg for arg in args if arg.startswith("-")} <= OPTIONS
    (user,) = [line for line in lines if line.startswith("USER ")]
    assert user.split()[1].split(":")[0] not in {"root", "0"}
