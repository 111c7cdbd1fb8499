"""Pages of one window that each lack another number: signals over two of them look where both are, and the triage stands."""

from __future__ import annotations

import pytest

from llmvitals.exporters.cycle import Cycle, replay
from llmvitals.settings import Settings, Target
from llmvitals.signals.reading import Standing
from llmvitals.telemetry.ingest import RawPage

WAITS = 'vllm:num_requests_waiting_by_reason{model_name="m",reason="%s"} %d\n'
LORA = (
    'vllm:lora_requests_info{max_lora="%d",running_lora_adapters="%s",waiting_lora_adapters=""} 1\n'
    'vllm:num_requests_waiting{model_name="m"} 1\n'
)


def judged(*texts: str) -> Cycle:
    pages = [RawPage(1000.0 + 15 * at, 0.1, 200, text.encode()) for at, text in enumerate(texts)]
    *_, last = replay(pages, Settings(), target=Target(url="http://e:1", name="e", kind="vllm"))
    assert [one.collector for one in last.collected if not one.ok] == []
    return last


def test_reasons_that_stand_on_different_pages_are_each_counted_where_they_stand() -> None:
    """Deferred alone on two pages, capacity alone on the third: of three pages with waiting requests, two."""
    last = judged(WAITS % ("deferred", 1), WAITS % ("deferred", 2), WAITS % ("capacity", 3))
    assert last.scopes[0].readings["deferred_share_ratio"].value == pytest.approx(2 / 3)


def test_adapter_slots_are_held_against_the_queue_where_both_stand() -> None:
    waiting = 'vllm:num_requests_waiting{model_name="m"} 1\n'
    last = judged(LORA % (1, "a"), waiting, LORA % (1, "a"))
    assert last.scopes[0].readings["adapters_short_ratio"].value == 1.0


def test_a_histogram_of_one_bucket_has_no_edge_to_tell() -> None:
    name = "vllm:inter_token_latency_seconds"
    text = f'{name}_bucket{{model_name="m",le="+Inf"}} %d\n{name}_sum{{model_name="m"}} %d\n{name}_count{{model_name="m"}} %d\n'
    last = judged(*(text % (n, n, n) for n in (1, 5, 9)))
    reading = last.scopes[0].readings["itl_median_high_seconds"]
    assert (reading.value, reading.standing) == (0.0, Standing.LOWER)
