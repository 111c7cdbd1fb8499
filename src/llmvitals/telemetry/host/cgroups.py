"""What the control groups of a process let it have and did to it: CPU quota, throttling, memory, OOM kills.

A limit counts on every level up the tree, so each is read. The root is what this process can see of it: in a container with a
cgroup namespace of its own that is the container's own group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from llmvitals.telemetry.host.cgroup_texts import Paths, cores, count, entries, paths, quota
from llmvitals.telemetry.host.files import is_folder, text_of

MOST_FOLDERS = 20_000
"""Groups looked through for one whose path is told from another namespace."""
MOST_KNOWN = 4096

_ROOTS = ("", "unified")
_INACTIVE = ("total_inactive_file", "inactive_file")
"""Page cache that the kernel gives back before it kills anybody; v1 has the sum over the groups below by a name of its own."""


@dataclass(frozen=True, slots=True)
class Group:
    """Where one process is accounted: folders from its own up to the root, by controller. ``unified``: v2's names hold."""

    cpu: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    cpu_unified: bool = True
    memory_unified: bool = True
    rooted: bool = False  # its own group is the root of what can be seen


class Cgroups:
    """The tree under ``root`` (``/sys/fs/cgroup`` or where the host's is mounted).

    ``own``: the text of this process's ``/proc/self/cgroup``, whose groups may be mounted at the root itself.
    """

    def __init__(self, root: str, own: str = "") -> None:
        self._root = root
        self._own = own
        self._groups: dict[str, Group] = {}

    def group(self, text: str) -> Group:
        """The groups of a process by its ``/proc/PID/cgroup``; folders are empty where they cannot be found."""
        known = self._groups.get(text)
        if known is not None and all(is_folder(way[0]) for way in (known.cpu, known.memory) if way):
            return known
        if len(self._groups) >= MOST_KNOWN:
            self._groups.clear()
        told, own = paths(text), text == self._own
        (cpu, cpu_unified), (memory, memory_unified) = (self._ways(told, name, own) for name in ("cpu", "memory"))
        rooted = len(memory) == 1 and told.unified in ("", "/") and {path for _, path in told.v1.values()} <= {"/"}
        group = self._groups[text] = Group(cpu, memory, cpu_unified, memory_unified, rooted)
        return group

    def _ways(self, told: Paths, controller: str, own: bool) -> tuple[tuple[str, ...], bool]:
        """Folders of one controller, lowest first, and whether they are v2's."""
        if controller in told.v1:
            names, path = told.v1[controller]
            for top in (f"{self._root}/{name}" for name in dict.fromkeys((names, controller))):
                if is_folder(top):
                    return _up(top, _place(top, path, own)), False
        for top in (f"{self._root}/{name}".rstrip("/") for name in _ROOTS):
            if told.unified and text_of(f"{top}/cgroup.controllers"):
                return _up(top, _place(top, told.unified, own)), True
        return (), True


def cpu_quota(group: Group) -> float | None:
    """Cores that the tightest quota up the tree allows; None when there is none."""
    found = (
        quota(text_of(f"{level}/cpu.max"))
        if group.cpu_unified
        else cores(text_of(f"{level}/cpu.cfs_quota_us"), text_of(f"{level}/cpu.cfs_period_us"))
        for level in group.cpu
    )
    return min((x for x in found if x is not None), default=None)


def throttled_seconds(group: Group) -> float:
    """Time that quotas up the tree held the group back, in seconds, added up over its CPUs as the kernel does it.

    Without a quota nothing is ever held back, and the kernel shows no such line.
    """
    key, unit = ("throttled_usec", 1e-6) if group.cpu_unified else ("throttled_time", 1e-9)
    return sum(entries(text_of(f"{level}/cpu.stat")).get(key, 0.0) for level in group.cpu) * unit


def memory_used(group: Group) -> float | None:
    """Bytes in use, without page cache that is not active: what the kubelet calls the working set; None if not shown."""
    if not group.memory:
        return None
    name = "memory.current" if group.memory_unified else "memory.usage_in_bytes"
    used = count(text_of(f"{group.memory[0]}/{name}"))
    if used is None:
        return None
    told = entries(text_of(f"{group.memory[0]}/memory.stat"))
    return max(0.0, used - next((told[key] for key in _INACTIVE if key in told), 0.0))


def memory_limit(group: Group) -> float | None:
    """Bytes that the tightest limit up the tree allows; None when there is none."""
    name = "memory.max" if group.memory_unified else "memory.limit_in_bytes"
    found = (count(text_of(f"{level}/{name}")) for level in group.memory)
    return min((x for x in found if x is not None), default=None)


def oom_kills(level: str) -> float | None:
    """Processes that the kernel killed in a group for want of memory (in v2 those of the groups below too)."""
    for name in ("memory.events", "memory.oom_control"):
        told = entries(text_of(f"{level}/{name}")).get("oom_kill")
        if told is not None:
            return told
    return None


def _place(top: str, path: str, own: bool) -> str:
    """The folder of a group, '' when it cannot be found.

    A path is told from the reader's own namespace: ``/../x`` is beside its root, which a mount of the whole tree does not
    know; there it is looked for by its name.
    """
    seen = "/".join(part for part in path.split("/") if part not in ("", ".", ".."))
    outside = path.startswith("/..")
    if not outside or seen:
        direct = f"{top}/{seen}".rstrip("/")
        if is_folder(direct):
            return direct
    if own:
        return top
    return next(_named(top, seen.rpartition("/")[2]), "") if outside and seen else ""


def _named(top: str, name: str) -> Iterator[str]:
    for number, (folder, below, _) in enumerate(os.walk(top)):
        if name in below:
            yield f"{folder}/{name}"
        if number >= MOST_FOLDERS:
            return


def _up(top: str, folder: str) -> tuple[str, ...]:
    """A folder and those above it, down to ``top``."""
    found = []
    while folder:
        found.append(folder)
        if folder == top or not folder.startswith(f"{top}/"):
            break
        folder = folder.rpartition("/")[0]
    return tuple(found)
