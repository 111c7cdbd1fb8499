"""Small windows made by hand: a server of canonical series that a test advances page by page.

The families, their labels and their buckets are those of a recorded vLLM 0.32 page with a context of 8,192 tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from llmvitals.schema import family_of
from llmvitals.series import Series, Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import compute
from llmvitals.signals.reading import Reading

START = 1_000_000.0

TTFT_EDGES = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
GAP_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LONG_EDGES = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
TOKEN_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
EDGES: dict[str, tuple[float, ...]] = {
    "llm_request_ttft_seconds": TTFT_EDGES,
    "llm_request_inter_token_seconds": GAP_EDGES,
    "llm_request_tpot_seconds": GAP_EDGES,
    **{f"llm_request_{n}_seconds": LONG_EDGES for n in ("e2e", "queue", "prefill", "decode", "inference")},
    "llm_request_prompt_tokens": TOKEN_EDGES,
    "llm_request_generation_tokens": TOKEN_EDGES,
    "llm_request_max_tokens_param": TOKEN_EDGES,
    "llm_request_n_param": (1, 2, 5, 10, 20),
    "llm_iteration_tokens": (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    "llm_kv_transfer_seconds": (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
}
OPTIONAL = ("llm_kv_transfer_seconds",)
SWITCHED = {
    "llm_lora_slots": "--enable-lora",
    "llm_lora_running_adapters": "--enable-lora",
    "llm_kv_transfer_seconds": "a NIXL connector",
    "llm_kv_transfer_failures_total": "a NIXL connector",
    "llm_spec_draft_tokens_total": "speculative decoding",
    "llm_spec_accepted_tokens_total": "speculative decoding",
    "llm_gpu_sm_active_ratio": "a GPU page",
}
"""Families that a page shows only when something is switched on; vLLM's adapter says so on every page."""

COUNTERS: tuple[tuple[str, dict[str, str]], ...] = (
    *(("llm_requests_finished_total", {"reason": r}) for r in ("stop", "length", "abort", "error")),
    ("llm_requests_rejected_total", {"reason": "max_num_queued_reqs"}),
    ("llm_preemptions_total", {}),
    ("llm_prompt_tokens_total", {}),
    ("llm_generation_tokens_total", {}),
    ("llm_prefix_cache_query_tokens_total", {}),
    ("llm_prefix_cache_hit_tokens_total", {}),
)
OF_THE_SERVER = ("llm_process_", "llm_http_")
OF_THE_TARGET = ("llm_target_", "llm_family_")


class Server:
    """One server, model ``m``. Counters are all there from the start at 0, but the HTTP ones, as in vLLM.

    ``step``: seconds between pages. ``age``: seconds that the process has run when the first page is asked for.
    """

    def __init__(self, *, step: float = 5.0, age: float = 3600.0, ranks: int = 1, start: float = START) -> None:
        self.step, self.t, self.ranks = step, start - step, ranks
        self.values: dict[Series, float] = {}
        self.pages: list[Snapshot] = []
        self._fresh()
        self.set("llm_process_start_time_seconds", start - age)
        for rank in range(ranks):
            self.facts(rank=rank)
            self.gauges(rank=rank)

    def _fresh(self) -> None:
        for rank in range(self.ranks):
            for name, labels in COUNTERS:
                self.count(name, 0, rank=rank, **labels)
            for family in EDGES:
                if family not in OPTIONAL:
                    self.observe(family, 0.0, 0, rank=rank)
        self.count("llm_process_cpu_seconds_total", 0)
        self.set("llm_process_open_fds", 50)

    def key(self, name: str, rank: int = 0, **labels: str) -> Series:
        """A canonical series with the identity that its family carries."""
        own = {"instance": "made"}
        if not name.startswith(OF_THE_TARGET):
            own |= {"engine": "vllm", "rank": str(rank)}
            if not name.startswith(OF_THE_SERVER):
                own["model"] = "m"
        return series(name, **own, **labels)

    def set(self, name: str, value: float, *, rank: int = 0, **labels: str) -> None:
        """A gauge."""
        self.values[self.key(name, rank, **labels)] = float(value)

    def count(self, name: str, amount: float, *, rank: int = 0, **labels: str) -> None:
        """A counter goes up."""
        key = self.key(name, rank, **labels)
        self.values[key] = self.values.get(key, 0.0) + amount

    def observe(self, family: str, value: float, times: float = 1, *, rank: int = 0, **labels: str) -> None:
        """A histogram sees a value so many times."""
        for edge in (*EDGES[family], math.inf):
            le = "+Inf" if math.isinf(edge) else f"{edge:g}"
            self.count(f"{family}_bucket", times if value <= edge else 0, rank=rank, le=le, **labels)
        self.count(f"{family}_sum", value * times, rank=rank, **labels)
        self.count(f"{family}_count", times, rank=rank, **labels)

    def facts(
        self, *, blocks: float = 1000, block: float = 16, longest: float = 8192, caching: float = 1, rank: int = 0
    ) -> None:
        """What the configuration says of the KV pool."""
        for name, value in (
            ("llm_kv_blocks", blocks),
            ("llm_kv_block_tokens", block),
            ("llm_kv_capacity_tokens", blocks * block),
            ("llm_max_model_tokens", longest),
            ("llm_prefix_caching_enabled", caching),
        ):
            self.set(name, value, rank=rank)

    def gauges(
        self, *, running: float = 0, waiting: float = 0, kv: float = 0.0, deferred: float = 0, rank: int = 0
    ) -> None:
        """What is inside now; those ``deferred`` wait for something other than capacity."""
        self.set("llm_requests_running", running, rank=rank)
        self.set("llm_requests_waiting", waiting, rank=rank)
        self.set("llm_requests_waiting_by_reason", waiting - deferred, rank=rank, reason="capacity")
        self.set("llm_requests_waiting_by_reason", deferred, rank=rank, reason="deferred")
        self.set("llm_kv_usage_ratio", kv, rank=rank)

    def first(self, n: float, *, ttft: float = 0.1, rank: int = 0) -> None:
        """``n`` requests get their first token."""
        self.observe("llm_request_ttft_seconds", ttft, n, rank=rank)
        self.count("llm_generation_tokens_total", n, rank=rank)

    def gaps(self, n: float, seconds: float, *, rank: int = 0) -> None:
        """``n`` further tokens come, each so long after the one before."""
        self.observe("llm_request_inter_token_seconds", seconds, n, rank=rank)
        self.count("llm_generation_tokens_total", n, rank=rank)

    def finish(
        self,
        n: float,
        *,
        prompt: float = 200,
        output: float = 100,
        tpot: float = 0.02,
        queue: float = 0.0,
        prefill: float = 0.1,
        front: float = 0.01,
        max_tokens: float = 200,
        hits: float = 0.0,
        rank: int = 0,
    ) -> None:
        """``n`` requests end; ``front``: seconds outside queue and engine, ``hits``: cached prompt tokens of each."""
        decode = tpot * (output - 1)
        for family, value in (
            ("llm_request_tpot_seconds", tpot),
            ("llm_request_queue_seconds", queue),
            ("llm_request_prefill_seconds", prefill),
            ("llm_request_decode_seconds", decode),
            ("llm_request_inference_seconds", prefill + decode),
            ("llm_request_e2e_seconds", front + queue + prefill + decode),
            ("llm_request_prompt_tokens", prompt),
            ("llm_request_generation_tokens", output),
            ("llm_request_max_tokens_param", max_tokens),
            ("llm_request_n_param", 1),
        ):
            self.observe(family, value, n, rank=rank)
        self.count("llm_requests_finished_total", n, rank=rank, reason="length")
        self.count("llm_prompt_tokens_total", n * prompt, rank=rank)
        self.count("llm_prefix_cache_query_tokens_total", n * prompt, rank=rank)
        self.count("llm_prefix_cache_hit_tokens_total", n * hits, rank=rank)
        self.answer(n)

    def answer(self, n: float, status: str = "2xx") -> None:
        """The API server ends ``n`` answers."""
        self.count("llm_http_requests_total", n, handler="/v1/completions", status=status)

    def serve(
        self,
        n: float,
        *,
        ttft: float = 0.1,
        gap: float | None = None,
        output: float = 100,
        tpot: float = 0.02,
        **kw: float,
    ) -> None:
        """``n`` requests from the first token to the last; gaps between tokens are ``tpot`` unless given."""
        rank = int(kw.get("rank", 0))
        self.first(n, ttft=ttft, rank=rank)
        self.gaps(n * (output - 1), tpot if gap is None else gap, rank=rank)
        self.finish(n, output=output, tpot=tpot, **kw)  # type: ignore[arg-type]

    def page(self, *, took: float = 0.03) -> Snapshot:
        """The next page: ``step`` seconds after the last one; the API process has used 0.25 s of CPU since."""
        self.t += self.step
        self.count("llm_process_cpu_seconds_total", 0.25)
        shown = {k.name for k in self.values}
        own = {
            self.key("llm_family_gap", family=family, gap="unsupported", reason=f"it shows only with {switch}"): 1.0
            for family, switch in SWITCHED.items()
            if not shown & {family, f"{family}_count"}
        }
        own |= {
            series("llm_target_up", instance="made"): 1.0,
            series("llm_target_answer_seconds", instance="made"): took,
            series("llm_target_status", instance="made"): 200.0,
        }
        self.pages.append(Snapshot(self.t, self.values | own))
        return self.pages[-1]

    def fail(self) -> Snapshot:
        """A scrape that is refused."""
        self.t += self.step
        own = {series("llm_target_up", instance="made"): 0.0, series("llm_target_status", instance="made"): 0.0}
        self.pages.append(Snapshot(self.t, own, "connection refused"))
        return self.pages[-1]

    def restart(self) -> None:
        """A new process: every counter begins again, nothing is inside."""
        kept = {k: v for k, v in self.values.items() if (f := family_of(k.name)) and f.kind == "gauge"}
        self.values = kept
        self._fresh()
        self.set("llm_process_start_time_seconds", self.t)
        for rank in range(self.ranks):
            self.gauges(rank=rank)

    def window(self) -> Window:
        """All pages so far."""
        return Window.of(self.pages)


def run(pages: int, each: Callable[[Server, int], None], server: Server | None = None) -> Window:
    """A first page, then so many more, each after ``each(server, number)`` (numbers from 1) has moved the server."""
    server = server or Server()
    server.page()
    for i in range(1, pages + 1):
        each(server, i)
        server.page()
    return server.window()


def healthy(server: Server, _: int) -> None:
    """Five seconds of ten short requests/s on a server with room."""
    server.serve(50)
    server.gauges(running=20, kv=0.2)


def of_family(key: Series, families: Iterable[str]) -> bool:
    """Whether a series belongs to one of these families."""
    found = family_of(key.name)
    return found is not None and found.name in set(families)


def without(window: Window, *families: str) -> Window:
    """The same window of a server that never showed these families."""
    return changed(window, lambda k, v: None if of_family(k, families) else v)


def changed(window: Window, each: Callable[[Series, float], float | None]) -> Window:
    """The same window with every sample as ``each`` gives it; None takes it away."""
    return Window.of(
        (
            Snapshot(s.t, {k: new for k, v in s.samples.items() if (new := each(k, v)) is not None}, s.detail)
            for s in window.snapshots
        ),
        start=window.start,
        end=window.end,
    )


def read(window: Window, signal: str, settings: Settings | None = None) -> Reading:
    """One signal of a window."""
    return compute(window, settings or Settings())[signal]


def value(window: Window, signal: str, settings: Settings | None = None) -> float | None:
    """One signal's number; None for a gap."""
    return read(window, signal, settings).value
