"""A load like the live one: lengths, arrival rate and shared prefix of a window, as far as its source tells them."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass

from llmvitals.gaps import Gap
from llmvitals.loadtest import texts
from llmvitals.loadtest.lengths import Lengths
from llmvitals.loadtest.model import LoadTestError, Note
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.context import Context
from llmvitals.signals.derived.queue import arrival_rate

PROMPT, OUTPUT = "llm_request_prompt_tokens", "llm_request_generation_tokens"
FEW = 100
"""Requests below which the far end of lengths is told by a request or two."""

SEED = 20_231
"""Draws are the same each time: two tests of one load can be compared."""

_LEVELS = (0.5, 1, 2, 4, 8, 16, 32)
_MOST = 1024
_USUAL = (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """``rate``: requests per second, ``running``: requests in flight on average; ``prefix``: share of prompt tokens that were found
    in the prefix cache; None where the source does not tell them. ``seconds``: how long was watched.
    """

    instance: str
    model: str
    seconds: float
    prompts: Lengths
    outputs: Lengths
    rate: float | None
    running: float | None
    prefix: float | None
    notes: tuple[Note, ...]

    @property
    def levels(self) -> tuple[int, ...]:
        """Requests in flight to test with: from half of what is live to many times that, since a peak shows only from above."""
        if self.running is None or self.running < 1:
            return _USUAL
        return tuple(sorted({min(_MOST, max(1, round(self.running * factor))) for factor in _LEVELS}))

    @property
    def prefix_tokens(self) -> int:
        """Tokens that prompts share at their beginning, if all that hit the cache were one text."""
        return round((self.prefix or 0.0) * self.prompts.mean)

    def requests(self, n: int) -> tuple[tuple[int, int], ...]:
        """``n`` pairs of prompt and output length; which prompt goes with which output no histogram tells."""
        rng = random.Random(SEED)
        return tuple(zip(self.prompts.draw(n, rng), self.outputs.draw(n, rng), strict=True))


def spread(lengths: Lengths) -> int:
    """Standard deviation of drawn lengths, tokens (estimate)."""
    return round(statistics.pstdev(lengths.draw(1000, random.Random(SEED))))


def load_spec(instance: str, model: str, window: Window, settings: Settings) -> LoadSpec:
    """The load of a window. Raises :class:`LoadTestError` where it holds no lengths."""
    c = Context(window, settings)
    place = f"{instance}, model {model}" if model else instance
    prompts, outputs = (_lengths(c, family, place) for family in (PROMPT, OUTPUT))
    notes = [Note(texts.LENGTHS, {"count": round(prompts.total), "seconds": c.good.seconds})]
    if prompts.total < FEW:
        notes.append(Note(texts.FEW_LENGTHS, {"count": round(prompts.total)}))
    for what, lengths in (("prompts", prompts), ("outputs", outputs)):
        if lengths.beyond > 0:
            told = {"share": lengths.beyond, "edge": lengths.edges[-1]}
            notes.append(Note(texts.BEYOND_PROMPTS if what == "prompts" else texts.BEYOND_OUTPUTS, told))
    rate = arrival_rate(c).value
    if rate is None:
        rate = prompts.total / c.good.seconds if c.good.seconds > 0 else None
        notes.append(Note(texts.RATE_FINISHED))
    running = c.running
    asked, hit = (c.growth(f"llm_prefix_cache_{what}_tokens_total") for what in ("query", "hit"))
    prefix = min(1.0, hit / asked) if asked and hit is not None else None
    notes.append(Note(texts.PREFIX_UNKNOWN) if prefix is None else Note(texts.PREFIX, {"share": prefix}))
    notes.append(Note(texts.PAIRS))
    return LoadSpec(
        instance,
        model,
        c.good.seconds,
        prompts,
        outputs,
        rate if rate is not None and math.isfinite(rate) and rate > 0 else None,
        statistics.fmean(running.values) if running is not None else None,
        prefix,
        tuple(notes),
    )


def _lengths(c: Context, family: str, place: str) -> Lengths:
    found = c.hist(family)
    if found is None:
        gap: Gap = c.gap(family)
        raise LoadTestError(
            f"tells no lengths: {gap.why}", place=place, remedy="Choose an engine whose page has token histograms."
        )
    lengths = Lengths.of(found)
    if lengths is None:
        raise LoadTestError(
            "finished no request meanwhile", place=place, remedy="Watch longer, or while there is traffic."
        )
    return lengths
