"""The web configuration: what it takes, what it refuses and how, and when a password is hashed."""

from __future__ import annotations

import asyncio
import base64
import threading

import bcrypt
import pytest
import yaml

from llmvitals.errors import SettingsError
from llmvitals.exporters import protect, web_config
from llmvitals.settings import load as load_settings

HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()


def write(folder, config: dict | str):
    path = folder / "web.yml"
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


def refused(folder, config: dict | str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        web_config.load(write(folder, config))
    return caught.value


def test_no_file_and_an_empty_file_leave_the_exporter_open(tmp_path):
    for web in (web_config.load(""), web_config.load(write(tmp_path, ""))):
        assert (dict(web.users), dict(web.headers), web.context) == ({}, {}, None)


def test_users_and_headers_are_read(tmp_path):
    headers = {"X-Frame-Options": "deny", "Strict-Transport-Security": "max-age=1", "X-XSS-Protection": ""}
    file = {"basic_auth_users": {"alice": HASH}, "http_server_config": {"http2": False, "headers": headers}}
    web = web_config.load(write(tmp_path, file))
    assert web.users == {"alice": HASH.encode()}
    assert web.headers == {"X-Frame-Options": "deny", "Strict-Transport-Security": "max-age=1"}


@pytest.mark.parametrize(
    ("config", "thing", "remedy"),
    [
        ({"basic_auth_user": {}}, "unknown key 'basic_auth_user' in the top level", "Did you mean 'basic_auth_users'?"),
        ({"tls_server_config": {"certfile": "x"}}, "'certfile' in tls_server_config", "Did you mean 'cert_file'?"),
        (
            {"http_server_config": {"headers": {"X-Frame-Option": "deny"}}},
            "'X-Frame-Option' in http_server_config.headers",
            "Did you mean 'X-Frame-Options'?",
        ),
        ("basic_auth_users: [", "not valid YAML", "Correct the syntax"),
        ("- 1", "Expected keys below it, got a list", "docs/exporter.md"),
        ({"tls_server_config": {}}, "lacks cert_file", "Add cert_file"),
        ({"tls_server_config": {"min_version": "TLS10"}}, "min_version cannot be 'TLS10'", "TLS12, TLS13"),
        (
            {"tls_server_config": {"min_version": "TLS13", "max_version": "TLS12"}},
            "min_version is above max_version",
            "Swap them",
        ),
        ({"tls_server_config": {"cipher_suites": ["RC4"]}}, "cipher_suites cannot be 'RC4'", "TLS_ECDHE_RSA_WITH_AES"),
        ({"tls_server_config": {"cert_file": "none.pem"}}, "cert_file cannot be read (No such file", "permissions"),
        (
            {"http_server_config": {"headers": {"X-Frame-Options": "deny\r\nSet-Cookie: a"}}},
            "not one line of ASCII",
            "Correct the value",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(tmp_path, config, thing, remedy):
    error = refused(tmp_path, config)
    assert thing in error.thing
    assert remedy in error.remedy
    assert error.place.startswith((str(tmp_path / "web.yml"), str(tmp_path / "none.pem")))


@pytest.mark.parametrize(("section", "key", "remedy"), web_config.ELSEWHERE)
def test_what_the_format_has_and_we_have_not_is_refused_with_the_way_out(tmp_path, section, key, remedy):
    error = refused(tmp_path, {section: {key: "x"}} if section else {key: "x"})
    assert error.thing == f"{key} is not supported"
    assert error.remedy == remedy


@pytest.mark.parametrize("secret", ["hunter2", "$2y$10$short", "$1$abcdefgh$" + "x" * 22, "$2y$03$" + "x" * 53])
def test_what_is_no_hash_is_refused_without_being_repeated(tmp_path, secret):
    error = refused(tmp_path, {"basic_auth_users": {"alice": secret}})
    assert error.thing == "is not a bcrypt hash"
    assert error.place.endswith("basic_auth_users.alice")
    assert secret not in str(error)


def test_the_settings_name_the_file_from_their_own_folder(tmp_path):
    write(tmp_path, {"basic_auth_users": {"alice": HASH}})
    (tmp_path / "settings.yaml").write_text("exporter: {web_config: web.yml}")
    settings = load_settings(tmp_path / "settings.yaml")
    assert web_config.load(settings.exporter.web_config).users == {"alice": HASH.encode()}


class Counted:
    """Stands in for the hashing and counts it."""

    def __init__(self, monkeypatch) -> None:
        self.seen: list[tuple[bytes, bytes]] = []
        monkeypatch.setattr(protect.bcrypt, "checkpw", self)

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.seen.append((password, hashed))
        return hashed == b"hash of " + password


def admits(*asked: tuple[dict[str, bytes], str, bytes]) -> list[bool]:
    async def ask() -> list[bool]:
        verifier = protect.Verifier()
        return [await verifier.admits(*one) for one in asked]

    return asyncio.run(ask())


def test_a_right_password_is_hashed_once_and_a_wrong_one_each_time(monkeypatch):
    counted = Counted(monkeypatch)
    users = {"alice": b"hash of a"}
    assert admits((users, "alice", b"a"), (users, "alice", b"a"), (users, "alice", b"b"), (users, "alice", b"b")) == [
        *(True, True),
        *(False, False),
    ]
    assert [password for password, _ in counted.seen] == [b"a", b"b", b"b"]


def test_a_changed_hash_is_not_admitted_from_memory(monkeypatch):
    Counted(monkeypatch)
    assert admits(({"alice": b"hash of a"}, "alice", b"a"), ({"alice": b"hash of b"}, "alice", b"a")) == [True, False]


def test_an_unknown_name_costs_a_hash_and_is_never_admitted(monkeypatch):
    counted = Counted(monkeypatch)
    users = {"alice": b"hash of a"}
    assert admits((users, "bob", b"a"), (users, "bob", b"a"), (users, "", b"a")) == [False, False, False]
    assert len(counted.seen) == 3


def test_name_and_password_cannot_be_shifted_into_each_other(monkeypatch):
    Counted(monkeypatch)
    users = {"ab": b"hash of c", "a": b"hash of bc"}
    assert admits((users, "ab", b"c"), (users, "a", b"bc"), (users, "a", b"c")) == [True, True, False]


def test_the_memory_is_bounded(monkeypatch):
    counted = Counted(monkeypatch)
    many = protect.REMEMBERED + 1
    users = {str(i): b"hash of a" for i in range(many)}
    assert all(admits(*((users, str(i), b"a") for i in (*range(many), 0))))
    assert len(counted.seen) == many + 1  # the first was forgotten for the last


def test_hashes_of_other_tools_and_long_passwords():
    # A published vector (jBCrypt's own tests): cost 6, password "abc"; htpasswd marks the same hash as 2y.
    for kind in ("2a", "2b", "2y"):
        known = f"${kind}$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i".encode()
        assert admits(({"a": known}, "a", b"abc"), ({"a": known}, "a", b"abd")) == [True, False]
    long = b"x" * 72
    hashed = bcrypt.hashpw(long, bcrypt.gensalt(4))
    assert admits(({"a": hashed}, "a", long + b"more"), ({"a": hashed}, "a", long[:-1])) == [True, False]
    assert admits(({"a": hashed}, "a", b"a\0b")) == [False]


@pytest.mark.parametrize(
    ("header", "credentials"),
    [
        ("Basic " + base64.b64encode(b"a:b:c").decode(), ("a", b"b:c")),
        ("basic " + base64.b64encode("ä:ö".encode()).decode(), ("ä", "ö".encode())),
        ("Basic " + base64.b64encode(b"a").decode(), ("a", b"")),
        ("Bearer " + base64.b64encode(b"a:b").decode(), ("", b"")),
        ("Basic !!!", ("", b"")),
        ("Basic " + base64.b64encode(b"\xff:a").decode(), ("", b"")),
        ("", ("", b"")),
    ],
)
def test_credentials_of_a_header(header, credentials):
    assert protect.credentials(header) == credentials


def test_suites_that_openssl_does_not_have_are_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(web_config.CIPHERS, "TLS_OF_ANOTHER_BUILD", "NO-SUCH-SUITE")
    told = refused(tmp_path, {"tls_server_config": {"cipher_suites": ["TLS_OF_ANOTHER_BUILD"]}})
    assert told.thing == "cipher_suites cannot be used"
    assert told.remedy.startswith("Name others")


def test_who_waits_for_a_hash_is_bounded_by_address_and_in_all(monkeypatch):
    monkeypatch.setattr(protect, "_right", lambda *_: gate.wait(10) and False)
    gate = threading.Event()

    async def ask() -> tuple[int, int]:
        verifier = protect.Verifier()

        async def told(peer: str) -> str:
            try:
                return str(await verifier.admits({"a": b"x"}, "a", b"guess", peer))
            except protect.GuessingError:
                return "too many"

        of_one = [asyncio.ensure_future(told("one")) for _ in range(protect.GUESSES + 3)]
        of_many = [asyncio.ensure_future(told(f"peer-{n}")) for n in range(protect.ALL_GUESSES)]
        while sum(task.done() for task in (*of_one, *of_many)) < 3 + protect.GUESSES:
            await asyncio.sleep(0.01)
        gate.set()
        answers = [await asyncio.gather(*some) for some in (of_one, of_many)]
        assert not verifier._guessing
        return answers[0].count("too many"), answers[1].count("too many")

    assert asyncio.run(ask()) == (3, protect.GUESSES)
