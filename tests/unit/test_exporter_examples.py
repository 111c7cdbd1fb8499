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
from llmvitals.exporters.cycle import Engine
from llmvitals.settings import Settings, load

DEPLOY = Path(__file__).parents[2] / "exporters"
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
