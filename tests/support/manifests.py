"""Objects for a cluster: built by kustomize, and held against the strict schemas of their kinds."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from support.tools import needed

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "exporters" / "kubernetes"
SCHEMAS = ROOT / "tests" / "fixtures" / "kubernetes-schemas"
VERSIONS = ("1.29", "1.32", "1.34")
"""Releases of Kubernetes whose schemas the objects must meet: what they name must be known to old and new ones."""

CUSTOM = frozenset(path.stem for path in SCHEMAS.glob("*.json"))
Manifest = dict[str, Any]


@cache
def built(folder: Path) -> tuple[Manifest, ...]:
    """What ``kubectl apply -k folder`` would apply. A kustomization that cannot be built fails with kubectl's own words."""
    done = subprocess.run([needed("kubectl"), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr  # what is deprecated
    return documents(done.stdout)


def documents(text: str) -> tuple[Manifest, ...]:
    """The objects in a file or an output, empty documents left out. A key that stands twice is an error."""
    return tuple(one for one in yaml.load_all(text, Loader=_Unique) if one is not None)


def problems(manifest: Manifest) -> list[str]:
    """What is wrong with an object by its kind's strict schema; of Kubernetes' own kinds in each of ``VERSIONS``."""
    named = f"{manifest.get('kind')} {manifest.get('metadata', {}).get('name')}"
    if "." in manifest["apiVersion"].partition("/")[0] and manifest["kind"] in CUSTOM:
        return [
            f"{named}: {list(e.absolute_path)}: {e.message}" for e in _custom(manifest["kind"]).iter_errors(manifest)
        ]
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as wrong:
            found.append(
                f"{named}: Kubernetes {version}: {getattr(wrong, 'path', '')} {getattr(wrong, 'message', wrong)}"
            )
    return found


def round_trip(manifest: Manifest) -> Manifest:
    """The object after it was written as YAML and as JSON, and read again."""
    return json.loads(
        json.dumps(documents(yaml.dump(manifest, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))[0])
    )


def named(manifests: Iterable[Manifest], kind: str, name: str = "") -> Manifest:
    """The one object of a kind, or of a kind and a name; a generated name counts without its hash."""
    (found,) = [one for one in manifests if one["kind"] == kind and name in ("", plain_name(one["metadata"]["name"]))]
    return found


def plain_name(name: str) -> str:
    """A name without the hash that kustomize puts behind those that it generates."""
    return re.sub(r"-[bcdfghkmt2456789]{10}$", "", name)


def pods(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Each workload with its pod template."""
    for one in manifests:
        template = one.get("spec", {}).get("template") if isinstance(one.get("spec"), dict) else None
        if template:
            yield one, template


def containers(template: Manifest) -> list[Manifest]:
    """All containers of a pod template, those that come first included."""
    return [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector takes something with these labels."""
    ways = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        ways[one["operator"]](one["key"], one.get("values", ())) for one in selector.get("matchExpressions", ())
    )


@cache
def _custom(kind: str) -> jsonschema.protocols.Validator:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


class _Unique(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if not key.tag.endswith(":merge")]
        twice = {key for key in keys if keys.count(key) > 1}
        assert not twice, f"{sorted(twice)} twice, {node.start_mark}"
        return super().construct_mapping(node, deep)
