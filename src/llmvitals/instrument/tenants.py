"""Which tenants have a series of their own: the heaviest by tokens, as many as were allowed; all others are ``other``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

OTHER = "other"
HALF_LIFE = 60.0
"""Seconds after which a token weighs half. Short, so that three times the smallest tenant's use is seen within a minute."""

AHEAD = 1.5
"""A newcomer must weigh so many times what the lightest named tenant does: two alike do not take turns."""

SHARE = 0.25
"""Of an equal share of all recent tokens (1 / as many names as there may be), a newcomer must have used so much: who calls once
in an hour displaces nobody."""

FROZEN, AT_LEAST = 600.0, 60.0
"""Seconds for which the series of a tenant that was displaced still stands, so that no scrape misses its last value; and the
least of them where a newcomer needs the room."""

LONGEST_NAME = 120
_RENEW = 500.0  # half-lives after which weights are scaled down, far from the largest float (2^1023)


@dataclass(slots=True)
class TopTenants:
    """Names for tenants, by their tokens with exponential decay. Of every token it is said once under which label it counts.

    Named ones (``most`` of them) are weighed exactly. Of the rest, ``2 * most`` candidates are kept as Space-Saving keeps them
    (Metwally et al., ICDT 2005): one that is not kept takes the place of the lightest with that one's weight as its possible
    error, so that nobody heavy is missed; it is promoted by what it surely used. A displaced one keeps its series, frozen, for
    a while; at most ``most`` are frozen at a time, so there are never more than ``2 * most + 1`` labels.

    ``clock``: seconds; ``gone``: told when a name leaves the page. Not safe for threads: who counts holds a lock around it.
    """

    most: int
    clock: Callable[[], float]
    gone: Callable[[str], None] = lambda _: None
    _named: dict[str, float] = field(default_factory=dict)
    _frozen: dict[str, float] = field(default_factory=dict)  # since when, the oldest first
    _candidates: dict[str, tuple[float, float]] = field(default_factory=dict)  # weight, possible error
    _all: float = 0.0
    _since: float | None = None

    def label(self, tenant: str) -> str:
        """The label for what this tenant does now: its own name while it has a series, else ``other``; '' stays ''."""
        tenant = tenant[:LONGEST_NAME]
        if tenant in self._named or tenant in ("", OTHER):
            return tenant
        if len(self._named) < self.most:
            self._named[tenant] = 0.0
            return tenant
        return OTHER

    def used(self, tenant: str, tokens: float) -> str:
        """Weigh what a tenant used; gives the label under which these tokens count."""
        tenant = tenant[:LONGEST_NAME]
        label = self.label(tenant)
        weight = tokens * self._scale()
        self._all += weight
        if label in self._named:
            self._named[label] += weight
        elif label == OTHER != tenant:
            self._consider(tenant, weight)
        return label

    def shown(self) -> frozenset[str]:
        """Names that stand on the page now, frozen ones and ``other`` included."""
        self.thaw()
        return frozenset((*self._named, *self._frozen, OTHER))

    def thaw(self) -> None:
        """Let frozen series go whose time is over."""
        while self._frozen and self._age() >= FROZEN:
            self._drop_oldest()

    def _consider(self, tenant: str, weight: float) -> None:
        known, error = self._candidates.pop(tenant, (0.0, 0.0))
        if not known and len(self._candidates) >= 2 * self.most:
            lightest = min(self._candidates, key=self._candidates.__getitem__)
            known = error = self._candidates.pop(lightest)[0]
        self._candidates[tenant] = (known + weight, error)
        surely = known + weight - error
        if surely * self.most < SHARE * self._all or not self._named:
            return
        lightest = min(self._named, key=self._named.__getitem__)
        if surely > AHEAD * self._named[lightest] and self._room(tenant):
            del self._candidates[tenant]
            self._candidates[lightest] = (self._named.pop(lightest), 0.0)
            self._frozen[lightest] = self.clock()
            self._named[tenant] = surely

    def _room(self, tenant: str) -> bool:
        """Make room for one more frozen series, if there is some; one that comes back has its own again."""
        if self._frozen.pop(tenant, None) is not None or len(self._frozen) < self.most:
            return True
        if self._age() < AT_LEAST:
            return False
        self._drop_oldest()
        return True

    def _age(self) -> float:
        return self.clock() - next(iter(self._frozen.values()))

    def _drop_oldest(self) -> None:
        name = next(iter(self._frozen))
        del self._frozen[name]
        self.gone(name)

    def _scale(self) -> float:
        """What a token of now weighs: twice as much each half-life, so that nothing old need be touched (forward decay)."""
        now = self.clock()
        if self._since is None:
            self._since = now
        lives = (now - self._since) / HALF_LIFE
        if lives > _RENEW:
            down = math.exp2(-lives)
            self._named = {name: weight * down for name, weight in self._named.items()}
            self._candidates = {name: (w * down, e * down) for name, (w, e) in self._candidates.items()}
            self._all *= down
            self._since, lives = now, 0.0
        return math.exp2(lives)
