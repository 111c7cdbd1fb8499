"""Every value does something, is documented, and a misspelt one is refused by its name."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from llmvitals.settings import Settings
from support.charts import CHART, NO_BOARDS, OPERATOR, VALUES, leaves, put, refused, rendered, text
from support.manifests import problems

pytestmark = pytest.mark.helm

ROW = re.compile(r"^\| `([a-zA-Z.]+)` \| (?:`(.+?)`|(as it stands)) \| .*\|$", re.M)
DOCUMENTED = {
    tuple(path.split(".")): None if stands else yaml.safe_load(default)
    for path, default, stands in ROW.findall((CHART / "README.md").read_text(encoding="utf-8"))
}
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

OTHER: dict[tuple[str, ...], Any] = {
    ("image", "pullPolicy"): "Always",
    ("imagePullSecrets",): [{"name": "registry"}],
    ("settings",): {"slo": {"objective": 0.9}},
    ("webConfig", "probe"): "https",
    ("extraEnv",): [{"name": "A", "value": "b"}],
    ("extraVolumes",): [{"name": "a", "emptyDir": {}}],
    ("extraVolumeMounts",): [{"name": "a", "mountPath": "/a"}],
    ("networkPolicy", "from"): [{"podSelector": {}}],
    ("monitoring", "enabled"): False,
    ("monitoring", "kind"): "ServiceMonitor",
    ("monitoring", "interval"): "30s",
    ("monitoring", "scrapeTimeout"): "5s",
    ("monitoring", "endpoint"): {"scheme": "https"},
    ("rules", "enabled"): False,
    ("rules", "file"): "spec:\n  groups: []\n",
    ("tolerations",): [{"operator": "Exists"}],
    ("affinity",): {"nodeAffinity": None},
    ("app", "image", "pullPolicy"): "Never",
    ("app", "settings", "sources"): [{"name": "other", "url": "http://x:9464"}],
    ("app", "networkPolicy", "from"): [],
    ("app", "networkPolicy", "toPorts"): [443],
    ("app", "affinity"): {"nodeAffinity": {}},
}
"""Another value, where none can be made from the default. A path without its first `app` counts for the app as well."""

ONLY_WITH: dict[tuple[str, ...], dict[str, Any]] = {
    ("webConfig", "probe"): {"webConfig": {"existingSecret": "web"}},
    **{path: {"dashboards": {"enabled": True}} for path, _ in leaves({"dashboards": VALUES["dashboards"]})},
}
"""What else must be set for a value to count."""


def other(path: tuple[str, ...], default: Any) -> Any:
    known = next((OTHER[one] for one in (path, path[1:]) if one in OTHER), None)
    if known is not None or path in OTHER:
        return known
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    if isinstance(default, str):
        return "other"
    return {"a": "b"} if isinstance(default, dict) else ["other"]


@pytest.fixture(scope="module")
def usual() -> dict[str, str]:
    """What is made without the change, by what else is set."""
    return {}


@pytest.mark.parametrize(
    ("path", "default"), list(leaves(VALUES)), ids=lambda one: ".".join(one) if isinstance(one, tuple) else ""
)
def test_each_value_changes_what_is_made(path, default, usual):
    base = {**NO_BOARDS, **copy.deepcopy(ONLY_WITH.get(path, {}))}
    key = json.dumps(base)
    if key not in usual:
        usual[key] = text(base, *OPERATOR)
    assert text(put(base, path, other(path, default)), *OPERATOR) != usual[key]


def test_each_value_stands_in_the_table_with_its_default():
    """A row may stand for all below it; then its default is the whole map."""

    def rows(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        for key, value in tree.items():
            here = (*path, key)
            if here in DOCUMENTED or not isinstance(value, dict):
                yield here, value
            else:
                yield from rows(value, here)

    found = dict(rows(VALUES))
    assert [path for path in found if path not in DOCUMENTED] == []
    assert [path for path in DOCUMENTED if path not in found] == []
    given = {path: default for path, default in DOCUMENTED.items() if default is not None}
    assert {path: found[path] for path in given} == given
    short = {p: v for p, v in found.items() if p not in given and not isinstance(v, dict | list)}
    assert short == {}, "a plain default belongs into the table"


def maps(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every map of the values, with its schema."""
    if "$ref" in schema:
        part, name = schema["$ref"].split("/")[1:]
        schema = SCHEMA[part][name]
    if schema.get("type") == "object":
        yield path, schema
    for key, below in schema.get("properties", {}).items():
        yield from maps(below, (*path, key))


CLOSED = [path for path, schema in maps(SCHEMA) if schema.get("additionalProperties") is False]


def known(path: tuple[str, ...]) -> list[str]:
    """The keys that values.yaml has there."""
    here = VALUES
    for key in path:
        here = here[key]
    return list(here)


def test_only_maps_of_kubernetes_own_take_anything():
    opened = {path[-1] for path, schema in maps(SCHEMA) if "additionalProperties" not in schema}
    assert opened == {
        *("global", "podSecurityContext", "securityContext", "nodeAffinity", "podAffinity", "podAntiAffinity"),
        *("tlsConfig", "basicAuth", "authorization"),
    }


def test_a_misspelt_key_is_refused_by_its_name_wherever_it_stands():
    values = NO_BOARDS
    for path in CLOSED:
        values = put(values, (*path, "mispelt"), 1)
    told = refused(values)
    silent = [
        path
        for path in CLOSED
        if f"- {'.'.join(path) or '(root)'}: Additional property mispelt is not allowed" not in told
    ]
    assert len(CLOSED) > 40
    assert silent == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"image": "llmvitals:0.1.0"}, "image: Invalid type"),
        ({"image": {"pullPolicy": "always"}}, "image.pullPolicy"),
        ({"hostPID": "no"}, "hostPID: Invalid type"),
        ({"port": 0}, "port: Must be greater than or equal to 1"),
        ({"monitoring": {"enabled": "yes"}}, "monitoring.enabled"),
        ({"monitoring": {"interval": 15}}, "monitoring.interval: Invalid type"),
        ({"nodeSelector": {"gpu": True}}, "nodeSelector.gpu: Invalid type"),
        ({"tolerations": [{"key": "a", "effekt": "NoSchedule"}]}, "Additional property effekt"),
        ({"extraEnv": [{"nmae": "A"}]}, "Additional property nmae"),
        ({"networkPolicy": {"from": [{}]}}, "networkPolicy.from.0"),
        ({"settings": {"targets": [{"name": "a"}]}}, "settings.targets.0: url is required"),
        ({"settings": {"targets": [{"url": "http://a", "prot": 1}]}}, "Additional property prot"),
        ({"settings": {"slo": {"objective": 95}}}, "settings.slo.objective: Must be less than 1"),
        ({"settings": {"node": {"nvml": "onn"}}}, "settings.node.nvml must be one of"),
        ({"settings": {"thresholds": {"kv_lines": [0.9]}}}, "settings.thresholds.kv_lines"),
        ({"app": {"settings": {"sources": [{"name": "a", "uri": "http://x"}]}}}, "Additional property uri"),
    ],
    ids=lambda one: one if isinstance(one, str) else None,
)
def test_a_value_of_another_kind_is_refused_by_its_name(values, told):
    assert told in refused({**NO_BOARDS, **values})


@pytest.mark.parametrize("number", range(2))
def test_the_examples_of_the_page_are_taken(number):
    examples = re.findall(r"```yaml\n(.+?)```", (CHART / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(examples) == 2
    manifests = rendered({**NO_BOARDS, **yaml.safe_load(examples[number])}, *OPERATOR)
    assert [told for one in manifests for told in problems(one)] == []


def test_the_schema_knows_every_setting():
    def keys(kind: type[msgspec.Struct]) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(kind)}

    assert SCHEMA["$defs"]["Settings"]["properties"].keys() == keys(Settings)
    assert {name for name in SCHEMA["$defs"] if SCHEMA["$defs"][name].get("additionalProperties") is not False} == set()


def test_a_chart_of_yours_may_hold_it():
    """Helm gives `global` to the charts below one."""
    assert text({**NO_BOARDS, "global": {"region": "eu"}}) == text(NO_BOARDS)


MAPS = dict(maps(SCHEMA))
NEEDED = [(*path, key) for path, schema in MAPS.items() for key in schema.get("required", ())]
SPARED = [
    (*path, key)
    for path in CLOSED
    if path in {p[:-1] for p in NEEDED}
    for key in known(path)
    if (*path, key) not in NEEDED
]


def test_a_default_that_is_taken_away_is_asked_for_by_its_name():
    """`null` does that; a port named nil would come of it."""
    for together in ([p for p in NEEDED if p not in CLOSED], [p for p in NEEDED if p in CLOSED and len(p) == 1]):
        values: dict[str, Any] = {}
        for path in together:
            values = put(values, path, None)
        told = refused(values)
        assert together
        assert [p for p in together if f"- {'.'.join(p[:-1]) or '(root)'}: {p[-1]} is required" not in told] == []


@pytest.mark.parametrize("path", SPARED, ids=".".join)
def test_other_defaults_may_be_taken_away(path):
    manifests = rendered(put(NO_BOARDS, path, None), *OPERATOR)
    assert [told for one in manifests if one["kind"] in ("DaemonSet", "Deployment") for told in problems(one)] == []
