"""Signals of engines that count less than vLLM, against small windows whose numbers are worked out in comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import compute
from llmvitals.signals.context import Context
from llmvitals.signals.reading import Reading, Standing

STEP = 5.0
IDS = {"instance": "s", "model": "m", "engine": "x", "rank": "0"}
TTFT, TPOT, ITL = "llm_request_ttft_seconds", "llm_request_tpot_seconds", "llm_request_inter_token_seconds"
QUEUE, INFERENCE, MADE = "llm_request_queue_seconds", "llm_request_inference_seconds", "llm_request_generation_tokens"
RUNNING, WAITING, FINISHED = "llm_requests_running", "llm_requests_waiting", "llm_requests_finished_total"
TOKENS = "llm_generation_tokens_total"
NO_TIMES = (TTFT, TPOT, ITL)


def window(pages: Sequence[Mapping[str, float]], never: Sequence[str] = NO_TIMES, **beside: float) -> Window:
    """Pages every 5 s. A name may end in ``_bucket@EDGE``; ``never``: families that the engine says it cannot show."""
    shots = []
    for i, page in enumerate(pages):
        samples = {series("llm_target_up", instance="s"): 1.0}
        for name, number in {**page, **beside}.items():
            plain, _, edge = name.partition("@")
            samples[series(plain, **IDS, **({"le": edge} if edge else {}))] = float(number)
        for family in never:
            told = {"family": family, "gap": "unsupported", "reason": "it has no such thing"}
            samples[series("llm_family_gap", instance="s", **told)] = 1.0
        shots.append(Snapshot(1e9 + i * STEP, samples))
    return Window.of(shots)


def read(pages: Window, name: str) -> Reading:
    return compute(pages, Settings(), only=[name])[name]


def queued(counts: tuple[float, float, float], seconds: float) -> dict[str, float]:
    """A histogram of queue times: at most 1 s, at most 2 s (the promise), in all."""
    names = (f"{QUEUE}_bucket@1", f"{QUEUE}_bucket@2", f"{QUEUE}_bucket@+Inf")
    return {**dict(zip(names, counts, strict=True)), f"{QUEUE}_sum": seconds, f"{QUEUE}_count": counts[2]}


# -- first tokens that nobody times ---------------------------------------------------------------------------------
def test_a_queue_time_over_the_promise_is_a_late_first_token() -> None:
    # 20 finish in the window, 8 of them after more than 2 s in the queue: P(X >= 8 | 20, 5 %) = 2.66e-6 + 1.9e-7 + ...
    one = {RUNNING: 2, WAITING: 0, FINISHED: 0, **queued((0, 0, 0), 0.0)}
    two = {RUNNING: 2, WAITING: 0, FINISHED: 20, **queued((10, 12, 20), 40.0)}
    found = read(window([one, two]), "ttft_harm_p")
    assert found.value == pytest.approx(2.857e-6, rel=1e-3)
    assert found.standing is Standing.UPPER
    assert "queue times" in found.note
    assert read(window([one, two]), "ttft_breach_ratio").value == 8 / 20


def test_queue_times_stand_in_for_nothing_that_the_page_should_have() -> None:
    one = {RUNNING: 2, WAITING: 0, FINISHED: 0, **queued((0, 0, 0), 0.0)}
    two = {RUNNING: 2, WAITING: 0, FINISHED: 20, **queued((10, 12, 20), 40.0)}
    found = read(window([one, two], never=()), "ttft_harm_p")
    assert found.gap is not None
    assert found.gap.kind is GapKind.MISSING


def test_those_who_wait_too_long_without_being_served_count_as_well() -> None:
    # at 0 s 2 run and 6 wait; at 10 s nobody has finished: 8 have come, 2 have begun, 6 are overdue.
    pages = [{RUNNING: 2, WAITING: 6, FINISHED: 3, **queued((3, 3, 3), 1.0)}] * 3
    assert read(window(pages), "ttft_breach_ratio").value == 1.0


@pytest.mark.parametrize(
    ("waiting", "harm"),
    [
        ([8, 8, 8, 8], 0.0),  # 2 a second begin: 4 s ahead of each that comes
        ([2, 2, 2, 2], 1.0),  # 1 s
        ([0, 0, 0, 0], 1.0),
    ],
)
def test_the_wait_ahead_stands_in_where_no_queue_is_timed(waiting: list[float], harm: float) -> None:
    pages = [{RUNNING: 4, WAITING: w, FINISHED: 10 * i} for i, w in enumerate(waiting)]
    found = read(window(pages, never=(*NO_TIMES, QUEUE)), "ttft_harm_p")
    assert found.value == harm
    assert found.standing is Standing.ESTIMATE


# -- requests that nobody counts ------------------------------------------------------------------------------------
NOTHING = (*NO_TIMES, QUEUE, FINISHED, INFERENCE, MADE)


def slots(waiting: Sequence[float], tokens: Sequence[float]) -> Window:
    pages = [{RUNNING: 4, WAITING: w, TOKENS: t} for w, t in zip(waiting, tokens, strict=True)]
    return window(pages, never=NOTHING)


def test_the_size_of_a_request_is_guessed_from_the_steps_of_the_token_counter() -> None:
    # 0 and 200 tokens by turns: mean 100, variance (n / (n - 1)) x 100^2 = 11,111 over 10 steps: 111 tokens a request, and
    # 1,000 tokens in 50 s are 9 requests: 0.18 a second. 9 wait: 50 s.
    tokens = [0, 0, 200, 200, 400, 400, 600, 600, 800, 800, 1000]
    found = read(slots([9] * 11, tokens), "wait_ahead_seconds")
    assert found.value == pytest.approx(50.0)
    assert found.standing is Standing.ESTIMATE
    assert "guessed" in found.note
    assert read(slots([9] * 11, tokens), "ttft_harm_p").value == 0.0


def test_requests_that_end_like_clockwork_say_nothing_of_their_size() -> None:
    even = slots([9] * 11, [100.0 * i for i in range(11)])
    for name in ("wait_ahead_seconds", "ttft_harm_p", "waiting_growth_sigmas"):
        found = read(even, name)
        assert found.gap is not None, name
        assert found.gap.kind is GapKind.UNSUPPORTED, name


def test_a_guess_convicts_and_clears_nobody() -> None:
    # steps of 95 and 105 by turns: 0.28 tokens a "request", hundreds a second, no wait to speak of, which proves nothing
    tokens = [0.0]
    for i in range(10):
        tokens.append(tokens[-1] + (95 if i % 2 else 105))
    found = read(slots([9] * 11, tokens), "ttft_harm_p")
    assert found.gap is not None
    assert read(slots([0] * 11, tokens), "ttft_harm_p").value == 1.0  # nobody waits at all


def test_what_needs_counted_requests_is_a_gap_without_them() -> None:
    pages = slots([9] * 11, [100.0 * i for i in range(11)])
    for name in ("turnover_ratio", "arrival_rate", "queue_age_seconds", "preempted_waiting"):
        found = read(pages, name)
        assert found.gap is not None, name
        assert found.gap.kind is GapKind.UNSUPPORTED, name


# -- at the end of requests -----------------------------------------------------------------------------------------
def ended_times(counts: Sequence[float]) -> list[dict[str, float]]:
    """A page for each number of ended requests, whose first tokens came in time; 4 run and 1 waits on all of them."""
    buckets = [{f"{TTFT}_bucket@2": n, f"{TTFT}_bucket@+Inf": n, f"{TTFT}_sum": n, f"{TTFT}_count": n} for n in counts]
    return [{RUNNING: 4, WAITING: 1, FINISHED: n, **h} for n, h in zip(counts, buckets, strict=True)]


def test_first_tokens_that_count_at_the_end_make_no_running_request_overdue() -> None:
    # 5 came by 0 s and 5 by 10 s; 4 run all along and one waits: at most that one is late, and only as it stands still
    pages = ended_times([20, 21, 22, 23, 24])
    late = window(pages, never=(), llm_target_first_token_at_end=1)
    live = window(pages, never=())
    assert read(live, "ttft_breach_ratio").value == pytest.approx(1 / 5)  # read as if they counted when they come
    assert read(late, "ttft_breach_ratio").value == 0.0
    assert Context(late, Settings()).clock is not None


def test_a_page_that_counts_at_the_end_may_stand_still_while_a_request_runs() -> None:
    still = [{RUNNING: 1, WAITING: 0, TOKENS: 500}] * 8
    found = read(window(still, never=NOTHING), "stalled_seconds")
    assert found.gap is not None
    assert found.gap.kind is GapKind.UNSUPPORTED
    steps = window([{**page, "llm_iteration_tokens_count": 7} for page in still], never=(*NO_TIMES, QUEUE))
    assert read(steps, "stalled_seconds").value == 35.0  # its steps are counted, and none came


# -- sums and numbers without buckets -------------------------------------------------------------------------------
def parts(family: str, pages: Sequence[tuple[float, float]], **beside: float) -> Window:
    shown = [{RUNNING: 2, WAITING: 0, f"{family}_sum": s, f"{family}_count": n, **beside} for s, n in pages]
    return window(shown, never=(*(f for f in NOTHING if f != family), f"{family}_bucket"))


def test_a_histogram_without_buckets_has_a_mean_and_no_quantile() -> None:
    pages = parts(ITL, [(0.0, 0.0), (8.0, 100.0)])
    assert read(pages, "token_mean_seconds").value == pytest.approx(0.08)
    for name in ("itl_p99_low_seconds", "itl_median_high_seconds", "itl_spread", "itl_p99_seconds"):
        found = read(pages, name)
        assert found.gap is not None, name
        assert found.gap.kind is GapKind.UNSUPPORTED, name


def test_a_mean_beyond_the_promise_is_harm_and_one_within_it_none() -> None:
    assert read(parts(ITL, [(0.0, 0.0), (8.0, 100.0)]), "tpot_harm_p").value == 0.0  # 80 ms a token, 50 promised
    found = read(parts(ITL, [(0.0, 0.0), (4.0, 100.0)]), "tpot_harm_p")
    assert found.value == 1.0
    assert found.standing is Standing.ESTIMATE


def test_sums_without_buckets_are_no_absence_of_breaches() -> None:
    pages = window(
        [{RUNNING: 2, WAITING: 3, FINISHED: n, f"{QUEUE}_sum": 9.0 * n, f"{QUEUE}_count": n} for n in (0, 10, 20)],
        never=(*NO_TIMES, f"{QUEUE}_bucket"),
    )
    found = read(pages, "ttft_harm_p")  # 2 a second, 3 wait: 1.5 s ahead of who comes now
    assert (found.value, found.standing) == (1.0, Standing.ESTIMATE)
    assert read(pages, "ttft_breach_ratio").gap is not None
    assert read(pages, "queue_mean_seconds").value == pytest.approx(9.0)


@pytest.mark.parametrize(("inside", "harm"), [(100.0, 0.0), (60.0, 1.0)])
def test_time_inside_the_engine_speaks_once_the_latest_first_token_is_taken_off(inside: float, harm: float) -> None:
    # 10 requests of 100 tokens: 2 s for a first token and 50 ms a token are 7 s each, 70 s in all
    pages = [
        {
            RUNNING: 2,
            WAITING: 0,
            FINISHED: n * 10,
            **_whole(INFERENCE, inside * n, 10.0 * n),
            **_whole(MADE, 1000.0 * n, 10.0 * n),
        }
        for n in (0, 1)
    ]
    assert read(window(pages), "tpot_harm_p").value == harm


def _whole(family: str, total: float, number: float) -> dict[str, float]:
    return {
        f"{family}_bucket@+Inf": number,
        f"{family}_bucket@1": 0.0,
        f"{family}_sum": total,
        f"{family}_count": number,
    }


# -- pools that are told in tokens ----------------------------------------------------------------------------------
def test_what_the_next_request_needs_of_a_pool_that_is_told_in_tokens() -> None:
    prompts = "llm_request_prompt_tokens"
    pages = [
        {RUNNING: 5, WAITING: 9, FINISHED: n, "llm_kv_usage_ratio": 0.9, "llm_kv_capacity_tokens": 16_000}
        | _whole(prompts, 3000.0 * n, n)
        for n in (0.0, 10.0)
    ]
    # 3,000 of 16,000 tokens: more than the tenth that is free
    shown = window(
        pages, never=(*NO_TIMES, "llm_kv_blocks", "llm_kv_block_tokens", INFERENCE, MADE, "llm_preemptions_total")
    )
    assert read(shown, "kv_need_ratio").value == pytest.approx(3000 / 16_000)
    assert read(shown, "kv_room_ratio").value == pytest.approx(0.1 - 3000 / 16_000)
    # what is held may be set aside for what may come: how full it is says nothing of blocks
    fill = read(shown, "kv_fill_ratio")
    assert fill.gap is not None
    assert fill.gap.kind is GapKind.UNSUPPORTED
