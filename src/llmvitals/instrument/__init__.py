"""The gateway kit: what a Python gateway puts around its calls so that its page speaks docs/gateway-contract.md."""

from llmvitals.instrument.call import Call
from llmvitals.instrument.kit import Gateway
from llmvitals.instrument.middleware import Middleware
from llmvitals.instrument.refusals import Expired, Full, Left, Open, Refused

__all__ = ["Call", "Expired", "Full", "Gateway", "Left", "Middleware", "Open", "Refused"]
