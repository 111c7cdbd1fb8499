"""What the chart writes as settings is what the exporter reads, whatever was given to it."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from llmvitals.settings import Exporter, Kubernetes, Node, Settings, decode
from support.charts import NO_BOARDS, put, refused, rendered, settings_of
from support.manifests import named

pytestmark = pytest.mark.helm

BASE = Settings(
    node=Node(procfs="/host/proc", cgroups="/host/sys/fs/cgroup", kubernetes=Kubernetes(enabled="on")),
    exporter=Exporter(listen="0.0.0.0:9464"),
)


def made(values):
    return settings_of(rendered({**NO_BOARDS, **values}))


def test_without_any_the_switches_alone_decide():
    assert made({}) == BASE


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"hostPaths": {"proc": False}}, {"node": {"procfs": "/proc", "processes": "off"}}),
        ({"hostPaths": {"cgroup": False}}, {"node": {"cgroups": "/sys/fs/cgroup"}}),
        ({"hostPaths": {"podResources": False}}, {"node": {"kubernetes": {"pod_resources": ""}}}),
        ({"rbac": {"namespaces": ["chat", "code"]}}, {"node": {"kubernetes": {"namespaces": ["chat", "code"]}}}),
        ({"port": 9999}, {"exporter": {"listen": "0.0.0.0:9999"}}),
        ({"webConfig": {"existingSecret": "tls"}}, {"exporter": {"web_config": "/etc/llmvitals-web/web-config.yaml"}}),
    ],
    ids=lambda one: ".".join(one) if isinstance(one, dict) else None,
)
def test_a_switch_tells_the_settings(values, expected):
    changed = msgspec.to_builtins(BASE)
    for section, keys in expected.items():
        for key, value in keys.items():
            changed[section][key] = {**changed[section][key], **value} if isinstance(value, dict) else value
    assert made(values) == decode(changed, place="x")


def test_every_setting_there_is_goes_through_unchanged():
    """Numbers large and small, words that YAML takes for true, and text that looks like a number."""
    given = msgspec.to_builtins(BASE)
    for key in ("listen", "web_config"):
        del given["exporter"][key]
    given["node"].update(nvml="off", processes="on", name="0123")
    given["thresholds"].update(harm_p=1e-9, kv_free_floor=0.1)
    given["exporter"].update(max_page_bytes=123_456_789, max_samples=1_000_000)
    given["slo"]["classes"] = [{"name": "on", "models": ["*", "1e3"], "ttft_seconds": 1e-7, "objective": 0.999}]
    given["targets"] = [{"url": "http://127.0.0.1:8000", "name": "{{ .Release.Name }}", "labels": {"team": "no"}}]
    assert made({"settings": given}) == decode(
        {**given, "exporter": {**given["exporter"], "listen": "0.0.0.0:9464"}}, place="x"
    )


def test_switches_may_stand_without_quotes():
    given = yaml.safe_load("{node: {nvml: off, processes: on, kubernetes: {enabled: off}}}")
    node = made({"settings": given}).node
    assert (node.nvml, node.processes, node.kubernetes.enabled) == ("off", "on", "off")


def test_what_is_given_counts_over_what_switches_say():
    given = {"node": {"procfs": "/elsewhere", "kubernetes": {"namespaces": ["chat"]}}}
    values = {"settings": given, "rbac": {"namespaces": ["chat", "code"]}}
    made_node = made(values).node
    assert (made_node.procfs, made_node.kubernetes.namespaces, made_node.kubernetes.enabled) == (
        "/elsewhere",
        ("chat",),
        "on",
    )


@pytest.mark.parametrize(("key", "instead"), [("listen", "port"), ("web_config", "webConfig.existingSecret")])
def test_what_probes_and_ports_hang_on_is_said_in_one_place(key, instead):
    told = refused(put(NO_BOARDS, ("settings", "exporter", key), "0.0.0.0:1"))
    assert f"settings.exporter.{key} is made of the value {instead}" in told


def test_traces_get_their_ports():
    values = {**NO_BOARDS, "settings": {"spans": {"grpc": "0.0.0.0:4317", "http": "0.0.0.0:14318"}}}
    manifests = rendered(values)
    (daemonset,) = [one for one in manifests if one["kind"] == "DaemonSet"]
    ports = {
        p["name"]: (p["containerPort"], p["hostPort"])
        for p in daemonset["spec"]["template"]["spec"]["containers"][0]["ports"]
    }
    assert ports == {"metrics": (9464, 9464), "otlp-grpc": (4317, 4317), "otlp-http": (14318, 14318)}
    assert settings_of(manifests).spans.http == "0.0.0.0:14318"


@pytest.mark.parametrize(
    ("spans", "ports"),
    [
        ({}, []),
        ({"join_seconds": 5}, []),
        ({"grpc": "0.0.0.0:4317", "http": ""}, ["otlp-grpc"]),
        ({"grpc": "0.0.0.0:4317", "http": "0.0.0.0:4318"}, ["otlp-grpc", "otlp-http"]),
    ],
)
def test_traces_are_let_in_where_the_policy_holds(spans, ports):
    """Without the node's network it holds for the exporters, and would keep engines out that send to the node's port."""
    manifests = rendered({**NO_BOARDS, "hostNetwork": False, "settings": {"spans": spans}})
    rules = named(manifests, "NetworkPolicy", "llmvitals")["spec"]["ingress"]
    assert [[port["port"] for port in rule["ports"]] for rule in rules] == [["metrics"], *([ports] if ports else [])]
    assert ["from" in rule for rule in rules] == [True, *([False] if ports else [])]
    container = named(manifests, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert [port["name"] for port in container["ports"]] == ["metrics", *ports]
