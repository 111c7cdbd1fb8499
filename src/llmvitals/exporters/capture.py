"""The window that was judged, as a recording: what ``/capture`` answers with, and a triage of it says what the page says.

It holds what ``/metrics`` showed at each of those moments, and by which promises and thresholds it was judged; no address and no
header of a target.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

from llmvitals.exporters.cycle import Cycle
from llmvitals.settings import Settings
from llmvitals.sources.capture import Judged, RawTarget
from llmvitals.sources.recording import Recording, files, narrowed, of_observed
from llmvitals.triage.report import worst

MOST_TARGETS = 32
"""Without a name, so many targets are packed, the worst first: each costs some 10 ms a page."""

MOST_SAMPLES = 2_000_000
"""Samples of one recording: some 160 MB as text, packed to a few, and seconds of work."""

MOST_BYTES = 64 * 1024 * 1024
"""A zip file larger than this is not handed out."""


class TooLargeError(Exception):
    """The window is larger than what is handed out at once."""


def known(cycle: Cycle, instances: Sequence[str]) -> bool:
    """Whether all of these are targets or services of the cycle."""
    names = {one.name for one in cycle.window} | {scoped.instance for scoped in cycle.scopes}
    return names.issuperset(instances)


def recorded(cycle: Cycle, settings: Settings, instances: Sequence[str] = ()) -> Recording:
    """The window of these targets and services and of what belongs to them; of the worst ones where none is named.

    Raises :class:`TooLargeError`.
    """
    names = {one.name for one in cycle.window}
    if instances or len(names) > MOST_TARGETS:
        names = {one.name for one in narrowed(_bare(cycle), instances or _worst(cycle)).targets}
    own = [one for one in cycle.window if one.name in names]
    if sum(len(page.samples) for one in own for page in one.snapshots) > MOST_SAMPLES:
        raise TooLargeError("the window is too large; name fewer targets by 'instance'")
    services = tuple(one for one in cycle.services if names.issuperset(one.engines))
    judged = Judged(slo=settings.slo, thresholds=settings.thresholds)
    return Recording(of_observed(own, services, cycle.fronts).targets, services, judged)


def packed(cycle: Cycle, settings: Settings, instances: Sequence[str] = ()) -> bytes:
    """The recording as a zip file. Raises :class:`TooLargeError`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as made:  # pages are compressed already
        for name, body in files(recorded(cycle, settings, instances)):
            made.writestr(name, body)
            if out.tell() > MOST_BYTES:
                raise TooLargeError("the window is too large; name fewer targets by 'instance'")
    return out.getvalue()


def _bare(cycle: Cycle) -> Recording:
    """Who there is, without pages."""
    targets = (RawTarget(one.name, one.kind, (), gateway=cycle.fronts.get(one.name, "")) for one in cycle.window)
    return Recording(tuple(targets), cycle.services)


def _worst(cycle: Cycle) -> list[str]:
    ordered = worst([scoped.verdict for scoped in cycle.scopes if scoped.verdict is not None])
    return list(dict.fromkeys(str(one.scope.get("instance", "")) for one in ordered))[:MOST_TARGETS]
