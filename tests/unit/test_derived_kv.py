"""The KV pool's signals: how full, what the next one needs, seats, turnover; numbers worked out in comments."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.signals.reading import Standing
from support.made import START, Server, changed, read, run, value, without


def steady(*, kv: float = 0.3, running: float = 4, pages: int = 10, **request: float):
    """Ten intervals of 5 s, five requests finishing in each: 1/s. A pool of 1,000 blocks of 16 tokens."""

    def each(server: Server, _: int) -> None:
        server.serve(5, **request)
        server.gauges(running=running, kv=kv)

    return run(pages, each)


# -- usage ------------------------------------------------------------------------------------------------------------
def test_usage_is_the_gauges_high_quantile_where_it_is_the_higher():
    # Little: 1/s x (0.1 + 99 x 0.02 = 2.08 s) x ((200 + 100/2) / 16 + 0.5 = 16.125 blocks) / 1000 = 0.0335
    assert value(steady(kv=0.3), "kv_usage_high_ratio") == 0.3


def test_usage_by_littles_law_lifts_a_gauge_that_under_reads():
    # 1/s x (4 + 99 x 0.2 = 23.8 s) x ((3000 + 50) / 16 + 0.5 = 191.125 blocks) / 1000 > 1 -> 1
    assert value(steady(kv=0.3, prompt=3000, prefill=4.0, tpot=0.2), "kv_usage_high_ratio") == 1.0
    # 1/s x (1 + 99 x 0.02 = 2.98 s) x 191.125 / 1000 = 0.5696
    found = read(steady(kv=0.3, prompt=3000, prefill=1.0), "kv_usage_high_ratio")
    assert found.value == pytest.approx(2.98 * 191.125 / 1000)
    assert found.standing is Standing.ESTIMATE
    assert "Little" in found.note


def test_what_the_prefix_cache_gives_is_not_held_twice():
    # half of the 3,000 prompt tokens are hits: 2.98 x ((1500 + 50) / 16 + 0.5) / 1000
    found = value(steady(kv=0.1, prompt=3000, prefill=1.0, hits=1500), "kv_usage_high_ratio")
    assert found == pytest.approx(2.98 * (1550 / 16 + 0.5) / 1000)


def test_littles_law_is_silent_while_requests_are_preempted():
    def each(server: Server, _: int) -> None:
        server.serve(5, prompt=3000, prefill=1.0)
        server.count("llm_preemptions_total", 1)  # 10 of 50 finished: more than 5 %
        server.gauges(running=4, kv=0.3)

    assert value(run(10, each), "kv_usage_high_ratio") == 0.3


def test_the_block_size_follows_from_the_pool_where_the_page_hides_it():
    # 128-token blocks: 2.98 x ((3000 + 50) / 128 + 0.5) / 1000 = 0.0725; with 16 it would be 0.57
    server = Server()
    server.facts(block=128)

    def each(s: Server, _: int) -> None:
        s.serve(5, prompt=3000, prefill=1.0)
        s.gauges(running=4, kv=0.01)

    window = run(10, each, server)
    expected = 2.98 * (3050 / 128 + 0.5) / 1000
    assert value(window, "kv_usage_high_ratio") == pytest.approx(expected)
    assert value(without(window, "llm_kv_block_tokens"), "kv_usage_high_ratio") == pytest.approx(expected)


@pytest.mark.parametrize(
    "family",
    [
        "llm_request_inference_seconds",
        "llm_kv_blocks",
        "llm_request_prompt_tokens",
        "llm_request_generation_tokens",
    ],
)
def test_a_gauge_alone_cannot_say_that_kv_is_free(family):
    found = read(without(steady(kv=0.3, prompt=3000, prefill=1.0), family), "kv_usage_high_ratio")
    assert found.gap is not None
    assert (found.gap.kind, found.gap.series) == (GapKind.MISSING, family)


def test_a_gauge_alone_can_say_that_kv_is_full():
    assert value(without(steady(kv=0.97), "llm_request_inference_seconds"), "kv_usage_high_ratio") == 0.97


def test_usage_takes_the_fullest_rank():
    server = Server(ranks=2)

    def each(s: Server, _: int) -> None:
        s.serve(2, rank=0)
        s.serve(2, rank=1)
        s.gauges(running=2, kv=0.2, rank=0)
        s.gauges(running=2, kv=0.7, rank=1)

    assert value(run(10, each, server), "kv_usage_high_ratio") == 0.7


# -- what the next one needs ------------------------------------------------------------------------------------------
def test_need_is_the_blocks_of_a_large_prompt():
    # all prompts 3,000: mean 3,000, p95 at least 2,000 -> ceil(3000 / 16) = 188 of 1,000 blocks
    assert value(steady(prompt=3000, prefill=1.0), "kv_need_ratio") == pytest.approx(0.188)


def test_need_leaves_the_cached_part_out():
    # 3,000 tokens, 2,000 of them hits: ceil(1000 / 16) = 63
    assert value(steady(prompt=3000, hits=2000), "kv_need_ratio") == pytest.approx(0.063)


def test_need_takes_the_long_ones_and_not_the_mean():
    def each(server: Server, _: int) -> None:
        server.serve(9, prompt=10)
        server.serve(1, prompt=1500)  # one in ten: p95 lies in 1000..2000, the mean is 159
        server.gauges(running=4)

    # ceil(1000 / 16) = 63 of 1,000
    assert value(run(6, each), "kv_need_ratio") == pytest.approx(0.063)


def test_need_is_of_one_ranks_pool():
    server = Server(ranks=2)

    def each(s: Server, _: int) -> None:
        for rank in (0, 1):
            s.serve(2, prompt=3000, rank=rank)
            s.gauges(running=2, kv=0.2, rank=rank)

    # 188 blocks of the 1,000 of one rank, not of the 2,000 of both
    assert value(run(6, each, server), "kv_need_ratio") == pytest.approx(0.188)


def test_room_is_what_is_free_beyond_the_need():
    # free 1 - 0.7, need 0.188: 0.112 left
    assert value(steady(kv=0.7, prompt=3000), "kv_room_ratio") == pytest.approx(0.112)
    # short prompts need ceil(200 / 16) / 1000 = 0.013, less than the floor of 0.05
    assert value(steady(kv=0.7), "kv_room_ratio") == pytest.approx(0.25)
    assert value(steady(kv=0.97), "kv_room_ratio") == pytest.approx(-0.02)
    assert value(steady(kv=0.97), "kv_free_low_ratio") == pytest.approx(0.03)


def test_room_is_unknown_where_the_need_is_and_the_pool_is_not_full():
    window = steady(kv=0.6)
    hidden = without(window, "llm_kv_blocks")
    assert value(hidden, "kv_room_ratio") is None
    assert value(without(steady(kv=0.97), "llm_kv_blocks"), "kv_room_ratio") == pytest.approx(-0.02)


# -- seats ------------------------------------------------------------------------------------------------------------
def test_contexts_and_seats():
    window = steady()  # 200 in, 100 out
    assert value(window, "mean_context_tokens") == 250
    # 250 tokens are 16 blocks = 256; 16,000 / 256 = 62.5 -> 62
    assert value(window, "seats") == 62
    # p90 of the prompts lies in 100..200, as does their mean: 200; outputs 100 in 50..100: 100. 300 -> 19 blocks = 304
    assert value(window, "full_context_tokens") == 304
    assert value(window, "seats_full") == 52  # 16,000 / 304 = 52.6
    assert value(window, "spare_seats") == 48  # 4 run


def test_a_large_context_is_interpolated_where_its_bucket_lies_above_the_means():
    def each(server: Server, _: int) -> None:
        server.serve(8, prompt=10, output=10)
        server.serve(2, prompt=400, output=10)  # p90 in 200..500, mean 88
        server.gauges(running=2)

    # p90 of the prompts: half-way through the fifth in 200..500 = 350, 262 above the mean; outputs are all 10.
    # 88 + 10 + 262 = 360 -> 23 blocks = 368
    assert value(run(6, each), "full_context_tokens") == 368


def test_a_long_prompt_seldom_meets_a_long_answer():
    def each(server: Server, _: int) -> None:
        server.serve(8, prompt=10, output=10)
        server.serve(1, prompt=400, output=10)
        server.serve(1, prompt=10, output=400)
        server.gauges(running=2)

    # both means are 49, and nine of ten lie in 5..10: neither p90 exceeds its mean. 98 -> 7 blocks = 112
    assert value(run(6, each), "full_context_tokens") == 112


def test_ranks_add_seats():
    server = Server(ranks=2)

    def each(s: Server, _: int) -> None:
        for rank in (0, 1):
            s.serve(2, rank=rank)
            s.gauges(running=2, rank=rank)

    window = run(6, each, server)
    assert value(window, "kv_capacity_tokens") == 32_000
    assert value(window, "seats") == 125  # 32,000 / 256


def test_a_pool_of_0_tokens_was_not_told():
    window = changed(steady(), lambda k, v: 0.0 if k.name == "llm_kv_capacity_tokens" else v)
    for signal in ("kv_capacity_tokens", "seats", "seats_full", "contexts_in_pool", "prefix_turnover_seconds"):
        assert read(window, signal).gap is not None, signal


def test_longest_contexts_in_the_pool_of_one_rank():
    server = Server(ranks=2)
    server.serve(1)
    server.page()
    server.serve(3)
    server.page()
    window = server.window()
    assert value(window, "contexts_in_pool") == pytest.approx(16_000 / 8_192)
    assert value(window, "context_slack_ratio") == pytest.approx(8_192 / 304)


# -- blocks, prefixes -------------------------------------------------------------------------------------------------
def test_fill_is_what_held_blocks_really_hold():
    # 4 running x 250 tokens = 1,000 against 0.25 x 16,000 = 4,000 held
    assert value(steady(kv=0.25, running=4), "kv_fill_ratio") == pytest.approx(0.25)


def test_fill_counts_the_pools_of_the_ranks_that_show_their_usage():
    server = Server(ranks=2)

    def each(s: Server, _: int) -> None:
        s.serve(2, rank=0)
        s.gauges(running=10, kv=0.25, rank=0)

    window = changed(
        run(6, each, server),
        lambda k, v: None if k.label("rank") == "1" and k.name in {"llm_kv_usage_ratio", "llm_requests_running"} else v,
    )
    # 10 x 250 = 2,500 against 0.25 x 16,000 of the rank that speaks; with both pools it would be 0.31
    assert value(window, "kv_fill_ratio") == pytest.approx(0.625)


def test_fill_of_uneven_ranks_is_not_that_of_the_fullest():
    server = Server(ranks=2)

    def each(s: Server, _: int) -> None:
        s.serve(2, rank=0)
        s.gauges(running=12, kv=0.25, rank=0)
        s.gauges(running=0, kv=0.0, rank=1)

    # 12 x 250 = 3,000 against 0.25 x 16,000 + 0
    assert value(run(6, each, server), "kv_fill_ratio") == pytest.approx(0.75)


def test_turnover_is_the_time_in_which_new_tokens_fill_the_pool():
    # 1/s x (200 + 100) tokens: 16,000 / 300 = 53.3 s
    assert value(steady(), "prefix_turnover_seconds") == pytest.approx(16_000 / 300)
    # all but 50 of the prompt tokens are hits: 16,000 / 150
    assert value(steady(hits=150), "prefix_turnover_seconds") == pytest.approx(16_000 / 150)


def test_hits_in_the_window_and_before_it():
    server = Server()
    server.serve(10, prompt=200, hits=150)  # before the first page: 1,500 of 2,000
    window = run(6, lambda s, _: s.serve(5, prompt=200, hits=20), server)
    assert value(window, "prefix_hit_ratio") == pytest.approx(0.1)
    assert value(window, "prefix_hit_before_ratio") == pytest.approx(0.75)


def test_a_cache_that_is_never_asked_has_no_ratio():
    window = changed(steady(), lambda k, v: 0.0 if "prefix_cache" in k.name else v)
    for signal in ("prefix_hit_ratio", "prefix_hit_before_ratio"):
        found = read(window, signal)
        assert found.gap is not None
        assert found.gap.kind is GapKind.NO_TRAFFIC


def test_whether_caching_is_on_comes_from_the_configuration():
    server = Server()
    server.facts(caching=0)
    assert value(run(5, lambda s, _: s.serve(1), server), "prefix_caching_enabled") == 0.0
    assert value(without(steady(), "llm_prefix_caching_enabled"), "prefix_caching_enabled") is None


@pytest.mark.parametrize(
    ("signal", "family"),
    [
        ("kv_usage_high_ratio", "llm_kv_usage_ratio"),
        ("kv_free_low_ratio", "llm_kv_usage_ratio"),
        ("kv_room_ratio", "llm_kv_usage_ratio"),
        ("kv_need_ratio", "llm_kv_blocks"),
        ("kv_need_ratio", "llm_request_prompt_tokens"),
        ("kv_capacity_tokens", "llm_kv_capacity_tokens"),
        ("kv_fill_ratio", "llm_kv_usage_ratio"),
        ("kv_fill_ratio", "llm_kv_capacity_tokens"),
        ("mean_context_tokens", "llm_request_prompt_tokens"),
        ("mean_context_tokens", "llm_request_generation_tokens"),
        ("full_context_tokens", "llm_request_generation_tokens"),
        ("seats", "llm_kv_capacity_tokens"),
        ("seats_full", "llm_request_prompt_tokens"),
        ("contexts_in_pool", "llm_max_model_tokens"),
        ("contexts_in_pool", "llm_kv_capacity_tokens"),
        ("context_slack_ratio", "llm_max_model_tokens"),
        ("prefix_turnover_seconds", "llm_kv_capacity_tokens"),
    ],
)
def test_without_its_family_a_signal_is_a_gap_that_names_it(signal, family):
    found = read(without(steady(), family), signal)
    assert found.gap is not None
    assert found.gap.series == family


def test_facts_are_those_of_the_process_that_runs_now():
    server = Server(start=START)
    for _ in range(4):
        server.serve(5)
        server.page()
    server.restart()
    server.facts(blocks=500)
    for _ in range(3):
        server.serve(5)
        server.page()
    assert value(server.window(), "kv_capacity_tokens") == 8_000
