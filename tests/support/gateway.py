"""The example gateway in a real uvicorn on a loopback port, and its page as the production adapter reads it."""

from __future__ import annotations

import importlib.util
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import httpx
import uvicorn

from llmvitals.instrument import Gateway
from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
PATH = "/v1/chat/completions"


def example() -> ModuleType:
    """``examples/gateway/gateway.py``, which lies in no package."""
    if "example_gateway" not in sys.modules:
        spec = importlib.util.spec_from_file_location("example_gateway", ROOT / "examples" / "gateway" / "gateway.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["example_gateway"] = module
        spec.loader.exec_module(module)
    return sys.modules["example_gateway"]


class Running:
    """``app`` served until the block ends. ``kit``: what its page is read from."""

    def __init__(self, app: Any, kit: Gateway) -> None:
        self.kit = kit
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)  # without, asyncio leaves Nagle on: 40 ms an answer
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self.client = httpx.Client(base_url=self.url, timeout=10.0)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for(lambda: self._server.started, "the gateway")
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
        assert not self._thread.is_alive()

    def ask(self, text: str = "hello there", *, stream: bool = False, **more: Any) -> httpx.Response:
        """One call to its end. ``headers`` are the request's, all else is part of the body."""
        headers = more.pop("headers", {})
        return self.client.post(PATH, json=body(text, stream=stream, **more), headers=headers)

    def text(self) -> str:
        """Its metrics page."""
        answer = self.client.get("/metrics")
        assert answer.status_code == 200
        return answer.text

    def snapshot(self) -> Snapshot:
        """Its page as samples of the contract."""
        ingest = Ingest(instance="gateway", kind="gateway")
        return ingest.snapshot(RawPage(time.time(), 0.01, 200, self.text().encode()))

    def shows(self, name: str, **labels: str) -> float | None:
        """What the series of a family (without its prefix) with these labels add up to, None where there is none."""
        found = [
            value
            for series, value in self.snapshot().samples.items()
            if series.name == f"llm_gateway_{name}" and all(series.label(k) == v for k, v in labels.items())
        ]
        return sum(found) if found else None


def body(text: str, *, stream: bool = False, **more: Any) -> dict[str, Any]:
    """A chat completion's body."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream, **more}


def serve(*upstreams: str, kit: dict[str, Any] | None = None, **config: Any) -> Running:
    """The example gateway in front of these, with its own settings and the kit's."""
    module = example()
    made = module.Config(upstreams=",".join(upstreams), **config)
    gateway = Gateway("chat-gateway", **{"token_limit": made.tokens, "planned_calls": 1, **(kit or {})})
    return Running(module.build(made, gateway), gateway)
