"""The account of the DaemonSet may do what the exporter was seen to ask of an API server, and nothing else."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from llmvitals.settings import Kubernetes, Node
from llmvitals.sources.node import Machine
from support import api_server

ROOT = Path(__file__).resolve().parents[2]
RULES = next(
    one["rules"]
    for one in yaml.safe_load_all((ROOT / "exporters/kubernetes/base/rbac.yaml").read_text())
    if one["kind"] == "ClusterRole"
)

# kubernetes.io/docs: "Request verb", authorization overview: what a method is called for one object and for a collection
ONE = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
MANY = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v\w+(?:/namespaces/[^/]+)?/(?P<resource>[a-z]+)(?P<name>/[^/]+)?(?P<sub>/[a-z]+)?"
)

Right = tuple[str, str, str]


def right(method: str, asked: dict[str, str]) -> Right:
    """The API group, resource and verb that a call needs the right to."""
    found = PATH.fullmatch(urlsplit(asked["path"]).path)
    assert found, f"{asked['path']} is no path of a resource"
    verb = ONE[method] if found["name"] else MANY[method]
    watched = asked.get("watch", "").lower() in {"1", "true"}
    return (found["group"] or "", found["resource"] + (found["sub"] or ""), "watch" if watched else verb)


def granted(rules: list[dict[str, Any]]) -> Iterator[Right]:
    for rule in rules:
        assert not {"resourceNames", "nonResourceURLs"} & rule.keys()
        yield from ((g, r, v) for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"])


@pytest.mark.parametrize("namespaces", [(), ("serving", "code")], ids=["of the cluster", "of some namespaces"])
def test_the_rights_are_those_that_the_calls_need(namespaces: tuple[str, ...]) -> None:
    """A node is looked at twice, over lists that come in pages, and one that is gone meanwhile."""
    with api_server.ApiServer() as server:
        server.pods = [
            api_server.pod(f"chat-{n}", namespace=space, annotations={"llmvitals.io/scrape": "true"})
            for n in range(5)
            for space in ("serving", "code")
        ]
        server.page_cap, server.gone = 2, 1
        kubernetes = Kubernetes(
            enabled="on", api_url=server.url, pod_resources="", interval_seconds=0.05, namespaces=list(namespaces)
        )
        machine = Machine(Node(name="n1", nvml="off", processes="off", kubernetes=kubernetes))
        for _ in range(2):
            time.sleep(0.06)  # the pause that the settings leave between two lists
            machine.begin([], 100.0)
            assert all(one.ok for one in machine.end(time.monotonic() + 10).outcomes)
        assert len(machine.pods or ()) == 10
        calls = {right(method, asked) for method, asked in zip(server.methods, server.asked, strict=True)}
    assert calls == set(granted(RULES))


def test_nothing_else_in_the_program_speaks_to_an_api_server() -> None:
    """What the test above watches is all there is: one module asks, and who asks it is known."""
    sources = (ROOT / "src").rglob("*.py")
    users = {p.name for p in sources if re.search(r"\bkube\.ask import .*\bApi\b|\bask\.Api\b", p.read_text())}
    assert users == {"api.py"}


@pytest.mark.parametrize(
    ("method", "path", "more", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("", "pods", "list")),
        ("GET", "/api/v1/namespaces/a/pods", {"watch": "1"}, ("", "pods", "watch")),
        ("GET", "/api/v1/namespaces/a/pods/b", {}, ("", "pods", "get")),
        ("GET", "/api/v1/namespaces/a/pods/b/log", {}, ("", "pods/log", "get")),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b", {}, ("apps", "deployments", "patch")),
    ],
)
def test_a_call_is_known_by_the_right_that_it_needs(method: str, path: str, more: dict, expected: Right) -> None:
    assert right(method, {"path": path, **more}) == expected
