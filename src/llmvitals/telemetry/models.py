"""Which models a target's page names as its own."""

from __future__ import annotations

from llmvitals.schema import Origin, origin_of
from llmvitals.series import Snapshot

_TOLD_BY_OTHERS = frozenset({Origin.PROBE, Origin.SPANS})
"""Probes and traces go by names that the target may not call its models."""


def models_of(page: Snapshot) -> tuple[str, ...]:
    """The models by name, sorted; none where it names none."""
    # a histogram's model is on its count too, and buckets are most of a page
    own = (k for k in page.samples if not k.name.endswith("_bucket") and origin_of(k.name) not in _TOLD_BY_OTHERS)
    return tuple(sorted({key.label("model") for key in own} - {""}))
