"""Targets that come and go with the pods of this node, from what their labels and annotations ask for."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from llmvitals.exporters.logs import log
from llmvitals.settings import Service, Settings, Target
from llmvitals.sources.discover import discover
from llmvitals.telemetry.identity.model import Pod


class Pods:
    """What the newest list of pods asks for, beside the targets of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pods: tuple[Pod, ...] = ()
        self._told: frozenset[str] = frozenset()
        self.targets: tuple[Target, ...] = ()
        self.services: tuple[Service, ...] = ()
        self.left: Mapping[str, str] = {}

    def changed(self, pods: tuple[Pod, ...], node: str) -> bool:
        """Take in a list of pods; whether other targets or services follow from it than before.

        What is wrong with a pod's labels is logged once, until it is mended.
        """
        if pods is self._pods or not self._settings.node.kubernetes.discover:
            return False
        found = discover(
            pods,
            node=node,
            configured=self._settings.targets,
            services=self._settings.services,
            kubernetes=self._settings.node.kubernetes,
        )
        for problem in found.problems:
            if str(problem) not in self._told:
                log("pod-not-taken", level=logging.WARNING, detail=str(problem))
        self._pods, self._told = pods, frozenset(map(str, found.problems))
        self.left = dict(found.left)
        before = (self.targets, self.services)
        self.targets, self.services = found.targets, found.services
        return before != (self.targets, self.services)
