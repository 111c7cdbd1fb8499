"""The exporter behind a web configuration, over real sockets: TLS, client certificates, users, and their reload."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import bcrypt
import pytest
import requests
import yaml

from llmvitals.errors import SettingsError
from llmvitals.exporters.lifecycle import DRAIN_SECONDS, Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.telemetry.ingest import RawPage
from support import tls
from support.command import argv, llmvitals, one_clear_line
from support.hostile import Hostile, vllm_page
from support.prometheus import PrometheusServer, wait_for

PATHS = ("/", "/metrics", "/triage", "/history", "/replicas", "/healthz", "/readyz", "/elsewhere")


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def write(folder: Path, config: dict) -> Path:
    path = folder / "web.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def settings(web: Path) -> Settings:
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.2, timeout_seconds=2.0, web_config=str(web))
    return Settings(targets=(Target(url="http://engine:8000", name="a"),), exporter=limits)


def inside(url: str, *, timeout_s: float, **_: object) -> RawPage:
    return RawPage(time.time(), 0.01, 200, vllm_page())


def exporter(web: Path) -> Exporter:
    return Exporter(settings(web), fetch=inside)


def status(running: Exporter, path: str = "/metrics", auth: tuple[str, str] | None = None) -> int:
    return requests.get(running.url + path, auth=auth, timeout=10).status_code


def test_without_the_right_password_no_path_says_anything(tmp_path):
    with exporter(write(tmp_path, {"basic_auth_users": {"alice": hashed("right")}})) as running:
        wait_for(lambda: running.newest, "the first cycle")
        for path in PATHS:
            for auth in (None, ("alice", "wrong"), ("bob", "right"), ("", "")):
                answer = requests.get(running.url + path, auth=auth, timeout=10)
                assert (answer.status_code, answer.text) == (401, "Unauthorized\n")
                assert answer.headers["www-authenticate"].startswith("Basic ")
        right = {path: status(running, path, ("alice", "right")) for path in PATHS}
        assert right == dict.fromkeys(PATHS, 200) | {"/elsewhere": 404}
        page = requests.get(running.url + "/metrics", auth=("alice", "right"), timeout=10).text
        assert 'llmvitals_http_requests_total{code="401",path="/metrics"} 4.0' in page


def test_a_scrape_each_second_does_not_hash_each_time(tmp_path, monkeypatch):
    asked: list[bytes] = []
    real = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda password, known: asked.append(password) or real(password, known))
    with exporter(write(tmp_path, {"basic_auth_users": {"alice": hashed("right")}})) as running:
        assert [status(running, "/healthz", ("alice", "right")) for _ in range(10)] == [200] * 10
    assert asked == [b"right"]


def test_headers_are_on_every_answer(tmp_path):
    headers = {"X-Frame-Options": "deny", "Content-Security-Policy": "default-src 'self'"}
    config = {"http_server_config": {"headers": headers}, "basic_auth_users": {"alice": hashed("right")}}
    with exporter(write(tmp_path, config)) as running:
        for auth in (None, ("alice", "right")):
            answer = requests.get(running.url + "/", auth=auth, timeout=10)
            assert {name: answer.headers[name] for name in headers} == headers


@pytest.mark.parametrize("change", ["users", "path"])
def test_a_reload_brings_other_users_and_a_bad_file_keeps_the_old_ones(tmp_path, change):
    web = write(tmp_path, {"basic_auth_users": {"alice": hashed("right")}})
    with exporter(web) as running:
        assert status(running, auth=("alice", "right")) == 200
        before = web.read_text()
        web.write_text("basic_auth_users: {alice: plain}")
        with pytest.raises(SettingsError, match="not a bcrypt hash"):
            running.reload(settings(web))
        assert status(running, auth=("alice", "right")) == 200
        if change == "path":
            web.write_text(before)
            (tmp_path / "other").mkdir()
            web = write(tmp_path / "other", {"basic_auth_users": {"bob": hashed("new")}})
        else:
            write(tmp_path, {"basic_auth_users": {"bob": hashed("new")}})
        running.reload(settings(web))
        assert status(running, auth=("alice", "right")) == 401
        assert status(running, auth=("bob", "new")) == 200


# -- TLS ------------------------------------------------------------------------------------------------------------
def served(folder: Path, pair: tls.Pair, **more: str) -> Path:
    return write(folder, {"tls_server_config": {"cert_file": pair.cert.name, "key_file": pair.key.name, **more}})


def handshake(running: Exporter, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection with its handshake done and one answer read: TLS 1.3 tells a refused client only then."""
    host, port = urlsplit(running.url).hostname, urlsplit(running.url).port
    connection = context.wrap_socket(socket.create_connection((host, port), timeout=10), server_hostname=host)
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


@pytest.mark.tls
def test_tls_with_a_private_authority(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    with exporter(served(tmp_path, tls.signed(tmp_path, "server", ca))) as running:
        assert running.url.startswith("https://")
        assert requests.get(running.url + "/healthz", verify=ca.cert, timeout=10).status_code == 200
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(running.url + "/healthz", timeout=10)
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.get(running.url.replace("https", "http") + "/healthz", timeout=10)
        with handshake(running, ssl.create_default_context(cafile=str(ca.cert))) as connection:
            assert connection.version() == "TLSv1.3"


@pytest.mark.tls
@pytest.mark.parametrize(
    ("policy", "spoken"),
    [
        ({"max_version": "TLS12", "cipher_suites": ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]}, "TLSv1.2"),
        ({"min_version": "TLS13"}, None),
    ],
)
def test_versions_and_ciphers_hold(tmp_path, policy, spoken):
    ca = tls.authority(tmp_path, "ca")
    old = ssl.create_default_context(cafile=str(ca.cert))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with exporter(served(tmp_path, tls.signed(tmp_path, "server", ca), **policy)) as running:
        if spoken is None:
            with pytest.raises(ssl.SSLError):
                handshake(running, old)
            return
        with handshake(running, old) as connection:
            assert (connection.version(), connection.cipher()[0]) == (spoken, "ECDHE-ECDSA-AES256-GCM-SHA384")


@pytest.mark.tls
def test_a_client_without_a_certificate_of_the_authority_is_turned_away(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    client, stranger = tls.signed(tmp_path, "client", ca), tls.authority(tmp_path, "stranger")
    web = served(
        tmp_path,
        tls.signed(tmp_path, "server", ca),
        client_auth_type="RequireAndVerifyClientCert",
        client_ca_file="ca.crt",
    )
    with exporter(web) as running:
        for cert in (None, (stranger.cert, stranger.key)):
            with pytest.raises(requests.exceptions.ConnectionError):
                requests.get(running.url + "/metrics", verify=ca.cert, cert=cert, timeout=10)
        shown = requests.get(running.url + "/metrics", verify=ca.cert, cert=(client.cert, client.key), timeout=10)
        assert shown.status_code == 200


@pytest.mark.tls
def test_a_certificate_is_optional_but_verified_where_the_policy_says_so(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    stranger = tls.authority(tmp_path, "stranger")
    web = served(
        tmp_path,
        tls.signed(tmp_path, "server", ca),
        client_auth_type="VerifyClientCertIfGiven",
        client_ca_file="ca.crt",
    )
    with exporter(web) as running:
        assert requests.get(running.url + "/healthz", verify=ca.cert, timeout=10).status_code == 200
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.get(running.url + "/", verify=ca.cert, cert=(stranger.cert, stranger.key), timeout=10)


@pytest.mark.tls
def test_a_reload_renews_certificate_and_client_authority_for_new_connections(tmp_path):
    old, new = tls.authority(tmp_path, "old"), tls.authority(tmp_path, "new")
    policy = {"client_auth_type": "RequireAndVerifyClientCert"}
    web = served(tmp_path, tls.signed(tmp_path, "first", old), client_ca_file="old.crt", **policy)

    def seen(running: Exporter, ca: tls.Pair, client: tls.Pair) -> int | None:
        try:
            return requests.get(
                running.url + "/healthz", verify=ca.cert, cert=(client.cert, client.key), timeout=10
            ).status_code
        except requests.exceptions.ConnectionError:
            return None

    of_old, of_new = tls.signed(tmp_path, "a", old), tls.signed(tmp_path, "b", new)
    with exporter(web) as running:
        assert (seen(running, old, of_old), seen(running, old, of_new), seen(running, new, of_old)) == (200, None, None)
        (tmp_path / "first.key").write_text("nothing")
        with pytest.raises(SettingsError, match="certificate and key cannot be used"):
            running.reload(settings(web))
        assert seen(running, old, of_old) == 200
        web = served(tmp_path, tls.signed(tmp_path, "second", new), client_ca_file="new.crt", **policy)
        running.reload(settings(web))
        assert (seen(running, new, of_new), seen(running, new, of_old), seen(running, old, of_old)) == (200, None, None)
        # Other TLS settings need a restart: all of TLS stays.
        running.reload(settings(served(tmp_path, tls.signed(tmp_path, "third", old))))
        assert (seen(running, new, of_new), seen(running, old, of_old)) == (200, None)


@pytest.mark.tls
def test_an_idle_scraper_does_not_hold_up_the_end(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    with requests.Session() as session:
        with exporter(served(tmp_path, tls.signed(tmp_path, "server", ca))) as running:
            assert session.get(running.url + "/healthz", verify=ca.cert, timeout=10).status_code == 200
            began = time.monotonic()
        assert time.monotonic() - began < DRAIN_SECONDS  # what it would take to wait for the peer


@pytest.mark.tls
def test_a_dropped_tls_section_does_not_turn_into_plain_http(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    web = served(tmp_path, tls.signed(tmp_path, "server", ca))
    with exporter(web) as running:
        web.write_text("")
        running.reload(settings(web))
        assert requests.get(running.url + "/healthz", verify=ca.cert, timeout=10).status_code == 200


@pytest.mark.tls
@pytest.mark.parametrize("wrong", ["no PEM", "another's key", "a passphrase", "client CA", "CA without policy"])
def test_files_that_cannot_be_used_are_one_clear_line(tmp_path, wrong):
    ca = tls.authority(tmp_path, "ca")
    pair, more = tls.signed(tmp_path, "server", ca), {}
    if wrong == "no PEM":
        pair.cert.write_text("hello")
    elif wrong == "another's key":
        pair = tls.Pair(pair.cert, ca.key)
    elif wrong == "a passphrase":
        locked = tmp_path / "locked.key"
        command = ["openssl", "pkey", "-in", pair.key, "-aes256", "-passout", "pass:x", "-out", locked]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        pair = tls.Pair(pair.cert, locked)
    elif wrong == "client CA":
        (tmp_path / "bad.crt").write_text("hello")
        more = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "bad.crt"}
    else:
        more = {"client_ca_file": "ca.crt"}
    line = one_clear_line(
        llmvitals("serve", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--web-config", served(tmp_path, pair, **more))
    )
    assert str(tmp_path) in line
    assert "client_ca_file without" in line or "cannot be used" in line


# -- as a process ---------------------------------------------------------------------------------------------------
class Serve:
    """``llmvitals serve --web-config`` over one target."""

    def __init__(self, folder: Path, target: str, web: Path) -> None:
        self._log = folder / "log"
        words = ("serve", target, "--listen", "127.0.0.1:0", "--web-config", web)
        with self._log.open("wb") as sink:
            self.process = subprocess.Popen(argv(*words), stderr=sink)
        line = wait_for(lambda: self.line("listening"), "the listening line")
        self.url = next(w for w in line.split() if w.startswith("url=")).removeprefix("url=")

    def line(self, event: str) -> str | None:
        return next((x for x in self._log.read_text().splitlines() if f"event={event}" in x), None)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)


@pytest.mark.tls
def test_the_command_serves_reloads_by_signal_and_is_read_by_the_triage(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    pair = tls.signed(tmp_path, "server", ca)
    config = {"tls_server_config": {"cert_file": "server.crt", "key_file": "server.key"}}
    web = write(tmp_path, config | {"basic_auth_users": {"alice": hashed("right")}})
    trust = {"SSL_CERT_FILE": str(ca.cert), "REQUESTS_CA_BUNDLE": str(ca.cert)}

    def ask(running: Serve, user: str, password: str) -> int:
        return requests.get(running.url + "/readyz", auth=(user, password), verify=ca.cert, timeout=10).status_code

    with Hostile() as hostile:
        running = Serve(tmp_path, hostile.url("/ok"), web)
        try:
            wait_for(lambda: ask(running, "alice", "right") == 200, "readiness")
            assert ask(running, "alice", "wrong") == 401
            address = urlsplit(running.url).netloc
            told = subprocess.run(
                argv("triage", f"https://alice:right@{address}", "--json"),
                env=os.environ | trust,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert '"verdict": "undetermined"' in told.stdout, told
            web.write_text("basic_auth_user: {}")
            running.process.send_signal(signal.SIGHUP)
            refused = wait_for(lambda: running.line("reload-refused"), "the refusal")
            assert "Did you mean 'basic_auth_users'?" in refused
            assert ask(running, "alice", "right") == 200
            write(tmp_path, config | {"basic_auth_users": {"bob": hashed("new")}})
            running.process.send_signal(signal.SIGHUP)
            wait_for(lambda: ask(running, "bob", "new") == 200, "the new user")
            assert ask(running, "alice", "right") == 401
        finally:
            running.close()
    assert pair.cert.exists()
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.tls
@pytest.mark.prometheus
def test_prometheus_scrapes_with_tls_and_a_password_and_not_without(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    web = served(tmp_path, tls.signed(tmp_path, "server", ca))
    web.write_text(web.read_text() + yaml.safe_dump({"basic_auth_users": {"prometheus": hashed("right", cost=10)}}))
    with exporter(web) as running:
        for password, up in (("right", 1.0), ("wrong", 0.0)):
            options = {
                "scheme": "https",
                "tls_config": {"ca_file": str(ca.cert)},
                "basic_auth": {"username": "prometheus", "password": password},
            }
            scrape = {"llmvitals": urlsplit(running.url).netloc}
            with PrometheusServer(tmp_path / password, scrape=scrape, scrape_options=options) as prometheus:
                found = wait_for(lambda asked=prometheus: asked.query("up"), "a scrape")
                assert [value for _, value in found] == [up]
                if up:
                    wait_for(lambda asked=prometheus: asked.query('llm_target_up{instance="a"} == 1'), "our page")


def test_run_does_not_open_an_app_that_could_not_get_in(tmp_path):
    web = write(tmp_path, {"basic_auth_users": {"alice": hashed("right")}})
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump({"exporter": {"web_config": web.name}}))
    assert "Add --no-app" in one_clear_line(llmvitals("run", "--settings", file))
