"""Calls from outside the simulation: they come in at the present moment, beside the load of the simulated clients.

They reach the engine's API process itself, not a simulated gateway in front of it: who calls is a client or a gateway that
is real.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from llmvitals.errors import SettingsError
from llmvitals.simulator.live import Live
from llmvitals.simulator.workload import Call, Lengths, Request
from llmvitals.simulator.world import World

ANSWER = Lengths(120, 0.4)
"""How long answers are where the simulated clients say nothing of it."""

OUTSIDE = -1
"""The stream of a call that belongs to none."""


@dataclass(slots=True, eq=False)
class Visit:
    """A call from outside. ``taken``: the engine has it; ``tokens``: handed out so far; ``asked``: max_tokens as the engine
    resolves it; ``outcome``: '' while it is open, else as :class:`Call` has it, or "down" where no process answered.

    Written where simulated time passes, read from anywhere.
    """

    call: Call
    asked: int
    taken: bool = False
    due: int = 0  # tokens that are on their way
    tokens: int = 0
    outcome: str = ""

    @property
    def capped(self) -> bool:
        """Whether its answer ended for its length, and not because all was said."""
        return self.call.request.output >= self.asked


class Door:
    """The way into ``live``. Raises :class:`SettingsError` for a coarse one, which has no single tokens."""

    def __init__(self, live: Live) -> None:
        if live.coarse:
            raise SettingsError(
                "takes no calls from outside in its coarse mode", place="simulate", remedy="Simulate step by step."
            )
        self._live = live
        self._visits: dict[Call, Visit] = {}
        world = live.world
        self._rng = random.Random(f"{world.setup.workload.seed}/outside")
        streams = world.setup.workload.streams
        self._answer = streams[0].output if streams else ANSWER
        self._inner = world.front.caller
        world.front.caller = self
        world.listen(on_step=self._stepped)

    def ask(self, t: float, prompt: int, max_tokens: int | None, text: int, *, name: str, trace: str = "") -> Visit:
        """A call comes in at unix moment ``t``: of so many prompt tokens, ``text`` the same for the same prompts.

        It says ``max_tokens``, or where there is no such limit as much as the simulated clients' answers are long.
        """
        with self._live.at(t) as world:
            number, user = world.clients.outside()
            room = world.setup.engine.max_model_len - prompt
            asked = room if max_tokens is None else min(max_tokens, room)
            output = asked if max_tokens is not None else min(self._answer.draw(self._rng), room)
            request = Request(number, OUTSIDE, prompt, output, max_tokens, session=user, user=user, text=text)
            visit = Visit(Call(request, sent=world.now, name=name, trace=trace), asked)
            if world.front.accepts():
                self._visits[visit.call] = visit
                world.front.receive(visit.call)
            else:
                visit.outcome = "down"
            return visit

    def leave(self, t: float, visit: Visit) -> None:
        """Who called has closed the connection."""
        with self._live.at(t) as world:
            if self._visits.pop(visit.call, None) is not None:
                world.front.cancel(visit.call)
                visit.outcome = "left"

    def refuse(self, t: float) -> None:
        """A call was answered 4xx."""
        with self._live.at(t) as world:
            if world.up:
                world.front.refuse_input()

    def pass_time(self, t: float) -> None:
        """Let time pass up to unix moment ``t``."""
        with self._live.at(t) as world:
            for visit in self._visits.values():
                visit.taken = visit.taken or world.engine.said(visit.call) is not None

    # -- from the API process -------------------------------------------------------------------------------------
    def first(self, call: Call, moment: float) -> None:
        """The first token of a call has come."""
        if call not in self._visits:
            self._inner.first(call, moment)

    def ended(self, call: Call, moment: float, outcome: str) -> None:
        """A call has ended."""
        visit = self._visits.pop(call, None)
        if visit is None:
            if not call.name:
                self._inner.ended(call, moment, outcome)
            return
        visit.tokens = visit.due = call.tokens
        visit.taken = visit.taken or bool(call.tokens)
        visit.outcome = outcome

    def _stepped(self, seen: float) -> None:
        """A step's tokens are handed out at ``seen``."""
        world = self._live.world
        for visit in self._visits.values():
            said = world.engine.said(visit.call) or 0
            if said > visit.due:
                visit.due = said
                self._hand_out(world, visit, said, seen)

    def _hand_out(self, world: World, visit: Visit, tokens: int, seen: float) -> None:
        def hand_out() -> None:
            visit.tokens = max(visit.tokens, tokens)

        world.front.later(seen, hand_out)
