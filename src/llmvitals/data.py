"""Where the folders that an operator takes away lie: beside the code in a wheel, at the root of a checkout."""

from __future__ import annotations

from pathlib import Path

from llmvitals.errors import LlmvitalsError

FOLDERS: tuple[str, ...] = ("alerts", "app", "dashboards", "runbooks")
"""Every folder that travels in the wheel under ``llmvitals/_data/`` (pyproject.toml, ``force-include``)."""

_PACKAGE = Path(__file__).resolve().parent


class DataError(LlmvitalsError):
    """A folder of the installation is not where it belongs."""


def folder(name: str, *, package: Path = _PACKAGE) -> Path:
    """The folder ``name`` (one of :data:`FOLDERS`) of the installation whose package directory is ``package``.

    A checkout is known by its ``pyproject.toml`` two levels above the package, so that a stray ``app/`` in some
    ``site-packages`` parent is never taken for ours. Raises :class:`DataError` when there is no such folder.
    """
    if name not in FOLDERS:
        raise DataError(f"there is no data folder '{name}'", place="llmvitals.data", remedy=f"Use one of {FOLDERS}.")
    packed = package / "_data" / name
    if packed.is_dir():
        return packed
    root = package.parents[1]
    if (root / "pyproject.toml").is_file() and (root / name).is_dir():
        return root / name
    raise DataError(
        f"the folder '{name}' is missing from this installation",
        place=str(packed),
        remedy="Install llmvitals again from its wheel, or run it from a complete checkout.",
    )
