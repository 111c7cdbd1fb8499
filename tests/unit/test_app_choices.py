"""What a person or a link may choose; a wrong choice is one clear line."""

from datetime import UTC, datetime

import pytest

from llmvitals.app import choices
from llmvitals.app.runbook import HURT, languages, pages, runbook, title
from llmvitals.data import folder
from llmvitals.errors import SettingsError
from llmvitals.settings import Settings, Source

TWO = Settings(sources=(Source(name="a", url="http://a"), Source(name="b", url="http://b")))


@pytest.mark.parametrize(
    ("arguments", "environment", "path"),
    [
        (["app.py", "--settings", "x.yaml"], {"LLMVITALS_SETTINGS": "y.yaml"}, "x.yaml"),
        (["app.py", "--settings=x.yaml"], {}, "x.yaml"),
        (["app.py"], {"LLMVITALS_SETTINGS": "y.yaml"}, "y.yaml"),
        (["app.py", "--settings"], {}, None),
        (["app.py"], {"LLMVITALS_SETTINGS": ""}, None),
    ],
)
def test_the_settings_file(arguments, environment, path):
    assert choices.settings_path(arguments, environment) == path


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("app.example", False),
        ("", False),
        (None, False),
    ],
)
def test_only_loopback_is_this_machine_alone(address, own):
    assert choices.is_loopback(address) is own


def test_a_source_goes_by_its_name():
    assert choices.named(TWO, "b").url == "http://b"
    assert choices.named(TWO, "").url == "http://a"
    assert choices.named(TWO, "c") is None
    assert choices.named(Settings(), "") is None


@pytest.mark.parametrize("url", ["", "host:9464", "file:///etc/passwd", "ftp://x/", "http://"])
def test_only_an_http_url_is_a_source(url):
    with pytest.raises(SettingsError, match="is not a URL"):
        choices.entered(url, "exporter")


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("", None),
        (" now ", None),
        ("1700000000", 1_700_000_000.0),
        ("2023-11-14 22:13:20", 1_700_000_000.0),
        ("2023-11-14 22:13:20 UTC", 1_700_000_000.0),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000.0),
    ],
)
def test_a_moment(text, t):
    assert choices.moment(text) == t


@pytest.mark.parametrize(
    ("text", "ago"), [("14:03", 0.0), ("14:03:00 UTC", 0.0), ("14:02:30", 30.0), ("14:04", 86_340.0)]
)
def test_a_time_of_day_is_the_last_one(text, ago):
    now = datetime(2026, 10, 29, 14, 3, tzinfo=UTC).timestamp()
    assert choices.moment(text, now) == now - ago


@pytest.mark.parametrize("text", ["yesterday", "nan", "inf", "1e300", "-1e300"])
def test_what_is_no_moment_is_refused_with_the_way_to_write_it(text):
    with pytest.raises(SettingsError, match="Write 'now', or UTC as"):
        choices.moment(text)


def test_a_runbook_is_found_by_its_cause_and_nothing_else_is():
    assert "## Mitigation" in runbook("preemption-thrash")
    assert not runbook("preemption-thrash").startswith("# ")
    assert ".md)" not in runbook("preemption-thrash")
    for other in ("../README", "README", "tr", "tr/users-hurt", "no-such-cause", "/etc/passwd", "a/b", ""):
        assert runbook(other) is None
        assert runbook(other, "tr") is None
    assert runbook("users-hurt", "../runbooks") is None


def test_a_page_behind_a_page_is_there_in_turkish_and_says_nothing_of_its_other_language():
    assert languages(HURT) == ("en", "tr")
    assert title(HURT) == "Users do not get what was promised"
    assert "## Meaning" in runbook(HURT)
    assert "## Anlamı" in runbook(HURT, "tr")
    for language in ("en", "tr"):
        head = runbook(HURT, language).splitlines()[0]
        assert head.startswith("`users-hurt` · ")
        assert "Türkçe" not in head
        assert "English" not in head


def test_links_between_runbooks_stay_in_the_app_and_in_the_language_where_they_can():
    assert "[telemetry-broken](runbooks?page=telemetry-broken)" in runbook(HURT)
    turkish = runbook(HURT, "tr")
    assert "](runbooks?page=telemetry-broken&lang=tr)" in turkish
    assert "](runbooks?page=overloaded-and-shedding&lang=tr)" in turkish
    for page in pages():
        for language in page.languages:
            text = runbook(page.slug, language)
            assert ".md)" not in text, "no file of the project is reached from the app"
            assert "<!--" not in text


def test_every_runbook_is_listed_symptoms_first_with_its_title():
    listed = pages()
    files = {file.stem for file in folder("runbooks").glob("*.md")} - {"README"}
    assert {page.slug for page in listed} == files
    assert [page.symptom for page in listed] == sorted((page.symptom for page in listed), reverse=True)
    assert {page.slug for page in listed if page.symptom} >= {HURT, "target-gone", "nobody-watches"}
    assert all(page.title != page.slug for page in listed)
