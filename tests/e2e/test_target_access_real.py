"""Targets behind real TLS: whom we trust, whom we show, what is renewed where it lies, and each failure by its own reason.

Certificates are made by openssl; the servers require a client's as engines behind a mesh or an ingress do.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from llmvitals.exporters.cycle import Engine
from llmvitals.settings import Access, Settings, Target
from llmvitals.telemetry.ingest import Fetcher, Ingest
from llmvitals.telemetry.probe.ask import ask
from llmvitals.telemetry.probe.dialects import CHAT
from support import tls
from support.command import llmvitals
from support.hostile import vllm_page
from support.prometheus import binary

pytestmark = pytest.mark.tls


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = vllm_page()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name is the base class's

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients that it does not let in are what is tested here."""


@contextmanager
def serving(server: tls.Pair, clients: Path | None = None) -> Iterator[str]:
    """An engine's page over TLS; ``clients``: the authority whose certificates it lets in, None for everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    made = _Server(("127.0.0.1", 0), _Page)
    made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        made.server_close()


def _openssl(*words: object) -> None:
    subprocess.run([binary("openssl"), *map(str, words)], check=True, capture_output=True, timeout=60)


CONFIG = """[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[leaf]
basicConstraints = critical,CA:FALSE
subjectAltName = {host}
"""


def certificate(
    folder: Path, name: str, by: tls.Pair, *, host: str = "IP:127.0.0.1", days: str = "20200101-29990101"
) -> None:
    """A certificate for ``host``, signed by an authority, good from one day to another."""
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text(CONFIG.format(folder=folder, host=host))
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl("req", "-new", *kind, "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / "csr")
    first, _, last = days.partition("-")
    _openssl(
        *("ca", "-batch", "-notext", "-config", folder / "ca.cnf", "-extensions", "leaf", "-in", folder / "csr"),
        *("-out", folder / f"{name}.crt", "-cert", by.cert, "-keyfile", by.key),
        *("-startdate", f"{first}000000Z", "-enddate", f"{last}000000Z"),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, a strange one, and what each has signed."""
    folder = tmp_path_factory.mktemp("tls")
    ca, strange = tls.authority(folder, "ca"), tls.authority(folder, "strange")
    certificate(folder, "server", ca)
    certificate(folder, "me", ca)
    certificate(folder, "again", ca)
    certificate(folder, "stranger", strange)
    certificate(folder, "elsewhere", ca, host="DNS:elsewhere.example")
    certificate(folder, "old", ca, days="20200101-20200201")
    certificate(folder, "young", ca, days="29980101-29990201")
    (folder / "nothing.key").write_text("not a key\n")
    _openssl("ec", "-in", folder / "me.key", "-aes256", "-passout", "pass:x", "-out", folder / "shut.key")
    return folder


def pair(folder: Path, name: str) -> tls.Pair:
    return tls.Pair(folder / f"{name}.crt", folder / f"{name}.key")


def access(folder: Path, **changed: str) -> Access:
    files = {"ca_file": "ca.crt", "cert_file": "me.crt", "key_file": "me.key"} | changed
    return Access(**{name: str(folder / file) for name, file in files.items() if file})


def why(url: str, lets_in: Access) -> str:
    return Ingest(instance="i").snapshot(Fetcher().fetch(url, timeout_s=5, access=lets_in)).detail


def test_a_target_that_wants_a_certificate_opens_with_ours(made: Path) -> None:
    with serving(pair(made, "server"), made / "ca.crt") as url:
        assert why(url, access(made)) == ""
        cycle = Engine(Settings(targets=(Target(url=url, name="a", access=access(made)),))).step()
    assert b'llm_target_up{instance="a"} 1.0' in cycle.page


@pytest.mark.parametrize(
    ("changed", "says", "remedy"),
    [
        ({"ca_file": ""}, "its certificate is signed by nobody whom we trust", "authority in access.ca_file"),
        (
            {"ca_file": "strange.crt"},
            "its certificate is signed by nobody whom we trust",
            "authority in access.ca_file",
        ),
        ({"cert_file": "", "key_file": ""}, "wants a certificate of ours", "access.cert_file and access.key_file"),
        (
            {"cert_file": "stranger.crt", "key_file": "stranger.key"},
            "does not accept our certificate: it does not know who signed it",
            "Renew access.cert_file",
        ),
        ({"cert_file": "old.crt", "key_file": "old.key"}, "does not accept our certificate: it has expired", "Renew"),
        ({"key_file": "stranger.key"}, "stranger.key cannot be used (key values mismatch)", "Mend that file"),
        ({"key_file": "shut.key"}, "shut.key cannot be used (its key is encrypted)", "Mend that file"),
        ({"key_file": "nothing.key"}, "nothing.key cannot be used (", "Mend that file"),
        ({"key_file": "gone.key"}, "gone.key cannot be read (No such file or directory)", "Mend that file"),
        ({"ca_file": "nothing.key"}, "nothing.key cannot be used (", "Mend that file"),
        ({"ca_file": "gone.crt"}, "gone.crt cannot be read (No such file or directory)", "Mend that file"),
    ],
)
def test_each_wrong_file_is_told_by_its_own_reason(made: Path, changed: dict[str, str], says: str, remedy: str) -> None:
    with serving(pair(made, "server"), made / "ca.crt") as url:
        told = why(url, access(made, **changed))
    assert says in told
    assert remedy in told


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("old", "its certificate has expired. Renew the server's certificate"),
        ("young", "its certificate is not valid yet. Look at the clocks"),
        (
            "elsewhere",
            "its certificate is for another name (IP address mismatch, certificate is not valid for '127.0.0.1')",
        ),
        ("stranger", "its certificate is signed by nobody whom we trust"),
    ],
)
def test_each_wrong_server_is_told_by_its_own_reason(made: Path, server: str, says: str) -> None:
    with serving(pair(made, server)) as url:
        told = why(url, access(made))
    assert says in told


def test_tls_where_there_is_none_and_none_where_there_is(made: Path) -> None:
    with serving(pair(made, "server")) as url:
        plain = why(url.replace("https://", "http://"), access(made))
    assert "closed the connection without a whole answer" in plain
    served = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        assert "does not speak TLS there. Write http://" in why(
            f"https://127.0.0.1:{served.server_address[1]}", access(made)
        )
    finally:
        served.shutdown()
        served.server_close()


def test_certificates_are_renewed_where_they_lie(made: Path, tmp_path: Path) -> None:
    """One fetcher, as it runs for weeks: what it shows and whom it trusts follows the files, without a restart."""
    for name in ("cert", "key"):
        shutil.copy(made / f"old.{'crt' if name == 'cert' else 'key'}", tmp_path / name)
    shutil.copy(made / "strange.crt", tmp_path / "ca")
    lets_in = Access(ca_file=str(tmp_path / "ca"), cert_file=str(tmp_path / "cert"), key_file=str(tmp_path / "key"))
    fetcher = Fetcher()

    def error() -> str:
        return fetcher.fetch(url, timeout_s=5, access=lets_in).error

    with serving(pair(made, "server"), made / "ca.crt") as url:
        assert "signed by nobody" in error()
        shutil.copy(made / "ca.crt", tmp_path / "ca")
        assert "it has expired" in error()
        shutil.copy(made / "me.crt", tmp_path / "cert")
        assert "key cannot be used (key values mismatch)" in error(), "half of a renewal is told, not used"
        shutil.copy(made / "me.key", tmp_path / "key")
        assert error() == ""
        assert error() == ""
        (tmp_path / "cert").unlink()
        assert "cert cannot be read" in error(), "a kept connection does not outlive what opened it"


def test_two_targets_on_one_server_do_not_share_what_lets_them_in(made: Path) -> None:
    fetcher = Fetcher()
    with serving(pair(made, "server"), made / "ca.crt") as url:
        assert fetcher.fetch(url, timeout_s=5, access=access(made)).error == ""
        bare = Access(ca_file=str(made / "ca.crt"))
        assert "wants a certificate of ours" in fetcher.fetch(url, timeout_s=5, access=bare).error
        assert "signed by nobody" in fetcher.fetch(url, timeout_s=5).error


def test_probes_show_the_certificate_too(made: Path) -> None:
    with serving(pair(made, "server"), made / "ca.crt") as url:
        assert ask(url, CHAT, "m", timeout_s=5, access=access(made)).outcome != "unreachable"
        assert ask(url, CHAT, "m", timeout_s=5, access=Access(ca_file=str(made / "ca.crt"))).outcome in {
            "unreachable",
            "cut",
        }


def test_the_command_line_takes_it_from_the_settings(made: Path, tmp_path: Path) -> None:
    lets_in = {"ca_file": str(made / "ca.crt"), "cert_file": str(made / "me.crt"), "key_file": str(made / "me.key")}
    with serving(pair(made, "server"), made / "ca.crt") as url:
        (tmp_path / "s.yaml").write_text(yaml.safe_dump({"targets": [{"name": "a", "url": url, "access": lets_in}]}))
        words = ("--settings", tmp_path / "s.yaml")
        taken = llmvitals("capture", "a", "-o", tmp_path / "c", "--for", "1s", "--interval", "0.5s", *words)
        seen = llmvitals("triage", "a", "--for", "1s", "--json", *words)
    assert taken.code == 0, taken
    assert seen.json["scope"]["instance"] == "a", seen
    assert "cannot be read" not in seen.out
