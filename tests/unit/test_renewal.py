"""The web configuration in use: when its files are looked at, what a broken one leaves in use, and what is said of it."""

from __future__ import annotations

import logging

import bcrypt
import pytest
import yaml

from llmvitals.errors import SettingsError
from llmvitals.exporters import renewal
from llmvitals.exporters.renewal import LOOK_SECONDS, Renewed


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "web.yml"
    found.write_text(yaml.safe_dump({"basic_auth_users": {"alice": hashed("a")}}))
    return found


def users(path, *names: str) -> None:
    path.write_text(yaml.safe_dump({"basic_auth_users": {name: hashed(name) for name in names}}))


def test_no_file_is_never_looked_for(clock):
    renewed = Renewed("", clock)
    clock.now += 2 * LOOK_SECONDS
    assert renewed().users == {}
    assert renewed.ok


def test_files_are_looked_at_once_a_second_at_most(path, clock, monkeypatch):
    looks: list[object] = []
    real = renewal._stamp
    renewed = Renewed(path, clock)
    monkeypatch.setattr(renewal, "_stamp", lambda paths: looks.append(paths) or real(paths))
    for _ in range(100):
        renewed()
    assert looks == []
    clock.now += LOOK_SECONDS
    for _ in range(100):
        renewed()
    assert looks == [(path,)]


def test_what_changed_counts_after_a_second(path, clock):
    renewed = Renewed(path, clock)
    users(path, "bob", "carol")
    assert set(renewed().users) == {"alice"}
    clock.now += LOOK_SECONDS
    assert set(renewed().users) == {"bob", "carol"}


def test_a_file_that_cannot_be_used_keeps_the_one_before_and_is_told_once(path, clock, caplog):
    renewed = Renewed(path, clock)
    path.write_text("basic_auth_users: {alice: hunter2}")
    with caplog.at_level(logging.INFO, "llmvitals.exporter"):
        for _ in range(3):
            clock.now += LOOK_SECONDS
            assert set(renewed().users) == {"alice"}
            assert not renewed.ok
        path.unlink()
        clock.now += LOOK_SECONDS
        assert set(renewed().users) == {"alice"}
        users(path, "bob")
        clock.now += LOOK_SECONDS
        assert set(renewed().users) == {"bob"}
    assert renewed.ok
    events = [record.getMessage().split()[0] for record in caplog.records]
    assert events == ["event=web-config-refused"] * 2 + ["event=web-config-renewed"]
    assert "hunter2" not in caplog.text


def test_a_reload_changes_nothing_until_it_is_put_in_use(path, clock, tmp_path):
    renewed = Renewed(path, clock)
    other = tmp_path / "other.yml"
    users(other, "bob")
    use = renewed.reload(other)
    assert set(renewed().users) == {"alice"}
    use()
    assert set(renewed().users) == {"bob"}
    other.write_text("nonsense: 1")
    with pytest.raises(SettingsError, match="unknown key"):
        renewed.reload(other)
    assert set(renewed().users) == {"bob"}
