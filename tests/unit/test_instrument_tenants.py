"""Tenants by name: the heaviest have series, every token counts once, and there are never more series than were allowed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from llmvitals.instrument.tenants import FROZEN, OTHER, TopTenants


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Page:
    """What a page shows: counters by label that begin, rise and leave."""

    def __init__(self, most: int) -> None:
        self.clock = Clock()
        self.counts: Counter[str] = Counter()
        self.gone: list[str] = []
        self.top = TopTenants(most, self.clock, self.leave)

    def leave(self, name: str) -> None:
        self.gone.append(name)
        del self.counts[name]

    def use(self, tenant: str, tokens: int) -> str:
        label = self.top.used(tenant, tokens)
        self.counts[label] += tokens
        return label


steps = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 100_000), st.sampled_from([0.0, 0.1, 5.0, 70.0, 700.0])), max_size=300
)


@given(steps, st.integers(1, 5))
def test_every_token_counts_once_and_series_are_bounded(taken: list[tuple[int, int, float]], most: int) -> None:
    page = Page(most)
    used = seen = 0
    for tenant, tokens, pause in taken:
        page.clock.now += pause
        before = Counter(page.counts)
        page.use(f"t{tenant}", tokens)
        used += tokens
        seen += sum(max(0, n - before.get(label, 0)) for label, n in page.counts.items())
        shown = page.top.shown()
        assert len(shown) <= 2 * most + 1
        assert set(page.counts) <= shown, "what is counted stands under a label that is shown"
    assert seen == used


@given(steps)
def test_counters_never_fall_while_they_stand(taken: list[tuple[int, int, float]]) -> None:
    page = Page(3)
    for tenant, tokens, pause in taken:
        page.clock.now += pause
        before = Counter(page.counts)
        page.gone.clear()
        page.use(f"t{tenant}", tokens)
        page.top.thaw()
        assert all(page.counts[label] >= n for label, n in before.items() if label not in page.gone)


def test_as_many_as_there_are_names_need_no_other() -> None:
    page = Page(3)
    for tenant in "abc" * 5:
        page.use(tenant, 10)
    assert page.counts == {"a": 50, "b": 50, "c": 50}


def flooded(rate: int) -> float | None:
    """Seconds until a newcomer with so many times the smallest tenant's rate has a series; 100 tenants at a steady rate."""
    page = Page(100)
    for _ in range(60):  # ten minutes of all of them
        page.clock.now += 10
        for tenant in range(100):
            page.use(f"t{tenant}", 1000)
    began = page.clock.now
    while page.clock.now < began + 300:
        page.clock.now += 1
        if page.clock.now % 10 == 0:
            for tenant in range(100):
                page.use(f"t{tenant}", 1000)
        if page.use("new", 100 * rate) == "new":
            return page.clock.now - began
    return None


def test_a_heavy_newcomer_has_a_series_within_a_minute() -> None:
    assert flooded(3) is not None
    assert flooded(3) <= 61
    assert flooded(30) < 10


def test_one_as_heavy_as_the_others_displaces_nobody() -> None:
    assert flooded(1) is None


def test_the_displaced_keeps_its_series_for_ten_minutes_and_counts_as_other() -> None:
    page = Page(1)
    page.use("old", 100)
    page.use("new", 1000)
    assert page.use("new", 1000) == "new"
    assert page.use("old", 7) == OTHER
    assert page.counts["old"] == 100
    page.clock.now += FROZEN - 1
    assert "old" in page.top.shown()
    page.clock.now += 2
    assert "old" not in page.top.shown()
    assert page.gone == ["old"]


def test_one_that_comes_back_goes_on_with_its_own_series() -> None:
    page = Page(1)
    page.use("old", 100)
    page.use("new", 1000)
    page.use("old", 10_000)
    assert page.use("old", 5) == "old"
    assert page.counts["old"] == 105


def test_who_calls_seldom_displaces_nobody_though_a_named_one_is_silent() -> None:
    page = Page(100)
    for tenant in range(100):
        page.use(f"t{tenant}", 1000)
    page.clock.now += 3600
    for _ in range(20):
        page.use("t0", 10_000)
        page.use("seldom", 20)
    assert page.use("seldom", 1) == OTHER


def test_what_a_light_one_may_owe_to_others_promotes_nobody() -> None:
    """Candidates take each other's place with each other's weight as their possible error: that is not theirs."""
    page = Page(2)
    page.use("a", 1000)
    page.use("b", 1000)
    for number in range(40):
        assert page.use(f"light-{number}", 600) == OTHER
    assert page.top.shown() == {"a", "b", OTHER}


def test_where_all_frozen_ones_are_fresh_a_newcomer_waits_for_a_minute() -> None:
    page = Page(1)
    page.use("a", 10)
    page.use("b", 1000)
    assert page.use("b", 1) == "b", "a is frozen"
    page.clock.now += 30
    page.use("c", 100_000)
    assert page.use("c", 1) == OTHER
    assert page.counts["a"] == 10
    page.clock.now += 31
    page.use("c", 100_000)
    assert page.use("c", 1) == "c"
    assert page.gone == ["a"]


def test_weights_last_for_weeks() -> None:
    page = Page(2)
    for _ in range(2000):
        page.clock.now += 3600
        page.use("a", 10**6)
        page.use("b", 10)
    page.use("c", 10**6)
    assert page.use("c", 1) == "c"
    assert page.use("a", 1) == "a"


def test_a_tenant_without_a_name_has_no_label_and_one_named_other_is_among_the_others() -> None:
    page = Page(1)
    assert page.use("", 10) == ""
    assert page.use(OTHER, 10) == OTHER
    assert page.use("a", 1) == "a"
