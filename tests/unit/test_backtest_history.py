"""A range is read piece by piece: every page once, in order, whatever the server refuses and however long it is away."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import parse_qs

import pytest

from llmvitals.backtest import history
from llmvitals.backtest.history import FIRST_SECONDS, LEAD_SECONDS, LEAST_SECONDS, History, Piece
from llmvitals.errors import PageError, UnreachableError
from llmvitals.settings import Settings, Target
from llmvitals.sources import promql_api
from llmvitals.sources.promql_api import Endpoint
from support.answers import Answer, Answers, Asked
from support.command import llmvitals, one_clear_line
from support.promql import matrix, ok, refusal

T = 1_800_000_000.0
QUERY, NAMES = "/api/v1/query", "/api/v1/label/__name__/values"
UP = {"__name__": "llm_target_up", "instance": "a", "job": "llmvitals"}
RUNNING = {"__name__": "llm_requests_running", "instance": "a", "model": "m", "engine": "vllm", "rank": "0"}


class Store:
    """A server that has a sample of some series every 15 s, and notes which ranges it was asked for (seconds from T)."""

    def __init__(self, *metrics: dict[str, str], most: float = 1e9, refuse: Callable[[], Answer | None] = lambda: None):
        self.metrics, self._most, self._refuse = metrics, most, refuse
        self.ranges: list[tuple[float, float]] = []
        self.queries: list[str] = []

    def query(self, asked: Asked) -> Answer:
        refused = self._refuse()
        if refused is not None:
            return refused
        form = parse_qs(asked.body)
        (query,), (end,) = form["query"], map(float, form["time"])
        self.queries.append(query)
        seconds = float(re.search(r"\[(\d+)ms\]", query)[1]) / 1000
        if seconds > self._most:
            return refusal(422, "query processing would load too many samples into memory in query execution")
        self.ranges.append((round(end - seconds - T, 3), round(end - T, 3)))
        wanted = re.search(r'__name__=~"([^"]*)"', query)[1]
        times = [T + 15 * i for i in range(-100, 2000) if end - seconds <= T + 15 * i <= end]
        return matrix(
            *(
                (metric, [(t, "1") for t in times])
                for metric in self.metrics
                if re.fullmatch(wanted, metric["__name__"])
            )
        )

    @property
    def paths(self) -> dict[str, Answer | Callable[[Asked], Answer]]:
        return {QUERY: self.query, NAMES: ok([metric["__name__"] for metric in self.metrics])}


def read(store: Store, *, end: float = 3600.0, settings: Settings | None = None, retries: int = 0) -> list[Piece]:
    with Answers(store.paths) as server, Endpoint(server.url, retries=retries) as endpoint:
        return list(History(endpoint, settings or Settings(), start=T, end=T + end).pieces())


def pages(pieces: list[Piece], name: str = "a") -> list[float]:
    """The moments of a target's pages that are new in each piece."""
    return [
        page.t - T
        for piece in pieces
        for one in piece.observed
        for page in one.snapshots
        if one.name == name and page.t > piece.begin
    ]


def test_every_page_comes_once_and_a_piece_keeps_the_minutes_before_it():
    store = Store(UP, RUNNING)
    pieces = read(store)
    assert pages(pieces) == [15.0 * i for i in range(-39, 241)]
    assert [begin for begin, _ in store.ranges] == [-LEAD_SECONDS, *(end for _, end in store.ranges[:-1])]
    second = pieces[1]
    (one,) = second.observed
    assert second.begin - LEAD_SECONDS <= one.snapshots[0].t <= second.begin - LEAD_SECONDS + 15
    # nearly empty pieces are followed by longer ones
    lengths = [end - begin for begin, end in store.ranges]
    assert lengths[1] > lengths[0]


def test_a_range_need_not_end_at_a_whole_millisecond():
    assert pages(read(Store(UP, RUNNING), end=600.0004321))[-1] == 600.0


def test_pieces_shrink_where_the_server_refuses_their_size():
    store = Store(UP, RUNNING, most=200.0)
    assert pages(read(store)) == [15.0 * i for i in range(-39, 241)]
    assert all(end - begin <= 200.0 for begin, end in store.ranges)


def test_a_server_that_refuses_even_a_minute_is_asked_for_some_names_at_a_time_and_then_named():
    store = Store(UP, RUNNING, most=LEAST_SECONDS / 2)
    with pytest.raises(PageError, match="refuses the query for its size"):
        read(store)
    assert [set(re.findall(r"llm_\w+", query)) for query in store.queries][-2:] == [
        {"llm_requests_running", "llm_target_up"},
        {"llm_requests_running"},
    ]


def test_a_server_that_is_away_for_a_moment_is_asked_again():
    away = [refusal(503, "starting"), None, None]
    store = Store(UP, RUNNING, refuse=lambda: away.pop(0) if away else None)
    assert pages(read(store, retries=2)) == [15.0 * i for i in range(-39, 241)]
    assert away == []
    with pytest.raises(UnreachableError, match="503"):
        read(Store(UP, RUNNING, refuse=lambda: refusal(503, "starting")))


def test_a_server_that_is_slow_is_asked_for_less(monkeypatch):
    monkeypatch.setattr(promql_api, "TIMEOUT_SECONDS", 0.2)
    hanging = [True, True, False]

    def refuse() -> Answer | None:
        if hanging and hanging.pop(0):
            time.sleep(0.6)  # nobody waits for it any more
        return None

    store = Store(UP, RUNNING, refuse=refuse)
    # the first piece was asked for as a whole, a half, and a quarter of it
    assert pages(read(store, retries=3)) == [15.0 * i for i in range(-39, 241)]
    assert (LEAD_SECONDS + FIRST_SECONDS) / 4 in {end - begin for begin, end in store.ranges}


def test_memory_holds_a_piece_and_no_more(monkeypatch):
    monkeypatch.setattr(history, "SAMPLES_PER_PIECE", 100)
    pieces = read(Store(UP, RUNNING))
    most = max(len(one.snapshots) for piece in pieces[1:] for one in piece.observed)
    assert most <= (LEAD_SECONDS + 4 * history.SAMPLES_PER_PIECE * 15) / 15
    assert pages(pieces) == [15.0 * i for i in range(-39, 241)]


RAW = {"job": "engines", "instance": "a:8000"}
RAW_UP = {"__name__": "up", **RAW}
RAW_RUNNING = {"__name__": "vllm:num_requests_running", **RAW, "model_name": "m", "engine": "0"}
GATEWAY = {"__name__": "vllm_router_requests_total", "job": "gateways", "instance": "g:9000"}


def test_raw_series_are_asked_for_by_the_names_that_are_there_and_their_targets_scrapes():
    store = Store(RAW_UP, RAW_RUNNING, {"__name__": "up", "job": "other", "instance": "b:1"})
    pieces = read(store, end=600.0)
    assert pages(pieces, "a:8000") == [15.0 * i for i in range(-39, 41)]
    own, beside = store.queries[:2]
    assert '"vllm:num_requests_running"' in own
    assert 'job=~"engines"' in beside
    assert {one.name for piece in pieces for one in piece.observed} == {"a:8000"}


def test_gateways_are_read_where_the_settings_name_them():
    without = Store(RAW_UP, RAW_RUNNING, GATEWAY)
    read(without, end=600.0)
    assert not any("vllm_router" in query for query in without.queries)
    named = Store(RAW_UP, RAW_RUNNING, GATEWAY)
    read(named, end=600.0, settings=Settings(targets=(Target(url="http://g:9000"),)))
    assert any("vllm_router" in query and "g:9000" in query for query in named.queries)


def test_a_server_without_any_engine_is_named():
    with pytest.raises(PageError, match="none of an engine that is understood"):
        read(Store({"__name__": "node_load1"}))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Give one of --prometheus URL"),
        (("--prometheus", "http://127.0.0.1:9", "--from", "1h", "--to", "2h"), "is not before"),
        (("--prometheus", "http://127.0.0.1:9", "--from", "soon"), "'soon' is no moment"),
        (("--prometheus", "ftp://x", "--from", "1h"), "is not a URL"),
        (("--prometheus", "http://127.0.0.1:9", "--every", "0s"), "no time at all"),
    ],
)
def test_what_cannot_be_replayed_is_one_clear_line(words, says):
    assert says in one_clear_line(llmvitals("backtest", *words))


def test_a_range_without_a_page_is_one_clear_line():
    empty = {QUERY: matrix(), NAMES: ok(["llm_target_up"])}
    with Answers(empty) as server:
        line = one_clear_line(llmvitals("backtest", "--prometheus", server.url, "--from", "2h", "--to", "1h"))
    assert "holds no page of a server from" in line
    assert "--selector" in line
