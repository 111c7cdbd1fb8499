"""What this machine shows beside engines while they are watched, as pages of canonical families.

A page can be recorded and read again like any other, so a recording gives the verdict that was given live.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from llmvitals.schema import Origin, origin_of
from llmvitals.series import Snapshot, series
from llmvitals.settings import Target
from llmvitals.simulator.canonical import text
from llmvitals.sources.beside import beside
from llmvitals.sources.node import Machine, Seen, wanted_of
from llmvitals.sources.place import name_of
from llmvitals.sources.views import is_gateway
from llmvitals.telemetry.identity.model import Found
from llmvitals.telemetry.ingest import RawPage

OnSight = Callable[[Target, RawPage], None]

_SAID = frozenset({Origin.GPU, Origin.HOST})


def sighted(machine: Machine, targets: Sequence[Target], timeout_s: float) -> tuple[Target, ...]:
    """The engines that are on this machine, found in one turn of at most ``timeout_s`` seconds."""
    fronts = {target.gateway for target in targets}
    engines = [one for one in targets if name_of(one) not in fronts and not is_gateway(one.kind, ())]
    seen = _turn(machine, engines, timeout_s)
    return tuple(target for target in engines if _page(target, engines, seen) is not None)


def beside_name(target: Target) -> str:
    """What the pages of the machine beside a target are called in a recording."""
    return f"{name_of(target)}/machine"


@contextlib.contextmanager
def sightings(
    machine: Machine, targets: Sequence[Target], *, interval: float, timeout_s: float, on_sight: OnSight
) -> Iterator[None]:
    """Look at the machine at an interval (seconds) while the context is open, from a thread of its own; never for no targets.

    ``on_sight`` gets a page for each target that is on this machine, in that thread. A look that hangs delays the next one only.
    """
    if not targets:
        yield
        return
    ended = threading.Event()

    def looks() -> None:
        due = time.monotonic()
        while not ended.wait(max(due - time.monotonic(), 0.0)):
            seen = _turn(machine, targets, timeout_s)
            for target in targets:
                page = _page(target, targets, seen)
                if page is not None:
                    on_sight(target, page)
            due = max(due + interval, time.monotonic())

    thread = threading.Thread(target=looks, name="sightings", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout_s)


def _turn(machine: Machine, targets: Sequence[Target], timeout_s: float) -> Seen:
    machine.begin([wanted_of(target) for target in targets], time.time())
    return machine.end(time.monotonic() + timeout_s)


def _page(target: Target, targets: Sequence[Target], seen: Seen) -> RawPage | None:
    """What is beside one engine; None where there is nothing of it here."""
    name = name_of(target)
    if seen.found.get(name, Found()).elsewhere:
        return None
    places = (seen.found.get(name_of(other), Found()) for other in targets if other is not target)
    others = tuple(place for place in places if not place.elsewhere)
    got = beside(Snapshot(seen.t, {}), target, seen, None, others=others)
    samples = {
        key: value for key, value in got.snapshot.samples.items() if origin_of(key.label("family") or key.name) in _SAID
    }
    return RawPage(seen.t, 0.0, 200, text({series("llm_target_up", instance=name): 1.0, **samples}), "")
