"""The schema of the Helm chart's values holds the settings as their reader has them now."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from llmvitals.cli.chart_schema import CHART_SCHEMA, with_settings
from llmvitals.errors import SettingsError
from llmvitals.settings import Settings, decode

COMMITTED = (Path(__file__).parents[2] / CHART_SCHEMA).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def settings() -> jsonschema.protocols.Validator:
    schema = json.loads(with_settings('{"$defs": {"Gone": {}}}'))
    assert "Gone" not in schema["$defs"]
    return jsonschema.Draft7Validator({"$ref": "#/$defs/Settings", **schema})


def test_what_is_committed_is_what_is_made() -> None:
    assert with_settings(COMMITTED) == COMMITTED


def test_it_is_a_schema_of_the_draft_that_helm_reads() -> None:
    jsonschema.Draft7Validator.check_schema(json.loads(COMMITTED))
    assert "prefixItems" not in COMMITTED


def test_all_defaults_are_taken(settings: jsonschema.protocols.Validator) -> None:
    given = json.loads(msgspec.json.encode(Settings()))
    assert [error.message for error in settings.iter_errors(given)] == []


@pytest.mark.parametrize("value", ["auto", "on", "off", True, False])
def test_switches_are_taken_as_words_and_as_what_yaml_makes_of_them(
    settings: jsonschema.protocols.Validator, value: object
) -> None:
    assert settings.is_valid({"node": {"nvml": value, "processes": value, "kubernetes": {"enabled": value}}})


@pytest.mark.parametrize(
    "given",
    [
        {"node": {"nvml": "onn"}},
        {"slo": {"objectiv": 0.9}},
        {"slo": {"objective": 95}},
        {"targets": [{"name": "a"}]},
        {"thresholds": {"kv_lines": [0.9]}},
        {"thresholds": {"kv_lines": [0.9, 0.95, 0.97]}},
    ],
)
def test_what_the_reader_refuses_is_refused(settings: jsonschema.protocols.Validator, given: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        decode(given, place="x")
    assert not settings.is_valid(given)


def test_a_file_that_is_no_json_is_told() -> None:
    with pytest.raises(SettingsError, match="is not valid JSON"):
        with_settings("{")
