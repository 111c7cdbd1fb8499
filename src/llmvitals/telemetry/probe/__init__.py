"""Small requests of our own, timed from outside: only where the operator asked for them (``probe_seconds``).

What a probe costs is bounded: one at a time, a short prompt, at most :data:`TOKENS` tokens, a deadline. It says what a user
with a short prompt would see, not what users with long ones do.
"""

from llmvitals.telemetry.probe.ask import TOKENS, Asked, ask
from llmvitals.telemetry.probe.prober import Prober
from llmvitals.telemetry.probe.tally import EDGES, Tally

__all__ = ["EDGES", "TOKENS", "Asked", "Prober", "Tally", "ask"]
