"""What is kept from cycle to cycle: packed samples are the samples, and memories of series end with them."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals import remembered
from llmvitals.exporters import heap
from llmvitals.exporters.page import row_of
from llmvitals.series import Packed, Series, Snapshot, Window, series
from llmvitals.telemetry.host.sockets import port_range

NAMES = st.sampled_from([series(f"llm_{n}", instance=i) for n in "abc" for i in "xyz"])
SAMPLES = st.dictionaries(NAMES, st.floats(allow_nan=False))


@given(SAMPLES, SAMPLES)
def test_packed_samples_are_the_samples(first, second):
    before = Packed.of(first)
    packed = Packed.of(second, before)
    assert packed == second
    assert list(packed.items()) == list(second.items())  # in their order too: a sum depends on it
    assert {**packed} == second
    assert all(key in packed and packed.get(key) == value for key, value in second.items())
    assert dict(before) == first  # sharing changed nothing about the snapshot before


def test_names_are_held_once():
    def fresh() -> dict[Series, float]:
        return {series("llm_a", instance="x"): 1.0, series("llm_b", instance="x"): 2.0}

    first = Packed.of(fresh())
    same = Packed.of(fresh(), first)
    more = Packed.of({series("llm_new"): 3.0, **fresh()}, same)
    held = {id(key) for key in first}
    assert {id(key) for key in same} == held
    assert held < {id(key) for key in more}


def test_a_window_over_packed_samples_is_the_same():
    pages = [{series("llm_a", instance="x"): float(t), series("llm_b"): -0.5} for t in range(5)]
    plain = Window.of(Snapshot(float(t), page) for t, page in enumerate(pages))
    packed = Window.of(Snapshot(float(t), Packed.of(page)) for t, page in enumerate(pages))
    assert packed.names() == plain.names()
    assert all(packed.tracks(name) == plain.tracks(name) for name in plain.names())


def test_what_is_remembered_of_series_that_went_is_forgotten():
    remembered.forget(-1)
    keys = [series("llm_requests_running", instance=f"pod-{n}") for n in range(50)]
    rows = [row_of(key) for key in keys]
    assert remembered.held() >= 50
    remembered.forget(10_000)
    assert remembered.held() >= 50
    remembered.forget(49)
    assert remembered.held() == 0
    assert [row_of(key) for key in keys] == rows


@pytest.mark.parametrize(
    ("text", "reserved", "count", "used"),
    [
        ("32768 60999", "", 28_232, 2),
        ("32768 60999", "40000-40009,7", 28_222, 1),
        ("nonsense", "", 0, 0),
        ("9 1", "", 0, 0),
    ],
)
def test_a_range_of_ports_counts_as_its_set_would(text, reserved, count, used):
    ports = port_range(text, reserved)
    assert len(ports) == count
    assert bool(ports) == bool(count)
    assert ports.used({40_000, 50_000, 80}) == used


def test_the_allocator_keeps_what_somebody_set(monkeypatch):
    set_to: dict[int, int] = {}

    class Library:
        def mallopt(self, number: int, value: int) -> int:
            set_to[number] = value
            return 1

        def malloc_trim(self, _: object) -> int:
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    assert heap.tended({"MALLOC_ARENA_MAX": "4"})
    assert sorted(set_to) == [-3, -1]
    set_to.clear()
    assert heap.tended({"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"})
    assert not set_to


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not heap.tended({})
