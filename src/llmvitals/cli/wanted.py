"""Which targets the words of a command line name. ``serve`` needs no more of them, and loads neither probes nor tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmvitals.errors import SettingsError
from llmvitals.settings import Service, Settings, Target
from llmvitals.sources.place import base_url, is_url, name_of


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
