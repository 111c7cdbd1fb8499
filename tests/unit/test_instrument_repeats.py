"""Repeats and shared prefixes by sketches: never too few, seldom too many, and forgotten in time."""

from __future__ import annotations

import random
import struct
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvitals.instrument.repeats import SMALL, CountMin, Repeats, Sketch, blocks, normalised


@given(st.lists(st.integers(0, 30), max_size=300))
def test_a_key_is_never_counted_too_little(added: list[int]) -> None:
    sketch, truth = CountMin(8), Counter(added)  # narrow, so that keys fall together
    for number in added:
        sketch.add(spread(number))
    assert all(sketch.count(spread(number)) >= min(n, 255) for number, n in truth.items())


def spread(number: int) -> tuple[int, int, int, int]:
    one, two, three, four = struct.unpack("<4I", digest(number))
    return one, two, three, four


def digest(number: int) -> bytes:
    return random.Random(number).randbytes(16)


def test_counts_are_hardly_too_high() -> None:
    """Count-Min with 4 rows: beyond e/width of all that was added with a chance of e^-4; here none of what was never added."""
    sketch = CountMin(1 << 12)
    for number in range(1024):
        sketch.add(spread(number))
    assert sketch.full
    wrong = sum(sketch.count(spread(number)) > 0 for number in range(10_000, 20_000))
    assert wrong < 100, "one in a hundred"


def test_a_sketch_stops_at_what_a_cell_holds() -> None:
    sketch = CountMin(64)
    for _ in range(1000):
        sketch.add((1, 2, 3, 4))
    assert sketch.count((1, 2, 3, 4)) == 255


def test_the_latest_keys_are_known_and_old_ones_forgotten() -> None:
    sketch = Sketch(1 << 10)
    fresh = [digest(number) for number in range(2000)]
    for key in fresh:
        sketch.seen(key)
    assert all(sketch.seen(key) for key in fresh[-250:])
    assert sum(sketch.seen(key) for key in fresh[:100]) < 5


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 16_383, 16_384, 16_385, 20_480, 100_000])
def test_blocks_are_all_of_the_text(length: int) -> None:
    text = random.Random(length).randbytes(length)
    assert b"".join(blocks(text)) == text
    assert (
        list(blocks(text + b"more"))[: length // SMALL if length < 16_384 else 64]
        == list(blocks(text))[: length // SMALL if length < 16_384 else 64]
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Today is 2026-11-30, 04:35:12.", "Today is 2025-01-02, 23:59:01."),
        (f"request {UUID(int=1)} of user 17", f"request {UUID(int=2**127 + 99)} of user 4711"),
        ("you serve ann.b+c@example.com now", "you serve bob@mail.example.org now"),
    ],
)
def test_what_varies_is_set_aside(one: str, other: str) -> None:
    assert normalised(one.encode()) == normalised(other.encode())


@given(st.binary(max_size=300) | st.text("ab-@.0\u00e4 ", max_size=80).map(str.encode))
def test_normalising_takes_away_and_adds_nothing(text: bytes) -> None:
    left, kept = iter(text), normalised(text)
    assert all(any(byte == other for other in left) for byte in kept), "what is left stands in the text, in this order"
    assert normalised(b"x y z") == b"x y z"


def test_other_words_are_other_words() -> None:
    assert normalised(b"a cat") != normalised(b"a dog")


SYSTEM = "system\nYou are a helpful assistant of a shop. " * 30


def test_a_call_repeats_only_an_equal_one() -> None:
    repeats = Repeats(1 << 12, 1 << 12)
    assert repeats.asked("m", ("user\nhello",))[0] is False
    assert repeats.asked("m", ("user\nhello",))[0] is True
    assert repeats.asked("m", ("user\nhello 2",))[0] is False, "exact ones: numbers count"
    assert repeats.asked("other", ("user\nhello",))[0] is False
    assert repeats.asked("m", ("user\nhel", "lo"))[0] is False, "where one part ends is part of it"


def test_the_share_of_a_prompt_that_earlier_ones_begin_with() -> None:
    repeats = Repeats(1 << 12, 1 << 12)
    question = "user\n" + "what about this and that and more of it? " * 20
    assert repeats.asked("m", (SYSTEM, question))[1] == 0
    _, share = repeats.asked("m", (SYSTEM, "user\n" + "something else altogether, please. " * 20))
    whole = len(SYSTEM) + 1 + len("user\n" + "something else altogether, please. " * 20)
    assert (len(SYSTEM) - SMALL) / whole <= share <= (len(SYSTEM) + SMALL) / whole


def test_a_date_in_front_hides_no_shared_prefix_and_a_word_does() -> None:
    repeats = Repeats(1 << 12, 1 << 12)
    repeats.asked("m", ("now: 2026-11-30\n" + SYSTEM,))
    assert repeats.asked("m", ("now: 2027-01-01\n" + SYSTEM,))[1] == 1.0
    assert repeats.asked("m", ("hi! " + SYSTEM,))[1] == 0.0


def test_text_that_only_ends_alike_shares_no_prefix() -> None:
    repeats = Repeats(1 << 12, 1 << 12)
    repeats.asked("m", ("a" * SMALL + SYSTEM,))
    assert repeats.asked("m", ("b" * SMALL + SYSTEM,))[1] == 0.0


def test_a_block_counts_behind_its_own_beginning_only() -> None:
    a, b, c, d = (letter * SMALL for letter in "abcd")
    repeats = Repeats(1 << 12, 1 << 12)
    repeats.asked("m", (a + b,))
    repeats.asked("m", (c + d,))
    assert repeats.asked("m", (a + d,))[1] == 0.5


def test_hashes_are_of_this_process_alone() -> None:
    """Without the key nobody can ask a sketch (a heap dump, say) whether a prompt was among them."""
    one, other = Repeats(64, 64), Repeats(64, 64)
    one.asked("m", ("text",))
    other.asked("m", ("text",))
    assert one._calls._new._rows != other._calls._new._rows
