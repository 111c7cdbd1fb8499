"""What all tests of the app in a browser share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def page():
    """One browser for the module."""
    from support.browser import browser  # noqa: PLC0415  # selenium is only there where these tests run

    with browser() as opened:
        yield opened
