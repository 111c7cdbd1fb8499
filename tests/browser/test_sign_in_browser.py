"""Signing in with a real browser, a real Streamlit and a provider that speaks OpenID Connect: before it nothing is asked of the
source, after it the page that was wanted is there.
"""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest

from support.browser import DESKTOP, PHONE, picture, streamlit
from support.fake_exporter import SENTENCES, FakeExporter
from support.oidc import ALICE, Provider, secrets_toml
from support.waiting import free_port, wait_for

pytestmark = pytest.mark.browser
LINK = "?source=s&instance=vllm-1&model=llama-3-8b"


@pytest.fixture(scope="module")
def fake():
    """A loopback exporter with made documents."""
    exporter = FakeExporter()
    yield exporter
    exporter.close()


@pytest.fixture(scope="module")
def provider():
    """A provider that sends people back to the app's port."""
    with Provider(f"http://127.0.0.1:{free_port()}/oauth2callback") as opened:
        yield opened


@pytest.fixture(scope="module")
def url(fake, provider, tmp_path_factory):
    """The app, which people of example.org may open."""
    place = tmp_path_factory.mktemp("app")
    (place / "auth.toml").write_text(secrets_toml(provider))
    settings = {"sources": [{"name": "s", "url": fake.url}], "app": {"allowed_domains": ["example.org"]}}
    port = urlsplit(provider.redirect_uri).port
    with streamlit(settings, place, port=port, options=(f"--secrets.files={place / 'auth.toml'}",)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def fresh(page, url, fake, provider):
    """Nobody is signed in, and the provider makes no mistakes."""
    provider.person, provider.amiss, provider.age = dict(ALICE), "", 0.0
    page.leave()
    page.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    counts = []

    def quiet():  # the page before may still be at work
        counts.append(len(fake.asked))
        time.sleep(0.2)
        return len(counts) > 3 and len(set(counts[-4:])) == 1

    wait_for(quiet, "the end of the page before")
    fake.asked.clear()


def press(page, text):
    """Press a button, which may be drawn anew while it is looked for."""
    page.element("button", text)
    page.run("[...document.querySelectorAll('button')].find(e => e.innerText.includes(arguments[0])).click()", text)


@pytest.mark.parametrize("path", ["/", "/replicas", "/sources", "/runbooks"])
def test_without_signing_in_no_page_shows_anything_and_no_source_is_asked(page, url, fake, path):
    page.open(f"{url}{path}{LINK}", PHONE)
    page.has(".lv-line", "These pages are for people who are known here.")
    page.element("button", "Sign in")
    if path == "/":
        picture(page, "sign-in-phone")
    page.laid_out()
    shown = page.run("return document.body.innerText")
    assert "llama-3-8b" not in shown
    assert not page.driver.find_elements("css selector", ".lv-verdict, .lv-table, .stMarkdown h2")
    assert fake.asked == []
    told = [one for one in page.complaints() if "/_stcore/" not in one]  # Streamlit looks for its own root at first
    assert told == []


def test_after_signing_in_the_page_of_the_link_is_there_and_signing_out_closes_it(page, url, fake, provider):
    page.open(f"{url}/{LINK}", DESKTOP)
    press(page, "Sign in")
    page.has(".lv-verdict", SENTENCES["healthy"])  # that of vllm-1, which the link named
    page.has("[data-testid=stSidebar]", "Signed in as Alice On Call")
    picture(page, "signed-in")
    assert "Another URL" not in page.has("[data-testid=stSidebar]", "Alice").text, (
        "a proxy may bring people from elsewhere"
    )
    address = page.run("return location.href")
    assert "instance=vllm-1" in address
    assert provider.url not in address
    cookies = {one["name"]: one for one in page.driver.get_cookies()}
    assert cookies["_streamlit_user"]["httpOnly"]
    assert "alice@example.org" not in cookies["_streamlit_user"]["value"]
    fake.asked.clear()
    press(page, "Sign out")
    page.has(".lv-line", "These pages are for people who are known here.")
    assert ("GET", "/logout") in provider.asked
    asked = len(fake.asked)
    page.open(f"{url}/{LINK}", DESKTOP)
    page.has(".lv-line", "These pages are for people who are known here.")
    assert len(fake.asked) == asked


def test_another_page_of_a_link_is_found_again_too(page, url, fake):
    page.open(f"{url}/replicas?source=s", DESKTOP)
    press(page, "Sign in")
    page.has("[data-testid=stSidebar]", "Signed in as Alice On Call")
    page.until("location.pathname === '/replicas' && location.search.includes('source=s')")
    wait_for(lambda: "/replicas" in [path for path, _ in fake.asked], "what the page asks")  # not in the next test


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"email": "eve@example.com"}, "eve@example.com may not open this app"),
        ({"email_verified": False}, "the address alice@example.org is not verified"),
        ({"email": "eve@sub.example.org"}, "may not open this app"),
    ],
)
def test_who_may_not_is_told_so_and_sees_nothing(page, url, fake, provider, changed, said):
    provider.person = {**ALICE, **changed}
    page.open(f"{url}/{LINK}", DESKTOP)
    press(page, "Sign in")
    page.has(".lv-line", said)
    picture(page, "not-allowed")
    assert fake.asked == []
    provider.person = dict(ALICE)
    press(page, "Sign out")
    page.has(".lv-line", "These pages are for people who are known here.")


def test_a_sign_in_of_yesterday_is_asked_for_anew(page, url, fake, provider):
    provider.age = 13 * 3600
    page.open(f"{url}/{LINK}", DESKTOP)
    press(page, "Sign in")
    page.has(".lv-line", "the sign-in is too old. Sign in again.")
    assert fake.asked == []
    provider.age = 0
    press(page, "Sign in")
    page.has(".lv-verdict", SENTENCES["healthy"])


@pytest.mark.parametrize("amiss", ["nonce", "state", "signature", "audience", "issuer", "expired"])
def test_what_a_provider_did_not_say_lets_nobody_in(page, url, fake, provider, amiss):
    provider.amiss = amiss
    page.open(f"{url}/", DESKTOP)
    before = len(provider.asked)
    press(page, "Sign in")
    last = ("GET", "/authorize") if amiss == "state" else ("POST", "/token")
    wait_for(lambda: last in provider.asked[before:], "the way back from the provider")
    page.has(".lv-line", "These pages are for people who are known here.")
    assert "_streamlit_user" not in {one["name"] for one in page.driver.get_cookies()}
    assert fake.asked == []


def test_a_forged_cookie_is_nobody(page, url, fake):
    page.open(f"{url}/", DESKTOP)
    page.element("button", "Sign in")
    page.driver.add_cookie({"name": "_streamlit_user", "value": "eyJpc19sb2dnZWRfaW4iOiB0cnVlfQ.x.y"})
    page.open(f"{url}/{LINK}", DESKTOP)
    page.has(".lv-line", "These pages are for people who are known here.")
    assert fake.asked == []
