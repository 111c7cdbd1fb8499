"""Whose process: the container's id and the pod's uid from the text of ``/proc/PID/cgroup``.

Version 1 (a line per controller), version 2 (one line, ``0::``) and both at once read alike: what counts are the parts of a
path. They are as the runtimes make them: the kubelet's ``kubepods`` with the systemd driver (slices, ``_`` in the uid) and
with cgroupfs, containerd, CRI-O, Docker, Podman, nerdctl, LXC, ECS and Garden. A path may begin anywhere: in a cgroup
namespace of its own a process sees others as ``/../..``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """How a container is called in one part of a path. ``under``: the part before it, where the part alone says too little."""

    runtime: str
    part: re.Pattern[str]
    under: re.Pattern[str] | None = None


def _form(runtime: str, part: str, under: str = "") -> Form:
    return Form(runtime, re.compile(part), re.compile(under) if under else None)


FORMS: tuple[Form, ...] = (
    _form("containerd, a scope of systemd", r"cri-containerd-([0-9a-f]{12,64})(?:\.scope)?"),
    # crio-conmon-ID.scope and libpod-conmon-ID.scope hold the process that watches a container from outside
    _form("CRI-O, a scope of systemd", r"crio-([0-9a-f]{12,64})(?:\.scope)?"),
    _form("Docker, a scope of systemd", r"docker-([0-9a-f]{12,64})(?:\.scope)?"),
    _form("Podman", r"libpod-(?:payload-)?([0-9a-f]{12,64})(?:\.scope)?"),
    _form("nerdctl", r"nerdctl-([0-9a-f]{12,64})(?:\.scope)?"),
    _form("any, by cgroupfs", r"([0-9a-f]{64})"),
    _form("ECS on Fargate", r"([0-9a-f]{32}-[0-9]+)", under=r"[0-9a-f]{32}"),
    _form("Garden", r"([0-9a-f-]{8,})", under=r"garden|good"),
    _form("LXC 4 and newer, Incus", r"lxc\.payload\.(.+)"),
    _form("LXC", r"(.+)", under=r"lxc"),
)

_POD = re.compile(
    r"(?:kubepods(?:-[a-z]+)?-|kubelet-kubepods(?:-[a-z]+)?-)?"
    r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
)
"""A pod's part of the path. The uid of a static pod is the hash of its file: 32 digits without dashes."""


def owners(text: str) -> tuple[str, str]:
    """The container's id and the pod's uid (with dashes), '' for each that the text does not tell.

    Under a pod its container is the first one, as the kubelet knows it, whatever runs inside; elsewhere it is the
    innermost. Of several lines the one that tells most counts.
    """
    found = [_of_path(path) for line in text.splitlines() if (path := line.strip().split(":", 2)[2:])]
    return max(found, key=lambda one: (bool(one[0]) + bool(one[1]), bool(one[0])), default=("", ""))


def _of_path(path: list[str]) -> tuple[str, str]:
    # containerd with cgroupfs names under systemd's driver: PARENT.slice:cri-containerd:ID
    parts = [part for part in re.split(r"[/:]", path[0]) if part]
    at, uid = next(((i, m["uid"]) for i, part in enumerate(parts) if (m := _POD.fullmatch(part))), (-1, ""))
    inside = range(at + 1, len(parts))
    ids = [found for i in inside if (found := _id(parts[i], parts[i - 1] if i else ""))]
    return (ids[0 if uid else -1] if ids else ""), uid.replace("_", "-")


def _id(part: str, before: str) -> str:
    for form in FORMS:
        if (found := form.part.fullmatch(part)) and (form.under is None or form.under.fullmatch(before)):
            return found[1]
    return ""
