"""An exporter in an engine's own pod names the engine as the node's exporter would: by the pod, not by the loopback address.

Every replica of a Deployment has the same settings and asks ``127.0.0.1:8000``. Named so, they would all be one ``instance``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from llmvitals.settings import Target
from llmvitals.sources.place import base_url
from llmvitals.telemetry.addresses import is_loopback

VARIABLES = {"namespace": "POD_NAMESPACE", "pod": "POD_NAME", "node": "NODE_NAME"}
"""Label to the variable that the manifest sets from the pod's own fields (downward API)."""


def in_this_pod(targets: Sequence[Target], environ: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets; those without a name that listen on loopback are called ``namespace/pod``, and are known to be in it.

    Of several such targets each name ends in its port. Without both POD_NAMESPACE and POD_NAME nothing changes. Raises
    :class:`SettingsError` for a URL that is none.
    """
    places = {label: environ[name] for label, name in VARIABLES.items() if environ.get(name)}
    if not {"namespace", "pod"} <= places.keys():
        return tuple(targets)
    pod = f"{places['namespace']}/{places['pod']}"
    own = [target for target in targets if not target.name and _is_here(target.url)]

    def named(target: Target) -> Target:
        name = pod if len(own) == 1 else f"{pod}:{_port(target.url)}"
        return msgspec.structs.replace(target, name=name, pod=target.pod or pod, labels={**places, **target.labels})

    return tuple(named(target) if target in own else target for target in targets)


def _is_here(url: str) -> bool:
    return is_loopback(urlsplit(base_url(url)).hostname or "")


def _port(url: str) -> int:
    parts = urlsplit(base_url(url))
    return parts.port or {"http": 80, "https": 443}[parts.scheme]
