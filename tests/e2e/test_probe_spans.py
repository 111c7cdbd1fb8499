"""A probe and the span that its engine sends of it, over real sockets: what it took around the engine, and nobody's request."""

from __future__ import annotations

import time

import pytest
import requests

from llmvitals.exporters import watch
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Spans, Target
from llmvitals.telemetry.probe import Prober
from support import senders
from support.answers import Answer, Answers, Asked
from support.collector import shown
from support.hostile import vllm_page
from support.otlp import body, span_id, trace_id, vllm_resource, vllm_span
from support.waiting import wait_for

ANSWER = b'data: {"choices":[{"delta":{"content":"one"}}]}\n\ndata: [DONE]\n\n'


class Engine:
    """An engine that gives a page and chats, and that sends a span of what carried a sampled trace, or of a user's request."""

    def __init__(self) -> None:
        self.traces: list[str] = []
        self.server = Answers({"/metrics": Answer(vllm_page()), "/v1/chat/completions": self.chat})

    def chat(self, asked: Asked) -> Answer:
        self.traces.append(asked.headers["traceparent"])
        time.sleep(0.05)
        return Answer(ANSWER)

    def tell(self, receiver: str, trace: str, parent: str) -> None:
        """Send the span of a request that the engine was 20 ms with."""
        one = vllm_span(trace=trace, parent=parent, ttft=0.01, queue=0.002, prefill=0.008, decode=0.01, e2e=0.02)
        sent = body([one], resource=vllm_resource(service__name="engine-a"))
        assert senders.post(receiver, sent).status_code == 200


def test_a_probe_s_span_tells_the_front_end_and_counts_as_no_user_s_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a user's request, which counts as one."""
    monkeypatch.setattr(watch, "Prober", lambda url, **given: Prober(url, **{**given, "draw": lambda: 0.0}))
    engine = Engine()
    with engine.server as server:
        target = Target(url=server.url, name="a", probe_seconds=3600, spans={"service.name": "engine-a"})
        settings = Settings(
            targets=(target,),
            exporter=Limits(listen="127.0.0.1:0", interval_seconds=0.1, timeout_seconds=2.0),
            spans=Spans(http="127.0.0.1:0", join_seconds=1.0),
        )
        with Exporter(settings) as running:

            def page() -> dict[str, float]:
                """The samples whose value is not 0, by name and the labels that matter here."""
                text = requests.get(running.url + "/metrics", timeout=5).content
                return {
                    " ".join(
                        (name, *(f"{k}={v}" for k, v in sorted(labels) if k not in {"instance", "model", "engine"}))
                    ): value
                    for (name, labels), value in shown(text).items()
                    if value
                }

            receiver = running.receiver.address("http")
            wait_for(lambda: engine.traces)
            _, trace, span, _ = engine.traces[0].split("-")
            engine.tell(receiver, trace, span)
            engine.tell(receiver, trace_id(), span_id())
            around = "llm_span_frontend_seconds_{} parent=client slo_class=probe"
            wait_for(lambda: around.format("count") in page())
            wait_for(lambda: any(name.startswith("llm_slo_requests_total") for name in page()))
            found = page()
    took = found["llm_probe_e2e_seconds_sum"] - 0.02
    assert found[around.format("count")] == 1.0
    assert found[around.format("sum")] == pytest.approx(took, abs=1e-9), "its time from outside less the engine's"
    told = {name: value for name, value in found.items() if "slo_class=" in name and "objective" not in name}
    assert told["llm_slo_requests_total met=yes slo_class=default vantage=engine"] == 1.0, "the user's alone"
    assert told["llm_span_requests_total ended=ok slo_class=default vantage=engine"] == 1.0
    assert {name.split()[0] for name in told if "slo_class=probe" in name} == {
        f"llm_span_frontend_seconds_{part}" for part in ("bucket", "sum", "count")
    }
    assert len(engine.traces) == 1
