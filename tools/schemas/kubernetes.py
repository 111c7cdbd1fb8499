"""Writes the JSON Schemas of the custom resources that the manifests use: ``kubernetes.py FOLDER`` (scripts/schemas.sh).

The definitions are those that the Prometheus operator and KEDA publish, as the packages in ``kubernetes.txt`` carry them. They
are made strict: an object takes the fields that its definition names and no other, which an API server would
drop without a word.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.prometheus_operator import v1 as monitoring

KINDS = (
    monitoring.PodMonitor,
    monitoring.ServiceMonitor,
    monitoring.PrometheusRule,
    keda.ScaledObject,
    keda.TriggerAuthentication,
    keda.ClusterTriggerAuthentication,
)
_FOR_PEOPLE = frozenset({"title", "description", "default", "examples"})


def strict(schema: Any, *, names: bool = False) -> Any:  # noqa: ANN401 - any part of a schema
    """A schema without words for people and without null, whose objects take no other fields than they name.

    ``names``: whether the keys are names of properties or definitions, which may be called as a keyword is.
    """
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: strict(value, names=not names and key in {"properties", "$defs"})
        for key, value in schema.items()
        if names or key not in _FOR_PEOPLE
    }
    if names:
        return kept
    choices = [one for one in kept.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) == 1:
        kept = {key: value for key, value in kept.items() if key != "anyOf"} | choices[0]
    elif choices:
        kept["anyOf"] = choices
    if "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def main(folder: Path) -> None:
    """One file for each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        schema = strict(kind.model_json_schema(by_alias=True))
        schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind", "metadata"})
        (folder / f"{kind.__name__}.json").write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
