"""What a server loads it keeps: libraries that ``serve`` has no use for stay out of its process."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = (
    "rich",
    "requests",
    "charset_normalizer",
    "chardet",
    "jinja2",
    "numpy",
    "pandas",
    "streamlit",
    "opentelemetry",
    "grpc",
)


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """The modules of a process that imported what ``llmvitals serve`` imports."""
    code = "import sys, llmvitals.cli.serve; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("name", UNUSED)
def test_serving_does_not_load(loaded, name):
    assert name not in loaded
    assert {"uvicorn", "urllib3"} <= loaded  # it was the server that was loaded
