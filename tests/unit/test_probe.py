"""Probes: what is sent, what an answer becomes, how it ends when it does not end well, and that none goes out unasked."""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, pairwise, repeat
from pathlib import Path

import pytest

from llmvitals.errors import SettingsError
from llmvitals.exporters.cycle import Engine, replay
from llmvitals.schema import family_of
from llmvitals.series import Snapshot, series
from llmvitals.settings import Settings, Target, decode, load
from llmvitals.telemetry.headers import read_headers
from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.probe import EDGES, TOKENS, Asked, Prober, Tally, ask
from llmvitals.telemetry.probe.ask import timed
from llmvitals.telemetry.probe.dialects import CHAT, DIALECTS, Dialect
from llmvitals.telemetry.probe.prober import KEPT, TIMEOUT_SECONDS, base_of
from llmvitals.telemetry.probe.trace import is_probe
from llmvitals.telemetry.spans.model import Ended, Vantage
from support.answers import Answer, Answers

OLLAMA = DIALECTS["ollama"]


def event(said: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def delta(text: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}})
DONE = b"data: [DONE]\n\n"
HEAD = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})


def line(**said: object) -> bytes:
    return json.dumps(said).encode() + b"\n"


LAST = line(
    model="m", response="", done=True, total_duration=900_000_000, load_duration=1_000_000, prompt_eval_count=9,
    prompt_eval_duration=80_000_000, eval_count=16, eval_duration=480_000_000,
)  # fmt: skip


def stream(dialect: Dialect, *pieces: tuple[float, bytes], until: float = 1000.0, began: float = 100.0) -> Asked:
    """What a stream becomes whose pieces come at these moments."""
    times = iter([t for t, _ in pieces] + [until - 1])
    chunks = chain((body for _, body in pieces), repeat(b""))
    return timed(lambda: next(chunks), dialect, began=began, until=until, clock=lambda: next(times))


# -- one answer ------------------------------------------------------------------------------------------------------
def test_times_of_a_chat_are_taken_from_outside() -> None:
    found = stream(
        CHAT, (100.1, HEAD), (100.5, delta("one")), (100.6, delta(" two")), (100.9, delta(" three") + USAGE + DONE)
    )
    assert found.outcome == "ok"
    assert found.ttft == pytest.approx(0.5), "an event that names the role alone is no token"
    assert found.tpot == pytest.approx(0.1), "0.4 s after the first for the other four tokens, however they came"
    assert found.e2e == pytest.approx(0.9)


def test_an_event_cut_in_two_is_one_event() -> None:
    whole = delta("one")
    found = stream(CHAT, (100.2, whole[:20]), (100.4, whole[20:]), (100.5, DONE))
    assert (found.outcome, found.ttft) == ("ok", pytest.approx(0.4))


def test_without_a_count_of_tokens_there_is_no_time_per_token() -> None:
    found = stream(CHAT, (100.5, delta("one")), (101.0, delta("two") + DONE))
    assert (found.outcome, found.tpot) == ("ok", None), "an event may hold several tokens"


def test_text_that_is_thought_is_a_token_too() -> None:
    thought = event({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    assert stream(CHAT, (100.3, thought), (100.4, DONE)).ttft == pytest.approx(0.3)


def test_ollama_s_nanoseconds_become_seconds_per_token() -> None:
    found = stream(OLLAMA, (100.25, line(response="one", done=False)), (100.9, LAST))
    assert found.ttft == pytest.approx(0.25)
    assert found.tpot == pytest.approx(0.03), "480 ms for 16 tokens"
    assert found.e2e == pytest.approx(0.9)


def test_ollama_leaves_counts_of_zero_out() -> None:
    found = stream(
        OLLAMA, (100.2, line(response="a", done=False)), (100.3, line(response="", done=True, eval_duration=5))
    )
    assert (found.outcome, found.tpot) == ("ok", None)


@pytest.mark.parametrize(
    ("dialect", "pieces", "outcome"),
    [
        (CHAT, [(100.1, delta("one"))], "cut"),
        (CHAT, [(100.1, DONE)], "empty"),
        (CHAT, [(100.1, event({"error": {"message": "no"}}))], "error"),
        (OLLAMA, [(100.1, line(error="model not found"))], "error"),
        (CHAT, [(100.1, b": ping\n\n"), (100.2, b"data: {oops\n\n"), (100.3, DONE)], "empty"),
        (CHAT, [(100.1, delta("one")), (1001.0, DONE)], "timeout"),
        (CHAT, [(100.1, b"x" * (1 << 20) + b"y")], "error"),
        (
            CHAT,
            [(100.1, b'data: [1,2]\n\ndata: {"choices":[7,null,{"delta":3}],"usage":[1]}\n\n'), (100.2, DONE)],
            "empty",
        ),
    ],
)
def test_what_does_not_end_well_has_an_outcome_and_no_time(
    dialect: Dialect, pieces: list[tuple[float, bytes]], outcome: str
) -> None:
    assert stream(dialect, *pieces) == Asked(outcome)


# -- over HTTP -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dialect", "body"), [(CHAT, HEAD + delta("one") + USAGE + DONE), (OLLAMA, line(response="one", done=False) + LAST)]
)
def test_a_probe_is_small_and_streams(dialect: Dialect, body: bytes) -> None:
    with Answers({dialect.path: Answer(body)}) as server:
        found = ask(server.url, dialect, "m", timeout_s=5)
        (sent,) = server.asked
    assert found.outcome == "ok"
    assert 0 <= (found.ttft or -1) <= (found.e2e or -1) < 5
    said = json.loads(sent.body)
    assert (said["model"], said["stream"]) == ("m", True)
    assert said.get("max_tokens", said.get("options", {}).get("num_predict")) == TOKENS <= 16
    assert len(sent.body) < 400


def test_without_a_model_the_server_chooses() -> None:
    with Answers({CHAT.path: Answer(delta("one") + DONE)}) as server:
        ask(server.url, CHAT, "", timeout_s=5)
        assert "model" not in json.loads(server.asked[0].body)


@pytest.mark.parametrize("status", [401, 404, 429, 503])
def test_a_refusal_is_told_by_its_status(status: int) -> None:
    with Answers({CHAT.path: Answer(b"no", status)}) as server:
        assert ask(server.url, CHAT, "m", timeout_s=5) == Asked(str(status))


def test_nobody_there_is_an_outcome() -> None:
    with Answers({}) as server:
        gone = server.url
    assert ask(gone, CHAT, "m", timeout_s=5).outcome == "unreachable"


@contextlib.contextmanager
def dripping(start: bytes, again: bytes, pause: float) -> Iterator[str]:
    """A server that answers every request with ``start``, and then with ``again`` until the client hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(start)
                    while True:
                        connection.sendall(again)
                        time.sleep(pause)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(5)
        assert not thread.is_alive(), "the client never hung up"


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("start", "again", "pause"),
    [
        (b"HTT", b"P", 0.05),
        (OK + b"X-Slow: ", b"a", 0.05),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.0),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5;a=", b"x", 0.05),
        (OK + b"\r\n", b"x", 0.05),
        (OK + b"\r\n", delta("one"), 0.05),
    ],
    ids=["status line", "headers", "continue", "length of a chunk", "body", "tokens without end"],
)
def test_a_server_that_drips_is_cut_off_at_the_deadline(start: bytes, again: bytes, pause: float) -> None:
    """No single read takes long there, so that a time limit on reads never comes."""
    with dripping(start, again, pause) as url:
        began = time.monotonic()
        assert ask(url, CHAT, "m", timeout_s=0.4) == Asked("timeout")
        assert time.monotonic() - began < 2.0


def test_an_error_that_is_null_is_none_and_pieces_that_are_no_list_say_nothing() -> None:
    piece = event({"error": None, "choices": [{"delta": {"content": "one"}}]})
    assert stream(CHAT, (100.2, piece), (100.4, DONE)).outcome == "ok"
    assert stream(CHAT, (100.2, event({"choices": 5})), (100.4, DONE)).outcome == "empty"


def test_credentials_of_the_url_are_sent() -> None:
    with Answers({CHAT.path: Answer(delta("one") + DONE)}) as server:
        ask(server.url.replace("http://", "http://me:secret@"), CHAT, "m", timeout_s=5)
        assert server.asked[0].headers["authorization"].startswith("Basic ")


# -- counting --------------------------------------------------------------------------------------------------------
def test_probes_add_up_in_fixed_buckets() -> None:
    tally = Tally()
    for asked in (Asked("ok", 0.2, 0.03, 0.9), Asked("ok", 0.21, None, 70.0), Asked("503")):
        tally.add(asked)
    found = {(s.name, s.label("le") or s.label("outcome")): v for s, v in tally.samples({"instance": "i"}).items()}
    assert found["llm_probe_requests_total", "ok"] == 2.0
    assert found["llm_probe_requests_total", "503"] == 1.0
    assert found["llm_probe_ttft_seconds_bucket", "0.2"] == 1.0, "an edge holds what equals it"
    assert found["llm_probe_ttft_seconds_bucket", "0.5"] == 2.0
    assert found["llm_probe_ttft_seconds_sum", ""] == pytest.approx(0.41)
    assert found["llm_probe_tpot_seconds_count", ""] == 1.0
    assert found["llm_probe_e2e_seconds_bucket", "60"] == 1.0
    assert found["llm_probe_e2e_seconds_bucket", "+Inf"] == 2.0


def test_every_sample_is_in_the_schema_and_thresholds_are_edges() -> None:
    assert all(family_of(s.name) for s in Tally().samples({}))
    assert all(list(edges) == sorted(set(edges)) for edges in EDGES.values())
    assert {0.2, 0.5, 1.0, 2.0, 5.0} <= set(EDGES["llm_probe_ttft_seconds"])
    assert {0.02, 0.05, 0.1} <= set(EDGES["llm_probe_tpot_seconds"])


# -- when and whom ---------------------------------------------------------------------------------------------------
WELL = Asked("ok", 0.1, 0.02, 0.4)


class Bench:
    """A prober whose time stands still and whose probes run when the test says so."""

    def __init__(self, *, answer: Asked | Exception = WELL, **given: object) -> None:
        self.now, self.sent, self.answer = 0.0, [], answer
        self.running: list[Callable[[], None]] = []
        self.hangs = False
        self.headers: list[Mapping[str, str]] = []
        draws = chain([0.0], repeat(0.5))  # the first at once, then every interval as long as it was asked for
        fixed = {"draw": lambda: next(draws), "wall": lambda: 1e9 + self.now}
        self.prober = Prober(
            "http://h:1", seconds=30, ask=self._ask, clock=lambda: self.now, start=self._start, **{**fixed, **given}
        )

    def _ask(self, base: str, dialect: Dialect, model: str, *, timeout_s: float, headers: Mapping[str, str]) -> Asked:
        self.sent.append((base, dialect.path, model))
        self.headers.append(headers)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _start(self, run: Callable[[], None]) -> Callable[[], bool]:
        self.running.append(run)
        if not self.hangs:
            with contextlib.suppress(RuntimeError):
                run()
        return lambda: self.hangs

    def at(self, t: float, *models: str, kind: str = "vllm") -> Bench:
        self.now = t
        self.prober.tick(page(*models, kind=kind))
        return self

    def outcomes(self, model: str = "m") -> dict[str, float]:
        joined = self.prober.joined(page(model), {"instance": "i"})
        return {
            s.label("outcome"): v
            for s, v in joined.samples.items()
            if s.name == "llm_probe_requests_total" and s.label("model") == model
        }


def page(*models: str, kind: str = "vllm") -> Snapshot:
    samples = {series("llm_requests_running", instance="i", model=model): 1.0 for model in models}
    if kind:
        samples[series("llm_target_info", instance="i", engine=kind, version="1")] = 1.0
    return Snapshot(1.0, samples)


def test_one_probe_per_interval_and_never_two_at_once() -> None:
    bench = Bench().at(0, "m").at(10, "m").at(29, "m").at(30, "m").at(31, "m")
    assert bench.sent == [("http://h:1", "/v1/chat/completions", "m")] * 2
    assert bench.outcomes() == {"ok": 2.0}


def test_one_that_hangs_counts_once_as_a_timeout_and_no_other_begins() -> None:
    bench = Bench()
    bench.hangs = True
    for t in (0, 30, TIMEOUT_SECONDS, TIMEOUT_SECONDS + 2, 200, 300):
        bench.at(t, "m")
    assert len(bench.running) == 1
    assert bench.outcomes() == {"ok": 0.0, "timeout": 1.0}
    bench.hangs = False
    bench.running[0]()  # its answer comes after all
    bench.at(301, "m").at(302, "m")
    assert bench.outcomes() == {"ok": 1.0, "timeout": 1.0}, "the late answer is dropped, the next probe counts"


def test_an_answer_that_was_there_in_time_counts_however_late_it_is_looked_at() -> None:
    assert Bench().at(0, "m").at(500, "m").outcomes()["ok"] >= 1.0


def test_a_probe_that_breaks_is_an_error() -> None:
    assert Bench(answer=RuntimeError("odd")).at(0, "m").at(1, "m").outcomes() == {"ok": 0.0, "error": 1.0}


def test_the_only_model_of_the_page_is_asked() -> None:
    assert Bench().at(0, "m").sent[0][2] == "m"
    assert Bench(model="alias").at(0, "m").sent[0][2] == "alias"
    assert Bench(model="alias").at(0, "m").at(1, "m").outcomes() == {"ok": 1.0}, "under the page's own name"


def test_of_several_models_none_is_guessed() -> None:
    bench = Bench().at(0, "m", "n").at(1, "m", "n")
    assert bench.sent == []
    assert bench.outcomes("") == {"ok": 0.0, "no-model": 1.0}


def test_a_page_without_models_leaves_it_to_the_server_but_no_model_of_ollama_s_is_loaded() -> None:
    assert Bench().at(0, kind="llamacpp").sent == [("http://h:1", "/v1/chat/completions", "")]
    assert Bench().at(0, kind="ollama").sent == []
    assert Bench().at(0, "m", kind="ollama").sent == [("http://h:1", "/api/generate", "m")]


def test_a_target_that_was_never_read_is_asked_only_by_name() -> None:
    assert Bench().at(0, kind="").sent == []
    assert Bench(model="m").at(0, kind="").sent != []
    assert Bench(model="m", kind="ollama").at(0, kind="").sent[0][1] == "/api/generate"


def test_samples_of_probes_do_not_make_a_second_model() -> None:
    bench = Bench(model="alias").at(0, kind="")
    bench.at(1, kind="")
    bench.now = 40
    bench.prober.tick(bench.prober.joined(page("m"), {"instance": "i"}))
    bench.at(41, "m")
    assert bench.outcomes("m") == {"ok": 1.0}


@pytest.mark.parametrize(
    ("url", "kind", "base"),
    [
        ("h:8000", "auto", "http://h:8000"),
        ("http://h:8000/metrics", "vllm", "http://h:8000"),
        ("http://h:11434", "ollama", "http://h:11434"),
        ("https://h/engine-1/metrics", "auto", "https://h/engine-1"),
        ("http://me:pw@h:1/api/ps", "ollama", "http://me:pw@h:1"),
        ("http://h:4000/proxy", "auto", "http://h:4000/proxy"),
    ],
)
def test_the_api_lies_where_the_page_lies_without_its_path(url: str, kind: str, base: str) -> None:
    assert base_of(url, kind) == base


# -- spread over time -------------------------------------------------------------------------------------------------
def moments(seed: int, until: float) -> list[float]:
    """When probes go out that are looked after four times a second."""
    bench = Bench(draw=random.Random(seed).random)
    found = []
    for tick in range(int(until * 4)):
        before = len(bench.sent)
        bench.at(tick / 4, "m")
        if len(bench.sent) > before:
            found.append(tick / 4)
    return found


def test_intervals_are_drawn_within_a_tenth_and_the_same_for_the_same_draws() -> None:
    found = moments(7, 3000)
    gaps = [after - before for before, after in pairwise(found)]
    assert all(27.0 <= gap <= 33.25 for gap in gaps), "30 s give or take a tenth, seen at the next quarter of a second"
    assert max(gaps) - min(gaps) > 3.0, "they do differ"
    assert 29.0 < sum(gaps) / len(gaps) < 31.0
    assert found == moments(7, 3000)
    assert found != moments(8, 3000)


def test_two_hundred_targets_do_not_probe_at_once() -> None:
    first = [moments(seed, 31)[0] for seed in range(200)]
    assert all(0.0 <= t <= 30.0 for t in first)
    busiest = max(sum(t <= other < t + 1 for other in first) for t in first)
    assert busiest <= 25, "200 over 30 s are 6.7 a second; 25 in one would be ten standard deviations or a bug"


# -- traces ------------------------------------------------------------------------------------------------------------
def test_a_probe_s_trace_is_told_by_its_id_and_sampled() -> None:
    bench = Bench().at(0, "m").at(30, "m")
    first, second = (h["traceparent"] for h in bench.headers)
    version, trace_id, span_id, flags = first.split("-")
    assert (version, flags) == ("00", "01"), "an engine sends no span of a trace that is not sampled"
    assert re.fullmatch("[0-9a-f]{32}", trace_id)
    assert re.fullmatch("[0-9a-f]{16}", span_id)
    assert is_probe(trace_id)
    assert not is_probe("4bf92f3577b34da6a3ce929d0e0e4736"), "a user's"
    assert second.split("-")[1] != trace_id
    assert bench.headers[0]["X-Request-Id"].startswith("llmvitals-probe-")
    assert bench.headers[0]["X-Request-Id"] != bench.headers[1]["X-Request-Id"]


def test_a_probe_that_ended_well_is_the_caller_of_its_engine_s_span_and_told_once() -> None:
    bench = Bench().at(0, "m").at(1, "m")
    (told,) = bench.prober.taken()
    _, trace_id, span_id, _ = bench.headers[0]["traceparent"].split("-")
    assert (told.trace_id, told.span_id, told.parent_id) == (trace_id, span_id, "")
    assert (told.dialect, told.vantage, told.ended, told.model) == ("probe", Vantage.CLIENT, Ended.OK, "m")
    assert (told.ttft, told.e2e) == (0.1, 0.4)
    assert (told.start, told.end) == (1e9, 1e9 + 0.4), "on the clock that spans go by"
    assert bench.prober.taken() == ()


@pytest.mark.parametrize("answer", [Asked("503"), Asked("timeout"), RuntimeError("odd")])
def test_a_probe_that_did_not_end_well_calls_nobody(answer: Asked | Exception) -> None:
    assert Bench(answer=answer).at(0, "m").at(1, "m").prober.taken() == ()


def test_probes_that_nobody_takes_are_bounded() -> None:
    bench = Bench()
    for i in range(3 * KEPT):
        bench.at(30 * i, "m")
    assert len(bench.prober.taken()) == KEPT


# -- headers -----------------------------------------------------------------------------------------------------------
def test_headers_of_the_file_reach_the_server_and_win_over_the_url(tmp_path: Path) -> None:
    file = tmp_path / "headers.yaml"
    file.write_text("authorization: Bearer key-1\nX-Tenant: probe\n")
    with Answers({CHAT.path: Answer(delta("one") + DONE)}) as server:
        url = server.url.replace("http://", "http://me:secret@")
        prober = Prober(
            url,
            seconds=30,
            model="m",
            headers=lambda: read_headers(str(file)),
            draw=lambda: 0.0,
            start=at_once,
            clock=iter([0.0, 0.0, 0.0, 0.0, 60.0, 60.0, 60.0]).__next__,
        )
        prober.tick(page("m"))
        file.write_text("Authorization: Bearer key-2\n")
        while len(server.asked) < 2:
            prober.tick(page("m"))
        first, second = (asked.headers for asked in server.asked)
    assert (first["authorization"], first["x-tenant"]) == ("Bearer key-1", "probe")
    assert second["authorization"] == "Bearer key-2", "keys are exchanged while the exporter runs"
    assert first["traceparent"] != second["traceparent"]
    assert first["content-type"] == "application/json"


def at_once(run: Callable[[], None]) -> Callable[[], bool]:
    run()
    return lambda: False


def test_a_file_of_headers_that_went_is_an_outcome_and_nothing_is_sent() -> None:
    bench = Bench(headers=lambda: read_headers("/nowhere/headers.yaml")).at(0, "m").at(1, "m")
    assert bench.sent == []
    assert bench.outcomes() == {"ok": 0.0, "no-headers": 1.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("just text", "is not a list of headers"),
        ("Authorization: 5", "is not a list of headers"),
        ("Author ization: Bearer s3cret", "'Author ization' is no header's name"),
        ("Authorization: |\n  Bearer s3cret\n", "'Authorization' holds characters that cannot be sent"),
        ("Authorization: [Bearer, s3cret]", "is not a list of headers"),
        ("Authorization: {", "is not valid YAML"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_without_being_shown(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "headers.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(said)) as error:
        read_headers(str(file))
    assert str(file) in str(error.value)
    assert "s3cret" not in str(error.value)


def test_a_file_of_headers_that_cannot_be_read_ends_the_start() -> None:
    with pytest.raises(SettingsError, match=r"/nowhere/h\.yaml: cannot be read"):
        Engine(settings(probe_seconds=30, probe_headers_file="/nowhere/h.yaml"))


def test_the_file_of_headers_is_meant_from_the_settings_own_folder(tmp_path: Path) -> None:
    file = tmp_path / "llmvitals.yaml"
    file.write_text("targets:\n- {url: 'http://h:1', probe_headers_file: keys.yaml}\n- {url: 'http://h:2'}\n")
    assert [t.probe_headers_file for t in load(file).targets] == [str(tmp_path / "keys.yaml"), ""]


# -- in the exporter -------------------------------------------------------------------------------------------------
def exposed(t: float) -> RawPage:
    return RawPage(t, 0.01, 200, b'vllm:num_requests_running{engine="0",model_name="m"} 1\n')


def pages(moments: Iterator[float]) -> Callable[..., RawPage]:
    return lambda url, *, timeout_s, access: exposed(next(moments))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every probe that the exporter sends ends at once, in its own thread's place."""
    sent: list[str] = []

    def stand_in(url: str, **given: object) -> Prober:
        def answer(base: str, *_: object, **__: object) -> Asked:
            sent.append(base)
            return Asked("ok", 0.3, 0.02, 0.9)

        def start(run: Callable[[], None]) -> Callable[[], bool]:
            run()
            return lambda: False

        return Prober(url, **{**given, "ask": answer, "start": start, "draw": lambda: 0.0})  # type: ignore[arg-type]

    monkeypatch.setattr("llmvitals.exporters.watch.Prober", stand_in)
    return sent


def settings(**given: object) -> Settings:
    return Settings(targets=(Target(url="http://h:1", name="a", **given),))  # type: ignore[arg-type]


def test_without_the_setting_none_is_sent(asked: list[str]) -> None:
    engine = Engine(settings(), fetch=pages(iter([1.0, 2.0, 3.0])), clock=lambda: 3.0)
    text = [engine.step().page for _ in range(3)][-1]
    assert asked == []
    assert b"llm_probe" not in text


def test_the_page_shows_what_probes_came_to(asked: list[str]) -> None:
    engine = Engine(settings(probe_seconds=3600), fetch=pages(iter([1.0, 2.0, 3.0, 4.0])), clock=lambda: 4.0)
    steps = [engine.step() for _ in range(4)]
    assert asked == ["http://h:1"], "one in an hour, once the page has been read"
    text = steps[-1].page.decode()
    assert 'llm_probe_requests_total{instance="a",model="m",outcome="ok"} 1' in text
    assert 'llm_probe_ttft_seconds_bucket{instance="a",le="0.5",model="m"} 1' in text
    assert any(c.collector == "probe" and c.ok for c in steps[-1].collected)


def test_a_probe_that_cannot_be_sent_leaves_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: Prober, newest: Snapshot) -> None:
        raise OSError("no threads left")

    monkeypatch.setattr(Prober, "tick", breaks)
    engine = Engine(settings(probe_seconds=5), fetch=pages(iter([1.0, 2.0])), clock=lambda: 2.0)
    assert b'llm_target_up{instance="a"} 1' in [engine.step().page for _ in range(2)][-1]


def test_a_recording_that_is_played_sends_none(asked: list[str]) -> None:
    target = Target(url="http://h:1", name="a", probe_seconds=5)
    assert len(list(replay([exposed(t) for t in (1.0, 2.0, 3.0)], Settings(), target=target))) == 3
    assert asked == []


@pytest.mark.parametrize("seconds", [-1, 0.5, 4.9])
def test_probes_that_would_be_a_load_are_refused(seconds: float) -> None:
    with pytest.raises(SettingsError):
        decode({"targets": [{"url": "http://h:1", "probe_seconds": seconds}]}, place="f")
