"""Whatever is switched on and off, what comes out are valid objects that hang together."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from llmvitals import __version__
from llmvitals.alerts import rules
from llmvitals.settings import Settings, Slo
from support.charts import CHART, NO_BOARDS, OPERATOR, helm, pairwise, put, rendered, template
from support.manifests import ROOT, containers, named, pods, problems, selects

pytestmark = pytest.mark.helm

WAYS: dict[str, list[Any]] = {
    "hostNetwork": [True, False],
    "hostPID": [True, False],
    "hostPaths.proc": [True, False],
    "hostPaths.cgroup": [True, False],
    "hostPaths.podResources": [True, False],
    "webConfig": [{}, {"existingSecret": "web"}, {"existingSecret": "web", "probe": "https"}],
    "serviceAccount": [{}, {"create": False, "name": "mine"}, {"create": False}, {"annotations": {"a": "b"}}],
    "rbac": [{}, {"create": False}, {"namespaces": ["chat", "code"]}],
    "networkPolicy": [{}, {"enabled": False}, {"namespaces": [], "from": [{"podSelector": {}}]}],
    "monitoring": [
        {},
        {"kind": "ServiceMonitor", "sidecars": False},
        {"enabled": False},
        {"labels": {"release": "kps"}, "endpoint": {"scheme": "https", "tlsConfig": {"serverName": "llmvitals"}}},
    ],
    "rules": [{"enabled": False}, {"labels": {"release": "kps"}}],
    "affinity": [{}, {"nodeAffinity": None}],
    "settings": [{}, {"spans": {"grpc": "0.0.0.0:4317", "http": "0.0.0.0:4318"}}],
    "app.enabled": [True, False],
    "app.networkPolicy": [{}, {"from": []}, {"enabled": False}, {"toPorts": []}],
    "app.signInSecret": ["", "sign-in"],
    "image.tag": ["", "sha256:" + "0" * 64],
    "scrapeAnnotations": [True, False],
    "extra": [False, True],
}
EXTRA = {
    "imagePullSecrets": [{"name": "registry"}],
    "podAnnotations": {"a": "1"},
    "podLabels": {"team": "sre"},
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": True}],
    "priorityClassName": "high",
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"operator": "Exists"}],
}


def values_of(row: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = NO_BOARDS
    for path, value in row.items():
        if path != "extra":
            values = put(values, path.split("."), value)
    if row["extra"]:
        values = {**values, **EXTRA, "runtimeClassName": "nvidia", "app": {**values.get("app", {}), **EXTRA}}
        del values["app"]["imagePullSecrets"]  # one list for both
    return values


ROWS = pairwise(WAYS)


def test_every_two_choices_occur_together():
    for a, ways_a in WAYS.items():
        for b, ways_b in WAYS.items():
            if a < b:
                assert {(str(x), str(y)) for x in ways_a for y in ways_b} == {(str(r[a]), str(r[b])) for r in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_whatever_is_switched_the_objects_are_valid_and_hang_together(row):
    manifests = rendered(values_of(row), *OPERATOR)
    assert [told for one in manifests for told in problems(one)] == []
    keys = [(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")) for one in manifests]
    assert len(set(keys)) == len(keys)
    kinds = {one["kind"] for one in manifests}
    assert ("ServiceAccount" in kinds) == row["serviceAccount"].get("create", True)
    assert ("ClusterRole" in kinds, "Role" in kinds) == (row["rbac"] == {}, "namespaces" in row["rbac"])
    assert ("PrometheusRule" in kinds) == row["rules"].get("enabled", True)
    assert ("Deployment" in kinds) == row["app.enabled"]
    for workload, pod in pods(manifests):
        labels, spec = pod["metadata"]["labels"], pod["spec"]
        assert selects(workload["spec"]["selector"], labels)
        volumes = {one["name"] for one in spec["volumes"]}
        assert {m["name"] for c in containers(pod) for m in c["volumeMounts"]} == volumes
        maps = {one["configMap"]["name"] for one in spec["volumes"] if "configMap" in one}
        assert maps <= {one["metadata"]["name"] for one in manifests if one["kind"] == "ConfigMap"}
        service = named(manifests, "Service", workload["metadata"]["name"])["spec"]
        assert service["selector"].items() <= labels.items()
        ports = {one["name"] for c in containers(pod) for one in c["ports"]}
        assert {one["targetPort"] for one in service["ports"]} <= ports
        policies = [
            one for one in manifests if one["kind"] == "NetworkPolicy" and selects(one["spec"]["podSelector"], labels)
        ]
        assert len(policies) == (
            row["networkPolicy" if workload["kind"] == "DaemonSet" else "app.networkPolicy"].get("enabled", True)
        )
        watched = [
            one
            for one in manifests
            if one["kind"] in ("PodMonitor", "ServiceMonitor") and selects(one["spec"]["selector"], labels)
        ]
        assert len(watched) == (workload["kind"] == "DaemonSet" and row["monitoring"].get("enabled", True))
    account = named(manifests, "DaemonSet")["spec"]["template"]["spec"]["serviceAccountName"]
    for one in manifests:
        if one["kind"].endswith("Binding"):
            assert one["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "llmvitals"}]


def exporter(values: dict[str, Any], *flags: str) -> dict[str, Any]:
    return named(rendered({**NO_BOARDS, **values}, *flags), "DaemonSet")["spec"]["template"]["spec"]


def test_the_app_may_go_to_each_port_that_its_sources_name():
    urls = (
        "http://thanos-query:10902",
        "https://mimir.example.org/prometheus",
        "http://[fd00::1]:8428",
        "http://plain",
    )
    sources = [{"name": f"s{i}", "kind": "prometheus", "url": url} for i, url in enumerate(urls)]
    asked = {"settings": {"sources": sources}, "networkPolicy": {"toPorts": [9464]}}
    manifests = rendered({**NO_BOARDS, "app": asked})
    policy = next(o for o in manifests if o["kind"] == "NetworkPolicy" and o["metadata"]["name"].endswith("-app"))
    assert {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} == {
        53,
        9464,
        10902,
        443,
        8428,
        80,
    }


def test_helm_finds_nothing_to_say():
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith(("[WARNING]", "[ERROR]"))] == []


def test_without_the_operator_its_kinds_are_left_out_and_may_be_asked_for():
    def operators(values: dict[str, Any]) -> set[str]:
        return {
            one["kind"] for one in rendered({**NO_BOARDS, **values}) if "monitoring.coreos.com" in one["apiVersion"]
        }

    assert operators({}) == set()
    assert operators({"monitoring": {"enabled": True}}) == {"PodMonitor"}
    assert operators({"rules": {"enabled": True}}) == {"PrometheusRule"}


@pytest.mark.parametrize(
    "values", [{"settings": {"slo": {"objective": 0.9}}}, {"port": 9999}, {"hostPaths": {"proc": False}}]
)
def test_other_settings_are_other_pods(values):
    def checksum(given: dict[str, Any]) -> str:
        return named(rendered({**NO_BOARDS, **given}), "DaemonSet")["spec"]["template"]["metadata"]["annotations"][
            "checksum/settings"
        ]

    assert checksum(values) != checksum({})


@pytest.mark.parametrize(
    ("web", "probe"),
    [
        ({}, {"httpGet": {"path": "/healthz", "port": "metrics"}}),
        ({"existingSecret": "web"}, {"tcpSocket": {"port": "metrics"}}),
        ({"existingSecret": "web", "probe": "http"}, {"httpGet": {"path": "/healthz", "port": "metrics"}}),
        (
            {"existingSecret": "web", "probe": "https"},
            {"httpGet": {"path": "/healthz", "port": "metrics", "scheme": "HTTPS"}},
        ),
    ],
)
def test_a_protected_page_is_probed_as_it_can_be(web, probe):
    container = exporter({"webConfig": web})["containers"][0]
    assert probe.items() <= container["livenessProbe"].items()
    assert ("web-config" in {m["name"] for m in container["volumeMounts"]}) == bool(web)


def test_every_node_is_a_null_away():
    assert "affinity" not in exporter({"affinity": {"nodeAffinity": None}})


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"llmvitals:{__version__}"),
        ({"repository": "r.example.org/x/llmvitals"}, f"r.example.org/x/llmvitals:{__version__}"),
        ({"tag": "1.2.3-rc.1"}, "llmvitals:1.2.3-rc.1"),
        ({"tag": "sha256:" + "a" * 64}, "llmvitals@sha256:" + "a" * 64),
    ],
)
def test_both_pods_run_the_image(image, expected):
    manifests = rendered({**NO_BOARDS, "image": image})
    assert {c["image"] for _, template in pods(manifests) for c in containers(template)} == {expected}


def test_the_app_may_have_an_image_of_its_own():
    values = {**NO_BOARDS, "image": {"repository": "r/a", "tag": "1"}, "app": {"image": {"repository": "r/b"}}}
    images = {one["kind"]: template["spec"]["containers"][0]["image"] for one, template in pods(rendered(values))}
    assert images == {"DaemonSet": "r/a:1", "Deployment": "r/b:1"}


def test_yours_never_take_the_place_of_what_selects_a_pod():
    values = {**NO_BOARDS, "podLabels": {"app.kubernetes.io/component": "mine", "app.kubernetes.io/part-of": "mine"}}
    workload, template = next((w, t) for w, t in pods(rendered(values)) if w["kind"] == "DaemonSet")
    assert selects(workload["spec"]["selector"], template["metadata"]["labels"])


def test_names_follow_the_release():
    done = helm("template", "blue", CHART, "--namespace", "other", "--set", "dashboards.enabled=false")
    manifests = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert {one["metadata"]["name"] for one in manifests} == {"blue-llmvitals", "blue-llmvitals-app"}
    assert {one["metadata"]["namespace"] for one in manifests if "namespace" in one["metadata"]} == {"other"}
    assert named(manifests, "ClusterRoleBinding")["subjects"][0]["namespace"] == "other"


def test_rules_and_boards_are_those_of_the_repository():
    """Alerts hold templates of their own, which helm must leave alone."""
    manifests = rendered(None, *OPERATOR)
    rule = yaml.load((ROOT / "alerts/prometheusrule.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    assert named(manifests, "PrometheusRule")["spec"] == rule["spec"]
    boards = {
        name: data
        for one in manifests
        if one["kind"] == "ConfigMap" and "grafana_dashboard" in one["metadata"]["labels"]
        for name, data in one["data"].items()
    }
    files = {
        f"llmvitals-{path.name}": path.read_text(encoding="utf-8") for path in (ROOT / "dashboards").glob("*.json")
    }
    assert {name: data.rstrip("\n") for name, data in boards.items()} == {
        name: data.rstrip("\n") for name, data in files.items()
    }


def test_rules_for_promises_of_your_own_are_what_generate_writes(tmp_path):
    """The file as it is written, through helm's --set-file."""
    files = rules.files(Settings(slo=Slo(ttft_seconds=0.5)))
    (tmp_path / "rules.yaml").write_text(files["alerts/prometheusrule.yaml"], encoding="utf-8")
    made = rendered(NO_BOARDS, *OPERATOR, "--set-file", f"rules.file={tmp_path / 'rules.yaml'}")
    spec = yaml.load(files["alerts/prometheusrule.yaml"], Loader=yaml.CSafeLoader)["spec"]
    assert named(made, "PrometheusRule")["spec"] == spec
    assert spec != named(rendered(NO_BOARDS, *OPERATOR), "PrometheusRule")["spec"]


def test_a_file_of_rules_that_is_none_is_told():
    done = template(put(NO_BOARDS, ("rules", "file"), "groups: []"), *OPERATOR)
    assert "rules.file holds no spec" in done.stderr
