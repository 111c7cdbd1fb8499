"""Who may open the app, the file that says how people sign in, the way back to a link, and what the command says of it."""

from __future__ import annotations

import itertools
import os

import pytest
import yaml
from streamlit.web.server.starlette.starlette_app_utils import decode_xsrf_token_string, generate_xsrf_token_string

from llmvitals.app.people import OLD, STRANGER, UNVERIFIED, called, groups, refusal
from llmvitals.app.returning import KEPT_SECONDS, MOST_KEPT, Returning, Wanted, browser_of
from llmvitals.app.secrets_file import sign_in, usual
from llmvitals.data import folder
from llmvitals.errors import SettingsError
from llmvitals.settings import App
from support.command import llmvitals, one_clear_line

NOW = 1_800_000_000.0
ALICE = {"iat": int(NOW) - 60, "email": "Alice@Example.org", "email_verified": True, "groups": ["sre"], "name": "Alice"}
GOOD = {
    "redirect_uri": "https://app.example.org/oauth2callback",
    "cookie_secret": "c" * 32,
    "client_id": "i",
    "client_secret": "s3cret-of-the-client",
    "server_metadata_url": "https://idp.example.org/.well-known/openid-configuration",
}


@pytest.mark.parametrize(
    ("changed", "allowed", "expected"),
    [
        ({}, {}, None),
        ({"email": None}, {}, None),
        ({}, {"allowed_emails": ("alice@example.org",)}, None),
        ({}, {"allowed_domains": ("example.org",)}, None),
        ({}, {"allowed_domains": ("@EXAMPLE.ORG",)}, None),
        ({}, {"allowed_groups": ("sre",)}, None),
        ({}, {"allowed_emails": ("bob@example.org",), "allowed_groups": ("sre",)}, None),
        ({}, {"allowed_emails": ("bob@example.org",)}, STRANGER),
        ({}, {"allowed_domains": ("ample.org",)}, STRANGER),
        ({}, {"allowed_domains": ("org",)}, STRANGER),
        ({"email": "a@sub.example.org"}, {"allowed_domains": ("example.org",)}, STRANGER),
        ({"email": "eve@evil.com@example.org"}, {"allowed_domains": ("evil.com",)}, STRANGER),
        ({"email": ""}, {"allowed_emails": ("",), "allowed_domains": ("", "x")}, STRANGER),
        ({"email": None}, {"allowed_domains": ("example.org",)}, STRANGER),
        ({}, {"allowed_groups": ("SRE",)}, STRANGER),
        ({"groups": "sre-interns"}, {"allowed_groups": ("sre",)}, STRANGER),
        ({"groups": None}, {"allowed_groups": ("sre",)}, STRANGER),
        ({"email_verified": False}, {"allowed_emails": ("alice@example.org",)}, UNVERIFIED),
        ({"email_verified": "false"}, {"allowed_domains": ("example.org",)}, UNVERIFIED),
        ({"email_verified": None}, {"allowed_domains": ("example.org",)}, None),  # Entra says nothing of it
        ({"email_verified": False}, {"allowed_groups": ("sre",)}, None),
        ({"iat": int(NOW) - 43_201}, {}, OLD),
        ({"iat": int(NOW) - 43_199}, {}, None),
        ({"iat": None}, {}, OLD),
        ({"iat": True}, {}, OLD),
        ({"iat": str(int(NOW))}, {}, OLD),
    ],
)
def test_who_may_open_it(changed, allowed, expected):
    claims = {key: value for key, value in {**ALICE, **changed}.items() if value is not None}
    assert refusal(claims, App(**allowed), NOW) is expected


def test_groups_stand_where_providers_put_them():
    assert groups({"realm_access": {"roles": ["sre", 5]}}, "realm_access.roles") == {"sre"}
    assert groups({"https://example.org/roles": ["sre"]}, "https://example.org/roles") == {"sre"}
    assert groups({"groups": "sre"}, "groups") == {"sre"}
    assert groups({"groups": {"sre": 1}}, "groups.x.y") == frozenset()
    assert called({"sub": "42"}) == "42"


def written(place, auth):
    lines = [f'{key} = "{value}"' for key, value in auth.items() if isinstance(value, str)]
    for name, section in auth.items():
        if isinstance(section, dict):
            lines += [f"[auth.{name}]", *(f'{key} = "{value}"' for key, value in section.items())]
    file = place / "secrets.toml"
    file.write_text("\n".join(["[auth]", *lines]) + "\n")
    return file


def test_a_file_with_one_provider_and_one_with_several(tmp_path):
    found = sign_in([written(tmp_path, GOOD)])
    assert (found.providers, found.origin) == (("default",), "https://app.example.org")
    common = {key: GOOD[key] for key in ("redirect_uri", "cookie_secret")}
    one = {key: value for key, value in GOOD.items() if key not in common}
    assert sign_in([written(tmp_path, {**common, "google": one, "entra": one})]).providers == ("google", "entra")
    (tmp_path / "other.toml").write_text("[connections]\nx = 1\n")
    assert sign_in([tmp_path / "other.toml"]) is None
    assert sign_in([]) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"redirect_uri": "https://app.example.org/"}, "auth.redirect_uri is not the app's address"),
        ({"redirect_uri": ""}, "auth.redirect_uri"),
        ({"cookie_secret": "c" * 31}, "auth.cookie_secret has less than 32"),
        ({"client_secret": ""}, "auth lacks client_secret"),
        ({"client_id": ""}, "auth lacks client_id"),
        ({"server_metadata_url": ""}, "auth lacks server_metadata_url"),
        ({"my_idp": {"client_id": "x"}}, "auth.my_idp lacks client_secret, server_metadata_url"),
    ],
)
def test_half_a_file_is_one_line_without_its_secrets(tmp_path, changed, says):
    file = written(tmp_path, {**GOOD, **changed})
    with pytest.raises(SettingsError, match=says) as caught:
        sign_in([file])
    assert GOOD["client_secret"] not in str(caught.value)
    assert "c" * 20 not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        sign_in([tmp_path / "none.toml"])
    broken = tmp_path / "b.toml"
    broken.write_text("[auth\ncookie_secret = hunter2hunter2\n")
    with pytest.raises(SettingsError, match="is not valid TOML") as caught:
        sign_in([broken])
    assert "hunter2" not in str(caught.value)


def test_streamlit_looks_where_we_do(tmp_path, monkeypatch):
    from streamlit import config  # noqa: PLC0415 - it reads its own files when it is imported

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "_main_script_path", str(folder("app") / "streamlit_app.py"))
    home = config.get_config_files("secrets.toml")[0].removesuffix("/.streamlit/secrets.toml")
    ours = usual(type(tmp_path)(home), tmp_path, folder("app"))
    assert [str(file) for file in ours] == config.get_config_files("secrets.toml")


def test_a_browser_is_known_by_streamlits_cookie_however_it_is_masked():
    first = generate_xsrf_token_string()
    token, stamp = decode_xsrf_token_string(first)
    again = generate_xsrf_token_string(token, stamp)
    assert first != again
    assert browser_of(first) == browser_of(again) == token.hex()
    assert browser_of(generate_xsrf_token_string()) != browser_of(first)
    for odd in ("", "2", "2||", "2|zz|aa|1", "1|aa|bb|1", "2||aa|1", "x" * 10_000):
        assert browser_of(odd) == ""


def test_what_was_wanted_is_kept_once_for_a_while_and_never_without_end():
    kept = Returning()
    wanted = Wanted("fleet", {"source": ["s"]})
    kept.keep("a", wanted, 0.0)
    kept.keep("a", Wanted("", {}), 1.0)
    kept.keep("", wanted, 0.0)
    kept.keep("b", Wanted("x", {"q": ["y" * 5000]}), 0.0)
    assert kept.take("a", KEPT_SECONDS) == wanted, "coming back to the first page is no new wish"
    assert [kept.take(one, 1.0) for one in ("a", "", "b")] == [None, None, None]
    kept.keep("a", wanted, 0.0)
    assert kept.take("a", KEPT_SECONDS + 1) is None
    kept.keep("first", wanted, 0.0)
    for i in itertools.islice(itertools.count(), MOST_KEPT):
        kept.keep(str(i), wanted, 0.0)
    assert kept.take("first", 1.0) is None
    assert kept.take(str(MOST_KEPT - 1), 1.0) == wanted


@pytest.fixture
def started(monkeypatch, capsys):
    """Run the command up to the moment where Streamlit takes over; gives its words, its variables and what was said."""
    from llmvitals.cli import app  # noqa: PLC0415 - beside the process that it would become

    monkeypatch.delenv("LLMVITALS_SIGN_IN", raising=False)

    def run(*words: str):
        took: list[list[str]] = []
        monkeypatch.setattr(os, "execv", lambda _, argv: took.append(argv))
        os.environ.pop("LLMVITALS_SIGN_IN", None)  # what a run before set is not to come back when monkeypatch undoes
        monkeypatch.setenv("HOME", "/nonexistent")
        app.command.main(list(words), standalone_mode=False)
        return took[0], os.environ.get("LLMVITALS_SIGN_IN"), capsys.readouterr().err

    yield run
    os.environ.pop("LLMVITALS_SIGN_IN", None)


def test_the_command_says_who_gets_in(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv, required, said = started()
    assert (required, "everybody" in said) == (None, False)
    assert not [word for word in argv if word.startswith("--secrets.files")]
    _, required, said = started("--address", "0.0.0.0")
    assert required is None
    assert "everybody who reaches 0.0.0.0 can open the app" in said
    file = written(tmp_path, GOOD)
    argv, required, said = started("--address", "0.0.0.0", "--secrets", str(file))
    assert f"--secrets.files={file}" in argv
    assert required == "required"
    assert "people sign in; open the app as https://app.example.org" in said
    assert "everybody" not in said
    (tmp_path / ".streamlit").mkdir()
    file.rename(tmp_path / ".streamlit/secrets.toml")
    assert started()[1] == "required", "Streamlit's own place counts too"
    written(tmp_path, {**GOOD, "redirect_uri": "http://app.example.org/oauth2callback"})
    assert "is not https" in started("--secrets", str(file))[2]
    token = {"name": "fleet", "kind": "prometheus", "url": "http://mimir", "access": {"bearer_token_file": "t"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"sources": [token]}))
    assert "source 'fleet' sends its secret in the clear to mimir" in started("--settings", str(tmp_path / "s.yaml"))[2]


def test_lists_without_a_provider_do_not_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"app": {"allowed_domains": ["example.org"]}}))
    line = one_clear_line(llmvitals("app", "--settings", tmp_path / "s.yaml"))
    assert "nothing says with which provider" in line
    (tmp_path / "x.toml").write_text("a = 1\n")
    assert "--secrets" in one_clear_line(llmvitals("app", "--secrets", tmp_path / "x.toml"))
