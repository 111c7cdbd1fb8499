"""The pods of this node, from the API server."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from llmvitals.errors import PageError, SettingsError, UnreachableError
from llmvitals.telemetry.identity.model import Pod
from llmvitals.telemetry.kube.ask import ACCOUNT, Api, BusyError, GoneError, base_of
from llmvitals.telemetry.kube.pods import read

PAGE_SIZE = 250
"""Pods asked for at once; a node has 110 by default and 500 at most where the vendor supports it."""

MAX_PODS = 2_000
"""More are not the pods of one node."""

TRIES = 3
"""How often a list is begun anew after the server forgot it (410 Gone)."""

MOST_PATIENCE_SECONDS = 300.0
"""The longest that a server's ``Retry-After`` is heeded."""


class PodLister:
    """Lists the pods of one node. Not for several threads at once; a caller with a deadline puts it into a flight.

    ``last`` is the newest list that came whole, ``at`` the unix time at which it did (None before the first): a failure
    leaves both as they were, so that the caller decides how old is too old.
    """

    def __init__(
        self,
        node: str,
        *,
        url: str = "",
        namespaces: Sequence[str] = (),
        selector: str = "",
        account: Path = ACCOUNT,
        environ: Mapping[str, str] = os.environ,
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``node``: as Kubernetes calls it. ``url``: '' takes the cluster around. ``namespaces``: none takes all together.

        Raises :class:`SettingsError` without a node's name, and without an API server.
        """
        if not node:
            raise SettingsError(
                "the node's name in Kubernetes is not known",
                place="node.name",
                remedy="Set the variable NODE_NAME from the field spec.nodeName, as in exporters/kubernetes/base/daemonset.yaml.",
            )
        self.last: tuple[Pod, ...] = ()
        self.at: float | None = None
        self._node = node
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._selector = selector
        self._api = Api(base_of(url, environ), account=account, in_pod=not url)
        self._timeout = timeout_s
        self._clock = clock
        self._quiet_until = 0.0  # monotonic

    def pods(self) -> tuple[Pod, ...]:
        """The node's pods that meet the selector, ordered by namespace and name; the whole takes ``timeout_s`` at most.

        A first list without any pod is taken for a node's name that is wrong: the exporter itself would be on it.

        Raises :class:`LlmvitalsError` (thing, place, remedy) for whatever fails; ``last`` and ``at`` then stay.
        """
        wait = self._quiet_until - time.monotonic()
        if wait > 0:
            raise BusyError(
                f"asked for patience for another {wait:.0f} s",
                place=self._api.base,
                remedy="Raise node.kubernetes.interval_seconds.",
            )
        until = time.monotonic() + self._timeout
        try:
            found = [pod for path in self._paths() for pod in self._whole(path, until)]
        except BusyError as busy:
            self._quiet_until = time.monotonic() + min(busy.seconds, MOST_PATIENCE_SECONDS)
            raise
        if not found and self.at is None and not self._selector and not self._namespaces:
            raise UnreachableError(
                f"shows no pod on a node named '{self._node}'",
                place=self._api.base,
                remedy="Set NODE_NAME from the field spec.nodeName, or node.name as `kubectl get nodes` shows it.",
            )
        self.last = tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))
        self.at = self._clock()
        return self.last

    def _paths(self) -> list[str]:
        return [f"/api/v1/namespaces/{quote(one, safe='')}/pods" for one in self._namespaces] or ["/api/v1/pods"]

    def _whole(self, path: str, until: float) -> list[Pod]:
        for _ in range(TRIES - 1):
            with contextlib.suppress(GoneError):
                return list(self._pages(path, until))
        return list(self._pages(path, until))

    def _pages(self, path: str, until: float) -> Iterator[Pod]:
        """The list in pages. The first is asked of the server's cache (resourceVersion 0): it is indexed by node there, where
        the store behind it would be read through, all pods of the cluster each time, by each node.
        """
        where = {"fieldSelector": f"spec.nodeName={self._node}", "limit": str(PAGE_SIZE)}
        if self._selector:
            where["labelSelector"] = self._selector
        following, seen = "", 0
        while True:
            further = {"continue": following} if following else {"resourceVersion": "0"}
            body = self._api.get(path, {**where, **further}, until=until, timeout_s=self._timeout)
            try:
                page = read(body, self._node)
            except ValueError as wrong:
                raise PageError(
                    f"answered with something that is no list of pods ({str(wrong)[:120]})",
                    place=self._api.base,
                    remedy="Check that node.kubernetes.api_url is an API server's address.",
                ) from None
            yield from page.pods
            seen += page.size
            if seen > MAX_PODS:
                raise PageError(
                    f"lists more than {MAX_PODS} pods for one node",
                    place=self._api.base,
                    remedy="Check what stands before the API server: it does not heed the field selector.",
                )
            if not page.following:
                return
            following = page.following
