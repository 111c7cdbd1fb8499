"""What lets us in at a source: what the settings refuse, which headers travel and where they do not."""

from __future__ import annotations

import base64
import contextlib
import gzip
import itertools
import re
import socket
import threading
import time

import msgspec
import pytest
import yaml

from llmvitals import settings
from llmvitals.app.ask import Failure, ask
from llmvitals.app.choices import entered
from llmvitals.app.fleet import ask_fleet
from llmvitals.errors import LlmvitalsError, SettingsError, UnreachableError
from llmvitals.settings import Access, Source
from llmvitals.sources.access import NOBODY, exposed, headers
from llmvitals.sources.client import Client, SlowError, TooLargeError
from llmvitals.sources.exporter import fetch_json
from llmvitals.sources.promql_api import Endpoint, Question
from support.answers import Answer, Answers, Asked
from support.hostile import Hostile
from support.promql import matrix, ok, refusal

SECRET = "s3cr3t-t0ken"
QUERY = "/api/v1/query"
UP = ({"__name__": "llm_target_up", "instance": "a"}, [(1.0, "1")])
ASKED = Question("", 1.0, 10.0, parts=False)


def client(url: str, access: Access = NOBODY, timeout_s: float = 5.0, most: int = 1 << 20) -> Client:
    return Client(url, access, timeout_s=timeout_s, most_bytes=most)


@pytest.fixture
def token(tmp_path):
    """The file of a secret."""
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    return file


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"username": "me"}, "username and password_file go together"),
        ({"cert_file": "a"}, "cert_file and key_file go together"),
        ({"bearer_token_file": "t", "username": "me", "password_file": "p"}, "two ways"),
        ({"username": "a:b", "password_file": "p"}, "':'"),
        ({"headers": {"Host": "x"}}, "HTTP's own"),
        ({"header_files": {"Content-Length": "x"}}, "HTTP's own"),
        ({"headers": {"a b": "x"}}, "no header's name"),
        ({"headers": {"Authorization": f"Bearer {SECRET}"}}, "under header_files"),
        ({"headers": {"cookie": SECRET}}, "under header_files"),
        ({"headers": {"x-scope-orgid": "a"}, "tenant": "b"}, "set twice"),
        ({"header_files": {"Authorization": "f"}, "bearer_token_file": "t"}, "set twice"),
        ({"headers": {"A": "1"}, "header_files": {"a": "f"}}, "set twice"),
        ({"tenant": "a\nb"}, "printable ASCII"),
        ({"headers": {"A": "x\r\ny"}}, "printable ASCII"),
        ({"bearer_token": SECRET}, "bearer_token_file"),
    ],
)
def test_access_that_makes_no_sense_is_one_line_without_the_secret(given, says):
    data = {"sources": [{"name": "s", "url": "http://h", "access": given}]}
    with pytest.raises(SettingsError) as caught:
        settings.decode(data, place="x.yaml")
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", [f"http://me:{SECRET}@h:9090", f"https://{SECRET}@h", f"http://h/?token={SECRET}"])
def test_no_secret_stands_in_an_address_of_the_settings_or_of_the_page(url):
    with pytest.raises(SettingsError, match="access") as caught:
        settings.decode({"sources": [{"name": "s", "url": url}]}, place="x.yaml")
    assert SECRET not in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        entered(url, "prometheus")
    assert SECRET not in str(caught.value)


def test_two_sources_of_one_name_are_refused():
    twice = [{"name": "s", "url": "http://a"}, {"name": "s", "url": "http://b"}]
    with pytest.raises(SettingsError, match="two are named 's'"):
        settings.decode({"sources": twice}, place="x.yaml")


def test_files_are_meant_from_the_settings_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").mkdir()
    access = {"bearer_token_file": "t", "ca_file": "/ca", "header_files": {"X-K": "k"}}
    access |= {"cert_file": "c", "key_file": "../k"}
    (tmp_path / "etc/s.yaml").write_text(yaml.safe_dump({"sources": [{"name": "s", "url": "h:1", "access": access}]}))
    found = settings.load("etc/s.yaml").sources[0].access
    assert (found.bearer_token_file, found.ca_file) == (str(tmp_path / "etc/t"), "/ca")
    assert found.header_files == {"X-K": str(tmp_path / "etc/k")}
    assert found.cert_file == str(tmp_path / "etc/c")
    assert found.username == ""
    assert found == msgspec.convert(msgspec.to_builtins(found), Access), "an app of 'run' reads it from another folder"


def test_every_header_travels_and_the_token_is_read_anew(token, tmp_path):
    key = tmp_path / "key"
    key.write_text("k\n")
    access = Access(
        bearer_token_file=str(token), tenant="team|other", headers={"X-Env": "prod"}, header_files={"X-Key": str(key)}
    )
    with Answers({QUERY: matrix(UP)}) as server, Endpoint(server.url, access=access) as endpoint:
        list(endpoint.samples(["llm_target_up"], ASKED))
        token.write_text("renewed")
        list(endpoint.samples(["llm_target_up"], ASKED))
    first, second = server.asked
    assert first.headers["authorization"] == f"Bearer {SECRET}"
    assert second.headers["authorization"] == "Bearer renewed"
    told = {name: first.headers[name] for name in ("x-scope-orgid", "x-env", "x-key")}
    assert told == {"x-scope-orgid": "team|other", "x-env": "prod", "x-key": "k"}


def test_basic_authentication_has_any_password_and_the_netrc_is_left_alone(tmp_path, monkeypatch):
    word = tmp_path / "word"
    word.write_text("pä:ss\n")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with Answers({"/x": Answer(b"{}")}) as server:
        with client(server.url, Access(username="me", password_file=str(word))) as one:
            one.get("/x")
        with client(server.url, Access(tenant="t")) as one:
            one.get("/x")
        with client(server.url) as one:
            one.get("/x")
    sent = [asked.headers.get("authorization", "") for asked in server.asked]
    assert base64.b64decode(sent[0].removeprefix("Basic ")).decode() == "me:pä:ss"
    assert sent[1] == "", "who has access says all of it"
    assert base64.b64decode(sent[2].removeprefix("Basic ")).decode() == "other:other", "an address alone does as ever"


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (None, "cannot be read"),
        (b"", "holds no secret"),
        (b"\n \n", "holds no secret"),
        (b"\xff", "holds no secret"),
        (b"two\nlines", "cannot be sent"),
        (b"a\x00b", "cannot be sent"),
        (b"x" * 70000, "holds no secret"),
    ],
)
def test_a_file_without_a_secret_is_named_and_nothing_is_asked(tmp_path, held, says):
    file = tmp_path / "t"
    if held is not None:
        file.write_bytes(held)
    with (
        Answers({}) as server,
        client(server.url, Access(bearer_token_file=str(file))) as one,
        pytest.raises(SettingsError, match=says) as caught,
    ):
        one.get("/x")
    assert caught.value.place == str(file)
    assert "lines" not in str(caught.value)
    assert server.asked == []


def echo(asked: Asked) -> Answer:
    return Answer(f"no entry for {asked.headers.get('authorization')}".encode(), 403)


def test_what_a_server_repeats_of_the_secret_is_masked(token, tmp_path):
    access = Access(bearer_token_file=str(token))
    word = tmp_path / "word"
    word.write_text(SECRET)
    basic = Access(username="me", password_file=str(word))

    def loud(asked: Asked) -> Answer:
        return refusal(400, f"bad user {asked.headers['authorization']}")

    with Answers({QUERY: echo, "/triage": echo, "/p/api/v1/query": loud}) as server:
        for ask in (
            lambda: list(Endpoint(server.url, access=access).samples(["a"], ASKED)),
            lambda: list(Endpoint(f"{server.url}/p", access=access).samples(["a"], ASKED)),
            lambda: list(Endpoint(f"{server.url}/p", access=basic).samples(["a"], ASKED)),
            lambda: fetch_json(Source(name="s", url=server.url, access=access), "/triage"),
        ):
            with pytest.raises(LlmvitalsError) as caught:
                ask()
            assert SECRET not in str(caught.value)
            assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in str(caught.value)
            assert "***" in str(caught.value)
    with client(server.url, access) as one:
        assert SECRET not in repr(one) + repr(access) + repr(vars(one))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_elsewhere_is_not_followed_and_one_within_the_server_keeps_the_question(token, status):
    access = Access(bearer_token_file=str(token), tenant="t")
    with Answers({QUERY: matrix(UP)}) as other:
        there = {
            "/a/api/v1/query": Answer(b"", status, {"location": f"{other.url}{QUERY}"}),
            "/b/api/v1/query": Answer(b"", status, {"location": QUERY}),
            "/c/api/v1/query": Answer(b"", status, {"location": "/c/api/v1/query"}),
            QUERY: matrix(UP),
        }
        with Answers(there) as server:
            with pytest.raises(UnreachableError, match=f"redirects to {other.url}, and nothing"):
                list(Endpoint(f"{server.url}/a", access=access).samples(["a"], ASKED))
            assert len(list(Endpoint(f"{server.url}/b", access=access).samples(["a"], ASKED))) == 1
            with pytest.raises(UnreachableError, match="in a circle"):
                list(Endpoint(f"{server.url}/c", access=access).samples(["a"], ASKED))
    assert other.asked == []
    assert "query=" in server.asked[2].body, "the question went along"


@pytest.mark.parametrize(
    ("answer", "access", "says"),
    [
        (
            Answer(b"Unauthorized", 401),
            "token",
            r"does not accept who asks \(401\): Unauthorized. Check that .*token holds",
        ),
        (Answer(b"no org id", 401), "token", r"wants to know the tenant .*access\.tenant"),
        (Answer(b"no org id\n", 401), "", r"wants to know the tenant .*access\.tenant"),
        (Answer(b"", 401), "tenant", "Name a bearer_token_file"),
        (Answer(b"", 401), "", "asks for credentials"),
        (Answer(b"", 403), "tenant", "check the tenant 't'"),
        (Answer(b"404 page not found\n", 404), "tenant", "Mimir's ends in /prometheus"),
        (Answer(b'unsupported path requested: "/api/v1/query"', 400), "", "in /select/0/prometheus"),
        (Answer(b"Client sent an HTTP request to an HTTPS server.\n", 400), "", "Write https://"),
        (Answer(b"", 407), "", "HTTPS_PROXY"),
    ],
)
def test_an_answer_that_does_not_let_us_in_says_what_to_do(answer, access, says, token):
    given = {"token": Access(bearer_token_file=str(token)), "tenant": Access(tenant="t"), "": Access()}[access]
    with (
        Answers({QUERY: answer}) as server,
        Endpoint(server.url, access=given) as endpoint,
        pytest.raises(UnreachableError, match=says),
    ):
        list(endpoint.samples(["a"], ASKED))


def test_errors_of_mimir_and_victoriametrics_are_understood():
    """Their documented forms: Mimir's runbooks (err-mimir-...), VictoriaMetrics' README ("-search.maxSamplesPerQuery")."""
    large = (
        "the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)",
        "cannot process more than 1000000000 samples; see -search.maxSamplesPerQuery. This exceeds -search.maxSamplesPerQuery",
    )
    for message in large:

        def limited(asked: Asked, message: str = message) -> Answer:
            return refusal(422, message) if "%7C" in asked.body else matrix(UP)

        with Answers({QUERY: limited}) as server, Endpoint(server.url) as endpoint:
            assert len(list(endpoint.samples(["a", "b"], Question("", 1.0, 10.0)))) == 2


def test_what_is_not_whole_is_told_once():
    """Thanos answers with ``warnings`` where a store is away and partial responses are on; VictoriaMetrics with ``isPartial``."""
    body = matrix(UP).body[:-1]
    thanos = Answer(body + b', "warnings": ["No StoreAPIs matched for this query"]}')
    victoria = Answer(body + b', "isPartial": true}')
    whole = Answer(body + b', "isPartial": false, "warnings": []}')
    for answer, told in ((thanos, "No StoreAPIs matched"), (victoria, "storage nodes"), (whole, None)):
        with Answers({QUERY: answer}) as server, Endpoint(server.url) as endpoint:
            for _ in range(2):
                list(endpoint.samples(["a"], ASKED))
            assert len(endpoint.told) == (told is not None)
            assert told is None or told in endpoint.told[0]


def test_a_dripping_server_is_left_after_the_time_limit():
    with (
        Hostile() as server,
        client(server.url("/drip"), timeout_s=0.5) as one,
        pytest.raises(SlowError, match=r"in 0\.5 s"),
    ):
        one.get("")


@pytest.mark.parametrize("proxy", [False, True], ids=["itself", "as a proxy"])
def test_a_server_that_drips_its_headers_is_left_too(proxy, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                for byte in itertools.cycle(b"HTTP/1.1 200 OK\r\nX: y"):
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        if proxy:
            monkeypatch.setenv("HTTPS_PROXY", url)
            url = "https://prometheus.invalid"
        began = time.monotonic()
        with client(url, timeout_s=0.5) as one, pytest.raises(SlowError):
            one.get("/x")
        assert time.monotonic() - began < 3.0


def test_an_answer_that_is_too_large_or_packed_is_not_kept():
    bomb = Answer(gzip.compress(b" " * (8 << 20)), 200, {"content-encoding": "gzip"})
    odd = Answer(b"x", 200, {"content-encoding": "br, gzip"})
    with Answers({"/big": Answer(b"x" * 2_000_000), "/bomb": bomb, "/odd": odd}) as server, client(server.url) as one:
        for path in ("/big", "/bomb"):
            with pytest.raises(TooLargeError, match="more than 1 MiB"):
                one.get(path)
        with pytest.raises(LlmvitalsError, match="not asked for"):
            one.get("/odd")


def test_who_listens_without_tls_where_tls_is_asked_for_is_told(tmp_path):
    with (
        Answers({}) as server,
        client(server.url.replace("http:", "https:")) as one,
        pytest.raises(UnreachableError, match="does not speak TLS there"),
    ):
        one.get("/x")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with client(f"http://127.0.0.1:{port}") as one, pytest.raises(UnreachableError, match="Connection refused"):
        one.get("/x")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://prometheus:9090", True),
        ("https://prometheus", False),
        ("http://127.0.0.1:1", False),
        ("http://[::1]:1", False),
        ("http://localhost:1", False),
        ("prometheus:9090", True),
    ],
)
def test_a_secret_that_goes_in_the_clear_is_said(url, told):
    assert bool(exposed(url, Access(bearer_token_file="t"))) is told
    assert exposed(url, Access(tenant="t", ca_file="x")) == ""


def test_only_what_asks_is_ever_sent():
    """Read-only by design: the transport has no other methods, and posts nothing but queries."""
    with (
        Answers(
            {QUERY: matrix(UP), "/api/v1/query_range": matrix(UP), "/api/v1/label/__name__/values": ok(["a"])}
        ) as s,
        Endpoint(s.url) as endpoint,
    ):
        list(endpoint.samples(["a"], ASKED))
        endpoint.names(0.0, 1.0)
        endpoint.now("a", 1.0)
        endpoint.over("a", 0.0, 1.0, 1.0)
    assert {(one.method, one.path) for one in s.asked} == {
        ("POST", QUERY),
        ("POST", "/api/v1/query_range"),
        ("GET", "/api/v1/label/__name__/values"),
    }
    public = {name for name in vars(Client) if not name.startswith("_")}
    assert public == {"place", "masked", "get", "query", "again"}


def test_headers_say_nothing_without_access():
    assert headers(Access()) == {}
    assert re.fullmatch(r"Access\(.*\)", repr(Access(bearer_token_file="t")))


def test_the_app_shows_what_is_not_whole_as_a_note():
    at = 1_700_000_000.0
    up = {"instance": "a", "model": "m", "engine": "vllm", "rank": "0"}
    points = [(at - 5.0 * i, "1") for i in range(12, -1, -1)]

    def thanos(asked: Asked) -> Answer:
        rows = [({"__name__": "llm_requests_running", **up}, points)] if "llm_requests_running%7C" in asked.body else []
        return Answer(matrix(*rows).body[:-1] + b', "warnings": ["No StoreAPIs matched"]}')

    with Answers({QUERY: thanos, "/api/v1/label/__name__/values": ok([])}) as server:
        source = Source(name="p", url=server.url, kind="prometheus")
        found = ask(source, {"instance": "", "model": ""}, at, settings.Settings())
        fleet = ask_fleet(source, at, settings.Settings())
    notes = [(*one.notes,) for one in (found, fleet) if not isinstance(one, Failure)]
    assert len(notes) == 2, (found, fleet)
    assert all([note for note in some if "whole: No StoreAPIs matched" in note] for some in notes)


@pytest.mark.parametrize(
    "asked",
    [
        lambda one: one.now("up", 1.0),
        lambda one: one.values("up", 1.0),
        lambda one: one.over("up", 1.0, 2.0, 1.0),
        lambda one: one.names(1.0, 2.0),
    ],
)
def test_a_query_whose_answer_is_too_large_is_refused_in_one_line(monkeypatch, asked):
    monkeypatch.setattr("llmvitals.sources.promql_api.MOST_ANSWER_BYTES", 1000)
    big = Answer(b" " * 2000)
    paths = {QUERY: big, "/api/v1/query_range": big, "/api/v1/label/__name__/values": big}
    with Answers(paths) as server, Endpoint(server.url) as one, pytest.raises(LlmvitalsError, match="refuses"):
        asked(one)
