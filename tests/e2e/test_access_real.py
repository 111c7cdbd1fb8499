"""Sources behind real locks: a Prometheus with TLS, client certificates and users, one behind a gateway that wants a token and
a tenant, and our own exporter behind its web configuration.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress

import bcrypt
import pytest
import yaml

from llmvitals.app.ask import Failure, ask
from llmvitals.errors import UnreachableError
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.series import series
from llmvitals.settings import Access, Settings, Source, Target
from llmvitals.settings import Exporter as Limits
from llmvitals.sources.promql import read_prometheus
from llmvitals.telemetry.ingest import RawPage
from support import tls
from support.answers import Answer, Answers, Asked
from support.command import llmvitals, one_clear_line
from support.hostile import vllm_page
from support.prometheus import PrometheusServer, load_blocks, openmetrics
from support.waiting import wait_for

T0 = 1_700_000_000
SECRET = "right horse"
NAMES = {"instance": "vllm-0", "model": "m", "engine": "vllm", "rank": "0"}
POINTS = {
    series("llm_target_up", **NAMES): [((T0 + 5 * i) * 1000, 1.0) for i in range(13)],
    series("llm_requests_running", **NAMES): [((T0 + 5 * i) * 1000, 2.0) for i in range(13)],
}
AT = float(T0 + 60)


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A Prometheus that asks for a certificate and a password; the folder with all files, and its address."""
    folder = tmp_path_factory.mktemp("locked")
    load_blocks(openmetrics(POINTS), folder / "data")
    ca, strange = tls.authority(folder, "ca"), tls.authority(folder, "strange")
    server, mine, theirs = (tls.signed(folder, *of) for of in (("server", ca), ("me", ca), ("stranger", strange)))
    assert mine.key.is_file()
    assert theirs.key.is_file()
    (folder / "word").write_text(f"{SECRET}\n")
    (folder / "wrong").write_text("battery staple\n")
    keys = {"cert_file": str(server.cert), "key_file": str(server.key), "client_ca_file": str(ca.cert)}
    web = {"tls_server_config": {**keys, "client_auth_type": "RequireAndVerifyClientCert"}}
    (folder / "web.yml").write_text(yaml.safe_dump(web | {"basic_auth_users": {"me": hashed(SECRET)}}))
    made = PrometheusServer(folder, flags=(f"--web.config.file={folder / 'web.yml'}",))
    with (folder / "log").open("wb") as sink:
        process = subprocess.Popen(made.command(), stdout=sink, stderr=subprocess.STDOUT)
    context = ssl.create_default_context(cafile=str(ca.cert))
    context.load_cert_chain(mine.cert, mine.key)

    def listens() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", made.port), 1) as raw:
            context.wrap_socket(raw, server_hostname="127.0.0.1").close()
            return True
        return False

    try:
        wait_for(listens, "the start of Prometheus")
        yield folder, f"https://127.0.0.1:{made.port}"
    finally:
        process.terminate()
        process.wait(20)


def access(folder, **changed: str) -> Access:
    files = {"ca_file": "ca.crt", "cert_file": "me.crt", "key_file": "me.key", "password_file": "word"} | changed
    paths = {name: str(folder / file) for name, file in files.items() if file}
    return Access(**paths, username="me" if "password_file" in paths else "")


@pytest.mark.prometheus
@pytest.mark.tls
def test_a_locked_prometheus_opens_with_its_files(locked):
    folder, url = locked
    (seen,) = read_prometheus(url, at=AT, seconds=60.0, access=access(folder))
    assert (seen.name, len(seen.snapshots)) == ("vllm-0", 13)


@pytest.mark.prometheus
@pytest.mark.tls
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ca_file": ""}, "certificate that cannot be verified.*access.ca_file"),
        ({"ca_file": "strange.crt"}, r"cannot be verified.*strange.crt holds the authority"),
        ({"cert_file": "", "key_file": ""}, "want a certificate.*access.cert_file"),
        ({"cert_file": "stranger.crt", "key_file": "stranger.key"}, "want a certificate"),
        ({"key_file": "stranger.key"}, "cannot be asked with the certificate files of access"),
        ({"ca_file": "word"}, "cannot be asked with the certificate files of access"),
        ({"password_file": "wrong"}, "does not accept who asks .401.*wrong holds its password"),
        ({"password_file": ""}, "does not accept who asks .401.*username and password_file"),
    ],
)
def test_each_wrong_key_says_which_file_to_look_at(locked, changed, says):
    folder, url = locked
    with pytest.raises(UnreachableError, match=says) as caught:
        read_prometheus(url, at=AT, seconds=60.0, access=access(folder, **changed))
    assert caught.value.place == url
    assert SECRET not in str(caught.value)


@pytest.mark.prometheus
@pytest.mark.tls
def test_plain_http_to_it_is_told(locked):
    with pytest.raises(UnreachableError, match=r"speaks TLS there|https where it speaks TLS"):
        read_prometheus(locked[1].replace("https", "http"), at=AT, seconds=60.0)


@pytest.mark.prometheus
@pytest.mark.tls
def test_commands_and_app_take_the_source_by_its_name(locked, tmp_path, monkeypatch):
    folder, url = locked
    monkeypatch.setenv(
        "REQUESTS_CA_BUNDLE", str(folder / "strange.crt")
    )  # of the settings and the variable, the settings
    files = {
        "ca_file": "ca.crt",
        "cert_file": "me.crt",
        "key_file": "me.key",
        "username": "me",
        "password_file": "word",
    }
    source = {"name": "fleet", "kind": "prometheus", "url": url, "access": files}
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump({"sources": [source, {"name": "own", "url": "http://127.0.0.1:9"}]}))
    ran = llmvitals("triage", "--prometheus", "fleet", "--at", AT, "--json", "--settings", file)
    assert ran.json["scope"]["instance"] == "vllm-0", ran
    assert ran.code == 1, "two families are no trustworthy page"
    line = one_clear_line(llmvitals("triage", "--prometheus", "flet", "--settings", file))
    assert "Did you mean 'fleet'?" in line
    line = one_clear_line(llmvitals("backtest", "--prometheus", "own", "--settings", file))
    assert "source 'own': is of the kind 'exporter', not 'prometheus'" in line
    given = Source(name="fleet", kind="prometheus", url=url, access=access(folder))
    answer = ask(given, {"instance": "vllm-0", "model": "m"}, AT, Settings())
    assert not isinstance(answer, Failure), answer
    assert answer.verdict.scope["instance"] == "vllm-0"


@contextmanager
def gateway(behind: str, tmp_path):
    """In front of a Prometheus, as an authenticating gateway of Mimir is: it wants a token and a tenant, under /prometheus."""

    def passed(asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {SECRET}":
            return Answer(b"Jwt verification fails", 401)
        if not asked.headers.get("x-scope-orgid"):
            return Answer(b"no org id", 401)
        if asked.headers["x-scope-orgid"] != "gpu":
            return Answer(b"", 403)
        url = f"{behind}{asked.path.removeprefix('/prometheus')}"
        post = urllib.request.Request(url, asked.body.encode() if asked.body else None, method=asked.method)
        with urllib.request.urlopen(post, timeout=10) as answer:
            return Answer(answer.read())

    with Answers({"/prometheus/api/v1/query": passed}) as server:
        yield server


@pytest.mark.prometheus
def test_a_gateway_wants_token_and_tenant_and_a_renewed_token_is_taken(tmp_path):
    load_blocks(openmetrics(POINTS), tmp_path / "p/data")
    token = tmp_path / "token"
    token.write_text("expired")
    with PrometheusServer(tmp_path / "p") as prometheus, gateway(prometheus.url, tmp_path) as front:
        url = f"{front.url}/prometheus"

        def read(**more: str):
            return read_prometheus(url, at=AT, seconds=60.0, access=Access(bearer_token_file=str(token), **more))

        with pytest.raises(UnreachableError, match="Jwt verification fails"):
            read(tenant="gpu")
        token.write_text(SECRET)
        with pytest.raises(UnreachableError, match="wants to know the tenant"):
            read()
        with pytest.raises(UnreachableError, match="check the tenant 'cpu'"):
            read(tenant="cpu")
        with pytest.raises(UnreachableError, match="Mimir's ends in /prometheus"):
            read_prometheus(front.url, at=AT, access=Access(bearer_token_file=str(token), tenant="gpu"))
        (seen,) = read(tenant="gpu")
    assert len(seen.snapshots) == 13


@pytest.mark.tls
def test_our_exporter_behind_its_web_configuration_is_a_source(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    pair = tls.signed(tmp_path, "server", ca)
    (tmp_path / "word").write_text(SECRET)
    web = {"tls_server_config": {"cert_file": str(pair.cert), "key_file": str(pair.key)}}
    (tmp_path / "web.yml").write_text(yaml.safe_dump(web | {"basic_auth_users": {"me": hashed(SECRET)}}))
    limits = Limits(
        listen="127.0.0.1:0", interval_seconds=0.2, timeout_seconds=2.0, web_config=str(tmp_path / "web.yml")
    )
    settings = Settings(targets=(Target(url="http://engine:8000", name="a"),), exporter=limits)

    def page(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(time.time(), 0.01, 200, vllm_page())

    with Exporter(settings, fetch=page) as running:
        url = running.url.replace("http://", "https://")
        files = {"ca_file": "ca.crt", "username": "me", "password_file": "word"}
        (tmp_path / "s.yaml").write_text(
            yaml.safe_dump({"sources": [{"name": "production", "url": url, "access": files}]})
        )
        lets_in = Access(ca_file=str(ca.cert), username="me", password_file=str(tmp_path / "word"))
        source = Source(name="production", url=url, access=lets_in)
        nobody = {"instance": "", "model": ""}
        wait_for(lambda: not isinstance(ask(source, nobody, None, settings), Failure), "the first verdict")
        shut = ask(Source(name="production", url=url, access=Access(ca_file=str(ca.cert))), nobody, None, settings)
        assert isinstance(shut, Failure)
        assert "401" in shut.thing
        ran = llmvitals("triage", "production", "--json", "--settings", tmp_path / "s.yaml")
        assert ran.json["scope"]["instance"] == "a", ran
