"""The DaemonSet and its rights hang together: what is mounted is what the settings read, and it may list pods and no more."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest
import yaml

from llmvitals.settings import Settings, decode
from llmvitals.telemetry.kube.ask import RBAC
from llmvitals.telemetry.kube.resources import MANIFEST

ROOT = Path(__file__).parents[2]
BASE = ROOT / "exporters/kubernetes/base"
RIGHTS = {one["kind"]: one for one in yaml.safe_load_all((BASE / "rbac.yaml").read_text())}
WORKLOAD = yaml.safe_load((BASE / "daemonset.yaml").read_text())
SETTINGS = (BASE / "llmvitals.yaml").read_text()
POD = WORKLOAD["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


@pytest.fixture(scope="module")
def settings() -> Settings:
    return decode(yaml.safe_load(SETTINGS), place="x")


def test_the_account_may_list_pods_and_nothing_else():
    assert RIGHTS["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]


def test_the_rights_are_those_of_the_daemonset():
    account, binding = RIGHTS["ServiceAccount"]["metadata"], RIGHTS["ClusterRoleBinding"]
    assert POD["serviceAccountName"] == account["name"]
    assert POD["automountServiceAccountToken"] is True
    (subject,) = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", account["name"])
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": RIGHTS["ClusterRole"]["metadata"]["name"],
    }
    space = yaml.safe_load((BASE / "kustomization.yaml").read_text())["namespace"]
    assert space == yaml.safe_load((BASE / "namespace.yaml").read_text())["metadata"]["name"]
    assert "namespace" not in subject, "written down, it would not follow a kustomization that names another one"


def test_what_the_settings_read_is_mounted_read_only(settings):
    sources = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in POD["volumes"]}
    mounts = {m["mountPath"]: sources[m["name"]] for m in CONTAINER["volumeMounts"]}
    assert mounts[settings.node.procfs] == "/proc"
    assert mounts[settings.node.cgroups] == "/sys/fs/cgroup"
    folder = str(PurePosixPath(settings.node.kubernetes.pod_resources).parent)
    assert mounts[folder] == folder
    assert all(m["readOnly"] for m in CONTAINER["volumeMounts"])
    assert {m["name"] for m in CONTAINER["volumeMounts"]} == set(sources)


def test_the_node_is_known_by_its_name_and_pods_are_asked_for(settings):
    env = {one["name"]: one for one in CONTAINER["env"]}
    assert env["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert (settings.node.kubernetes.enabled, settings.node.kubernetes.discover) == ("on", True)
    assert POD["hostPID"] is True


def test_it_has_the_rights_that_it_needs_and_is_not_privileged():
    security = CONTAINER["securityContext"]
    assert security["runAsUser"] == 0
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]}
    assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
    assert not security.get("privileged")


def test_the_files_that_errors_and_documents_name_are_there():
    assert [name for name in (RBAC, MANIFEST) if not (ROOT / name).is_file()] == []


def test_the_image_can_speak_to_a_kubelet_and_take_traces():
    for pins in ("image", "exporter"):  # what both of its stages install
        names = {line.partition("=")[0] for line in (ROOT / f"requirements/{pins}.txt").read_text().splitlines()}
        assert {"grpcio", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= names


def test_what_is_to_be_uncommented_for_traces_hangs_together():
    """The ports of the container are those that the settings listen on, and the network is the node's."""
    workload, settings = (
        yaml.safe_load(re.sub(r"^( *)# (- \{name: otlp|spans:)", r"\1\2", text, flags=re.M))
        for text in ((ROOT / MANIFEST).read_text(), SETTINGS)
    )
    spans = decode(settings, place="x").spans
    pod = workload["spec"]["template"]["spec"]
    ports = {one["name"]: one for one in pod["containers"][0]["ports"]}
    assert (spans.grpc, spans.http) == ("0.0.0.0:4317", "0.0.0.0:4318")
    assert [(p["containerPort"], p["hostPort"]) for p in (ports["otlp-grpc"], ports["otlp-http"])] == [
        (4317, 4317), (4318, 4318),
    ]  # fmt: skip
    assert pod["hostNetwork"] is True
