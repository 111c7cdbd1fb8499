"""What was behind a failed call over HTTP: transports wrap a failure in failures of their own."""

from __future__ import annotations

import re

_CONNECTION = re.compile(r"^[^ (]*\(host=.*?\): ")


def innermost(failure: BaseException) -> str:
    """The cause behind what the transport wraps it in, shortened."""
    while True:
        inner = next((a for a in failure.args if isinstance(a, BaseException)), getattr(failure, "reason", None))
        if not isinstance(inner, BaseException) or inner is failure:
            break
        failure = inner
    text = _CONNECTION.sub("", str(failure)).split("\n", 1)[0]
    return (text or type(failure).__name__)[:160]
