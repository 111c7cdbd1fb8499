"""What a pod's manifest says around the engine: probes, GPUs, shared memory, volumes; autoscalers and ingresses beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llmvitals.audit.arguments import real
from llmvitals.audit.model import Around, Probe

SECRET = "(from a secret)"
"""Stands for a value that the manifest takes from elsewhere."""

_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_KEPT = ("persistentVolumeClaim", "hostPath", "nfs", "csi", "ephemeral", "image", "configMap")
_SHM = "/dev/shm"
_READ_TIMEOUT = ("nginx.ingress.kubernetes.io/proxy-read-timeout", "nginx.org/proxy-read-timeout")
_BUFFERING = ("nginx.ingress.kubernetes.io/proxy-buffering", "nginx.org/proxy-buffering")
NGINX_READ_SECONDS = 60.0
"""nginx's own ``proxy_read_timeout`` where nobody sets one (nginx documentation, ngx_http_proxy_module)."""


def pods(node: object, name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every pod specification of a document, with the name of what it belongs to."""
    if isinstance(node, list):
        for each in node:
            yield from pods(each, name)
    elif isinstance(node, dict):
        meta = node.get("metadata")
        if "kind" in node and isinstance(meta, dict) and meta.get("name"):
            name = f"{node['kind']}/{meta['name']}"
        if isinstance(node.get("containers"), list):
            yield name, node
            return
        for each in node.values():
            yield from pods(each, name)


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """The container's variables; one that comes from a secret has a word in place of its value."""
    return {
        str(one["name"]): str(one["value"]) if "value" in one else SECRET
        for one in container.get("env") or ()
        if isinstance(one, dict) and "name" in one
    }


def around(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Around:
    """What the pod says around one of its containers."""
    limits = _part(container, "resources", "limits")
    asked = {**_part(container, "resources", "requests"), **limits}
    volumes = {v.get("name"): v for v in spec.get("volumes") or () if isinstance(v, dict)}
    mounts = [m for m in container.get("volumeMounts") or () if isinstance(m, dict)]
    grace = spec.get("terminationGracePeriodSeconds")
    return Around(
        kind="pod",
        image=str(container.get("image", "")),
        gpus=next((int(real(str(asked[key])) or 0) for key in _GPUS if key in asked), None),
        mig=next((key for key in asked if str(key).startswith("nvidia.com/mig-")), ""),
        cpu_limit=cores(limits.get("cpu")),
        shared_memory=bool(spec.get("hostIPC")) or any(_is_shm(m, volumes) for m in mounts),
        cache_kept=any(any(key in volumes.get(m.get("name"), {}) for key in _KEPT) for m in mounts),
        startup=probe(container.get("startupProbe")),
        liveness=probe(container.get("livenessProbe")),
        readiness=probe(container.get("readinessProbe")),
        grace_seconds=grace if isinstance(grace, int) else None,
    )


def _part(node: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    found: Any = node
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _is_shm(mount: Mapping[str, Any], volumes: Mapping[Any, Mapping[str, Any]]) -> bool:
    if str(mount.get("mountPath", "")).rstrip("/") != _SHM:
        return False
    volume = volumes.get(mount.get("name"), {})
    return _part(volume, "emptyDir").get("medium") == "Memory" or "hostPath" in volume


def cores(text: object) -> float | None:
    """Cores of ``4`` or ``500m``; None where none are said."""
    written = "" if text is None else str(text)
    found = real(written.removesuffix("m"))
    return None if found is None else found / 1000 if written.endswith("m") else found


def probe(given: object) -> Probe | None:
    """A probe with Kubernetes' defaults for what it leaves out; None for none."""
    if not isinstance(given, dict):
        return None
    command = _part(given, "exec").get("command") or ()

    def seconds(key: str, default: int) -> int:
        value = given.get(key)
        return value if isinstance(value, int) else default

    return Probe(
        path=str(_part(given, "httpGet").get("path", "")),
        words=" ".join(map(str, command)) if isinstance(command, list) else "",
        delay=seconds("initialDelaySeconds", 0),
        period=seconds("periodSeconds", 10),
        timeout=seconds("timeoutSeconds", 1),
        failures=seconds("failureThreshold", 3),
    )


def scaled_on(documents: Iterable[Mapping[str, Any]]) -> str:
    """The resource (cpu, memory) that an autoscaler among the documents follows alone; '' for none."""
    for document in documents:
        if document.get("kind") == "HorizontalPodAutoscaler":
            metrics = [m for m in _part(document, "spec").get("metrics") or () if isinstance(m, dict)]
            old = "cpu" if "targetCPUUtilizationPercentage" in _part(document, "spec") else ""
            names = [str(_part(m, "resource").get("name", "")) for m in metrics]
            if old or (names and all(names)):
                return old or names[0]
    return ""


def ingress(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What an nginx ingress among the documents does with streams."""
    for document in documents:
        notes = _part(document, "metadata", "annotations")
        nginx = any("nginx" in str(key) for key in notes) or "nginx" in str(
            _part(document, "spec").get("ingressClassName", "")
        )
        if document.get("kind") == "Ingress" and nginx:
            said = next((real(str(notes[key]).removesuffix("s")) for key in _READ_TIMEOUT if key in notes), None)
            buffered = any(str(notes.get(key, "")).lower() in ("on", "true") for key in _BUFFERING)
            return {"proxy_read_seconds": said or NGINX_READ_SECONDS, "proxy_buffering": buffered}
    return {}
