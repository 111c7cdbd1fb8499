"""A short soak: pods come and go, engines restart; what lives afterwards is what lived before."""

from __future__ import annotations

import gc
import tracemalloc

from llmvitals import remembered
from llmvitals.exporters.board import Board
from llmvitals.exporters.cycle import Engine
from llmvitals.settings import Exporter, Settings, Target
from llmvitals.telemetry.ingest import RawPage

ENGINES, INTERVAL, PHASE = 2, 5.0, 12
"""Cycles of a phase: a pod is replaced at the end of each, and what it fills of a window is the same at the end of each."""

SPARE = 150_000
"""Bytes by which equal phases may differ: a pod that is not forgotten takes more (its parser, its window, its rows)."""


def body(pod: str, step: int) -> bytes:
    """A page of vLLM whose counters rise, and begin anew after a restart; which labels it has depends on the pod."""
    done, model = step % 40, f"model-{pod}"
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f'vllm:num_requests_running{{model_name="{model}"}} {1 + step % 3}',
    ]
    lines += [
        "# TYPE vllm:generation_tokens_total counter",
        f'vllm:generation_tokens_total{{model_name="{model}"}} {done * 900}',
    ]
    for family in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"):
        lines.append(f"# TYPE vllm:{family} histogram")
        lines += [
            f'vllm:{family}_bucket{{model_name="{model}",le="{edge}"}} {done * share}'
            for share, edge in enumerate((0.1, 0.5, 1.0, 5.0, 10.0, "+Inf"))
        ]
        lines += [
            f'vllm:{family}_count{{model_name="{model}"}} {done * 5}',
            f'vllm:{family}_sum{{model_name="{model}"}} {done}',
        ]
    return ("\n".join(lines) + "\n").encode()


class Day:
    """The exporter's cycle on a clock of its own."""

    def __init__(self) -> None:
        self.cycle = self.round = 0
        self.board = Board()
        self.engine = Engine(self.settings(), fetch=self.fetch, clock=self.now)

    def now(self) -> float:
        return 1_000_000.0 + INTERVAL * self.cycle

    def fetch(self, url: str, **_: object) -> RawPage:
        return RawPage(self.now(), 0.01, 200, body(url.removeprefix("http://").partition(":")[0], self.cycle))

    def settings(self) -> Settings:
        pods = [f"pod-{(self.round + place) // ENGINES:06}-{place}" for place in range(ENGINES)]
        targets = tuple(Target(url=f"http://{pod}:8000", name=pod, labels={"pod": pod}) for pod in pods)
        return Settings(targets=targets, exporter=Exporter(interval_seconds=INTERVAL))

    def live(self, cycles: int) -> None:
        """So many cycles, and a pod that is replaced after each phase."""
        for _ in range(cycles):
            self.cycle += 1
            self.board.post(self.engine.step())
            if self.cycle % PHASE == 0:
                self.round += 1
                self.engine = Engine(self.settings(), fetch=self.fetch, clock=self.now, previous=self.engine)


def test_nothing_is_left_of_pods_that_went(caplog):
    day = Day()
    day.live(2 * PHASE)  # windows are full, and both pods are replacements
    held = []
    tracemalloc.start()
    try:
        for _ in range(4):
            remembered.forget(-1)  # bounded by a number of its own: it would fill up meanwhile
            day.live(PHASE)
            caplog.clear()
            gc.collect()
            held.append((tracemalloc.get_traced_memory()[0], len(gc.get_objects())))
    finally:
        tracemalloc.stop()
    assert day.board.newest is not None
    assert len(day.board.newest.scopes) == ENGINES
    bytes_held, objects = zip(*held, strict=True)
    assert bytes_held[-1] - bytes_held[1] < SPARE, held
    assert objects[-1] - objects[1] < 1000, held
