"""The node's pods from an API server over TLS: who asks, what is asked, and what is said when it goes wrong."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from llmvitals.errors import LlmvitalsError, PageError, SettingsError, UnreachableError
from llmvitals.telemetry.kube import api as module
from llmvitals.telemetry.kube.api import PodLister
from support.api_server import ApiServer, container, ended, pod, status
from support.tls import authority, signed

pytestmark = pytest.mark.tls


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    ca = authority(folder, "cluster")
    return ca, signed(folder, "apiserver", ca), authority(folder, "stranger")


@pytest.fixture
def server(certificates):
    with ApiServer(certificates[1]) as running:
        running.tokens = {"first"}
        yield running


@pytest.fixture
def account(tmp_path, certificates):
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(certificates[0].cert.read_bytes())
    return tmp_path


@pytest.fixture
def lists(server, account):
    """A lister as it is in a pod of the server's cluster."""

    def make(node: str = "n1", timeout_s: float = 5.0, clock=time.time, **settings) -> PodLister:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        return PodLister(node, account=account, environ=environ, timeout_s=timeout_s, clock=clock, **settings)

    return make


def _names(pods) -> list[str]:
    return [f"{one.namespace}/{one.name}" for one in pods]


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# -- what is asked, and by whom ---------------------------------------------------------------------------------------


def test_the_pods_of_this_node_come_in_order_over_tls(server, lists):
    server.pods = [pod("b"), pod("a"), pod("z", namespace="chat"), pod("elsewhere", node="n2")]
    assert _names(lists().pods()) == ["chat/z", "serving/a", "serving/b"]
    (asked,) = server.asked
    assert asked["fieldSelector"] == "spec.nodeName=n1"
    assert asked["resourceVersion"] == "0"
    assert "labelSelector" not in asked
    assert server.presented == ["Bearer first"]


def test_selector_and_namespaces_narrow_the_list(server, lists):
    server.pods = [
        pod("a", namespace="chat", labels={"app": "vllm"}),
        pod("b", namespace="chat", labels={"app": "web"}),
        pod("c", namespace="code", labels={"app": "vllm"}),
        pod("d", namespace="other", labels={"app": "vllm"}),
    ]
    found = lists(selector="app=vllm", namespaces=("chat", "code", "chat")).pods()
    assert _names(found) == ["chat/a", "code/c"]
    assert [a["path"] for a in server.asked] == ["/api/v1/namespaces/chat/pods", "/api/v1/namespaces/code/pods"]


def test_pods_come_and_go(server, lists):
    lister = lists()
    server.pods = [pod("a"), pod("b")]
    assert _names(lister.pods()) == ["serving/a", "serving/b"]
    server.pods = [pod("b"), pod("c")]
    assert _names(lister.pods()) == ["serving/b", "serving/c"]


def test_a_long_list_comes_in_pages(server, lists):
    server.pods = [pod(f"p{i:03}") for i in range(500)]
    server.page_cap = 60
    assert _names(lists().pods()) == [f"serving/p{i:03}" for i in range(500)]
    assert len(server.asked) == 9
    assert all("resourceVersion" not in asked for asked in server.asked[1:])


def test_a_list_that_the_server_forgot_is_begun_again(server, lists):
    server.pods = [pod(f"p{i}") for i in range(7)]
    server.page_cap, server.gone = 3, 1
    assert len(lists().pods()) == 7
    server.gone = 100
    with pytest.raises(LlmvitalsError, match="410"):
        lists().pods()


def test_the_token_is_read_anew_when_it_rotates(server, account, lists):
    server.pods = [pod()]
    lister = lists()
    lister.pods()
    server.tokens = {"second"}
    with pytest.raises(UnreachableError, match=r"401.*automountServiceAccountToken"):
        lister.pods()
    (account / "token").write_text("second\n")
    assert _names(lister.pods()) == ["serving/chat-0"]


def test_pods_of_other_nodes_are_left_out_where_the_selector_is_not_heeded(server, lists):
    server.pods = [pod("a"), pod("b", node="n2")]
    server.heeds_fields = False
    assert _names(lists().pods()) == ["serving/a"]
    server.pods = [pod(f"p{i}", node="n2") for i in range(module.MAX_PODS + 1)]
    with pytest.raises(PageError, match="more than 2000 pods"):
        lists().pods()


def test_over_plain_http_no_token_is_sent(account):
    with ApiServer() as proxy:
        proxy.pods = [pod()]
        lister = PodLister("n1", url=proxy.url, account=account, environ={})
        assert _names(lister.pods()) == ["serving/chat-0"]
        assert proxy.presented == [""]


# -- what a pod says ---------------------------------------------------------------------------------------------------


def test_a_pod_is_read_in_full(server, lists):
    server.pods = [
        pod(
            labels={"app": "vllm"},
            annotations={"llmvitals.io/port": "8000"},
            containers=(
                container(
                    command=["vllm", "serve", "$(MODEL)"],
                    args=["--tensor-parallel-size", "$(TP)", "--x", "$$(TP)", "$(SECRET)", "$(LATER)"],
                    env=[
                        {"name": "TP", "value": "4"},
                        {"name": "MODEL", "value": "m-$(TP)"},
                        {"name": "NUM_SHARD", "value": "2"},
                        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    ports=(("http", 8000), ("", 8001)),
                ),
                container("side", ports=()),
            ),
            statuses=(status(restarts=2, lastState=ended("OOMKilled", 137)), status("side", ready=False)),
        )
    ]
    (found,) = lists().pods()
    assert (found.namespace, found.name, found.uid) == ("serving", "chat-0", "uid-serving-chat-0")
    assert (found.ip, found.phase, found.ready, found.leaving) == ("10.0.0.7", "Running", True, False)
    assert found.ready_since == _unix("2026-03-01T10:01:00")
    assert found.owner == "ReplicaSet/chat-5f"
    assert found.labels == {"app": "vllm"}
    assert found.annotations == {"llmvitals.io/port": "8000"}
    engine, side = found.containers
    assert engine.id == b"engine".hex().rjust(64, "0")
    assert engine.started == _unix("2026-03-01T10:00:00")
    assert engine.ports == (("http", 8000), ("", 8001))
    assert engine.command == (
        *("vllm", "serve", "m-4", "--tensor-parallel-size", "4"),
        *("--x", "$(TP)", "$(SECRET)", "$(LATER)"),
    )
    assert engine.environ == (("NUM_SHARD", "2"),)
    assert (engine.restarts, engine.last.reason, engine.last.exit_code) == (2, "oom", 137)
    assert engine.last.at == _unix("2026-03-01T09:59:00")
    assert (side.ready, side.ports, side.last) == (False, (), None)


def test_a_pod_that_waits_or_leaves_says_so(server, lists):
    waiting = status(state={"waiting": {"reason": "CrashLoopBackOff"}}, ready=False, lastState=ended("Error", 1))
    server.pods = [
        pod("a", ready=False, statuses=(waiting,)),
        pod("b", leaving=True),
        {"metadata": {"name": "bare", "namespace": "serving"}, "spec": {"nodeName": "n1", "hostNetwork": True}},
    ]
    waits, leaves, bare = lists().pods()
    assert (waits.ready, waits.ready_since, waits.containers[0].started) == (False, None, None)
    assert waits.containers[0].last.reason == "error"
    assert leaves.leaving
    assert (bare.host_network, bare.phase, bare.owner, bare.containers) == (True, "", "", ())


@pytest.mark.parametrize(
    ("reason", "code", "told"),
    [
        ("OOMKilled", 137, "oom"),
        ("OOMKilled", 1, "oom"),
        ("Error", 137, "probe"),
        ("Error", 143, "probe"),
        ("Error", 1, "error"),
        ("Error", 139, "error"),
        ("StartError", 128, "error"),
        ("ContainerStatusUnknown", 137, "unknown"),
        ("Completed", 0, "unknown"),
        ("Brand new", 0, "unknown"),
        ("Brand new", 3, "error"),
        ("", 134, "error"),
    ],
)
def test_what_ended_a_container(server, lists, reason, code, told):
    server.pods = [pod(statuses=(status(lastState=ended(reason, code)),))]
    assert lists().pods()[0].containers[0].last.reason == told


def test_a_signal_is_an_exit_code_and_a_missing_one_unknown(server, lists):
    signal = {"terminated": {"reason": "Error", "exitCode": 0, "signal": 9, "finishedAt": "1970-01-01T00:00:00Z"}}
    server.pods = [
        pod("a", statuses=(status(lastState=signal),)),
        pod("b", statuses=(status(lastState={"terminated": {"reason": "Error"}}),)),
    ]
    first, second = (one.containers[0].last for one in lists().pods())
    assert (first.reason, first.exit_code, first.at) == ("probe", 137, None)
    assert (second.reason, second.exit_code) == ("unknown", None)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (400, "400.*node.kubernetes.selector"),
        (403, "403.*the test said so.*verb 'list' on pods.*rbac.yaml.*node.kubernetes.namespaces"),
        (404, "404.*node.kubernetes.api_url"),
        (301, "301.*redirects"),
        (500, "500.*it failed"),
        (503, "503.*it failed"),
        (418, "418.*gave no list"),
    ],
)
def test_a_refusal_names_its_remedy_and_the_last_list_stays(server, lists, code, says):
    clock = iter((100.0, 115.0)).__next__
    lister = lists(clock=clock)
    assert lister.at is None
    server.pods = [pod()]
    lister.pods()
    server.refuse = [(code, {"Location": "https://127.0.0.1:1/"} if code == 301 else {})]
    with pytest.raises(UnreachableError, match=says) as caught:
        lister.pods()
    assert caught.value.place == server.url
    assert (_names(lister.last), lister.at) == (["serving/chat-0"], 100.0)
    lister.pods()
    assert lister.at == 115.0


def test_a_cluster_wide_list_that_is_forbidden_works_in_named_namespaces(server, lists):
    server.pods = [pod("a", namespace="chat"), pod("b", namespace="code")]
    server.may_list = {"chat"}
    with pytest.raises(UnreachableError, match='cannot list resource "pods" at the cluster scope'):
        lists().pods()
    assert _names(lists(namespaces=("chat",)).pods()) == ["chat/a"]
    with pytest.raises(UnreachableError, match='in the namespace "code"'):
        lists(namespaces=("chat", "code")).pods()


def test_a_server_that_asks_for_patience_is_left_alone(server, lists):
    server.pods = [pod()]
    server.refuse = [(429, {"Retry-After": "30"}), (429, {"Retry-After": "soon"})]
    lister = lists()
    for _ in range(3):
        with pytest.raises(UnreachableError, match="interval_seconds"):
            lister.pods()
    assert len(server.asked) == 1
    plain = lists()
    with pytest.raises(UnreachableError, match="429"):
        plain.pods()
    assert len(plain.pods()) == 1


@pytest.mark.parametrize("temper", ["hang", "drip"])
def test_a_server_that_hangs_or_drips_is_given_up_in_time(server, lists, temper):
    server.pods = [pod()]
    setattr(server, temper, {"hang": 20.0, "drip": 0.02}[temper])
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"no whole answer within 0\.3 s"):
        lists(timeout_s=0.3).pods()
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>login</html>",
        b"{",
        b"[]",
        b'{"kind": "Status"}',
        b'{"kind": "PodList", "items": [{"metadata": {"name": 7}}]}',
        b'{"kind": "PodList", "items": [{"metadata": {"name": "x"}, "status": {"podIP": []}}]}',
        b'{"kind": "PodList", "items": ["' + b"\xff" + b'"]}',
        b'{"kind": "PodList", "items": ' + b"[" * 100_000,
        b'{"kind": "PodList", "other": ' + b"[" * 200_000,
    ],
)
def test_what_is_no_list_of_pods_is_told(server, lists, body):
    server.raw = body
    with pytest.raises(PageError, match="no list of pods"):
        lists().pods()


def test_an_endless_list_is_given_up(server, lists, monkeypatch):
    server.raw = b" " * 300_000
    monkeypatch.setattr("llmvitals.telemetry.kube.ask.MAX_BYTES", 200_000)
    with pytest.raises(PageError, match="larger than"):
        lists().pods()


def test_a_node_without_pods_is_a_wrong_name_unless_the_list_is_narrowed(server, lists):
    server.pods = [pod(node="n1.internal")]
    with pytest.raises(UnreachableError, match=r"no pod on a node named 'n1'.*NODE_NAME"):
        lists().pods()
    assert lists(selector="app=none").pods() == ()


def test_a_node_whose_name_was_right_may_lose_all_its_pods(server, lists):
    server.pods = [pod(node="n1")]
    lister = lists()
    assert len(lister.pods()) == 1
    server.pods = []
    assert lister.pods() == ()


def test_an_authority_that_did_not_sign_is_not_trusted(server, account, certificates, lists):
    (account / "ca.crt").write_bytes(certificates[2].cert.read_bytes())
    with pytest.raises(UnreachableError, match=r"certificate is not accepted.*ca\.crt"):
        lists().pods()
    assert server.presented == []


def test_a_missing_or_odd_token_is_named(account, lists):
    (account / "token").write_text("two\nlines")
    with pytest.raises(UnreachableError, match="holds more than a token"):
        lists().pods()
    (account / "token").unlink()
    with pytest.raises(UnreachableError, match=r"token is not there\. .*automountServiceAccountToken"):
        lists().pods()


def test_nobody_there_is_said_with_the_variables(server, lists):
    lister = lists()
    server.over.set()
    server._server.shutdown()
    server._server.server_close()
    with pytest.raises(
        UnreachableError, match=r"could not be reached \(.*Connection refused\)\. .*KUBERNETES_SERVICE_HOST"
    ):
        lister.pods()


def test_without_a_cluster_or_a_name_nothing_starts(account):
    with pytest.raises(SettingsError, match="KUBERNETES_SERVICE_HOST is not set"):
        PodLister("n1", account=account, environ={})
    with pytest.raises(SettingsError, match="NODE_NAME"):
        PodLister("", url="https://h", account=account, environ={})
    for wrong in ("h:6443", "https://", "https://[::1", "https://me:secret@h", "ftp://h", "https://h:x"):
        with pytest.raises(SettingsError, match="no address of an API server") as caught:
            PodLister("n1", url=wrong, account=account, environ={})
        assert "secret" not in str(caught.value)


def test_an_ipv6_cluster_is_written_in_brackets(account):
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    lister = PodLister("n1", account=account, environ=environ)
    assert lister._api.base == "https://[fd00::1]:6443"
