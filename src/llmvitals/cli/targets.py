"""From the words on a command line, or the settings, to targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from llmvitals.errors import SettingsError, UnreachableError
from llmvitals.schema import Origin
from llmvitals.settings import Service, Settings, Target
from llmvitals.sources.place import base_url, is_url, name_of
from llmvitals.sources.probe import Probed
from llmvitals.sources.views import Placed, views


def live_targets(words: Sequence[str], settings: Settings) -> tuple[Target, ...]:
    """The targets that the words name: a URL, or the name of a target or service in the settings; no word names them all.

    A URL that the settings know keeps what they say of it (name, kind, GPUs, labels); a service is all of its targets, and the
    gateway in front of an engine comes with it. Raises :class:`SettingsError`.
    """
    known = {name_of(target): target for target in settings.targets}
    by_url = {base_url(target.url): target for target in settings.targets}
    if not words:
        return settings.targets
    services = {service.name: (*service.engines, *service.gateways) for service in settings.services}
    found: list[Target] = []
    for word in words:
        names = services.get(word, (word,))
        for name in names:
            target = known.get(name) or by_url.get(base_url(_url(name))) or Target(url=name)
            front = known.get(target.gateway)
            found += [one for one in (target, front) if one is not None and one not in found]
    return tuple(found)


def watched(targets: Sequence[Target], settings: Settings) -> tuple[Service, ...]:
    """The services of the settings whose engines are all among the targets."""
    names = {name_of(target) for target in targets}
    return tuple(service for service in settings.services if names.issuperset(service.engines))


def _url(word: str) -> str:
    if is_url(word):
        return word
    kind = "file or folder" if "/" in word or Path(word).suffix else "target"
    raise SettingsError(
        f"there is no such {kind}",
        place=word,
        remedy="Give a URL like http://host:8000, a page file, a capture folder, or a target's name in the settings.",
    )


def reachable(probed: Sequence[Probed]) -> tuple[Target, ...]:
    """All targets, when at least one of them answers; one that is down is part of the answer for the others.

    Raises the error of the first target when none answers, and of any that answers with something else than a page.
    """
    errors = [one.error for one in probed if one.error is not None]
    for error in errors:
        if not isinstance(error, UnreachableError) or len(errors) == len(probed):
            raise error
    return tuple(one.target for one in probed)


def apart(probed: Sequence[Probed], settings: Settings) -> str:
    """What to say of gateways that stand beside engines and are joined to none of them, and how that is done; '' for none."""
    shown = [one for one in probed if not one.exporter and one.origin is not Origin.GPU]
    placed = [Placed(name_of(one.target), one.target.gateway, one.origin is Origin.GATEWAY) for one in shown]
    named = {one.gateway for one in placed if one.gateway}
    placed = [replace(one, in_front=one.in_front or one.name in named) for one in placed]
    found = views(placed, watched([one.target for one in shown], settings))
    alone = [one.name for one in placed if one.in_front and one.name not in found.joined]
    engines = [one.name for one in placed if not one.in_front]
    if not alone or not engines:
        return ""
    return (
        f"{', '.join(alone)}: a gateway that is joined to no engine, for which of {', '.join(engines)} stand behind it is "
        "not said. Say it under 'services' in a settings file, and give that with --settings."
    )
