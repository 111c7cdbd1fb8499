"""OpenAI's API in front of a simulated engine, over real sockets: streams, usage, refusals, clients that leave."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.serve import Served
from llmvitals.simulator.setup import Faults, Gateway, Restart, Setup
from llmvitals.simulator.spans import Sending
from llmvitals.simulator.workload import Lengths, Stream, Workload

FAST = 20.0
"""How many simulated seconds pass in a real one: tests need not wait for tokens."""

CHAT = {"messages": [{"role": "user", "content": "tell me all of it" * 4}], "max_tokens": 12}
LONG = CHAT | {"max_tokens": 6000, "stream": True}
BACKGROUND = Stream("background", rate=4.0, prompt=Lengths(100), output=Lengths(50), max_tokens=64)


class Here:
    """A simulated server on a port, its clock hurried, and a client of it."""

    def __init__(self, setup: Setup, *, spans: Sending | None = None) -> None:
        self.began = time.time()
        self.live = Live(setup, origin=self.began, spans=spans)
        self.served = Served(self.live, clock=self.now, sleep=lambda _: None)
        self.http = httpx.Client(timeout=10, trust_env=False)

    def now(self) -> float:
        return self.began + FAST * (time.time() - self.began)

    def __enter__(self) -> "Here":
        self.served.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()
        self.served.__exit__(None, None, None)

    def post(self, body: object, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
        return self.http.post(
            f"{self.served.url}{path}", json=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    def stream(self, body: object, path: str = "/v1/chat/completions", **headers: str):
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.http.stream("POST", f"{self.served.url}{path}", json=body, headers=named)

    def figures(self) -> dict[str, float]:
        """The engine's page: each series' value."""
        lines = self.http.get(f"{self.served.url}/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] not in ("#", "")}

    def figure(self, *parts: str) -> float:
        return sum(v for k, v in self.figures().items() if all(part in k for part in parts))

    def until(self, true, seconds: float = 3.0) -> bool:
        end = time.time() + seconds
        while time.time() < end:
            if true():
                return True
            time.sleep(0.01)
        return False


@pytest.fixture
def here() -> Iterator[Here]:
    with Here(Setup(EngineConfig(), Workload())) as found:
        yield found


def events(response: httpx.Response) -> list[str]:
    lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [line.removeprefix("data: ") for line in lines]


# -- answers ----------------------------------------------------------------------------------------------------------
def test_a_whole_answer_counts_its_tokens(here):
    answer = here.post(CHAT | {"model": "sim-8b"}, x_request_id="order-7")
    assert answer.status_code == 200
    said = answer.json()
    assert (said["id"], said["object"], said["model"]) == ("chatcmpl-order-7", "chat.completion", "sim-8b")
    (choice,) = said["choices"]
    assert (choice["finish_reason"], choice["message"]["role"]) == ("length", "assistant")
    assert len(choice["message"]["content"].split()) == 12
    # 17 characters four times are 17 tokens of four characters.
    assert said["usage"] == {"prompt_tokens": 17, "completion_tokens": 12, "total_tokens": 29}


def test_a_stream_brings_a_chunk_for_each_token_and_the_usage_last(here):
    with here.stream(CHAT | {"stream": True, "stream_options": {"include_usage": True}}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        *chunks, done = events(answer)
    assert done == "[DONE]"
    role, *tokens, last = map(json.loads, chunks)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(tokens) == 12
    assert all(token["choices"][0]["delta"]["content"] for token in tokens)
    reasons = [token["choices"][0]["finish_reason"] for token in tokens]
    assert reasons == [None] * 11 + ["length"]
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 12)
    assert {chunk["object"] for chunk in (role, *tokens, last)} == {"chat.completion.chunk"}
    with here.stream(CHAT | {"stream": True}) as answer:
        assert all("usage" not in chunk for chunk in events(answer))


def test_tokens_leave_as_the_engine_makes_them(here):
    with here.stream(LONG | {"max_tokens": 600}) as answer:
        seen = [time.time() for line in answer.iter_lines() if "content" in line]
    took = (seen[-1] - seen[1]) * FAST
    # 599 gaps of a step each, alone on its GPU; the client may read late by a pause of the pump.
    gaps = here.live.engine.counters.token_gap
    gap = gaps.sum / gaps.count
    assert took == pytest.approx(599 * gap, rel=0.1, abs=0.02 * FAST)
    spread = sorted(b - a for a, b in pairwise(seen))
    assert spread[-1] < took / FAST / 3  # not all at its end


def test_a_completion_counts_ids_as_tokens_and_defaults_to_sixteen(here):
    said = here.post({"prompt": list(range(40))}, "/v1/completions").json()
    assert said["usage"] == {"prompt_tokens": 40, "completion_tokens": 16, "total_tokens": 56}
    assert len(said["choices"][0]["text"].split()) == 16
    with here.stream({"prompt": "a text", "max_tokens": 3, "stream": True}, "/v1/completions") as answer:
        *tokens, done = events(answer)
    assert [json.loads(token)["object"] for token in tokens] == ["text_completion"] * 3
    assert done == "[DONE]"


def test_without_max_tokens_a_chat_says_as_much_as_others_do():
    with Here(Setup(EngineConfig(), Workload((replace(BACKGROUND, rate=0.0),)))) as here:
        said = here.post({"messages": [{"role": "user", "content": "x"}]}).json()
    assert said["usage"] == {"prompt_tokens": 1, "completion_tokens": 50, "total_tokens": 51}
    assert said["choices"][0]["finish_reason"] == "stop"


def test_many_at_once_beside_the_simulated_clients():
    with Here(Setup(EngineConfig(max_num_seqs=8), Workload((BACKGROUND,)))) as here, ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda n: here.post(CHAT | {"max_tokens": n}), range(1, 25)))
        assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == list(range(1, 25))
        log = here.live.world.clients.log
        assert here.until(lambda: here.figures() and len(log) > 8)
    assert {answer.outcome for answer in log} == {"ok"}
    assert all(answer.request.stream == 0 for answer in log)  # the simulated clients' log is theirs


def test_calls_reach_the_engine_itself_beside_a_simulated_gateway():
    setup = Setup(EngineConfig(), Workload((BACKGROUND,)), gateway=Gateway(concurrency=1, queue_limit=0))
    with Here(setup) as here:
        assert here.post(CHAT).status_code == 200
        assert here.until(lambda: here.figures() and len(here.live.world.clients.log) > 4)
        assert "rejected" in {answer.outcome for answer in here.live.world.clients.log}  # the gateway's limit is theirs


def test_models_are_listed(here):
    (row,) = here.http.get(f"{here.served.url}/v1/models").json()["data"]
    assert (row["id"], row["object"], row["max_model_len"]) == ("sim-8b", "model", 8192)


# -- refusals ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "status", "kind", "message"),
    [
        (CHAT | {"model": "gpt-9"}, 404, "NotFoundError", "The model `gpt-9` does not exist."),
        (CHAT | {"n": 2}, 400, "BadRequestError", "n is 2"),
        (CHAT | {"max_tokens": 0}, 400, "BadRequestError", "max_tokens must be at least 1, got 0"),
        (CHAT | {"max_tokens": 8192}, 400, "BadRequestError", "maximum context length is 8192 tokens"),
        ({"messages": [{"role": "user", "content": "x" * 40_000}]}, 400, "BadRequestError", "10000 input tokens"),
        ({"messages": []}, 400, "BadRequestError", "at least one message"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "BadRequestError",
            "parts of type text",
        ),
        ({"messages": "hello"}, 400, "BadRequestError", "messages"),
    ],
)
def test_what_vllm_refuses_is_refused_in_its_words(here, body, status, kind, message):
    answer = here.post(body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == (kind, status)
    assert message in error["message"]
    assert here.figure("http_requests_total", 'status="4xx"') == 1


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null"])
def test_a_body_that_is_none_is_a_400(here, raw):
    answer = here.http.post(f"{here.served.url}/v1/completions", content=raw)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)


@pytest.mark.parametrize("prompt", [None, 7, [], ["a", "b"], [[1], [2]], {"a": 1}])
def test_a_prompt_that_is_not_one_is_a_400(here, prompt):
    assert here.post({"prompt": prompt}, "/v1/completions").status_code == 400


def test_a_full_engine_answers_503_and_streams_none():
    setup = Setup(EngineConfig(max_num_seqs=1, max_queued=0), Workload())
    with Here(setup) as here, here.stream(LONG) as first:
        lines = first.iter_lines()  # one that is forgotten closes its stream
        assert next(lines)
        for body in (CHAT, CHAT | {"stream": True}):
            answer = here.post(body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, 503)


def test_failing_answers_are_500_and_no_process_is_503():
    faults = Faults(failing=((0.0, 1e6),))
    with Here(Setup(EngineConfig(), Workload(), faults=faults)) as here:
        assert here.post(CHAT).status_code == 500
    with Here(Setup(EngineConfig(), Workload(), faults=Faults(dies_at=0.0))) as here:
        assert here.post(CHAT).status_code == 503


def test_an_engine_that_dies_says_so_inside_the_stream():
    faults = Faults(restarts=(Restart(6.0, 9.0, "error"),))
    with Here(Setup(EngineConfig(), Workload(), faults=faults)) as here:
        with here.stream(LONG) as answer:
            assert answer.status_code == 200
            *_, error, done = events(answer)
        assert (json.loads(error)["error"]["code"], done) == (500, "[DONE]")
        assert here.until(lambda: here.post(CHAT).status_code == 200)  # the next process answers


# -- clients that leave -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_takes_its_request_out_of_the_engine(stream):
    with Here(Setup(EngineConfig(), Workload()), spans=Sending()) as here:
        if stream:
            with here.stream(LONG) as answer:
                lines = answer.iter_lines()
                assert next(lines)
                assert here.figure("vllm:num_requests_running") == 1
        else:
            with pytest.raises(httpx.ReadTimeout):
                here.http.post(f"{here.served.url}/v1/chat/completions", json=LONG | {"stream": False}, timeout=0.2)
        assert here.until(lambda: here.figure("vllm:num_requests_running") == 0)
        assert 0 < here.figure("vllm:generation_tokens_total") < 6000
        assert here.figure("vllm:request_success_total") == 0
        assert here.live.spans_at(here.now()) == []  # vLLM traces none that was aborted
        assert here.live.engine.counters.aborted == 1


# -- traces -----------------------------------------------------------------------------------------------------------
def test_a_callers_trace_goes_on_in_the_engines_span():
    trace, caller = "ab" * 16, "cd" * 8
    with Here(Setup(EngineConfig(), Workload()), spans=Sending()) as here:
        here.post(CHAT, traceparent=f"00-{trace}-{caller}-01", x_request_id="mine")
        here.post(CHAT, traceparent=f"00-{trace}-{caller}-00")  # not sampled: none
        here.post(CHAT, traceparent="rubbish")
        here.post({"prompt": "x"}, "/v1/completions", x_request_id="other")
        bodies = here.live.spans_at(here.now())
    found = [
        span
        for body in bodies
        for of in ExportTraceServiceRequest.FromString(body).resource_spans
        for span in of.scope_spans[0].spans
    ]
    ids = [next(a.value.string_value for a in span.attributes if a.key == "gen_ai.request.id") for span in found]
    assert (found[0].trace_id.hex(), found[0].parent_span_id.hex()) == (trace, caller)
    assert [span.parent_span_id for span in found[1:]] == [b"", b""]
    assert (ids[0], ids[2]) == ("chatcmpl-mine", "cmpl-other-0")


def test_prompts_appear_nowhere():
    secret = "a planted secret that nobody may see"
    with Here(Setup(EngineConfig(), Workload()), spans=Sending()) as here:
        answer = here.post(CHAT | {"messages": [{"role": "user", "content": secret}]})
        page = here.http.get(f"{here.served.url}/metrics").content
        bodies = here.live.spans_at(here.now())
    assert bodies
    for seen in (answer.content, page, *bodies):
        assert not any(part in seen for part in (secret.encode(), b"planted"))
