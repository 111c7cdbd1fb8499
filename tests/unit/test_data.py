"""llmvitals.data finds its folders in a wheel and in a checkout, and says so when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmvitals import data


def package(root: Path) -> Path:
    """A package directory as it lies in a tree: two levels below its root."""
    made = root / "src" / "llmvitals"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("name", data.FOLDERS)
def test_the_running_installation_has_every_folder(name: str) -> None:
    assert any(data.folder(name).iterdir())


def test_a_wheel_keeps_its_folders_inside_the_package(tmp_path: Path) -> None:
    inside = package(tmp_path)
    (inside / "_data" / "runbooks").mkdir(parents=True)
    assert data.folder("runbooks", package=inside) == inside / "_data" / "runbooks"


def test_a_checkout_keeps_them_at_its_root(tmp_path: Path) -> None:
    inside = package(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "alerts").mkdir()
    assert data.folder("alerts", package=inside) == tmp_path / "alerts"


def test_a_strangers_folder_two_levels_up_is_not_ours(tmp_path: Path) -> None:
    inside = package(tmp_path)
    (tmp_path / "app").mkdir()
    with pytest.raises(data.DataError, match="'app' is missing from this installation"):
        data.folder("app", package=inside)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(data.DataError, match="no data folder 'secrets'"):
        data.folder("secrets")
