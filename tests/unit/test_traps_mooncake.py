"""Traps of Mooncake's pages: microseconds, directions and transports, a store without a segment."""

from __future__ import annotations

import pytest

from support.page_text import read, values


def test_microseconds_become_seconds_edges_too() -> None:
    name = "tent_read_latency_us"
    buckets = "".join(f'{name}_bucket{{transport="rdma",le="{le}"}} 3\n' for le in ("250", "+Inf"))
    page = f'{buckets}{name}_sum{{transport="rdma"}} 1500\n'
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_seconds_bucket", le="0.00025") == [3.0]
    assert values(snapshot, "llm_kv_transfer_seconds_sum") == [pytest.approx(0.0015)]


def test_directions_stay_apart_and_transports_are_added() -> None:
    page = "".join(
        f'tent_{way}_bytes_total{{transport="{by}"}} {n}\n'
        for way, by, n in (("read", "rdma", 10), ("read", "tcp", 5), ("write", "rdma", 100))
    )
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_bytes_sum", connector="tent-read") == [15.0]
    assert values(snapshot, "llm_kv_transfer_bytes_sum", connector="tent-write") == [100.0]


@pytest.mark.parametrize("capacity", ["", "master_total_capacity_bytes 0\n", "master_total_capacity_bytes 50\n"])
def test_a_store_without_a_capacity_that_fits_has_no_fill(capacity: str) -> None:
    snapshot = read("master_allocated_bytes 100\n" + capacity)
    assert not values(snapshot, "llm_kv_offload_usage_ratio")
    (told,) = [
        s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("family") == "llm_kv_offload_usage_ratio"
    ]
    assert told.label("gap") == "no-traffic"


def test_a_full_store_is_full() -> None:
    page = "master_allocated_bytes 100\nmaster_total_capacity_bytes 100\n"
    assert values(read(page), "llm_kv_offload_usage_ratio") == [1.0]
