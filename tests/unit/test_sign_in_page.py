"""The door of the app in Streamlit's own test harness: whatever is amiss with signing in closes it."""

from __future__ import annotations

import sys

import pytest
import yaml
from streamlit import config
from streamlit.runtime.secrets import secrets_singleton
from streamlit.testing.v1 import AppTest

from llmvitals.data import folder
from support.fake_exporter import SENTENCES, FakeExporter

LISTED = {"allowed_domains": ["example.org"]}


@pytest.fixture
def exporter():
    """A loopback exporter with made documents."""
    fake = FakeExporter()
    yield fake
    fake.close()


@pytest.fixture
def opened(tmp_path, monkeypatch, exporter):
    """The whole app, by its entry; gives the HTML that it wrote."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place
    before, files = set(sys.modules), config.get_option("secrets.files")

    def run(app: dict, secrets: str | None = None, **variables: str) -> str:
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump({"sources": [{"name": "s", "url": exporter.url}], "app": app}))
        monkeypatch.setenv("LLMVITALS_SETTINGS", str(path))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["streamlit_app.py"])
        if secrets is not None:
            (tmp_path / "secrets.toml").write_text(secrets)
        config.set_option("secrets.files", [str(tmp_path / "secrets.toml")])
        secrets_singleton._reset()
        test = AppTest.from_file(str(folder("app") / "streamlit_app.py"), default_timeout=60).run()
        assert not test.exception
        return "\n".join(block.proto.body for block in test.get("html"))

    yield run
    config.set_option("secrets.files", files)
    secrets_singleton._reset()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder("app"))):
            sys.modules.pop(name)


def test_where_nothing_asks_for_it_everybody_sees_the_page(opened, exporter):
    assert SENTENCES["cause"] in opened({})
    assert exporter.asked
    assert SENTENCES["cause"] in opened({}, "[connections]\nx = 1\n"), "other secrets are no provider"


@pytest.mark.parametrize(
    ("app", "secrets", "variables"),
    [
        (LISTED, None, {}),
        (LISTED, "[connections]\nx = 1\n", {}),
        ({}, "[auth\nbroken", {}),
        ({}, None, {"LLMVITALS_SIGN_IN": "required"}),
        ({}, "[auth]\ncookie_secret = 'x'\n", {"LLMVITALS_SIGN_IN": "required"}),
    ],
)
def test_whatever_is_amiss_closes_it(opened, exporter, app, secrets, variables):
    html = opened(app, secrets, **variables)
    assert "Nobody can sign in" in html
    assert SENTENCES["cause"] not in html
    assert exporter.asked == []


def test_with_a_provider_and_nobody_signed_in_it_asks_for_that(opened, exporter):
    auth = "[auth]\nredirect_uri='http://x/oauth2callback'\ncookie_secret='x'\n[auth.google]\nclient_id='a'\n"
    html = opened({}, auth)
    assert "These pages are for people who are known here." in html
    assert exporter.asked == []
