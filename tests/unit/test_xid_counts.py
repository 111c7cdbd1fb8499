"""XID errors as events: counted from page to page, whatever of them the exporter shows."""

from __future__ import annotations

import pytest

from llmvitals.series import Window
from llmvitals.telemetry.gpu import xid
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.made import read as reading
from support.page_text import values

AT = 'gpu="0",UUID="GPU-a",hostname="n1"'
CLOCK = f"DCGM_FI_DEV_SM_CLOCK{{{AT}}} 900\n"
FAMILY = "llm_gpu_xid_events_total"


def last(code: object) -> str:
    return f"{CLOCK}DCGM_FI_DEV_XID_ERRORS{{{AT}}} {code}\n"


def window(**counts: int) -> str:
    """The exporter's moving window: a series per code, and one without a code while there is none."""
    shown = "".join(
        f'DCGM_EXP_XID_ERRORS_COUNT{{{AT},window_size_in_ms="300000",xid="{code[1:]}"}} {count}\n'
        for code, count in counts.items()
    )
    return CLOCK + (shown or f'DCGM_EXP_XID_ERRORS_COUNT{{{AT},window_size_in_ms="300000"}} 0\n')


def total(**counts: int) -> str:
    return "".join(f'DCGM_EXP_XID_ERRORS_TOTAL{{{AT},xid="{code[1:]}"}} {count}\n' for code, count in counts.items())


class Target:
    """A target that is scraped every 15 s."""

    def __init__(self) -> None:
        self.ingest = Ingest(instance="i", labels={"model": "m"})
        self.snapshots: list = []

    def scrape(self, *pages: str) -> dict[str, float]:
        """The counts by code after these pages; '' is the field itself."""
        for text in pages:
            at = 15.0 * len(self.snapshots)
            self.snapshots.append(self.ingest.read(RawPage(at, 0.01, 200, text.encode())))
        return {s.label("xid"): v for s, v in self.snapshots[-1].samples.items() if s.name == FAMILY}

    def events(self) -> float | None:
        """What the signal makes of the pages."""
        return reading(Window.of(self.snapshots), "gpu_xid_errors").value


def test_a_code_that_stays_is_one_event_and_one_from_before_is_none() -> None:
    assert Target().scrape(last(0), last(79), last(79), last(79)) == {"": 0.0, "79": 1.0}
    old = Target()
    assert old.scrape(last(79), last(79)) == {"": 0.0, "79": 1.0}


def test_a_code_that_comes_back_after_another_is_an_event_again() -> None:
    assert Target().scrape(last(31), last(94), last(31)) == {"": 0.0, "31": 2.0, "94": 1.0}


def test_a_driver_that_was_loaded_anew_counts_the_same_code_again() -> None:
    assert Target().scrape(last(48), last(0), last(48)) == {"": 0.0, "48": 2.0}


def test_a_repeat_is_seen_in_the_moving_window_and_its_end_is_no_event() -> None:
    target = Target()
    assert target.scrape(window()) == {"": 0.0}
    assert target.scrape(window(x31=1)) == {"": 0.0, "31": 1.0}
    assert target.scrape(window(x31=3)) == {"": 0.0, "31": 3.0}
    assert target.scrape(window(x31=2), window()) == {"": 0.0, "31": 3.0}, "it falls again when five minutes are over"
    assert target.scrape(window(x31=1, x94=2)) == {"": 0.0, "31": 4.0, "94": 2.0}


def test_window_and_last_code_on_one_page_are_one_event() -> None:
    target = Target()
    assert target.scrape(last(0) + window()) == {"": 0.0}
    assert target.scrape(last(31) + window(x31=1)) == {"": 0.0, "31": 1.0}
    assert target.scrape(last(31) + window()) == {"": 0.0, "31": 1.0}


def test_the_exporters_own_count_is_taken_as_it_is() -> None:
    target = Target()
    assert target.scrape(last(0)) == {"": 0.0}
    assert target.scrape(last(31) + total(x31=1)) == {"": 0.0, "31": 1.0}
    assert target.scrape(last(31) + total(x31=4)) == {"": 0.0, "31": 4.0}


def test_an_exporter_that_starts_anew_is_no_event() -> None:
    target = Target()
    target.scrape(last(31) + total(x31=4))
    assert target.scrape(last(31)) == {"": 0.0, "31": 4.0}, "its count begins with the next event; the code stays"


def test_a_card_that_a_page_lacks_is_no_event_when_it_returns() -> None:
    other = CLOCK.replace('gpu="0",UUID="GPU-a"', 'gpu="1",UUID="GPU-b"')
    target = Target()
    target.scrape(last(31), last(94))
    assert target.scrape(other) == {}, "nor does a card stay that is gone"
    assert target.scrape(last(94)) == {"": 0.0, "31": 1.0, "94": 1.0}


@pytest.mark.parametrize(
    ("pages", "events"),
    [
        ((last(0), last(0), last(0)), 0.0),
        ((last(79), last(79), last(79)), 0.0),
        ((last(0), last(79), last(79)), 1.0),
        ((last(31), last(79), last(31)), 2.0),
        ((window(), window(x94=1), window(x94=3), window()), 3.0),
        ((window(x94=2), window(x94=2), window()), 0.0),
        ((last(0), last(48) + total(x48=1), last(48) + total(x48=2)), 2.0),
        ((last(0), last(43), last(45)), 0.0),  # the program's own
    ],
)
def test_the_signal_counts_what_came_while_it_was_watched(pages: tuple[str, ...], events: float) -> None:
    target = Target()
    target.scrape(*pages)
    assert target.events() == events


def test_each_target_has_a_memory_of_its_own() -> None:
    one, two = Target(), Target()
    one.scrape(last(31), last(94))
    assert two.scrape(last(94)) == {"": 0.0, "94": 1.0}


@pytest.mark.parametrize(
    ("text", "kind"),
    [("NaN", "missing"), ("-1", "missing"), ("+Inf", "missing"), ("9223372036854775794", "unsupported")],
)
def test_what_is_no_code_is_a_gap(text: str, kind: str) -> None:
    target = Target()
    assert target.scrape(last(text)) == {}
    assert values(target.snapshots[-1], "llm_family_gap", family=FAMILY, gap=kind, gpu="GPU-a") == [1.0]


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xid, "_MOST_CODES", 3)
    monkeypatch.setattr(xid, "_MOST_GPUS", 4)
    target = Target()
    assert len(target.scrape(*(last(code) for code in range(1, 9)))) == 1 + 3
    for n in range(20):
        target.scrape(last(7).replace('UUID="GPU-a"', f'UUID="GPU-{n}"'))
    counts = target.ingest._settle._count
    assert len(counts._seen) <= 6
