"""The gateway kit: what a Python gateway puts around its calls so that its page speaks docs/gateway-contract.md."""

from llmvitals.errors import MissingExtraError, install

try:
    from llmvitals.instrument.call import Call
    from llmvitals.instrument.kit import Gateway
    from llmvitals.instrument.middleware import Middleware
    from llmvitals.instrument.refusals import Expired, Full, Left, Open, Refused
except ModuleNotFoundError as missing:
    if not (missing.name or "").startswith("opentelemetry"):
        raise
    raise MissingExtraError(
        "the gateway kit needs OpenTelemetry",
        place="llmvitals.instrument",
        remedy=install("gateway"),
    ) from None

__all__ = ["Call", "Expired", "Full", "Gateway", "Left", "Middleware", "Open", "Refused"]
