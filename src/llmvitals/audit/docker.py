"""``docker run``: its own options apart from the image and the engine's words, and what an image's tag tells."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmvitals.audit.flags import number
from llmvitals.audit.model import Around

_PROGRAMS = frozenset({"docker", "podman", "nerdctl"})
_SWITCHES = frozenset(
    [
        *("-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "-id", "-td"),
        *("--rm", "--init", "--privileged", "--read-only", "--no-healthcheck", "-P", "--publish-all"),
        *("--oom-kill-disable", "--replace", "--tls-verify"),
    ]
)
"""Options of ``docker run`` that take no value; every other one takes one."""
_TAG = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Box:
    """What ``docker run`` says."""

    image: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    around: Around


def run(words: Sequence[str]) -> Box | None:
    """The container that these words run; None where they are no ``docker run``."""
    if not words or words[0].rpartition("/")[2] not in _PROGRAMS or "run" not in words[1:4]:
        return None
    todo = deque(words[list(words).index("run") + 1 :])
    env: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    while todo and todo[0].startswith("-"):
        option, equals, value = todo.popleft().partition("=")
        if option not in _SWITCHES and not equals and todo:
            value = todo.popleft()
        said.setdefault(option, []).append(value)
    for pair in (*said.get("-e", []), *said.get("--env", [])):
        name, equals, value = pair.partition("=")
        if equals:
            env[name] = value
    if not todo:
        return None
    entry = said.get("--entrypoint", [""])[-1].split()
    mounts = said.get("-v", []) + said.get("--volume", []) + said.get("--mount", [])
    around = Around(
        kind="docker",
        image=todo[0],
        gpus=_gpus(said.get("--gpus", [""])[-1]),
        cpu_limit=_number(said.get("--cpus", [""])[-1]),
        shared_memory=bool(
            {"host", "shareable"} & set(said.get("--ipc", [])) or size(said.get("--shm-size", ["64m"])[-1]) > 64 * 2**20
        ),
        cache_kept=bool(mounts),
    )
    return Box(todo[0], (*entry, *list(todo)[1:]), env, around)


def _gpus(text: str) -> int | None:
    """How many GPUs ``--gpus`` names; None for all of them."""
    cleaned = text.strip("\"'")
    if cleaned.isdigit():
        return int(cleaned)
    return len(cleaned.removeprefix("device=").split(",")) if cleaned.startswith("device=") else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def size(text: str) -> float:
    """Bytes of ``16g``, ``64m``, ``1024``; 0 for what cannot be read."""
    found = re.fullmatch(r"([\d.]+)\s*([kmgt]?)i?b?", text.strip().lower())
    return float(found[1]) * 2 ** (10 * " kmgt".index(found[2] or " ")) if found else 0.0


def tag_version(image: str) -> str:
    """The release that an image's tag names, ``0.6.3``; '' for ``latest``, a digest, or an image with numbers of its own."""
    found = _TAG.search(image.partition("@")[0].rpartition("/")[2])
    known = number(found[1]) if found and "vllm-openai" in image else None
    return found[1] if found and known else ""
