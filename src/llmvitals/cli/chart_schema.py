"""The settings within the Helm chart's ``values.schema.json``, so that Helm refuses a misspelt setting before a rollout."""

from __future__ import annotations

import json

import msgspec

from llmvitals.errors import SettingsError
from llmvitals.settings import SWITCH, Settings

CHART_SCHEMA = "exporters/helm/llmvitals/values.schema.json"
_LEFT_OUT = ("title", "description", "default")
"""What a JSON Schema may say and no validator reads; docs/settings.md says it better."""

_SWITCHES = (("Node", "nvml"), ("Node", "processes"), ("Kubernetes", "enabled"))
"""YAML reads ``on`` and ``off`` without quotes as true and false; the reader of the settings takes both."""


def with_settings(text: str) -> str:
    """The schema of the chart's values with the settings under ``$defs`` as their reader has them now.

    Raises :class:`SettingsError` when the text is no JSON.
    """
    try:
        schema = json.loads(text)
    except ValueError:
        remedy = "Take it from the repository anew."
        raise SettingsError("is not valid JSON", place=CHART_SCHEMA, remedy=remedy) from None
    schema["$defs"] = {name: _plain(one) for name, one in msgspec.json.schema(Settings)["$defs"].items()}
    for struct, key in _SWITCHES:
        schema["$defs"][struct]["properties"][key] = {"enum": [*SWITCH, True, False]}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _plain(schema: object) -> object:
    """As draft 7 of JSON Schema has it, which Helm reads, and without what no validator does.

    A setting that is named like what is left out stays.
    """
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "prefixItems" in schema:
        several = schema["prefixItems"]
        schema = {k: v for k, v in schema.items() if k != "prefixItems"} | {"items": several, "additionalItems": False}
    return {
        key: {name: _plain(one) for name, one in value.items()} if key == "properties" else _plain(value)
        for key, value in schema.items()
        if key not in _LEFT_OUT
    }
