"""What a PromQL endpoint answers, for servers that are made up."""

from __future__ import annotations

import json

from support.answers import Answer


def ok(data: object) -> Answer:
    """An answer with this ``data``."""
    return Answer(json.dumps({"status": "success", "data": data}).encode())


def matrix(*rows: tuple[dict[str, str], list[tuple[float, str]]]) -> Answer:
    """Series, each with its points (unix seconds, value as text)."""
    result = [{"metric": metric, "values": values} for metric, values in rows]
    return ok({"resultType": "matrix", "result": result})


def refusal(status: int, message: str) -> Answer:
    """An error in Prometheus' words."""
    return Answer(json.dumps({"status": "error", "errorType": "x", "error": message}).encode(), status)
