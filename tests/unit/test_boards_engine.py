"""The board of the engine over made servers in a real Prometheus: what its panels say is what was put in."""

import pytest

from llmvitals.dashboards.boards import engine
from llmvitals.dashboards.boards.engine_cache import PREFIX_GAP, SAVED, SOURCES
from llmvitals.dashboards.boards.engine_features import ADAPTERS, DRAFTS, ESTIMATED, MOVEMENT
from llmvitals.dashboards.boards.engine_kv import CAPACITY, KV_REPLICAS, KV_SPREAD, RECOMPUTED, ROOM
from llmvitals.dashboards.boards.engine_state import BUSY, STATES
from llmvitals.dashboards.boards.engine_steps import EVEN, PACE, PER_GPU, PREFILL_COST, STEP_TIME, THROUGHPUT, WASTED
from llmvitals.dashboards.model import Kind
from llmvitals.series import series
from llmvitals.simulator.hardware import GPUS
from support.made_servers import PLACE, grows, histogram, level, says, server
from support.prometheus import prometheus_of

pytestmark = pytest.mark.prometheus

H100 = GPUS["H100-80GB"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    edges = {"8.0": 0.5, "16.0": 0.5, "32.0": 1.0}
    points = {
        **server(
            "thrashes",
            target_up=level(1),
            kv_usage_ratio=level(0.98),
            kv_capacity_tokens=level(10_000),
            mean_context_tokens=level(500),
            preemptions_total=grows(0.2),
            requests_running=level(20),
            requests_waiting=level(5),
            prompt_tokens_total=grows(1000.0),
            prompt_tokens_cached_total=grows(400.0),
            generation_tokens_total=grows(300.0),
            wasted_decode_ratio=level(0.5),
            prefix_cache_query_tokens_total=grows(1000.0),
            prefix_cache_hit_tokens_total=grows(400.0),
        ),
        **server(
            "calm",
            target_up=level(1),
            kv_usage_ratio=level(0.5),
            kv_capacity_tokens=level(10_000),
            mean_context_tokens=level(500),
            preemptions_total=level(3),
            requests_running=level(0),
            requests_waiting=level(0),
            engine_asleep=level(1),
            prompt_tokens_total=grows(0.0),
            prefix_cache_query_tokens_total=grows(3000.0),
            prefix_cache_hit_tokens_total=grows(3000.0),
        ),
        **server("gone", target_up=level(0)),
        **server(
            "drafts",
            target_up=level(1),
            host_ready=level(0),
            requests_running=level(4),
            prompt_tokens_total=grows(100.0),
            prompt_tokens_by_source_total__source__local_compute=grows(20.0),
            prompt_tokens_by_source_total__source__local_cache_hit=grows(30.0),
            prompt_tokens_by_source_total__source__external_kv_transfer=grows(50.0),
            generation_tokens_total=grows(200.0),
            spec_drafts_total=grows(50.0),
            spec_draft_tokens_total=grows(200.0),
            spec_accepted_tokens_total=grows(50.0),
            spec_accepted_tokens_by_position_total__position__0=grows(40.0),
            spec_accepted_tokens_by_position_total__position__1=grows(10.0),
            engine_role__role__decode=level(1),
            requests_waiting=level(2),
        ),
        **histogram("drafts", "iteration_tokens", 50.0, 16.0, edges),
        **histogram("calm", "iteration_tokens", 1.0, 16.0, edges),
        # 800 tokens a prompt, 200 of them computed, in 0.1 s; 0.5 s to the first token, of which 0.2 queued
        **histogram("drafts", "request_prompt_tokens", 2.0, 800.0, {"1000.0": 1.0}),
        **histogram("drafts", "request_computed_prompt_tokens", 2.0, 200.0, {"1000.0": 1.0}),
        **histogram("drafts", "request_prefill_seconds", 2.0, 0.1, {"1.0": 1.0}),
        **histogram("drafts", "request_ttft_seconds", 2.0, 0.5, {"1.0": 1.0}),
        **histogram("drafts", "request_queue_seconds", 2.0, 0.2, {"1.0": 1.0}),
        # a decode worker: one token of each prompt is computed
        **histogram("receives", "request_prompt_tokens", 2.0, 800.0, {"1000.0": 1.0}),
        **histogram("receives", "request_computed_prompt_tokens", 2.0, 1.0, {"1000.0": 1.0}),
        **histogram("receives", "request_prefill_seconds", 2.0, 0.1, {"1.0": 1.0}),
        **server(
            "receives",
            kv_transfer_seconds_sum__connector__nixl=grows(0.5),
            kv_transfer_seconds_count__connector__nixl=grows(9.0),
            kv_transfer_bytes_sum__connector__nixl=grows(2e9),
            kv_transfer_failures_total__connector__nixl=grows(1.0),
            estimated_flops_total=grows(H100.flops / 4),
            estimated_read_bytes_total=grows(H100.bandwidth / 4),
            estimated_write_bytes_total=grows(H100.bandwidth / 4),
            generation_tokens_total=grows(90.0),
        ),
        **{
            series(
                "llm_gpu_info",
                instance="receives",
                gpu=f"GPU-{index}",
                index=str(index),
                product=H100.product,
                **PLACE,
            ): level(1)
            for index in range(2)
        },
    }
    # two ranks of one server: each has a pool of 1,000 tokens, makes 20 steps a second and estimates a quarter of its GPU's peak
    for rank in ("0", "1"):
        of_rank = {
            "kv_capacity_tokens": level(1000),
            "kv_usage_ratio": level(0.5),
            "requests_running": level(3),
            "iteration_tokens_count": grows(20.0),
            "estimated_flops_total": grows(H100.flops / 4),
        }
        points |= server("ranks", **{f"{name}__rank__{rank}": value for name, value in of_rank.items()})
    points |= server("ranks", mean_context_tokens=level(100))
    # one that prefills with one rank and decodes with another
    points |= server("halves", engine_role__role__prefill=level(1), requests_running=level(5))
    points |= server("halves", engine_role__role__decode=level(1))
    with prometheus_of(tmp_path_factory.mktemp("engine"), points) as found:
        yield found


def panel(row, title):
    return next(one for one in row.panels if one.title == title)


def test_the_full_replica_shows_beside_a_mean_that_hides_it(prometheus):
    found = {
        legend: values["tiny" if "tiny" in values else ""]
        for legend, values in says(prometheus, KV_SPREAD, "thrashes|calm").items()
    }
    assert found == pytest.approx({"fullest": 0.98, "mean": 0.74, "emptiest": 0.5, "replicas that are full": 1})
    assert says(prometheus, KV_SPREAD, "calm")["replicas that are full"] == {"": 0}


def test_only_a_replica_that_preempts_is_red(prometheus):
    found = says(prometheus, KV_REPLICAS, "thrashes|calm")
    assert found["holds"] == pytest.approx({"thrashes": 0.98, "calm": 0.5})
    assert found["preempts"] == pytest.approx({"thrashes": 0.98})


def test_room_is_free_tokens_over_the_mean_context(prometheus):
    assert says(prometheus, ROOM, "thrashes|calm")["more requests fit"] == pytest.approx(
        {"thrashes": 0.4, "calm": 10.0}
    )
    assert says(prometheus, ROOM)["full in"] == {}, "usage that stands still never fills the pool"


def test_what_is_computed_again_is_evictions_times_the_context(prometheus):
    assert says(prometheus, RECOMPUTED)["computed again (estimate)"]["thrashes"] == pytest.approx(100.0)


def test_computed_prompts_leave_out_what_a_cache_served(prometheus):
    found = says(prometheus, THROUGHPUT)["of it computed"]
    assert found["thrashes"] == pytest.approx(600.0)
    assert "drafts" not in found, "nothing says how much of it a cache served"
    assert found["calm"] == 0, "never below nothing"


def test_a_step_has_a_time_only_while_something_runs(prometheus):
    found = says(prometheus, STEP_TIME, "drafts|calm")
    assert found["steps"] == pytest.approx({"drafts": 50.0, "calm": 1.0})
    assert found["a step takes"] == pytest.approx({"drafts": 0.02})


def test_a_mean_step_is_held_against_a_large_one(prometheus):
    assert says(prometheus, EVEN)["mean step of a large one"]["drafts"] == pytest.approx(16 / (16 + 16 * 0.98))


def test_pace_is_what_one_of_the_running_gets(prometheus):
    assert says(prometheus, PACE)["tokens per second and request"] == pytest.approx({"thrashes": 15.0, "drafts": 50.0})


def test_prefill_costs_time_per_token_that_was_computed(prometheus):
    found = says(prometheus, PREFILL_COST)
    assert found["prefill"] == pytest.approx({"drafts": 0.1 / 200})
    assert found["first token less queue"] == pytest.approx({"drafts": 0.3 / 200})
    assert found["computed per request"] == pytest.approx({"drafts": 200.0}), "a decode worker computes no prompt"


def test_what_a_cache_saves_is_said_only_where_enough_is_computed_to_know_its_price(prometheus):
    assert says(prometheus, SAVED)["saved (estimate)"] == pytest.approx({"drafts": 600 * 0.1 / 200})


def test_each_part_of_wasted_work_is_a_share_of_all_that_was_processed(prometheus):
    found = {legend: values.get("") for legend, values in says(prometheus, WASTED, "thrashes").items()}
    processed = 600.0 + 300.0 + 100.0
    assert found["computed again (estimate)"] == pytest.approx(100 / processed)
    assert found["for clients that left (at most)"] == pytest.approx(150 / processed)
    assert found["rejected drafts"] is None, "an engine without drafts has no such band"
    found = {legend: values.get("") for legend, values in says(prometheus, WASTED, "drafts").items()}
    assert found["rejected drafts"] == pytest.approx(150 / (100 + 200 + 150))


def test_a_replicas_hit_ratio_is_held_against_all_tokens_of_its_model(prometheus):
    (found,) = says(prometheus, PREFIX_GAP).values()
    assert found == pytest.approx({"thrashes": 0.4 - 0.85, "calm": 1 - 0.85})


def test_sources_of_prompts_are_those_told_and_else_what_a_cache_served(prometheus):
    told = {legend: values[""] for legend, values in says(prometheus, SOURCES, "drafts").items()}
    assert list(told.values()) == pytest.approx([20.0, 30.0, 50.0])
    untold = {legend: values.get("") for legend, values in says(prometheus, SOURCES, "thrashes").items()}
    assert list(untold.values()) == [pytest.approx(600.0), pytest.approx(400.0), None]
    both = {legend: values[""] for legend, values in says(prometheus, SOURCES, "thrashes|drafts").items()}
    assert list(both.values()) == pytest.approx([620.0, 430.0, 50.0])


def test_replicas_are_down_asleep_kept_out_or_serve(prometheus):
    names = {value: text for value, text, _ in STATES.queries[0].names}
    (found,) = says(prometheus, STATES).values()
    assert {one: names[value] for one, value in found.items()} == {
        "thrashes": "answers",
        "calm": "asleep",
        "gone": "does not answer",
        "drafts": "answers, its pod is not ready",
    }
    names = {value: text for value, text, _ in BUSY.queries[0].names}
    (found,) = says(prometheus, BUSY).values()
    assert {one: names[value] for one, value in found.items()} == {
        "thrashes": "runs, requests wait",
        "calm": "idle",
        "drafts": "runs, requests wait",
    }


def test_drafts_are_told_by_length_and_position(prometheus):
    worth = says(prometheus, panel(DRAFTS, "Is it worth it? Tokens of a step beside its time"))
    assert worth["tokens that a request gets per step"] == pytest.approx({"drafts": 2.0})
    assert worth["a step takes"] == pytest.approx({"drafts": 0.02}), "no line of an engine that does not speculate"
    assert says(prometheus, panel(DRAFTS, "Accepted by position in the draft"))["position"] == pytest.approx(
        {"drafts/0": 0.8, "drafts/1": 0.2}
    )
    assert says(prometheus, panel(DRAFTS, "Rejected drafts"))["rejected"] == pytest.approx({"drafts": 150.0})


def test_kv_that_moves_is_told_by_connector(prometheus):
    bandwidth = says(prometheus, panel(MOVEMENT, "Bandwidth of KV transfers"))
    assert bandwidth["while one moves"] == pytest.approx({"receives/nixl": 4e9})
    assert bandwidth["moved per second"] == pytest.approx({"receives/nixl": 2e9})
    failed = says(prometheus, panel(MOVEMENT, "Share of KV transfers that fail"))
    assert failed["failed"] == pytest.approx({"receives/nixl": 0.1})
    roles = says(prometheus, panel(MOVEMENT, "Prefill and decode workers: who is short?"), "drafts|receives")
    assert roles == {"run at": {"decode": 4.0}, "wait at": {"decode": 2.0}}


def test_ranks_of_a_server_add_up_in_its_pool_and_not_in_the_time_of_a_step(prometheus):
    assert says(prometheus, CAPACITY, "ranks")["KV tokens"] == {"ranks": 2000}
    assert says(prometheus, ROOM, "ranks")["more requests fit"] == {"ranks": pytest.approx(10.0)}
    steps = says(prometheus, STEP_TIME, "ranks")
    assert steps == {"steps": {"ranks": pytest.approx(40.0)}, "a step takes": {"ranks": pytest.approx(0.05)}}
    (compute,) = says(prometheus, panel(ESTIMATED, "Compute, per GPU"), "ranks").values()
    assert compute == {"ranks": pytest.approx(H100.flops / 4)}, "per GPU, however many ranks there are"


def test_a_server_of_two_roles_is_no_error(prometheus):
    roles = says(prometheus, panel(MOVEMENT, "Prefill and decode workers: who is short?"), "halves")
    assert roles == {"run at": {"prefill": 5.0, "decode": 5.0}, "wait at": {}}


def test_estimated_work_is_held_against_the_cards_data_sheet(prometheus):
    found = says(prometheus, panel(ESTIMATED, "Share of the card's peak"))
    assert found == {
        "compute (MFU)": {"receives": pytest.approx(0.25)},
        "memory bandwidth": {"receives": pytest.approx(0.5)},
    }
    (intensity,) = says(prometheus, panel(ESTIMATED, "Operations per byte")).values()
    assert intensity == pytest.approx({"receives": H100.flops / H100.bandwidth / 2})
    assert says(prometheus, PER_GPU)["generated"] == pytest.approx({"receives": 45.0})


def test_an_engine_that_estimates_nothing_shows_no_zero(prometheus):
    titles = ("Compute, per GPU", "Memory traffic, per GPU", "Operations per byte")
    shown = [says(prometheus, panel(ESTIMATED, title), "thrashes|calm|drafts") for title in titles]
    assert all(not values for found in shown for values in found.values())


def test_what_needs_a_feature_is_a_click_away_and_says_so():
    assert all("needs" in row.title for row in (DRAFTS, ADAPTERS, MOVEMENT, ESTIMATED))
    apart = {row.title for row in engine.BOARD.rows for one in row.panels if one.apart}
    assert apart <= {row.title for row in engine.BOARD.rows if row.collapsed}
    assert all(
        sum(query.column == panel.worst.lstrip("-") for query in panel.queries) == 1
        for row in engine.BOARD.rows
        for panel in row.panels
        if panel.kind is Kind.TABLE
    )
