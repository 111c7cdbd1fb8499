"""20,000 changed pages, the same every time; ``make fuzz N=1000000`` runs others.

Each must be read (or refused with a sentence), hold numbers alone, and for a share of them be judged and shown.
"""

from __future__ import annotations

import pytest

from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.ingest.check import check
from support.fuzz_course import KINDS, PAGES, corpus, play

IN_ALL = 20_000
PARTS = 10
SEED = 10


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "llmvitals.exporter")


def test_every_kind_is_among_what_is_changed() -> None:
    told = {check(RawPage(1.0, 0.1, 200, page.body), place="i").kind for page in corpus()}
    assert set(KINDS) <= told | {page.kind for page in corpus()}


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_is_too_bad(part: int) -> None:
    courses = range(IN_ALL // PAGES)[part::PARTS]
    assert sum(play(SEED, course) for course in courses) == len(courses) * PAGES
