"""One pod that asks to be watched: the targets that it means, and what is wrong with what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from llmvitals.errors import SettingsError
from llmvitals.settings import Kubernetes, Target
from llmvitals.sources.pod_words import DECIDE_WHERE, PREFIX, read, said
from llmvitals.telemetry.identity.model import Container, Pod
from llmvitals.telemetry.ingest import page_url

PORT_NAMES = ("metrics", "http")
"""The container port that is asked where the pod names none, in this order; else the only one there is."""

_USUAL = Kubernetes()

SIDECAR = "llmvitals"
"""The container of this name is an exporter of the pod's own, which asks the engine itself."""


class Asking:
    """One pod, what it says, and what is wrong with it. ``kubernetes``: what the settings let pods have and say."""

    def __init__(self, pod: Pod, kubernetes: Kubernetes = _USUAL) -> None:
        self.pod = pod
        self._kubernetes = kubernetes
        self.name = f"{pod.namespace}/{pod.name}"
        self.problems: list[SettingsError] = []
        self.values: dict[str, Any] = {}
        words = said(pod)
        self.wanted = "scrape" in words and pod.phase == "Running" and bool(pod.ip) and not pod.leaving
        if self.wanted:
            self._read(words)

    def _read(self, words: Mapping[str, str]) -> None:
        lost = False
        for key, text in words.items():
            try:
                self.values[key] = read(key, text)
            except SettingsError as wrong:
                self.problem(wrong.thing, wrong.remedy)
                lost |= key in DECIDE_WHERE
        off = self.values.get("scrape") is False
        if off:
            self.problems.clear()  # what it says besides is of no use to anybody
        self.wanted = not off and not lost
        if self.wanted and not self._may_name(self.values.get("gpu-url", "")):
            host = _host(self.values.pop("gpu-url"))
            self.problem(
                f"{PREFIX}gpu-url may not name '{host[:80]}'",
                "It may name the pod's own address, and hosts of node.kubernetes.gpu_hosts in the exporter's settings.",
            )

    def _may_name(self, url: str) -> bool:
        """Whether a page of GPUs may be asked on a pod's word: else whoever may annotate a pod makes us ask anything."""
        host = _host(url)
        return not url or host == self.pod.ip or any(fnmatchcase(host, one) for one in self._kubernetes.gpu_hosts)

    @property
    def owner(self) -> str:
        """Who else asks this pod's engine, as a sentence; '' for nobody. Two exporters of one engine would count it twice."""
        owner = self.values.get("owner")
        if owner == "sidecar":
            return f"an exporter in its pod asks it ({PREFIX}owner: sidecar)"
        if owner is None and any(one.name == SIDECAR for one in self.pod.containers):
            return f"its container '{SIDECAR}' asks it; {PREFIX}owner: node gives it to the node's exporter"
        return ""

    def problem(self, thing: str, remedy: str) -> None:
        """Note what is wrong with this pod."""
        self.problems.append(SettingsError(thing, place=f"pod {self.name}", remedy=remedy))

    def targets(self, node: str) -> Iterator[Target]:
        """One for each port that it names."""
        containers = self._containers()
        if not containers:
            return
        asked = self.values.get("port", ())
        meant = [self._port(text, containers) for text in asked] if asked else [self._usual(containers)]
        ports = dict(one for one in meant if one is not None)
        for port, container in ports.items():
            yield self._target(f"{self.name}:{port}" if len(asked) > 1 else self.name, port, container, node)

    def _target(self, name: str, port: int, container: str, node: str) -> Target:
        get = self.values.get
        host = f"[{self.pod.ip}]" if ":" in self.pod.ip else self.pod.ip
        places = {"namespace": self.pod.namespace, "pod": self.pod.name, "node": node}
        return Target(
            url=f"{get('scheme', 'http')}://{host}:{port}{get('path', '')}",
            access=self._kubernetes.access,
            name=name,
            kind=get("kind", "auto"),
            gpus=get("gpus", ()),
            gpu_url=get("gpu-url", ""),
            tensor_parallel=get("tensor-parallel", 0),
            pod=self.name,
            container=get("container", container),
            labels={label: value for label, value in places.items() if value},
            role=get("role", ""),
        )

    def _containers(self) -> tuple[Container, ...]:
        """Those whose ports are meant: the one that the pod names, else all."""
        wanted = self.values.get("container")
        if wanted is None:
            return self.pod.containers
        named = tuple(one for one in self.pod.containers if one.name == wanted)
        if not named:
            there = ", ".join(one.name for one in self.pod.containers) or "none"
            self.problem(f"{PREFIX}container cannot be '{wanted[:80]}'", f"Its containers are: {there}.")
        return named

    def _port(self, text: str, containers: Sequence[Container]) -> tuple[int, str] | None:
        """A port that the pod asks for, by number or name, and its container where that is certain."""
        declared = [(name, number, one.name) for one in containers for name, number in one.ports]
        if text.isascii() and text.isdigit():
            number = int(text[:6])
            if not 0 < number < 65_536:
                self.problem(f"{PREFIX}port cannot be '{text[:20]}'", "A port is from 1 to 65535.")
                return None
            owners = {container for _, port, container in declared if port == number}
            return number, only(owners) or only({one.name for one in containers})
        named = {(number, container) for name, number, container in declared if name == text}
        if len(named) == 1:
            return next(iter(named))
        there = ", ".join(sorted({name for name, _, _ in declared if name})) or "none"
        why = "several containers name" if named else "no container names"
        self.problem(
            f"{why} a port '{text[:80]}'", f"Give {PREFIX}port a number, or name {PREFIX}container. Named are: {there}."
        )
        return None

    def _usual(self, containers: Sequence[Container]) -> tuple[int, str] | None:
        declared = {(name, number, one.name) for one in containers for name, number in one.ports}
        for wanted in PORT_NAMES:
            named = [(number, container) for name, number, container in declared if name == wanted]
            if len(named) == 1:
                return named[0]
            if named:
                break
        if len(declared) == 1:
            _, number, container = next(iter(declared))
            return number, container
        why = "several ports could be meant" if declared else "its containers declare no port"
        self.problem(why, f"Name one in {PREFIX}port.")
        return None


def _host(url: str) -> str:
    return urlsplit(page_url(url)).hostname or "" if url else ""


def only(names: set[str]) -> str:
    """The one name in a set, '' where there are none or several."""
    return next(iter(names)) if len(names) == 1 else ""
