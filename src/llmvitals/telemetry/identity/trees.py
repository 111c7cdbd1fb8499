"""Which processes are one engine: its tree, told apart from the engines beside it.

An engine may be one process, a parent with workers (vLLM's engine core, SGLang's scheduler), a parent that only supervises
(several API servers, TGI's launcher), or several trees of one container (Ray). What starts anything at all (an init, a shell,
a container runtime) belongs to none, and neither does somebody's script: only a parent of the same program is the engine's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from llmvitals.telemetry.identity.model import Process, Processes

STARTERS = re.compile(
    r"systemd|\(sd-pam\)|init|tini|dumb-init|catatonit|docker-init|pause|s6-.*|runsv.*"  # inits
    r"|sh|ash|bash|dash|fish|zsh|ksh|login|su|sudo|sshd.*|screen|tmux.*|mosh-server|script|setsid"  # shells, sessions
    r"|supervisord|circusd|monit|cron|crond|atd|at|slurmstepd|pbs_mom|nomad|raylet"  # run anything
    r"|containerd.*|dockerd|runc|crun|conmon.*|kubelet|podman|buildkitd"  # container runtimes
)
"""Names (``comm``) of processes that start others without being part of them."""

_GENERIC = """
api app bin cmd core cuda engine entrypoints env exec host http launch launcher local main model models multi openai opt
port process python router run serve server service start srv usr worker
"""
GENERIC = frozenset(_GENERIC.split())
"""Words that commands share without having anything to do with each other."""

INITS = re.compile(r"systemd|init")
"""The first process of a container that is used like a machine: what runs in it is not one thing."""


@dataclass(frozen=True, slots=True)
class Trees:
    """The processes of a host by parent and by container."""

    table: Mapping[int, Process]
    children: Mapping[int, tuple[int, ...]]
    listening: frozenset[int]

    @classmethod
    def of(cls, processes: Processes) -> Trees:
        """Index the processes; listeners without a process are left out."""
        children: dict[int, list[int]] = {}
        for pid in sorted(processes.table):
            children.setdefault(processes.table[pid].parent, []).append(pid)
        listening = frozenset(one.pid for one in processes.listeners if one.pid in processes.table)
        return cls(processes.table, {k: tuple(v) for k, v in children.items()}, listening)

    def under(self, tops: Iterable[int]) -> frozenset[int]:
        """These processes and all below them."""
        seen: set[int] = set()
        left = [pid for pid in tops if pid in self.table]
        while left:
            pid = left.pop()
            if pid not in seen:
                seen.add(pid)
                left.extend(self.children.get(pid, ()))
        return frozenset(seen)

    def engine(self, api: Collection[int]) -> frozenset[int]:
        """All processes of the engine whose API processes these are, themselves included."""
        tops = {pid: self._top(pid, api) for pid in api}
        own = self.under(tops.values())
        for other in self.listening & own - frozenset(api):  # an engine that one of ours has started
            own -= self.under([self._below(other, api)])
        containers = {self.table[pid].container for pid in api} - {""}
        return own.union(*(self._beside(container, api, own) for container in containers))

    def top_of(self, members: Collection[int]) -> int | None:
        """The process of these that none of them started; below an init or a shell with one child, that child."""
        tops = sorted(pid for pid in members if self.table[pid].parent not in members)
        top = min(tops, key=lambda pid: (self.table[pid].started, pid), default=None)
        while top is not None and STARTERS.fullmatch(self.table[top].name):
            below = [pid for pid in self.children.get(top, ()) if pid in members]
            if len(below) != 1:
                break
            top = below[0]
        return top

    def _above(self, pid: int) -> Iterator[Process]:
        """A process's ancestors inside its container, the nearest first, up to what starts anything."""
        seen, one = {pid}, self.table[pid]
        while (parent := self.table.get(one.parent)) is not None and parent.pid not in seen:
            if parent.container != one.container or STARTERS.fullmatch(parent.name):
                return
            yield parent
            seen.add(parent.pid)
            one = parent

    def _top(self, pid: int, api: Collection[int]) -> int:
        """The topmost ancestor of its kin under which no other engine is: nothing else listens there, it started no twin."""
        top = pid
        for parent in self._above(pid):
            beside = self.under([parent.pid]) - self.under([top])
            if any(one in self.listening and one not in api for one in beside):
                break
            more = not beside.isdisjoint(api)  # it holds several API servers together
            if not (more or self._kin(top, parent.pid)):
                break
            if any(self._twins(top, one) for one in self.children[parent.pid] if not self._leads(one, api)):
                break
            top = parent.pid
        return top

    def _below(self, other: int, api: Collection[int]) -> int:
        """The topmost process above another listener that is below one of ours and above none of them."""
        top = other
        for parent in self._above(other):
            if self._leads(parent.pid, api):
                break
            top = parent.pid
        return top

    def _beside(self, container: str, api: Collection[int], own: frozenset[int]) -> frozenset[int]:
        """The rest of a container, where all of it is this engine's: nothing else is served there, nobody lives in it."""
        members = frozenset(pid for pid, one in self.table.items() if one.container == container)
        rest = members - own
        tops = [pid for pid in members if self.table[pid].parent not in members]
        a_machine = any(INITS.fullmatch(self.table[pid].name) for pid in tops)
        mine = [*api, *(parent.pid for pid in api for parent in self._above(pid) if parent.pid in own)]
        if a_machine or rest & self.listening or any(self._twins(pid, one) for pid in mine for one in rest):
            return frozenset()
        return rest

    def _leads(self, pid: int, api: Collection[int]) -> bool:
        return not self.under([pid]).isdisjoint(api)

    def _kin(self, child: int, parent: int) -> bool:
        """Whether a process was started by its own program, as far as their commands tell."""
        a, b = self.table[child].command, self.table[parent].command
        forked = bool(a) and (a == b or any("multiprocessing" in word for word in a))
        return forked or bool(_words(_program(a)) & _words(b))

    def _twins(self, one: int, other: int) -> bool:
        """Whether two processes are the same program started for different things: two servers, not ranks of one."""
        a, b = self.table[one].command, self.table[other].command
        return bool(a and b) and a != b and _program(a) == _program(b)


def _program(command: tuple[str, ...]) -> tuple[str, ...]:
    """The interpreter and what it runs: the first two words that are no flags."""
    words = [word for word in command[:4] if not word.startswith("-")][:2]
    return tuple(PurePosixPath(word).name for word in words)


def _words(command: tuple[str, ...]) -> frozenset[str]:
    """What a command is about, without what any command may be about."""
    found = (re.findall(r"[a-z]{3,}", PurePosixPath(word).name.lower()) for word in command if not word.startswith("-"))
    return frozenset(word for words in found for word in words) - GENERIC
