"""A TLS port under attack, and certificates that are renewed beside it: handshakes that never end, garbage, strangers, expiry."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
import requests
import yaml

from llmvitals.errors import SettingsError
from llmvitals.exporters import guard, renewal, web_config
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.exporters.spans.grpc_tls import check_tls
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.telemetry.ingest import RawPage
from support import tls
from support.attackers import Scraper, Serving, closed, connected, sent, settings
from support.hostile import Hostile, vllm_page
from support.prometheus import binary
from support.reliability import Part
from support.waiting import wait_for

pytestmark = pytest.mark.tls

HELLO = bytes.fromhex("1603010200010001fc0303") + os.urandom(40)  # the beginning of a first message that goes on
SOURCES = ("127.0.0.2", "127.0.0.3")


def web(folder: Path, **tls_server_config: object) -> Path:
    path = folder / "web.yml"
    section = {"cert_file": "server.crt", "key_file": "server.key", **tls_server_config}
    path.write_text(yaml.safe_dump({"tls_server_config": section}))
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    ca = tls.authority(folder, "ca")
    tls.signed(folder, "server", ca)
    return folder, ca


@pytest.fixture(scope="module")
def serving(pair):
    folder, ca = pair
    with Hostile() as hostile:
        words = settings(folder, [hostile.url("/ok")], web_config=str(web(folder)))
        with Serving(folder, *words, ca=ca.cert) as one:
            yield one


ATTACKS = {
    "handshakes that never begin": b"",
    "handshakes that never end": HELLO,
    "garbage on the TLS port": b"\x17\x03\x03\x40\x00" + bytes(range(256)) * 64,
    "plain HTTP on the TLS port": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("behaviour", ATTACKS)
def test_a_scraper_is_answered_and_nothing_stays_behind(serving, reliability, behaviour):
    files, threads, _ = serving.held()
    with Scraper(serving) as scraper:
        made = connected(serving.address, 1500, sources=SOURCES)
        sent(made, ATTACKS[behaviour])
        scraper.more(10)
        assert serving.held()[0] <= files + guard.CONNECTIONS + 40
        closed(made)
    assert scraper.bad == []
    wait_for(lambda: serving.held()[0] <= files + 4, "the files come back", seconds=30)
    assert serving.held()[1] <= threads + 2
    assert "Traceback" not in serving.log()
    reliability(
        Part.SCRAPER,
        f"1,500 times {behaviour}",
        "a scraper is answered all the while; files come back",
        "every scrape answered, no file kept",
    )


def test_a_client_cannot_have_keys_made_anew(serving, pair):
    _, ca = pair
    host, port = serving.address
    words = ("s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", ca.cert, "-legacy_renegotiation")
    ran = subprocess.run(
        [binary("openssl"), *map(str, words)], input=b"R\n", capture_output=True, timeout=60, check=False
    )
    assert b"RENEGOTIATING" in ran.stdout + ran.stderr
    assert b"no renegotiation" in (ran.stdout + ran.stderr).lower()
    assert serving.ask("/healthz") == 200


# -- inside a program -------------------------------------------------------------------------------------------------
def inside(*_: object, **__: object) -> RawPage:
    return RawPage(time.time(), 0.01, 200, vllm_page())


def exporter(path: Path) -> Exporter:
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.3, timeout_seconds=2.0, web_config=str(path))
    return Exporter(Settings(targets=(Target(url="http://engine:8000", name="a"),), exporter=limits), fetch=inside)


def test_a_handshake_has_a_time_limit(pair, monkeypatch):
    monkeypatch.setattr(guard, "HANDSHAKE_SECONDS", 0.3)
    folder, _ = pair
    with exporter(web(folder)) as running:
        host, _, port = running.url.removeprefix("https://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as one:
            one.sendall(HELLO)
            assert one.recv(100) == b""


@pytest.mark.parametrize(
    "names", ["DNS:prometheus.example", "IP:10.0.0.7", "email:ops@example.org", "URI:spiffe://x/p"]
)
def test_only_named_clients_of_the_authority_come_in(tmp_path, names):
    ca = tls.authority(tmp_path, "ca")
    tls.signed(tmp_path, "server", ca)
    known = tls.signed(tmp_path, "known", ca, names=names)
    other = tls.signed(tmp_path, "other", ca, names="DNS:other.example,DNS:prometheus.example.org")
    allowed = ["nobody.example", names.partition(":")[2]]
    policy = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}
    with exporter(web(tmp_path, client_allowed_sans=allowed, **policy)) as running:
        for client, comes_in in ((known, True), (other, False), (None, False)):
            cert = (str(client.cert), str(client.key)) if client else None
            try:
                told = requests.get(running.url + "/healthz", verify=str(ca.cert), cert=cert, timeout=10).status_code
            except requests.ConnectionError:
                told = 0
            assert (told == 200) == comes_in, client


@pytest.mark.parametrize("kind", ["", "VerifyClientCertIfGiven"])
def test_names_are_worth_nothing_where_a_client_may_have_none(tmp_path, kind):
    ca = tls.authority(tmp_path, "ca")
    tls.signed(tmp_path, "server", ca)
    more = {"client_auth_type": kind, "client_ca_file": "ca.crt"} if kind else {}
    with pytest.raises(SettingsError, match="not every client must show a name"):
        exporter(web(tmp_path, client_allowed_sans=["a"], **more))


# -- renewal ----------------------------------------------------------------------------------------------------------
def serial(serving: Serving, ca: tls.Pair) -> str:
    context = ssl.create_default_context(cafile=str(ca.cert))
    with (
        socket.create_connection(serving.address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as one,
    ):
        shown = one.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_a_renewed_secret_counts_without_a_signal_and_no_scrape_fails(tmp_path, reliability):
    ca = tls.authority(tmp_path, "ca")
    secret = tmp_path / "secret"
    secret.mkdir()

    def renew(version: str) -> None:
        made = tmp_path / version
        made.mkdir()
        tls.signed(made, "server", ca)
        target = secret / f"..{version}"
        target.mkdir()
        for name in ("server.crt", "server.key"):
            (made / name).replace(target / name)
        new = secret / "..new"
        new.symlink_to(target.name)
        new.replace(secret / "..data")

    renew("1")
    for name in ("server.crt", "server.key"):
        (secret / name).symlink_to(f"..data/{name}")
    with Hostile() as hostile:
        words = settings(tmp_path, [hostile.url("/ok")], web_config=str(web(secret)))
        with Serving(tmp_path, *words, ca=ca.cert) as serving, Scraper(serving) as scraper:
            first = serial(serving, ca)
            for version in ("2", "3"):
                renew(version)
                wait_for(lambda before=first: serial(serving, ca) != before, "the new certificate", seconds=20)
                first = serial(serving, ca)
            good = first
            (secret / "..data" / "server.key").write_text("nothing")
            wait_for(lambda: serving.lines("web-config-refused"), "the refusal", seconds=20)
            assert serial(serving, ca) == good
            assert serving.own("llmvitals_config_last_reload_successful") == 0
            renew("4")
            wait_for(lambda: serial(serving, ca) != good, "the next good one", seconds=20)
            assert serving.own("llmvitals_config_last_reload_successful") == 1
            scraper.more(6)
        assert scraper.bad == []
        assert len(serving.lines("web-config-refused")) == 1
        assert "nothing" not in "".join(serving.lines("web-config-refused"))
    reliability(
        Part.SCRAPER,
        "the certificate is renewed as Kubernetes does it, once with a broken key",
        "the new one counts without a signal, a broken one keeps the old and is told; no scrape fails",
        "no scrape failed, one line in the log, reload_successful 0 until the next good one",
    )


def test_a_certificate_that_ran_out_is_replaced_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(renewal, "LOOK_SECONDS", 0.05)
    ca = tls.authority(tmp_path, "ca")
    tls.outlived(tls.signed(tmp_path, "server", ca), ca)
    with exporter(web(tmp_path)) as running:

        def asked() -> str:
            try:
                requests.get(running.url + "/healthz", verify=str(ca.cert), timeout=10)
            except requests.exceptions.SSLError as error:
                return "expired" if "expired" in str(error) else str(error)
            return "in"

        wait_for(lambda: asked() == "expired", "its end", seconds=10)
        tls.signed(tmp_path, "server", ca)
        wait_for(lambda: asked() == "in", "the new one", seconds=10)


def test_users_that_change_count_without_a_signal(tmp_path, monkeypatch):
    monkeypatch.setattr(renewal, "LOOK_SECONDS", 0.05)
    path = tmp_path / "web.yml"
    path.write_text("")
    with exporter(path) as running:

        def status() -> int:
            return requests.get(running.url + "/healthz", auth=("a", "b"), timeout=10).status_code

        assert status() == 200
        path.write_text(yaml.safe_dump({"basic_auth_users": {"a": "$2y$04$" + "a" * 53}}))
        wait_for(lambda: status() == 401, "the door", seconds=10)
        path.write_text("basic_auth_users: {a: plain}")
        wait_for(lambda: status() and not running._web.ok, "the refusal", seconds=10)
        assert status() == 401
        path.unlink()
        time.sleep(0.1)
        assert status() == 401
        path.write_text("{}")
        wait_for(lambda: status() == 200, "the open door", seconds=10)
        assert running._web.ok


def test_a_receiver_that_cannot_look_at_names_does_not_begin(tmp_path):
    ca = tls.authority(tmp_path, "ca")
    tls.signed(tmp_path, "server", ca)
    policy = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}
    loaded = web_config.load(web(tmp_path, client_allowed_sans=["a.example"], **policy))
    with pytest.raises(SettingsError, match="client_allowed_sans cannot be kept over gRPC"):
        check_tls(loaded)
