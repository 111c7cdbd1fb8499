"""Pods that ask to be watched become targets; what they say wrongly is told, and takes nobody else down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from llmvitals.settings import Access, Kubernetes, Service, Target, check_services
from llmvitals.sources.discover import Discovered, discover
from llmvitals.sources.pod_words import KEYS, PREFIX
from llmvitals.telemetry.identity.model import Container, Pod
from llmvitals.telemetry.kube.api import PodLister
from support import api_server

HTTP = Container("engine", ports=(("http", 8000),))


def pod(name: str = "chat-0", *, label: dict[str, str] | None = None, **said: str) -> Pod:
    """A pod that runs and asks to be scraped; what it says is given with ``_`` for ``-``."""
    words = {f"{PREFIX}{key.replace('_', '-')}": text for key, text in {"scrape": "true", **said}.items()}
    return Pod(
        namespace="serving",
        name=name,
        uid=f"uid-{name}",
        ip="10.0.0.7",
        phase="Running",
        labels=label or {},
        annotations=words,
        containers=(HTTP,),
    )


def one(of: Pod, **more) -> Target:
    found = discover([of], **more)
    assert [str(problem) for problem in found.problems] == []
    (target,) = found.targets
    return target


def problem(*pods: Pod, **more) -> str:
    (only,) = discover(pods, **more).problems
    return str(only)


# -- which pods --------------------------------------------------------------------------------------------------------


def test_a_pod_that_asks_is_a_target():
    assert one(pod(), node="n1") == Target(
        url="http://10.0.0.7:8000",
        name="serving/chat-0",
        pod="serving/chat-0",
        container="engine",
        labels={"namespace": "serving", "pod": "chat-0", "node": "n1"},
    )


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {}},
        {"annotations": {f"{PREFIX}scrape": "false"}},
        {"annotations": {f"{PREFIX}port": "8000"}},
        {"leaving": True},
        {"phase": "Pending"},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
        {"ip": ""},
    ],
    ids=str,
)
def test_others_are_none_and_no_problem(change):
    assert discover([replace(pod(), **change)]) == Discovered()


def test_one_that_is_not_ready_or_starts_anew_is_a_target_all_the_same():
    waiting = replace(pod(), ready=False, containers=(replace(HTTP, started=None, restarts=7),))
    assert one(waiting).name == "serving/chat-0"


def test_an_annotation_beats_a_label_and_either_will_do():
    by_label = replace(pod(label={f"{PREFIX}scrape": "true", f"{PREFIX}kind": "sglang"}), annotations={})
    assert one(by_label).kind == "sglang"
    assert one(replace(by_label, annotations={f"{PREFIX}kind": "vllm"})).kind == "vllm"
    assert discover([replace(by_label, annotations={f"{PREFIX}scrape": "false"})]) == Discovered()


def test_targets_come_and_go_with_their_pods():
    pods = [pod("b"), pod("a"), replace(pod("x"), namespace="chat")]
    assert [t.name for t in discover(pods).targets] == ["chat/x", "serving/a", "serving/b"]
    pods[1] = replace(pods[1], leaving=True)
    assert [t.name for t in discover(pods).targets] == ["chat/x", "serving/b"]


# -- one owner for each engine ------------------------------------------------------------------------------------------

OWN = Container("llmvitals", ports=(("vitals", 9464),))


def left(*pods: Pod, **more) -> dict[str, str]:
    found = discover(pods, **more)
    assert found.targets == ()
    return dict(found.left)


def test_a_pod_with_an_exporter_of_its_own_is_left_to_it_and_told():
    beside = replace(pod(), containers=(HTTP, OWN))
    assert "'llmvitals'" in left(beside)["serving/chat-0"]
    assert "owner: sidecar" in left(pod(owner="sidecar"))["serving/chat-0"]


def test_what_the_pod_says_of_its_owner_counts_more_than_its_containers():
    beside = replace(pod(owner="node"), containers=(HTTP, OWN))
    assert one(beside).url == "http://10.0.0.7:8000"


def test_a_pod_that_does_not_ask_is_not_told_as_left():
    assert left(replace(pod(scrape="false", owner="sidecar"), containers=(HTTP, OWN))) == {}
    assert left(replace(pod(owner="sidecar"), leaving=True)) == {}


def test_a_pod_that_says_nonsense_is_told_as_left_and_one_that_goes_on_without_it_is_not():
    assert "port" in left(pod(port="none"))["serving/chat-0"]
    found = discover([pod(kind="vlm")])
    assert ([t.name for t in found.targets], found.left) == (["serving/chat-0"], ())


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "localhost:8000", "http://[::1]:8000"])
def test_on_the_nodes_network_the_settings_loopback_address_is_the_same_engine(url):
    settings = (Target(url=url, name="chat"),)
    assert discover([replace(pod(), host_network=True)], configured=settings).targets == ()
    assert one(pod(), configured=settings).url == "http://10.0.0.7:8000"  # with a network of its own it is another
    elsewhere = replace(pod(port="8001"), host_network=True)
    assert one(elsewhere, configured=settings).url == "http://10.0.0.7:8001"


# -- what a pod says ---------------------------------------------------------------------------------------------------


def test_everything_that_a_pod_may_say():
    said = {
        "port": "9000",
        "path": "/prometheus/metrics",
        "scheme": "https",
        "kind": "trtllm",
        "role": "decode",
        "gpus": "GPU-a, GPU-b,MIG-c",
        "gpu_url": "http://10.0.0.7:9400/metrics",
        "tensor_parallel": "2",
        "container": "engine",
    }
    target = one(pod(**said))
    assert target.url == "https://10.0.0.7:9000/prometheus/metrics"
    assert (target.kind, target.role, target.tensor_parallel) == ("trtllm", "decode", 2)
    assert target.gpus == ("GPU-a", "GPU-b", "MIG-c")
    assert target.gpu_url == "http://10.0.0.7:9400/metrics"


def test_the_settings_say_which_other_hosts_may_show_a_pods_gpus():
    said = pod(gpu_url="http://dcgm-exporter.gpu-operator.svc:9400")
    allowed = Kubernetes(gpu_hosts=("dcgm-exporter.*",))
    assert one(said, kubernetes=allowed).gpu_url == "http://dcgm-exporter.gpu-operator.svc:9400"
    assert "may not name 'dcgm-exporter.gpu-operator.svc'" in problem(said)


def test_what_lets_in_at_pods_goes_to_their_own_page_alone():
    access = Access(bearer_token_file="/run/token")
    target = one(pod(gpu_url="http://10.0.0.7:9400"), kubernetes=Kubernetes(access=access))
    assert (target.access, target.gpu_access) == (access, Access())
    assert one(pod()).access == Access()


def test_an_ipv6_pod_is_written_in_brackets():
    assert one(replace(pod(), ip="fd00::7")).url == "http://[fd00::7]:8000"


PROXY = Container("proxy", ports=(("admin", 15000), ("", 15001)))


@pytest.mark.parametrize(
    ("containers", "said", "url", "container"),
    [
        ((HTTP, PROXY), {}, 8000, "engine"),
        ((replace(HTTP, ports=(("http", 8000), ("metrics", 9090))),), {}, 9090, "engine"),
        ((replace(HTTP, ports=(("", 30000),)),), {}, 30000, "engine"),
        ((HTTP, PROXY), {"port": "admin"}, 15000, "proxy"),
        ((HTTP, PROXY), {"port": "15001"}, 15001, "proxy"),
        ((HTTP, PROXY), {"port": "7777"}, 7777, ""),
        ((HTTP,), {"port": "7777"}, 7777, "engine"),
        ((HTTP, replace(HTTP, name="other")), {"container": "other"}, 8000, "other"),
        ((HTTP, PROXY), {"port": "7777", "container": "engine"}, 7777, "engine"),
        ((replace(HTTP, ports=()),), {"port": "8000"}, 8000, "engine"),
    ],
)
def test_which_port_and_container_are_meant(containers, said, url, container):
    target = one(replace(pod(**said), containers=containers))
    assert (target.url, target.container) == (f"http://10.0.0.7:{url}", container)


def test_several_engines_in_a_pod_are_several_targets():
    found = discover([pod(port="8000,8001")])
    assert [(t.name, t.url, t.pod) for t in found.targets] == [
        ("serving/chat-0:8000", "http://10.0.0.7:8000", "serving/chat-0"),
        ("serving/chat-0:8001", "http://10.0.0.7:8001", "serving/chat-0"),
    ]
    assert [t.name for t in discover([pod(port="8000 http")]).targets] == ["serving/chat-0:8000"]


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"scrape": "yes"}, "llmvitals.io/scrape cannot be 'yes'. Did you mean"),
        ({"port": "web"}, "no container names a port 'web'. Give llmvitals.io/port a number"),
        ({"port": "0"}, "llmvitals.io/port cannot be '0'. A port is from 1 to 65535."),
        ({"port": "9" * 5000}, "A port is from 1 to 65535."),
        ({"port": ""}, "llmvitals.io/port cannot be ''. Give it a value"),
        ({"path": "metrics"}, "llmvitals.io/path cannot be 'metrics'. Write a path like /metrics."),
        ({"path": "/a b"}, "Write a path like /metrics."),
        ({"scheme": "grpc"}, "llmvitals.io/scheme cannot be 'grpc'. Did you mean 'http'?"),
        ({"container": "enginee"}, "llmvitals.io/container cannot be 'enginee'. Its containers are: engine."),
        ({"container": "enginee", "port": "8000"}, "Its containers are: engine."),
    ],
)
def test_what_nobody_can_ask_is_told_and_the_others_go_on(said, says):
    found = discover([pod("bad", **said), pod("good")])
    assert [t.name for t in found.targets] == ["serving/good"]
    (told,) = found.problems
    assert told.place == "pod serving/bad"
    assert says in str(told)


@pytest.mark.parametrize(
    ("said", "says", "field"),
    [
        ({"kind": "vlm"}, "llmvitals.io/kind cannot be 'vlm'. Did you mean 'vllm'?", "kind"),
        ({"role": "prefil"}, "llmvitals.io/role cannot be 'prefil'. Did you mean 'prefill'?", "role"),
        ({"tensor_parallel": "two"}, "llmvitals.io/tensor-parallel cannot be 'two'. Write a number", "tensor_parallel"),
        ({"tensor_parallel": "9" * 5000}, "Write a number of GPUs", "tensor_parallel"),
        ({"gpu_url": "http://"}, "llmvitals.io/gpu-url cannot be 'http://'. Give it as http://host:port", "gpu_url"),
        ({"gpu_url": "http://127.0.0.1:9400"}, "llmvitals.io/gpu-url may not name '127.0.0.1'. It may name", "gpu_url"),
        ({"gpu_url": "http://169.254.169.254/"}, "llmvitals.io/gpu-url may not name '169.254.169.254'", "gpu_url"),
        ({"gateway": "nobody"}, "llmvitals.io/gateway 'nobody' is no target", "gateway"),
        ({"gateway": "chat-0"}, "llmvitals.io/gateway 'chat-0' is itself", "gateway"),
        ({"gateway": "g" * 254}, "Write a name of at most 253 characters.", "gateway"),
        ({"gpus": "0," + "g" * 254}, "Write a name of at most 253 characters.", "gpus"),
        ({"service": "a\x00b"}, "Write a name of at most 253 characters.", ""),
        ({"tensor_paralel": "2"}, "there is no llmvitals.io/tensor-paralel. Did you mean llmvitals.io/tensor-", ""),
    ],
)
def test_what_can_be_done_without_is_told_and_left_out(said, says, field):
    found = discover([pod(**said)])
    assert found.targets == (one(pod()),)
    (told,) = found.problems
    assert says in str(told)
    assert not field or getattr(found.targets[0], field) == getattr(Target(url="x"), field)


@pytest.mark.parametrize(
    ("containers", "says"),
    [
        ((replace(HTTP, ports=()),), "its containers declare no port. Name one in llmvitals.io/port."),
        ((replace(HTTP, ports=(("a", 1), ("b", 2))),), "several ports could be meant. Name one in llmvitals.io/port."),
        ((HTTP, replace(HTTP, name="b", ports=(("http", 8001),))), "several ports could be meant"),
    ],
)
def test_a_port_is_not_guessed(containers, says):
    assert says in problem(replace(pod(), containers=containers))


@pytest.mark.parametrize("shown", [{"containers": (replace(HTTP, ports=(("http", 0),)),)}, {"ip": "["}])
def test_nonsense_that_the_cluster_shows_of_one_pod_does_not_stop_the_others(shown):
    found = discover([replace(pod("bad"), **shown), pod("good")])
    assert [t.name for t in found.targets] == ["serving/good"]
    assert "is not a URL" in str(found.problems[0])


def test_a_port_name_that_two_containers_have_is_not_guessed():
    both = replace(pod(port="http"), containers=(HTTP, replace(HTTP, name="b", ports=(("http", 8001),))))
    assert "several containers name a port 'http'" in problem(both)
    assert one(replace(both, annotations={**both.annotations, f"{PREFIX}container": "b"})).url.endswith(":8001")


# -- beside the settings, and together ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "configured",
    [Target(url="http://10.0.0.7:8000/metrics", name="mine"), Target(url="http://engine", pod="serving/chat-0")],
)
def test_what_the_settings_watch_already_is_not_watched_twice(configured):
    assert discover([pod()], configured=[configured]) == Discovered()


def test_a_name_that_the_settings_took_is_told():
    says = "the settings have something else named 'serving/chat-0'"
    assert says in problem(pod(), configured=[Target(url="h:1", name="serving/chat-0")])
    assert says in problem(pod(), services=[Service(name="serving/chat-0", engines=("x",))])


def _gateways(*names: str, owner: str = "") -> list[Pod]:
    return [replace(pod(name), ip=f"10.0.1.{i}", owner=owner) for i, name in enumerate(names)]


@pytest.mark.parametrize("wanted", ["gw-0", "serving/gw-0", "gw"])
def test_a_gateway_is_named_by_pod_or_workload(wanted):
    found = discover([*_gateways("gw-0", owner="StatefulSet/gw"), pod(gateway=wanted)])
    assert {t.name: t.gateway for t in found.targets} == {"serving/gw-0": "", "serving/chat-0": "serving/gw-0"}
    assert found.problems == ()


def test_a_gateway_may_be_a_target_of_the_settings():
    gateway = Target(url="http://litellm:4000", name="litellm")
    assert one(pod(gateway="litellm"), configured=[gateway]).gateway == "litellm"


def test_a_gateway_with_several_pods_or_in_another_namespace_is_not_guessed():
    several = [*_gateways("gw-0", "gw-1", owner="StatefulSet/gw"), pod(gateway="gw")]
    assert "llmvitals.io/gateway 'gw' is one of several pods" in problem(*several)
    other = replace(_gateways("gw-0")[0], namespace="other")
    assert "'gw-0' is no target" in problem(other, pod(gateway="gw-0"))


def test_pods_of_one_service_are_judged_together_without_their_gateway():
    pods = [
        replace(pod("a", service="chat", gateway="gw-0"), ip="10.0.0.1"),
        replace(pod("b", service="chat", gateway="gw-0"), ip="10.0.0.2"),
        replace(pod("gw-0", service="chat"), ip="10.0.0.3"),
        replace(pod("c", service="chat"), ip="10.0.0.4", namespace="other"),
    ]
    found = discover(pods)
    assert found.services == (
        Service(name="other/chat", engines=("other/c",)),
        Service(name="serving/chat", engines=("serving/a", "serving/b")),
    )


def test_a_service_may_not_take_a_targets_name():
    found = discover([pod("chat", service="chat")])
    assert [t.name for t in found.targets] == ["serving/chat"]
    assert found.services == ()
    assert "something else named 'serving/chat'" in str(found.problems[0])


_WORDS = st.dictionaries(
    st.sampled_from([*KEYS, "other"]),
    st.one_of(
        st.sampled_from(["true", "8000", "http", "a", "gw", "serving/p1", "/m", "vllm", ""]), st.text(max_size=8)
    ),
)


@examples(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), _WORDS), max_size=4, unique_by=lambda x: x[0]))
def test_whatever_pods_say_the_settings_stay_valid(said):
    pods = [
        replace(pod(f"p{n}"), ip=f"10.0.0.{n}", annotations={f"{PREFIX}{k}": v for k, v in words.items()})
        for n, words in said
    ]
    configured = [Target(url="http://h:1", name="gw")]
    found = discover(pods, configured=configured)
    check_services([*configured, *found.targets], found.services, place="x")
    names = [t.known_as for t in (*configured, *found.targets)]
    assert len(names) == len(set(names))
    assert all(told.place.startswith("pod serving/p") and told.remedy for told in found.problems)


# -- from the API server to targets ------------------------------------------------------------------------------------


def test_from_the_api_server_to_targets(tmp_path):
    asks = {f"{PREFIX}scrape": "true"}
    with api_server.ApiServer() as server:
        lister = PodLister("n1", url=server.url, account=tmp_path, environ={})
        server.pods = [
            api_server.pod("a", annotations=asks, ip="10.0.0.1"),
            api_server.pod("b", labels=asks, ip="10.0.0.2"),
            api_server.pod("c", ip="10.0.0.3"),
            api_server.pod("d", annotations=asks, ip="10.0.0.4", node="n2"),
        ]
        assert [t.url for t in discover(lister.pods()).targets] == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
        server.pods = [api_server.pod("b", labels=asks, ip="10.0.0.2", leaving=True)]
        assert discover(lister.pods()).targets == ()


def test_every_key_is_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "node.md").read_text()
    assert [key for key in KEYS if f"`{PREFIX}{key}`" not in text] == []
