"""The chart and the kustomization are two ways to the same objects: what differs stands in one table, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import yaml

from llmvitals.settings import decode
from support.charts import OPERATOR, rendered
from support.manifests import KUBERNETES, Manifest, built, plain_name

pytestmark = [pytest.mark.helm, pytest.mark.kubernetes]

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Differs:
    """A key that only the chart has, wherever it stands; with this value alone and in this kind alone, where these are given."""

    why: str
    key: str
    value: object = None
    kind: str = ""

    def is_it(self, kind: str, key: str, value: object) -> bool:
        return key == self.key and self.value in (None, value) and self.kind in ("", kind)


GENERATED = "kustomize labels objects that stand in files, and not the ConfigMaps that it makes of files"
EXCEPTIONS = (
    Differs("a release knows its objects by it, and two releases each other's", "app.kubernetes.io/instance"),
    Differs("helm's own: who keeps the object", "app.kubernetes.io/managed-by"),
    Differs("helm's own: which release of the project", "app.kubernetes.io/version"),
    Differs("helm's own: which release of the chart", "helm.sh/chart"),
    Differs("other settings are other pods; kustomize puts a hash into the ConfigMap's name", "checksum/settings"),
    Differs(GENERATED, "app.kubernetes.io/name", kind="ConfigMap"),
    Differs(GENERATED, "app.kubernetes.io/component", kind="ConfigMap"),
    Differs(
        "what Kubernetes takes where nothing is said, for a tag that is not latest", "imagePullPolicy", "IfNotPresent"
    ),
)
ABSENT = {
    ("Namespace", "llmvitals"): "helm makes it by --create-namespace, without labels; NOTES.txt says which it needs"
}
"""Objects that the chart does not have."""


def same(manifest: Manifest, used: set[Differs] | None = None) -> Any:
    """What both should say: without hashes in names, with settings as they are read, and, for the chart, without exceptions."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if not isinstance(value, dict):
            return value
        kept = {}
        for key, below in value.items():
            found = next((one for one in EXCEPTIONS if one.is_it(manifest["kind"], key, below)), None)
            if found is not None and used is not None:
                used.add(found)
            elif key == "name" and isinstance(below, str):
                kept[key] = plain_name(below)
            elif key == "llmvitals.yaml":
                kept[key] = msgspec.to_builtins(decode(yaml.safe_load(below), place="llmvitals.yaml"))
            else:
                kept[key] = plain(below)
        return kept if kept or not value else None  # nothing but exceptions

    return plain(manifest)


def by_key(manifests: tuple[Manifest, ...], used: set[Differs] | None = None) -> dict[Key, Any]:
    found = [((one["kind"], plain_name(one["metadata"]["name"])), same(one, used)) for one in manifests]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.fixture(scope="module")
def used() -> set[Differs]:
    return set()


@pytest.fixture(scope="module")
def chart(used: set[Differs]) -> dict[Key, Any]:
    return by_key(rendered(None, *OPERATOR), used)


@pytest.fixture(scope="module")
def kustomization() -> dict[Key, Any]:
    return by_key(built(KUBERNETES / "all"))


def test_both_have_the_same_objects(chart, kustomization):
    assert sorted(set(kustomization) - set(chart)) == sorted(ABSENT)
    assert sorted(set(chart) - set(kustomization)) == []


def test_each_object_is_the_same(chart, kustomization):
    differing = [
        f"{kind} {name} {told}"
        for kind, name in chart
        for told in differences(kustomization[kind, name], chart[kind, name])
    ]
    assert not differing, "\n".join(differing)


def test_every_exception_is_needed(chart, used):
    assert set(EXCEPTIONS) - used == set()


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two trees differ, for who reads the failure."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if other.get(key) is None and one.get(key) is None:
                continue
            if key not in one or key not in other:
                yield f"{path}.{key} only in {'the chart' if key in other else 'the kustomization'}"
            else:
                yield from differences(one[key], other[key], f"{path}.{key}")
    elif one != other:
        yield f"{path}: {str(one)[:80]} and {str(other)[:80]}"
