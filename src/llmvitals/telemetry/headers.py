"""Headers that the operator gives us to send: what may be one, and files that hold those which are secrets.

No message here repeats a header's value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmvitals.errors import SettingsError
from llmvitals.settings import read_yaml

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


def read_headers(path: str) -> dict[str, str]:
    """The headers in a YAML file, a name and a value each. Raises :class:`SettingsError` for what cannot be sent."""
    found = read_yaml(path)
    if not isinstance(found, dict) or not all(isinstance(pair, str) for item in found.items() for pair in item):
        raise SettingsError(
            "is not a list of headers", place=path, remedy="Write one header a line, like `Authorization: Bearer KEY`."
        )
    return checked(found, place=path)


def checked(headers: Mapping[str, str], *, place: str) -> dict[str, str]:
    """The same headers. Raises :class:`SettingsError` for a name or value that HTTP cannot carry."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"'{name[:40]}' is no header's name", place=place, remedy="Use letters, digits and '-'."
            )
        if not _VALUE.fullmatch(value):
            raise SettingsError(
                f"the value of the header '{name}' holds characters that cannot be sent",
                place=place,
                remedy="Use printable ASCII on one line; a block in YAML ends with a line break, `|-` leaves it off.",
            )
    return dict(headers)
