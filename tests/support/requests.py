"""Requests as spans tell them, made by hand: what the ledger of spans is tested with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmvitals.series import Exemplar
from llmvitals.telemetry.spans.ledger import Ledger
from llmvitals.telemetry.spans.model import Batch, Ended, Place, Request, Sent, Shown, Vantage

START = 1_795_957_333.25
"""Unix seconds at which requests begin."""

ENGINE_SAYS = (("service.name", "engine"), ("vllm.process_id", "41"))
GATEWAY_SAYS = (("service.name", "gateway"),)
PEER = "10.0.0.9"

ENGINE = Place("e", kind="vllm", host="10.0.0.1", port=8000, models=("m",), labels={"instance": "e", "engine": "vllm"})
GATEWAY = Place("g", kind="gateway", gateway=True, host="10.0.0.2", models=("m",), labels={"instance": "g"})

_ids = iter(range(1, 1 << 60))


def name() -> str:
    """An id that no other call of this process gave out."""
    return f"{next(_ids):016x}"


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = START + 3600.0  # after all that they tell ended

    def __call__(self) -> float:
        """The time."""
        return self.now


def request(vantage: Vantage, *, trace: str = "", own: str = "", parent: str = "", **more: object) -> Request:
    """A request that ended well: 0.25 s to the first of 11 tokens, 0.75 s in all, so 0.05 s per token."""
    engine = vantage is Vantage.ENGINE
    told: dict[str, object] = {
        "dialect": "vllm" if engine else "genai",
        "start": START,
        "end": START + 0.75,
        "ended": Ended.OK,
        "ttft": 0.25,
        "e2e": 0.75,
        "prompt_tokens": 100,
        "output_tokens": 11,
        "model": "" if engine else "m",
    }
    if engine:
        told |= {"queue": 0.0625, "prefill": 0.125, "decode": 0.5}
    ids = {"trace_id": trace or name() * 2, "span_id": own or name(), "parent_id": parent}
    return Request(**{"vantage": vantage, **told, **ids, **more})  # type: ignore[arg-type]


def engine(**more: object) -> Request:
    """A request that an engine told of."""
    return request(Vantage.ENGINE, **more)  # type: ignore[arg-type]


def gateway(**more: object) -> Request:
    """A request that a gateway told of, 1 s long."""
    return request(Vantage.GATEWAY, **{"e2e": 1.0, "ttft": 0.375, **more})  # type: ignore[arg-type]


def client(**more: object) -> Request:
    """A request that its client told of, 1.5 s long."""
    return request(Vantage.CLIENT, **{"e2e": 1.5, "ttft": 0.5, **more})  # type: ignore[arg-type]


_SAYS = {Vantage.ENGINE: ENGINE_SAYS, Vantage.GATEWAY: GATEWAY_SAYS, Vantage.CLIENT: (("service.name", "app"),)}


def sent(*requests: Request) -> Batch:
    """One export of these requests, each by the process that would tell it."""
    by: dict[Vantage, list[Request]] = {}
    for one in requests:
        by.setdefault(one.vantage, []).append(one)
    return Batch(tuple(Sent(_SAYS[vantage], tuple(told)) for vantage, told in by.items()), spans=len(requests))


def give(ledger: Ledger, *requests: Request, peer: str = PEER) -> None:
    """Let a ledger take these requests in."""
    ledger.take(sent(*requests), peer)


Values = Mapping[tuple[str, ...], float]


def values(shown: Shown | Mapping[str, Shown], family: str, *labels: str, keep: str = "") -> Values:
    """The samples of one name that are not 0, by the values of ``labels``; ``keep``: only those of one instance."""
    pages: Sequence[Shown] = [shown] if isinstance(shown, Shown) else [v for k, v in shown.items() if keep in ("", k)]
    found: dict[tuple[str, ...], float] = {}
    for page in pages:
        for key, value in page.samples.items():
            if key.name == family and value:
                at = tuple(key.label(one) for one in labels)
                found[at] = found.get(at, 0.0) + value
    return found


def exemplars(shown: Shown, family: str) -> Mapping[str, Exemplar]:
    """The exemplars of one histogram by the edge of their bucket."""
    return {key.label("le"): one for key, one in shown.exemplars.items() if key.name == f"{family}_bucket"}
