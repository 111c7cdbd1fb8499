"""Load tests of the simulated server, in the form in which ``vllm bench serve --save-detailed`` writes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmvitals.simulator.clients import Answer
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload

CHAT = Stream("bench", prompt=Lengths(300, 0.3), output=Lengths(60, 0.3), max_tokens=400)


@dataclass(frozen=True)
class Bench:
    """What clients saw of a test with ``level`` requests in flight, and how long it took (seconds)."""

    level: int
    seconds: float
    answers: tuple[Answer, ...]

    def good(self, ttft: float, tpot: float) -> int:
        """Requests that kept both promises, by the clients' own memory."""
        return sum(
            a.outcome == "ok" and a.first is not None and a.first - a.sent <= ttft and (a.tpot or 0.0) <= tpot
            for a in self.answers
        )

    def document(self) -> dict[str, object]:
        """The result file."""
        ok = [a for a in self.answers if a.outcome == "ok" and a.first is not None]
        return {
            "date": "20260102-030405",
            "endpoint_type": "openai",
            "backend": "openai",
            "label": None,
            "model_id": "sim-8b",
            "tokenizer_id": "sim-8b",
            "num_prompts": len(self.answers),
            "request_rate": "inf",
            "burstiness": 1.0,
            "max_concurrency": self.level,
            "duration": self.seconds,
            "completed": len(ok),
            "failed": len(self.answers) - len(ok),
            "total_input_tokens": sum(a.request.prompt for a in ok),
            "total_output_tokens": sum(a.tokens for a in ok),
            "request_throughput": len(ok) / self.seconds,
            "input_lens": [a.request.prompt for a in self.answers],
            "output_lens": [a.tokens if a in ok else 0 for a in self.answers],
            "ttfts": [a.first - a.sent if a.first is not None else 0.0 for a in self.answers],
            "itls": [gaps(a) for a in self.answers],
            "generated_texts": [""] * len(self.answers),
            "errors": ["" if a in ok else a.outcome for a in self.answers],
        }


def gaps(answer: Answer) -> list[float]:
    """The gaps between tokens; clients remember only the first and the last, so they are even."""
    return [answer.tpot] * (answer.tokens - 1) if answer.tpot is not None else []


def bench(level: int, seconds: float, config: EngineConfig, stream: Stream = CHAT) -> Bench:
    """Keep ``level`` requests in flight for ``seconds`` of simulated time."""
    workload = Workload((replace(stream, clients=level, ramp=1.0),), seed=level)
    live = Live(Setup(config, workload))
    live.advance(seconds)
    return Bench(level, seconds, tuple(live.world.clients.log))
