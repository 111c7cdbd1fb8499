"""What a ledger holds and has counted, without its lock: the way of a request from its arrival to its target's account.

A span that was here before is dropped, one that belongs to a call waits for the others of it (:mod:`joining`), and one whose
process is not known to be a target's yet waits for the page that shows it. Every span is in exactly one of :class:`Counts`'
numbers, at any moment.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from llmvitals.settings import Settings
from llmvitals.telemetry.probe.trace import is_probe
from llmvitals.telemetry.spans.account import Account, Book, Sender
from llmvitals.telemetry.spans.joining import Joining, Told
from llmvitals.telemetry.spans.model import Attributes, Place, Request, Shown, Vantage
from llmvitals.telemetry.spans.recent import Recent
from llmvitals.telemetry.spans.senders import By, Placement, contradicted

MOST_SENDERS = 2048
"""Processes that are remembered (200 engines of eight API servers each and some more). Of more one is forgotten, not what it told:
one without a target, else that which was silent for longest. So processes that are made up do not push out those of targets.
"""

SILENT_SECONDS = 600.0
"""A process that sends nothing for so long is forgotten."""

UNPLACED_SECONDS = 60.0
"""So long a request waits for a page that shows whose it is; later it would count as if it had just ended."""

MOST_ACCOUNTS = 1024
"""Targets whose counts are kept; of more the one that was not shown for longest begins anew when it comes back."""

DUPLICATE = "duplicate"  # it was here before: its sender had no answer in time and sent it again
NO_TARGET = "no-target"  # nothing told whose it is

_ORDER = tuple(By)  # strongest first


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of all spans: ``spans`` = ``taken`` + ``other`` + ``dropped`` + ``open``, at any moment.

    ``taken``: requests that count (of a client: that were there for others), by dialect; ``other``: no requests, and probes;
    ``dropped``: by reason; ``open``: that wait for their call or their target. Beside that: ``joined``: requests of engines
    that had a parent, by how a caller was found (parent, trace, none); ``hurried``: requests that were settled early since too
    many waited; ``senders``: processes that are known, by how their target was found; ``unplaced``: those without one, by why.
    """

    spans: int = 0
    taken: Mapping[str, int] = field(default_factory=dict)
    other: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    open: int = 0
    joined: Mapping[str, int] = field(default_factory=dict)
    hurried: int = 0
    senders: Mapping[str, int] = field(default_factory=dict)
    unplaced: Mapping[str, int] = field(default_factory=dict)


class _Waiting(NamedTuple):
    """What waits for its sender's target: a request, or (with ``parent``) what one took around the engine."""

    arrived: float
    told: Told
    seconds: float = 0.0
    parent: str = ""


class Counting:
    """Everything that a ledger knows. Not thread-safe; every moment ``now`` is of one clock, in seconds."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.spans.max_open
        self._book = Book(settings.slo)
        self._joining = Joining(self, seconds=settings.spans.join_seconds, most=self._most, inherited=self._inherited)
        self._recent = Recent()
        self._senders: OrderedDict[tuple[Attributes, str, Vantage], Sender] = OrderedDict()
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._waiting: deque[_Waiting] = deque()
        self._now = 0.0
        self._total = self._other = self._open = 0
        self._taken: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    @property
    def crowded(self) -> bool:
        """Whether half of what may wait for its target does."""
        return 2 * len(self._waiting) > self._most

    @property
    def _inherited(self) -> bool:
        return self._book.classes.inherited

    def tuned(self, settings: Settings) -> None:
        """Go on under other settings: counts of promises that stay, at edges that stay, go on; others begin anew."""
        self._most = settings.spans.max_open
        self._book = Book(settings.slo)
        self._joining.tuned(seconds=settings.spans.join_seconds, most=self._most, inherited=self._inherited)
        for account in self._accounts.values():
            account.keep(self._book)

    # -- in -----------------------------------------------------------------------------------------------------------
    def begin(self, now: float) -> None:
        """Note the moment, settle what has waited long enough and forget who is silent."""
        self._now = now
        self._joining.expire(now)
        while self._waiting and not 0 <= now - self._waiting[0].arrived < UNPLACED_SECONDS:
            self._lost(self._waiting.popleft())
        while self._senders:
            key, oldest = next(iter(self._senders.items()))
            if 0 <= now - oldest.active < SILENT_SECONDS:
                return
            self._forget(key)

    def note(self, other: int, refused: Mapping[str, int]) -> None:
        """Count spans that are no requests, and requests that could not be used."""
        self._total += other + sum(refused.values())
        self._other += other
        self._dropped.update(refused)

    def take(self, resource: Attributes, requests: Sequence[Request], peer: str) -> None:
        """Take requests of one process in."""
        senders: dict[Vantage, Sender | None] = {Vantage.CLIENT: None}  # a client is no target
        for one in requests:
            self._total += 1
            if not self._recent.first(one.trace_id, one.span_id):
                self._dropped[DUPLICATE] += 1
                continue
            self._open += 1
            # a clock that is ahead: it ended before it came here, or nothing newer would be seen
            request = replace(one, end=self._now) if one.end > self._now else one
            vantage = request.vantage
            if vantage not in senders:
                senders[vantage] = self._sender(resource, peer, vantage)
            self._joining.take(Told(request, senders[vantage], request.tenant, request.route), self._now)

    def _sender(self, resource: Attributes, peer: str, vantage: Vantage) -> Sender:
        key = (resource, peer, vantage)
        found = self._senders.get(key)
        if found is None:
            found = self._senders[key] = Sender(dict(resource), peer, vantage, self._now)
            if len(self._senders) > MOST_SENDERS:
                strangers = (one for one, sender in self._senders.items() if sender.account is None and one != key)
                self._forget(next(strangers, None) or next(iter(self._senders)))
        found.active = self._now
        self._senders.move_to_end(key)
        return found

    def _forget(self, key: tuple[Attributes, str, Vantage]) -> None:
        """Forget a process. What it told may wait on; what it said of itself is looked at no more, and may be long."""
        self._senders.pop(key).resource = {}

    # -- what joining has settled ---------------------------------------------------------------------------------------
    def settled(self, told: Told) -> None:
        """Count a request, or let it wait for its target; a client's was there for others, and a probe is no user's."""
        if is_probe(told.request.trace_id):
            told.counted = True
            self._other += 1
            self._open -= 1
        elif told.sender is None:
            self._done(told.request)
        elif told.sender.account is None:
            self._wait(_Waiting(self._now, told))
        else:
            self._count(told.sender.account, told)

    def around(self, told: Told, seconds: float, parent: str) -> None:
        """Count what a request took around the engine, where the request itself counts."""
        account = told.sender.account if told.sender is not None else None
        if account is None:
            self._wait(_Waiting(self._now, told, seconds, parent))
        elif is_probe(told.request.trace_id):
            account.probed(told.request, seconds, parent, self._book)
        elif told.counted:
            account.around(told.request, told.tenant, told.route, seconds, parent, self._book)

    def _count(self, account: Account, told: Told) -> None:
        account.add(told.request, told.tenant, told.route, told.floor, self._book)
        told.counted = True
        self._done(told.request)

    def _done(self, request: Request) -> None:
        self._taken[request.dialect] += 1
        self._open -= 1

    def _wait(self, one: _Waiting) -> None:
        self._waiting.append(one)
        if len(self._waiting) > self._most:
            self._lost(self._waiting.popleft())

    def _lost(self, one: _Waiting) -> None:
        if not one.parent:
            self._dropped[NO_TARGET] += 1
            self._open -= 1

    # -- whose a sender is ----------------------------------------------------------------------------------------------
    def senders(self) -> tuple[Sender, ...]:
        """Every process that is known."""
        return tuple(self._senders.values())

    def assign(self, sender: Sender, answer: Placement, places: Mapping[str, Place]) -> None:
        """Note where a sender belongs. One that was placed stays where it is while its target is there and nothing contradicts:
        a process that a machine does not show at the moment has not become another's.
        """
        was = places.get(sender.account.place.instance) if sender.account is not None else None
        if answer.place is None:
            if (
                was is None
                or was.gateway is not (sender.vantage is Vantage.GATEWAY)
                or contradicted(sender.resource, was)
            ):
                sender.account, sender.by, sender.why = None, By.NONE, answer.why
            return
        if was is None or was.instance != answer.place.instance:
            sender.account, sender.by, sender.why = self._account(answer.place), answer.by, ""
        elif _ORDER.index(answer.by) < _ORDER.index(sender.by):
            sender.by = answer.by

    def _account(self, place: Place) -> Account:
        found = self._accounts.get(place.instance)
        if found is None:
            found = self._accounts[place.instance] = Account(place)
            if len(self._accounts) > MOST_ACCOUNTS:
                self._close(self._accounts.popitem(last=False)[1])
        return found

    def _close(self, account: Account) -> None:
        for sender in self._senders.values():
            if sender.account is account:
                sender.account, sender.by, sender.looked = None, By.NONE, -1

    def replay(self) -> None:
        """Count what waited for a target that is known now."""
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            account = one.told.sender.account if one.told.sender is not None else None
            if account is None:
                self._waiting.append(one)
            elif one.parent:
                self.around(one.told, one.seconds, one.parent)
            else:
                self._count(account, one.told)

    # -- out ----------------------------------------------------------------------------------------------------------
    def shown(self, place: Place) -> Shown | None:
        """What a target's page gets; None where no process was ever placed there."""
        account = self._accounts.get(place.instance)
        if account is None:
            return None
        self._accounts.move_to_end(place.instance)
        account.moved(place)
        senders = Counter(one.by for one in self._senders.values() if one.account is account)
        return account.shown(senders, self._book)

    def counts(self) -> Counts:
        """What became of all spans so far."""
        return Counts(
            spans=self._total,
            taken=dict(self._taken),
            other=self._other,
            dropped=dict(self._dropped),
            open=self._open,
            joined=dict(self._joining.joined),
            hurried=self._joining.hurried,
            senders=Counter(one.by.value for one in self._senders.values()),
            unplaced=Counter(one.why for one in self._senders.values() if one.why),
        )
