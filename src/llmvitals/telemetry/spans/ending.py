"""How a request ended, by what its span says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmvitals.telemetry.spans.model import Ended

ERROR_STATUS = 2
"""Status.STATUS_CODE_ERROR of OTLP (trace.proto)."""

_STATUSES = {429: Ended.REFUSED, 503: Ended.REFUSED, 499: Ended.LEFT}
"""499: NGINX's number for a client that left; the rest go by their hundreds."""

_HUNDREDS = {4: Ended.CLIENT_ERROR, 5: Ended.ERROR}

_ERRORS: Mapping[str, Ended] = {
    # a caller that went away: llmvitals' own kit, Starlette, asyncio, Go, .NET, gRPC
    "client_disconnected": Ended.LEFT,
    "client_disconnect": Ended.LEFT,
    "clientdisconnect": Ended.LEFT,
    "cancellederror": Ended.LEFT,
    "cancelled": Ended.LEFT,
    "canceled": Ended.LEFT,
    "context canceled": Ended.LEFT,
    "operationcanceledexception": Ended.LEFT,
    "taskcanceledexception": Ended.LEFT,
    # classes of openai-python, which LiteLLM and others took over (openai/_exceptions.py)
    "ratelimiterror": Ended.REFUSED,
    "serviceunavailableerror": Ended.REFUSED,
    "badrequesterror": Ended.CLIENT_ERROR,
    "authenticationerror": Ended.CLIENT_ERROR,
    "permissiondeniederror": Ended.CLIENT_ERROR,
    "notfounderror": Ended.CLIENT_ERROR,
    "unprocessableentityerror": Ended.CLIENT_ERROR,
    "contextwindowexceedederror": Ended.CLIENT_ERROR,
}
"""By the last part of ``error.type``, in lower case; every other one is an error."""

_FINISHES: Mapping[str, Ended] = {
    # SGLang (managers/schedule_batch.py, FINISH_ABORT) aborts for callers that left and, seldom, for its own refusals
    "abort": Ended.LEFT,
    "cancelled": Ended.LEFT,  # TensorRT-LLM (llmapi/llm.py, executor's FinishReason)
    "timeout": Ended.ERROR,
    "error": Ended.ERROR,
}


def ended(told: Mapping[str, Any], status: int) -> Ended:
    """How it ended. Who left, left, whatever was answered first; else by HTTP status, error, the span's status, finish reason."""
    error = _of_error(told["error"]) if "error" in told else None
    if error is Ended.LEFT:
        return error
    answered = _of_status(told.get("http") or told.get("code") or 0)
    if answered is not None:
        return answered
    if error is not None:
        return error
    if status == ERROR_STATUS:
        return Ended.ERROR
    finishes = told.get("finish", ())
    return next((_FINISHES[one] for one in finishes if one in _FINISHES), Ended.OK)


def _of_status(code: int) -> Ended | None:
    return _STATUSES.get(code) or _HUNDREDS.get(code // 100)


def _of_error(name: str) -> Ended:
    last = name.rpartition(".")[2]
    code = int(last) if len(last) == 3 and last.isascii() and last.isdecimal() else 0
    return _ERRORS.get(last) or _of_status(code) or Ended.ERROR
