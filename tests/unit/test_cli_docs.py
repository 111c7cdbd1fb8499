"""The pages about settings and commands say all there is, and nothing that is not."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import click
import msgspec
import pytest
import yaml

from llmvitals import settings
from llmvitals.cli import COMMANDS
from llmvitals.cli.duration import duration

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMAND_FILES = tuple(COMMANDS)


def section_of(field: msgspec.structs.FieldInfo) -> type[msgspec.Struct]:
    """The struct of one top-level key, be it one or a list of them."""
    return next((a for a in get_args(field.type) if isinstance(a, type)), field.type)


def documented() -> dict[str, dict[str, str]]:
    """Section to key to default, as the page's tables have them."""
    found: dict[str, dict[str, str]] = {}
    for part in re.split(r"^## ", (DOCS / "settings.md").read_text(), flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        rows = re.findall(r"^\| `(\w+)` \| `?([^`|]*?)`? \|", body, flags=re.MULTILINE)
        found[name.strip()] = dict(rows)
    return found


def test_the_settings_page_has_every_section_and_key_and_no_other():
    top = {field.name: section_of(field) for field in msgspec.structs.fields(settings.Settings)}
    assert {name: set(keys) for name, keys in documented().items()} == {
        name: {field.name for field in msgspec.structs.fields(kind)} for name, kind in top.items()
    }


def test_the_defaults_on_the_settings_page_are_the_real_ones():
    for field in msgspec.structs.fields(settings.Settings):
        for key in msgspec.structs.fields(section_of(field)):
            told = documented()[field.name][key.name]
            if key.required:
                assert told == "required", (field.name, key.name)
                continue
            real = key.default if key.default is not msgspec.NODEFAULT else key.default_factory()
            value = yaml.safe_load(told)
            if isinstance(real, msgspec.Struct):
                assert msgspec.convert(value, type(real)) == real, (field.name, key.name)
                continue
            if isinstance(real, tuple) and real and isinstance(real[0], msgspec.Struct):
                assert msgspec.convert(value, tuple[type(real[0]), ...]) == real, (field.name, key.name)
                continue
            value = tuple(value) if isinstance(value, list) else value
            expected = pytest.approx(real, abs=1e-4) if isinstance(real, float) else real
            assert value == expected, (field.name, key.name)


def options_of(command: click.Command) -> list[click.Option]:
    """The options of a command and of those below it."""
    below = [one for sub in getattr(command, "commands", {}).values() for one in options_of(sub)]
    return [p for p in command.params if isinstance(p, click.Option)] + below


@pytest.mark.parametrize("name", COMMAND_FILES)
def test_every_command_has_its_file_its_help_and_its_options_on_the_page(name):
    command = import_module(f"llmvitals.cli.{name}").command
    page = (DOCS / "cli.md").read_text()
    assert command.name == name
    assert len(command.help.split()) > 3
    assert re.search(rf"^    llmvitals {name}\b", page, flags=re.MULTILINE)
    for option in options_of(command):
        assert option.help, option.name
        words = "|".join((*option.opts, *option.secondary_opts))
        assert re.search(rf"(?<![\w-])(?:{words})(?![\w-])", page), (name, option.opts)


def test_the_page_names_no_option_that_is_not():
    real = {"--help", "--debug"}
    for name in COMMAND_FILES:
        for param in options_of(import_module(f"llmvitals.cli.{name}").command):
            real |= {*param.opts, *param.secondary_opts}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (DOCS / "cli.md").read_text()))
    assert told <= real


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60),
        ("5m", 300),
        ("1h30m", 5400),
        ("50ms", 0.05),
        ("1m0.5s", 60.5),
        ("90", 90),
        ("2.5", 2.5),
        (" 3s ", 3),
    ],
)
def test_durations(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "5 m", "m5", "1d", "-5s", "5s5", "1h30", "soon", "1,5s", "nan", "inf", "0", "0s"]
)
def test_what_is_no_duration(text):
    with pytest.raises(click.BadParameter, match="write it like 60s, 5m or 1h30m"):
        duration(text)
