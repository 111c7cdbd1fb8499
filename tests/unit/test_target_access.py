"""Targets that ask who we are: what is sent, whom it is sent to, what happens where a file is gone, and where nothing is asked."""

from __future__ import annotations

import base64
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.errors import LlmvitalsError, SettingsError, UnreachableError
from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.watch import Watch
from llmvitals.settings import Access, Exporter, Node, Otlp, Settings, Source, Target, decode, load
from llmvitals.sources.client import Client
from llmvitals.sources.live import observe
from llmvitals.sources.probe import probe
from llmvitals.telemetry.access import beside, without_headers
from llmvitals.telemetry.ingest import Fetcher, Ingest
from llmvitals.telemetry.reach import REFUSED, USUAL, reach_of
from support.answers import Answer, Answers, Asked
from support.hostile import vllm_page
from support.waiting import wait_for

TOKEN = "tok-8c1f2a77"
METADATA = "169.254.169.254"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\r\n")
    return file


def guarded(wanted: str) -> Answers:
    def page(asked: Asked) -> Answer:
        return Answer(vllm_page()) if asked.headers.get("authorization") == wanted else Answer(b"no", 401)

    return Answers({"/metrics": page})


def why(url: str, access: Access = Access(), *, timeout_s: float = 5.0) -> str:  # noqa: B008  # frozen
    """What the page of a target that cannot be read says, the remedy with it."""
    return Ingest(instance="i").snapshot(Fetcher().fetch(url, timeout_s=timeout_s, access=access)).detail


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_each_way_in_is_sent_as_its_servers_read_it(token: Path) -> None:
    ways = {
        "bearer_token_file": (Access(bearer_token_file=str(token)), "authorization", f"Bearer {TOKEN}"),
        "basic": (
            Access(username="me", password_file=str(token)),
            "authorization",
            f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}",
        ),
        "tenant": (Access(tenant="gpu"), "x-scope-orgid", "gpu"),
        "headers": (Access(headers={"X-Team": "serving"}), "x-team", "serving"),
        "header_files": (Access(header_files={"X-Api-Key": str(token)}), "x-api-key", TOKEN),
    }
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        for access, header, value in ways.values():
            assert Fetcher().fetch(there.url, timeout_s=5, access=access).error == ""
            assert there.asked[-1].headers[header] == value


def test_a_token_is_read_anew_for_each_page_without_the_end_of_its_line(token: Path) -> None:
    fetcher, access = Fetcher(), Access(bearer_token_file=str(token))
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        for value in ("first-one", "second-one"):
            token.write_text(f"{value}\n")
            fetcher.fetch(there.url, timeout_s=5, access=access)
    assert [one.headers["authorization"] for one in there.asked] == ["Bearer first-one", "Bearer second-one"]


def test_what_the_address_says_gives_way_to_access(token: Path) -> None:
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        url = there.url.replace("http://", "http://old:secret@")
        Fetcher().fetch(url, timeout_s=5, access=Access(bearer_token_file=str(token)))
    assert there.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_page_does_not_repeat_what_it_was_sent(token: Path) -> None:
    def echo(asked: Asked) -> Answer:
        return Answer(f"# {asked.headers['authorization']}\n".encode() + vllm_page())

    with Answers({"/metrics": echo}) as there:
        page = Fetcher().fetch(there.url, timeout_s=5, access=Access(bearer_token_file=str(token)))
        user = Fetcher().fetch(there.url.replace("//", f"//me:{TOKEN}@"), timeout_s=5)
    assert page.body is not None
    assert user.body is not None
    assert page.body.startswith(b"# Bearer ***\n") or page.body.startswith(b"# ***\n")
    assert base64.b64encode(f"me:{TOKEN}".encode()) not in user.body


# -- files that are not there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is not asked: {file} cannot be read (No such file or directory). Mend that file, which access names"),
        ("", "is not asked: {file} holds no secret that can be sent. Mend that file"),
        (
            "one\ntwo\n",
            "is not asked: {file} the value of the header 'Authorization' holds characters that cannot be sent",
        ),
    ],
)
def test_a_file_that_cannot_be_sent_takes_down_its_target_alone(tmp_path: Path, content: str | None, says: str) -> None:
    file = tmp_path / "gone"
    if content is not None:
        file.write_text(content)
    with Answers({"/metrics": Answer(vllm_page())}) as there, Answers({"/metrics": Answer(vllm_page())}) as other:
        targets = (
            Target(url=there.url, name="shut", access=Access(bearer_token_file=str(file))),
            Target(url=other.url, name="open"),
        )
        cycle = Engine(Settings(targets=targets, exporter=Exporter(timeout_seconds=5))).step()
    shut, fine = cycle.snapshots
    assert says.format(file=file) in shut.detail
    assert fine.detail == ""
    assert b'llm_target_up{instance="open"} 1.0' in cycle.page
    assert b'llm_target_up{instance="shut"} 0.0' in cycle.page
    assert there.asked == []


def test_a_missing_file_is_mended_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "token"
    fetcher, access = Fetcher(), Access(bearer_token_file=str(file))
    with guarded(f"Bearer {TOKEN}") as there:
        assert "cannot be read" in fetcher.fetch(there.url, timeout_s=5, access=access).error
        file.write_text(TOKEN)
        assert fetcher.fetch(there.url, timeout_s=5, access=access).body == vllm_page()


# -- who asks with it --------------------------------------------------------------------------------------------------


def test_all_that_scrape_a_target_use_its_access(token: Path) -> None:
    access = Access(bearer_token_file=str(token))
    with guarded(f"Bearer {TOKEN}") as there:
        target = Target(url=there.url, name="a", access=access)
        assert probe([target])[0].error is None
        assert probe([Target(url=there.url)])[0].error is not None
        (seen,) = observe([target], seconds=0.1, interval=0.1)
        assert seen.snapshots[-1].detail == ""
        assert Engine(Settings(targets=(target,))).step().snapshots[0].detail == ""


def test_a_gpu_page_has_an_access_of_its_own(token: Path) -> None:
    dcgm = b'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1"} 0.5\n'
    with (
        Answers({"/metrics": Answer(dcgm)}) as cards,
        Answers({"/metrics": Answer(vllm_page())}) as there,
    ):
        access = Access(bearer_token_file=str(token))
        target = Target(url=there.url, name="a", gpu_url=cards.url, gpu_access=access)
        page = Engine(Settings(targets=(target,))).step().page
        observe([target], seconds=0.1, interval=0.1)
        own = Settings(targets=(Target(url=there.url, name="a"),), node=Node(gpu_url=cards.url, gpu_access=access))
        Engine(own).step()
    assert b'gpu="GPU-1"' in page
    assert len(cards.asked) >= 3
    assert {one.headers.get("authorization") for one in cards.asked} == {f"Bearer {TOKEN}"}
    assert {one.headers.get("authorization") for one in there.asked} == {None}


def test_401_says_where_access_is_named() -> None:
    with guarded("Bearer other") as there:
        assert "answered 401: it asks for credentials that it accepts. Name in the target's access" in why(there.url)


# -- probes ------------------------------------------------------------------------------------------------------------


def sent_by_probe(target: Target, there: Answers) -> dict[str, str]:
    watch = Watch.over(target, Settings())
    assert watch.prober is not None
    watch.prober._due = 0.0
    watch.prober.tick(Ingest(instance="a").snapshot(Fetcher().fetch(there.url, timeout_s=5)))
    wait_for(lambda: any(one.method == "POST" for one in there.asked), "the probe")
    return dict(next(one.headers for one in there.asked if one.method == "POST"))


def test_probes_of_the_pages_own_server_are_let_in_by_access(token: Path) -> None:
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        target = Target(url=there.url, name="a", probe_seconds=5, access=Access(bearer_token_file=str(token)))
        assert sent_by_probe(target, there)["authorization"] == f"Bearer {TOKEN}"


def test_headers_of_their_own_come_in_place_of_it(token: Path, tmp_path: Path) -> None:
    (tmp_path / "h.yaml").write_text("X-Key: k\n")
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        target = Target(
            url=there.url,
            name="a",
            probe_seconds=5,
            probe_headers_file=str(tmp_path / "h.yaml"),
            access=Access(bearer_token_file=str(token)),
        )
        sent = sent_by_probe(target, there)
    assert (sent.get("x-key"), sent.get("authorization")) == ("k", None)


def test_an_api_on_another_server_gets_none_of_it(token: Path) -> None:
    with Answers({"/metrics": Answer(vllm_page())}) as there, Answers({}) as api:
        target = Target(
            url=api.url,
            name="a",
            probe_seconds=5,
            probe_url=there.url,
            access=Access(bearer_token_file=str(token), tenant="gpu", headers={"X-A": "b"}),
        )
        sent = sent_by_probe(target, there)
    assert not {"authorization", "x-scope-orgid", "x-a"} & set(sent)


@pytest.mark.parametrize(
    ("url", "other", "same"),
    [
        ("http://h:80/metrics", "http://h/v1", True),
        ("h:8000", "http://h:8000", True),
        ("https://h", "https://h:443/x", True),
        ("http://h:8000", "http://h:8001", False),
        ("https://h", "http://h", False),
        ("http://h:8000", "http://h.evil:8000", False),
    ],
)
def test_what_is_the_same_server(url: str, other: str, same: bool) -> None:
    access = Access(bearer_token_file="/t", ca_file="/ca")
    assert beside(url, access, other) == (access if same else without_headers(access))
    assert without_headers(access) == Access(ca_file="/ca")


# -- redirects ---------------------------------------------------------------------------------------------------------


def leading(to: str) -> Answers:
    return Answers({"/metrics": Answer(b"", 302, {"location": to})})


def test_what_lets_us_in_does_not_follow_to_another_port(token: Path) -> None:
    with Answers({"/metrics": Answer(vllm_page())}) as other, leading(f"{other.url}/metrics") as there:
        told = why(there.url, Access(bearer_token_file=str(token)))
        user = why(there.url.replace("//", "//me:pw@"))
        assert other.asked == []
        assert why(there.url) == "", "nobody is betrayed by a redirect that carries nothing"
    assert "redirects to another port (127.0.0.1:" in told
    assert "where what lets us in is not sent. Give the final address" in told
    assert "redirects to another port" in user


@pytest.mark.parametrize(
    ("to", "says"),
    [
        (f"http://{METADATA}/latest/meta-data/", f"redirects to another host ({METADATA}), which is not followed"),
        ("http://user:pw@elsewhere.example/x", "redirects to another host (elsewhere.example)"),
        ("file:///etc/passwd", "redirects to another host ()"),
        ("gopher://127.0.0.1/x", "which is not followed"),
        ("/metrics", "redirects more than 3 times"),
    ],
)
def test_redirects_that_are_not_followed_say_where_they_lead(to: str, says: str) -> None:
    with leading(to) as there:
        told = why(there.url)
    assert says in told
    assert "pw" not in told


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", [METADATA, "2852039166", "0xa9.0xfe.0xa9.0xfe", "[::ffff:169.254.169.254]", "100.100.100.200"]
)
def test_metadata_is_not_asked_in_whatever_form_it_is_written(host: str) -> None:
    told = why(f"http://{host}/latest/meta-data/", timeout_s=2)
    assert "is link-local or a cloud's metadata service, where nothing is asked" in told
    assert "Name the network in access.allow_addresses" in told


def named(monkeypatch: pytest.MonkeyPatch, *turns: list[str]) -> list[str]:
    """Names resolve to these addresses, turn by turn, the last one again and again; the list has the names asked for."""
    asked: list[str] = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        addresses = turns[min(len(asked), len(turns)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


def test_a_name_that_leads_there_is_not_asked_either(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, [METADATA])
    assert f"is not asked: its address {METADATA}" in why("http://metadata.google.internal/x", timeout_s=2)


def test_a_name_is_resolved_once_and_what_it_gave_is_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        port = there.url.rpartition(":")[2]
        asked = named(monkeypatch, ["127.0.0.1"], [METADATA])
        fetcher = Fetcher()
        assert fetcher.fetch(f"http://rebinds:{port}", timeout_s=5).error == ""
        assert asked == ["rebinds"]
    again = Fetcher().fetch(f"http://rebinds:{port}", timeout_s=2)
    assert METADATA in again.error


def test_of_several_addresses_the_others_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        named(monkeypatch, [METADATA, "127.0.0.1"])
        assert Fetcher().fetch(f"http://both:{there.url.rpartition(':')[2]}", timeout_s=5).error == ""


def test_sources_are_held_to_it_too() -> None:
    with Client(f"http://{METADATA}", timeout_s=2, most_bytes=100) as client, pytest.raises(UnreachableError) as caught:
        client.get("/api/v1/query")
    assert "is not asked: its address 169.254.169.254" in str(caught.value)


@given(st.sampled_from(REFUSED).flatmap(lambda net: st.ip_addresses(network=net)))
def test_every_address_of_these_networks_is_refused_until_it_is_allowed(address: IPv4Address | IPv6Address) -> None:
    assert USUAL.refuses(str(address))
    assert not reach_of((f"{address}",)).refuses(str(address))
    if isinstance(address, IPv4Address):
        mapped, translated = f"::ffff:{address}", f"64:ff9b::{address}"
        assert USUAL.refuses(mapped)
        assert USUAL.refuses(translated)


@given(st.ip_addresses())
def test_no_other_address_is_refused(address: IPv4Address | IPv6Address) -> None:
    inside = any(address in one for one in REFUSED)
    plain = isinstance(address, IPv4Address) or not (address.ipv4_mapped or address.sixtofour)
    assert USUAL.refuses(str(address)) == inside or not plain or address in ip_network("64:ff9b::/96")


def test_ordinary_places_are_asked() -> None:
    for address in (
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "192.168.0.1",
        "100.64.0.1",
        "fd00::7",
        "8.8.8.8",
        "169.253.0.1",
        "fec0::1",
    ):
        assert not USUAL.refuses(address), address


def test_a_proxy_of_the_environment_stands_before_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as shut:
        nobody = f"http://127.0.0.1:{shut.getsockname()[1]}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, nobody)
    with Answers({"/metrics": Answer(vllm_page())}) as there:
        assert Fetcher().fetch(there.url, timeout_s=5).error == ""


# -- settings ----------------------------------------------------------------------------------------------------------


def test_files_are_meant_from_the_settings_files_folder(tmp_path: Path) -> None:
    written = {
        "targets": [
            {"url": "http://h", "access": {"bearer_token_file": "t"}, "gpu_access": {"header_files": {"X-A": "k"}}}
        ],
        "node": {"gpu_access": {"ca_file": "ca"}, "kubernetes": {"access": {"cert_file": "c", "key_file": "k"}}},
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(written))
    settings = load(tmp_path / "s.yaml")
    (target,) = settings.targets
    assert target.access.bearer_token_file == str(tmp_path / "t")
    assert target.gpu_access.header_files == {"X-A": str(tmp_path / "k")}
    assert settings.node.gpu_access.ca_file == str(tmp_path / "ca")
    assert settings.node.kubernetes.access.key_file == str(tmp_path / "k")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"targets": [{"url": "http://me:hunter2@h"}]}, "the url holds a user or a password. Name them under access"),
        ({"targets": [{"url": "me:hunter2@h:1"}]}, "the url holds a user or a password"),
        ({"targets": [{"url": "h", "gpu_url": "http://me:hunter2@h"}]}, "Name them under gpu_access"),
        ({"targets": [{"url": "h", "probe_url": "http://me:hunter2@h"}]}, "the probe_url holds a user"),
        ({"node": {"gpu_url": "http://me:hunter2@h"}}, "node: the gpu_url holds a user"),
        ({"targets": [{"url": "h", "access": {"allow_addresses": ["link-local"]}}]}, "'link-local' is no network"),
        (
            {"targets": [{"url": "h", "access": {"headers": {"Authorization": "hunter2"}}}]},
            "name the file that holds it",
        ),
    ],
)
def test_settings_hold_no_secret(data: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        decode(data, place="s.yaml")
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_repr_shows_a_password() -> None:
    url = "http://me:hunter2@h:1/x"
    parts = (
        Target(url=url, gpu_url=url, probe_url=url),
        Node(gpu_url=url),
        Source(name="a", url=url),
        Otlp(endpoint=url),
        Settings(targets=(Target(url=url),), sources=(Source(name="a", url=url),)),
    )
    assert all("hunter2" not in f"{part!r} {part}" and "h:1/x" in repr(part) for part in parts)


def test_an_address_may_have_a_query_and_an_at_sign_in_its_path() -> None:
    assert decode({"targets": [{"url": "http://h/metrics?model=a@b"}, {"url": "http://i/x@y"}]}, place="s").targets


def test_networks_that_are_allowed_are_any() -> None:
    reach = reach_of(("169.254.20.0/24", "fe80::/10"))
    assert not reach.refuses("169.254.20.10")
    assert not reach.refuses("fe80::1%eth0")
    assert reach.refuses(METADATA)
    assert isinstance(ip_network("169.254.20.0/24"), IPv4Network)


def test_what_is_no_address_shows_no_password() -> None:
    with pytest.raises(LlmvitalsError) as caught:
        probe([Target(url="http://me:hun/ter2@h:x")])
    assert "ter2" not in str(caught.value)
