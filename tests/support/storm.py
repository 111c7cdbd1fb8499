"""An exporter process over targets that all misbehave at once, with healthy ones beside them, and what a scrape of it says."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from support.command import argv
from support.waiting import free_port, wait_for

DEADLINE = 10.0
"""Prometheus' own time limit of a scrape, in seconds."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: resident bytes, threads, open files."""

    rss: int
    threads: int
    files: int


@dataclass(slots=True)
class Seen:
    """What scrapes said: statuses, by instance the values of ``llm_target_up`` and of tokens, and gaps (instance, family)."""

    statuses: list[int] = field(default_factory=list)
    up: dict[str, set[float]] = field(default_factory=dict)
    tokens: dict[str, list[float]] = field(default_factory=dict)
    gaps: set[tuple[str, str]] = field(default_factory=set)


class Served:
    """``llmvitals serve`` as a process, over settings that may be changed. ``options`` are keys of ``exporter``."""

    def __init__(self, folder: Path, targets: Mapping[str, str], **options: Any) -> None:
        self.settings, self.log, self.port = folder / "llmvitals.yaml", folder / "log", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self.write(targets)

    def write(self, targets: Mapping[str, str]) -> None:
        """Put settings with these targets (name to URL) in place, in one step."""
        named = [{"name": name, "url": url} for name, url in targets.items()]
        part = self.settings.with_suffix(".part")
        part.write_text(yaml.safe_dump({"targets": named, "exporter": self._options}))
        part.replace(self.settings)

    def __enter__(self) -> Self:
        words = argv("serve", "--settings", self.settings, "--listen", f"127.0.0.1:{self.port}")
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(words, stdout=sink, stderr=subprocess.STDOUT)
        wait_for(lambda: self.process.poll() is not None or self._listens(), "the exporter")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(30)

    def _listens(self) -> bool:
        try:
            requests.get(f"{self.url}/readyz", timeout=DEADLINE)
        except requests.ConnectionError:
            return False
        return True

    def stop(self) -> int:
        """End it by SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def events(self, event: str) -> list[str]:
        """The lines of its log that tell of an event."""
        return [line for line in self.log.read_text().splitlines() if f" event={event} " in f"{line} "]

    def reload(self, targets: Mapping[str, str]) -> None:
        """Have it watch these targets instead; returns once it does."""
        self.write(targets)
        before = len(self.events("reloaded"))
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: len(self.events("reloaded")) > before, "the reload")

    def text(self, **headers: str) -> str:
        """A scrape's text."""
        answer = requests.get(f"{self.url}/metrics", headers=headers, timeout=DEADLINE)
        assert answer.status_code == 200, answer.text[:200]
        return answer.text

    def own(self, name: str) -> float:
        """One of the exporter's own numbers, without labels."""
        return next(float(x.split()[-1]) for x in self.text().splitlines() if x.startswith(f"{name} "))

    def cycles(self, more: int = 1) -> None:
        """Wait until that many more cycles are finished."""
        until = self.own("llmvitals_cycles_total") + more
        wait_for(lambda: self.own("llmvitals_cycles_total") >= until, f"{more} cycles")

    def scrape(self, seen: Seen) -> None:
        """Scrape as Prometheus does, and note what it says."""
        answer = requests.get(f"{self.url}/metrics", timeout=DEADLINE)
        seen.statuses.append(answer.status_code)
        for family in parse_text(answer.text):
            for sample in family.samples:
                name = sample.labels.get("instance", "")
                if sample.name == "llm_target_up":
                    seen.up.setdefault(name, set()).add(sample.value)
                elif sample.name == "llm_generation_tokens_total":
                    seen.tokens.setdefault(name, []).append(sample.value)
                elif sample.name == "llm_family_gap":
                    seen.gaps.add((name, sample.labels["family"]))

    def verdicts(self) -> dict[str, list[dict[str, Any]]]:
        """The verdict documents of ``/triage``, by instance."""
        answer = requests.get(f"{self.url}/triage", timeout=DEADLINE)
        assert answer.status_code == 200
        found: dict[str, list[dict[str, Any]]] = {}
        for one in answer.json().get("targets", ()):
            found.setdefault(one["detail"]["scope"]["instance"], []).append(one["detail"])
        return found

    def held(self) -> Held:
        """What the process holds now."""
        told = psutil.Process(self.process.pid)
        return Held(told.memory_info().rss, told.num_threads(), told.num_fds())
