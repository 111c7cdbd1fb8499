"""Commands in the pages on deploying are run or held against their programs; the kustomizations they show can be built."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from llmvitals.cli import group
from llmvitals.settings import Settings
from support.doc_commands import Command, World, check, commands
from support.manifests import KUBERNETES, ROOT, Manifest, built, containers, named, pods, problems
from support.tools import needed, tool

pytestmark = pytest.mark.kubernetes

DOCS = [
    path
    for name in ("deploy", "node", "autoscaling", "storage", "security")
    if (path := ROOT / "docs" / f"{name}.md").is_file()
]
DEPLOY = ROOT / "docs" / "deploy.md"
YAML = [yaml.safe_load(one) for one in re.findall(r"^```yaml\n(.*?)^```", DEPLOY.read_text(), flags=re.M | re.S)]
WHOLE = next(one for one in YAML if one.get("kind") == "Kustomization")
OF_APP = next(one for one in YAML if "sign-in" in str(one.get("secretGenerator")))
OF_TLS = next(one for one in YAML if "web-config" in str(one.get("secretGenerator")))
OF_ENGINES = next(one for one in YAML if one.get("resources") == ["vllm.yaml"])
SETTINGS = next(one for one in YAML if "configMapGenerator" in one)
LABELS = next(one for one in YAML if "labels" in one)
OF_TRACES = next(one for one in YAML if "otlp-grpc" in str(one.get("patches")))
OF_PROMISES = next(one for one in YAML if "prometheusrule" in str(one.get("patches")))
SCRAPE = next(one for one in YAML if "scrape_configs" in one)
ENGINE: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "vllm", "namespace": "serving", "labels": {"llmvitals.io/sidecar": "true"}},
    "spec": {
        "selector": {"matchLabels": {"app": "vllm"}},
        "template": {
            "metadata": {"labels": {"app": "vllm"}},
            "spec": {"containers": [{"name": "vllm", "image": "vllm:1", "ports": [{"containerPort": 8000}]}]},
        },
    },
}


def beside(folder: Path, kustomization: dict[str, Any], **files: str) -> Path:
    """A folder with a kustomization of the page in it, whose `../llmvitals` is this checkout."""
    folder.mkdir(parents=True)
    checkout = os.path.relpath(ROOT, folder)
    text = yaml.safe_dump({**{k: WHOLE[k] for k in ("apiVersion", "kind")}, **kustomization})
    (folder / "kustomization.yaml").write_text(text.replace("../llmvitals/", f"{checkout}/"))
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


def grown(*names: str, **more: Any) -> dict[str, Any]:
    """The page's kustomization with further folders of exporters/kubernetes among its resources."""
    folders = [f"../llmvitals/exporters/kubernetes/{name}" for name in names]
    return {**WHOLE, "resources": [*WHOLE["resources"], *folders], **more}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The reader's folder, with all steps of the page taken, and a cluster in which that was applied."""
    folder = tmp_path_factory.mktemp("reader") / "llmvitals-here"
    beside(folder, grown("monitoring", **LABELS))
    return World({"llmvitals-here": folder}, built(KUBERNETES / "all"), engines=(ENGINE,))


@pytest.mark.helm
@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
def test_every_command_of_the_page_is_one_that_works(document: Path, world: World) -> None:
    world.tags.clear()
    found = list(commands(document))
    assert found or document != DEPLOY
    for command in found:
        if document == DEPLOY and command.words[:4] == ("kubectl", "apply", "-k", "../llmvitals-here"):
            continue  # before the boards are in it: the test below
        check(command, world)


def test_the_folder_of_the_page_is_built_before_anything_is_added(tmp_path: Path) -> None:
    made = built(beside(tmp_path / "here", WHOLE))
    assert [wrong for one in made for wrong in problems(one)] == []
    image = named(made, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]["image"]
    built_as = [
        one.words[one.words.index("-t") + 1] for one in commands(DEPLOY) if one.words[:2] == ("docker", "build")
    ]
    assert [image] == built_as


def test_settings_of_ones_own_replace_those_of_the_base(tmp_path: Path) -> None:
    own = beside(tmp_path / "here", {**WHOLE, **SETTINGS}, llmvitals_yaml="slo: {ttft_seconds: 9}\n")
    config = named(built(own), "ConfigMap", "llmvitals")
    assert config["data"] == {"llmvitals.yaml": "slo: {ttft_seconds: 9}\n"}
    mounted = named(built(own), "DaemonSet")["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"]
    assert mounted == config["metadata"]["name"]


def test_the_label_of_the_release_is_on_what_prometheus_looks_for(tmp_path: Path) -> None:
    made = built(beside(tmp_path / "here", grown("monitoring", **LABELS)))
    (wanted,) = LABELS["labels"]
    watched = [one for one in made if one["apiVersion"].startswith("monitoring.coreos.com")]
    assert {one["kind"] for one in watched} == {"PodMonitor", "PrometheusRule"}
    assert all(wanted["pairs"].items() <= one["metadata"]["labels"].items() for one in watched)
    assert "release" not in named(made, "DaemonSet")["spec"]["selector"]["matchLabels"]


def test_traces_reach_the_exporter_through_its_ports_and_its_policy(tmp_path: Path) -> None:
    made = built(beside(tmp_path / "here", {**WHOLE, **OF_TRACES}))
    assert [wrong for one in made for wrong in problems(one)] == []
    (container,) = named(made, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    opened = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert opened == {"metrics": 9464, "otlp-grpc": 4317, "otlp-http": 4318}
    rules = named(made, "NetworkPolicy", "llmvitals")["spec"]["ingress"]
    assert [port["port"] for rule in rules if "from" not in rule for port in rule["ports"]] == [
        "otlp-grpc",
        "otlp-http",
    ]


def test_alerts_made_for_promises_of_ones_own_take_the_place_of_the_checkouts(tmp_path: Path) -> None:
    own = beside(tmp_path / "here", grown("monitoring", **OF_PROMISES))
    settings = own / "llmvitals.yaml"
    settings.write_text("slo: {objective: 0.99}\n")
    done = CliRunner().invoke(group, ["generate", "--settings", str(settings), "-o", str(own / "made")])
    assert done.exit_code == 0, done.output
    made = named(built(own), "PrometheusRule")
    assert made["spec"] == yaml.safe_load((own / OF_PROMISES["patches"][0]["path"]).read_text())["spec"]
    assert made["spec"] != yaml.safe_load((ROOT / "alerts/prometheusrule.yaml").read_text())["spec"]


def test_people_sign_in_with_the_component_and_its_secret(tmp_path: Path) -> None:
    made = built(beside(tmp_path / "here", grown("app", **OF_APP), secrets_toml="[auth]\n"))
    assert [wrong for one in made for wrong in problems(one)] == []
    pod = named(made, "Deployment", "llmvitals-app")["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if "secret" in one]
    assert volume["secret"]["secretName"] == named(made, "Secret")["metadata"]["name"]
    assert not volume["secret"].get("optional"), "without it the app would open for all"
    assert volume["secret"]["defaultMode"] == 0o440
    (container,) = pod["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
    assert f"--secrets={mount['mountPath']}/{next(iter(named(made, 'Secret')['data']))}" in container["args"]


def test_tls_and_users_stand_before_the_exporters(tmp_path: Path) -> None:
    """The kubelet's probes and Prometheus must then come another way: it has neither a password nor plain http."""
    files = {"web-config_yaml": (ROOT / "exporters/web-config.yaml").read_text(), "tls_crt": "x", "tls_key": "x"}
    made = built(beside(tmp_path / "here", grown("monitoring", **OF_TLS), **files))
    assert [wrong for one in made for wrong in problems(one)] == []
    pod = named(made, "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = [one for one in pod["volumes"] if "secret" in one]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
    secret = named(made, "Secret")
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert set(secret["data"]) == {"web-config.yaml", "tls.crt", "tls.key"}
    assert f"--web-config={mount['mountPath']}/web-config.yaml" in container["args"]
    probes = {key: value for key, value in container.items() if key.endswith("Probe")}
    assert len(probes) == 3
    assert all(one["tcpSocket"] == {"port": "metrics"} and "httpGet" not in one for one in probes.values())
    (point,) = named(made, "PodMonitor", "llmvitals")["spec"]["podMetricsEndpoints"]
    assert point["scheme"] == "https"


def test_a_sidecar_comes_into_engines_as_the_page_says(tmp_path: Path) -> None:
    made = built(beside(tmp_path / "here", OF_ENGINES, vllm_yaml=yaml.safe_dump(ENGINE)))
    assert [wrong for one in made for wrong in problems(one)] == []
    (template,) = [template for _, template in pods(made)]
    assert [one["name"] for one in containers(template)] == ["vllm", "llmvitals"]
    assert {one["name"]: one.get("value") for one in containers(template)[1]["env"]}["ENGINE_PORT"] == "9000"
    assert named(made, "ConfigMap")["metadata"]["namespace"] == OF_ENGINES["namespace"]


def test_a_prometheus_without_the_operator_keeps_the_exporters_pods_and_the_names_of_engines() -> None:
    """The regular expressions are anchored, and source labels are joined by semicolons, as Prometheus does."""
    (job,) = SCRAPE["scrape_configs"]
    assert (job["job_name"], job["honor_labels"]) == (Settings().alerts.job, True)
    template = named(built(KUBERNETES / "all"), "DaemonSet")["spec"]["template"]
    keep = next(one for one in job["relabel_configs"] if one.get("action") == "keep")
    app = named(built(KUBERNETES / "all"), "Deployment")["spec"]["template"]
    values = [
        f"{one['metadata']['labels']['app.kubernetes.io/component']};{one['spec']['containers'][0]['ports'][0]['name']}"
        for one in (template, app)
    ]
    assert [bool(re.fullmatch(keep["regex"], value)) for value in values] == [True, False]


@pytest.mark.prometheus
def test_prometheus_itself_takes_the_configuration_of_the_page(tmp_path: Path) -> None:
    """Beside how pods are found: Debian's Prometheus is built without what asks Kubernetes."""
    (job,) = SCRAPE["scrape_configs"]
    static = {key: value for key, value in job.items() if key != "kubernetes_sd_configs"} | {"static_configs": []}
    assert job["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["llmvitals"]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"scrape_configs": [static]}))
    done = subprocess.run(
        [needed("promtool"), "check", "config", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_readers_table_names_folders_and_components_that_are_there() -> None:
    text = DEPLOY.read_text()
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.+) \|$", text.split("## 1.")[0], flags=re.M))
    assert all((KUBERNETES / name).is_dir() for name in rows)
    told = set(re.findall(r"`([a-z-]+)`", rows["components"]))
    assert told == {path.name for path in (KUBERNETES / "components").iterdir()}


@pytest.mark.parametrize(
    "line",
    [
        "kubectl apply -k exporters/kubernetes/nowhere",
        "kubectl apply -k exporters/kubernetes/all",
        "kubectl apply --sever-side -k exporters/kubernetes/all",
        "kubectl -n llmvital get pods",
        "kubectl -n llmvitals logs daemonset/llmvital",
        "kubectl -n llmvitals port-forward daemonset/llmvitals 9465",
        "kubectl label node NODE",
        "kubectl destroy all",
        "docker push registry.example.org/other:1",
        "docker build -f exporters/Dockerfil -t x .",
        "llmvitals serv",
        "llmvitals serve --setings x",
        "curl http://127.0.0.1:9464/replica",
        "kubetcl get pods",
    ],
)
def test_a_command_that_would_not_work_is_found(line: str, world: World) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(Command("x.md:1", tuple(line.split())), world)


@pytest.mark.skipif(tool("helm") is None, reason="needs helm")
@pytest.mark.parametrize("line", ["helm install x exporters/helm/llmvitals --set nonsense=1", "helm instal x"])
def test_a_command_of_helm_that_would_not_work_is_found(line: str, world: World) -> None:
    with pytest.raises((AssertionError, StopIteration)):
        check(Command("x.md:1", tuple(line.split())), world)


def test_what_a_shell_would_run_is_told_apart(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    page.write_text(
        "text\n```sh\n# a comment\nA=1 curl -s \\\n  http://a/b | jq .x > out # why\n$ kubectl get pods && ls\n```\n"
        "as `helm\nlist -a`, or `helm list`\n"
    )
    assert [one.words for one in commands(page)] == [
        ("A=1", "curl", "-s", "http://a/b"), ("jq", ".x"), ("kubectl", "get", "pods"), ("ls",),
        ("helm", "list", "-a"),
    ]  # fmt: skip
