"""The Helm chart, rendered by helm itself."""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from llmvitals.settings import Settings, decode
from support.manifests import ROOT, Manifest, documents, named
from support.tools import needed

CHART = ROOT / "exporters" / "helm" / "llmvitals"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
OPERATOR = ("--api-versions", "monitoring.coreos.com/v1")
"""A cluster with the Prometheus operator."""

NO_BOARDS = {"dashboards": {"enabled": False}}
"""Over a megabyte that most tests need not read."""

_LINK = "walk.go"
"""How helm begins the lines that say which links it followed."""


def helm(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """What helm did, without what it says of links that it followed."""
    done = subprocess.run([needed("helm"), *map(str, args)], capture_output=True, text=True, check=False)
    done.stderr = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith(_LINK))
    return done


def template(
    values: Mapping[str, Any] | None = None, *flags: str | Path, chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    """``helm template`` of a release named llmvitals in a namespace of that name, with a file of these values."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        json.dump(values or {}, file)  # which all readers of YAML read alike, and YAML itself they do not
        file.flush()
        return helm("template", "llmvitals", chart, "--namespace", "llmvitals", "--values", file.name, *flags)


def text(values: Mapping[str, Any] | None = None, *flags: str | Path, chart: Path = CHART) -> str:
    """The rendering as it stands. A refusal fails with helm's own words."""
    done = template(values, *flags, chart=chart)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def rendered(values: Mapping[str, Any] | None = None, *flags: str | Path, chart: Path = CHART) -> tuple[Manifest, ...]:
    """The objects that would be applied."""
    return documents(text(values, *flags, chart=chart))


def refused(values: Mapping[str, Any]) -> str:
    """How helm refuses these values. Fails where it takes them."""
    done = template(values)
    assert done.returncode != 0, "taken"
    return done.stderr


def settings_of(manifests: Sequence[Manifest], name: str = "llmvitals") -> Settings:
    """What the ConfigMap of this name says, as the exporter reads it."""
    return decode(yaml.safe_load(named(manifests, "ConfigMap", name)["data"]["llmvitals.yaml"]), place=name)


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value with the keys that lead to it; an empty map and a list are values."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def put(tree: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The tree with another value there; maps on the way are made."""
    changed = copy.deepcopy(dict(tree))
    below = changed
    for key in path[:-1]:
        below = below.setdefault(key, {})
    below[path[-1]] = value
    return changed


def pairwise(ways: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows in which every two choices of two things occur together; greedy, so a few more than the fewest."""
    left = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(ways, 2)
        for x in range(len(ways[a]))
        for y in range(len(ways[b]))
    }
    rows = []
    while left:
        row = dict(min(left))
        for name in ways:
            if name not in row:
                row[name] = max(range(len(ways[name])), key=lambda x: _covered({**row, name: x}, left))
        left -= {pair for pair in left if all(row[name] == x for name, x in pair)}
        rows.append({name: ways[name][row[name]] for name in ways})
    return rows


def _covered(row: Mapping[str, int], left: set[tuple[tuple[str, int], tuple[str, int]]]) -> int:
    return sum(all(row.get(name) == x for name, x in pair) for pair in left)
