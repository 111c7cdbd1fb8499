"""Kubernetes manifests, Compose files and vLLM's own configuration files as set-ups."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import yaml

from llmvitals.audit import flags, podspec, shell
from llmvitals.audit.docker import size
from llmvitals.audit.model import LARGEST, Around, AuditError, Setup


class _Expands(yaml.YAMLError):
    """What its aliases stand for is more than anybody wrote."""


class _Loader(yaml.SafeLoader):
    """Refuses a document whose aliases unfold into more than is read of a file (a "billion laughs")."""

    def compose_document(self) -> yaml.Node | None:
        found = super().compose_document()
        if found is not None and _size(found, {}) > LARGEST:
            raise _Expands
        return found


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Nodes below and with this one, each alias counted as all that it stands for."""
    if id(node) not in known:
        known[id(node)] = 1  # of what holds itself, once
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else ()
        below = node.value if isinstance(node, yaml.SequenceNode) else parts
        known[id(node)] = 1 + sum(_size(each, known) for each in below)
    return known[id(node)]


def setups(text: str, *, place: str) -> tuple[Setup, ...]:
    """Every engine of the documents. Raises :class:`AuditError` for what is no YAML."""
    try:
        documents = [doc for doc in yaml.load_all(text, Loader=_Loader) if isinstance(doc, dict)]
    except _Expands:
        raise AuditError("unfolds into too much", place=place, remedy="Write its aliases out.") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        remedy = "Render templates first (helm template), and give the result."
        raise AuditError(f"is not YAML{where}", place=place, remedy=remedy) from None
    try:
        return _all(documents, place)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        remedy = "Check it with kubectl apply --dry-run=client, or docker compose config."
        raise AuditError("has a part of another shape than it must have", place=place, remedy=remedy) from None


def _all(documents: Sequence[Mapping[str, Any]], place: str) -> tuple[Setup, ...]:
    """What a person wrote may have any shape: the caller says so, rather than each line here asking for its own."""
    found = [one for document in documents for one in _of(document, place)]
    scaled, ingress = podspec.scaled_on(documents), podspec.ingress(documents)
    return tuple(
        replace(one, around=replace(one.around, scaled_on=scaled, **ingress)) if one.around.kind == "pod" else one
        for one in found
    )


def _of(document: Mapping[str, Any], place: str) -> list[Setup]:
    if isinstance(document.get("services"), dict) and "apiVersion" not in document:
        return [one for name, service in document["services"].items() for one in _service(str(name), service)]
    if "apiVersion" in document or "kind" in document:
        return [one for name, spec in podspec.pods(document) for one in _pod(name, spec)]
    if document and any(flags.ever(str(key).replace("_", "-")) for key in document):
        return [_config(document, place)]
    return []


def _pod(name: str, spec: Mapping[str, Any]) -> Iterator[Setup]:
    for container in spec.get("containers") or ():
        if not isinstance(container, dict):
            continue
        words = _words(container.get("command")) + _words(container.get("args"))
        env = podspec.environment(container)
        around = podspec.around(spec, container)
        place = f"{name} {container.get('name', '')}".strip()
        yield from shell.of_container(str(container.get("image", "")), words, env, around, place)


def _service(name: str, service: object) -> Iterator[Setup]:
    if not isinstance(service, dict):
        return
    words = _words(service.get("entrypoint")) + _words(service.get("command"))
    given = service.get("environment") or {}
    pairs = (str(pair).partition("=")[::2] for pair in given) if isinstance(given, list) else given.items()
    env = {str(key): str(value) for key, value in pairs if value is not None}
    shm = str(service.get("shm_size") or "64m")
    around = Around(
        kind="compose",
        image=str(service.get("image", "")),
        shared_memory=service.get("ipc") in ("host", "shareable") or size(shm) > 64 * 2**20,
        gpus=_reserved(service),
        cache_kept=bool(service.get("volumes")),
    )
    yield from shell.of_container(around.image, words, env, around, f"service {name}")


def _reserved(service: Mapping[str, Any]) -> int | None:
    """GPUs that a Compose service reserves; None for all, or none said."""
    node: Any = service
    for key in ("deploy", "resources", "reservations", "devices"):
        node = node.get(key) if isinstance(node, dict) else None
    for device in node if isinstance(node, list) else ():
        count = device.get("count") if isinstance(device, dict) else None
        if isinstance(count, int):
            return count
        if isinstance(device, dict) and isinstance(device.get("device_ids"), list):
            return len(device["device_ids"])
    return None


def _config(document: Mapping[str, Any], place: str) -> Setup:
    """vLLM's ``--config`` file: flags as keys."""
    words: list[str] = []
    for key, value in document.items():
        name = f"--{str(key).replace('_', '-')}"
        if isinstance(value, bool):
            words += [name] if value else [f"--no-{name[2:]}"]
        elif isinstance(value, list):
            words += [name, *map(str, value)]
        elif value is not None:
            words += [name, str(value)]
    return Setup(place, "vllm", tuple(words))


def _words(given: object) -> tuple[str, ...]:
    """Command or args: a list of words, or one line (Compose splits it; what has newlines is a script)."""
    if isinstance(given, str):
        return tuple(_split(given))
    return tuple(map(str, given)) if isinstance(given, list) else ()


def _split(line: str) -> Sequence[str]:
    try:
        return [w for s in shell.statements(line, "a command") for w in s]
    except AuditError:
        return line.split()


_YAML = re.compile(
    r"^[ \t]*(apiVersion|services|kind|containers)\s*:|^[ \t]*\{\s*\"(apiVersion|kind|items)\"", re.MULTILINE
)
_HERE = re.compile(r"<<-?[ \t]*['\"]?(\w+)")
_KEYS = re.compile(r"^([A-Za-z][\w-]*):(?: .*)?$", re.MULTILINE)


def looks(text: str) -> bool:
    """Whether a text is such a file."""
    if _YAML.search(text):
        return True
    keys = [key.replace("_", "-") for key in _KEYS.findall(text)]
    return bool(keys) and all(flags.ever(key) for key in keys)


def inside(text: str) -> str:
    """The manifests that a script feeds to kubectl (``<<EOF``); the text itself without any."""
    bodies = [body for body in _fed(text.split("\n")) if _YAML.search(body)]
    return "\n---\n".join(bodies) if bodies else text


def _fed(lines: Sequence[str]) -> Iterator[str]:
    """What stands between ``<<WORD`` and the line that is that word."""
    ends: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(at)
    after = 0
    for at, line in enumerate(lines):
        begun = _HERE.search(line) if at >= after else None
        found = ends.get(begun[1], []) if begun else []
        end = bisect_right(found, at)
        if end < len(found):
            after = found[end] + 1
            yield "\n".join(lines[at + 1 : found[end]])
