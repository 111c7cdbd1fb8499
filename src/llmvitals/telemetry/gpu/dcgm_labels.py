"""What the labels of a dcgm-exporter page tell: the card, its driver, the MIG profile, and the pods that hold it.

The exporter names the pod of a GPU in three spellings: ``pod``, ``pod_name`` (with its old namespace), and ``exported_pod``
where a Prometheus has scraped it, whose own ``pod`` is then the exporter's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmvitals.gaps import GapKind
from llmvitals.telemetry.mapping import FamilyGap, Parts

_SPELLINGS: tuple[tuple[str, str, str], ...] = (
    ("exported_namespace", "exported_pod", "exported_container"),
    ("pod_namespace", "pod_name", "container_name"),
    ("namespace", "pod", "container"),
)
_EXPORTER = "dcgm-exporter"
_PRODUCT = ("modelName", "model_name")
_DRIVER = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
_INFO: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("product", _PRODUCT),
    ("mig_profile", ("GPU_I_PROFILE",)),
    ("driver", _DRIVER),
)

OFF = (
    "no series carries a pod label: the exporter's pod mapping is off, or it does not reach the kubelet; "
    "DCGM_EXPORTER_KUBERNETES=true and the directory of the kubelet's pod-resources socket switch it on"
)
UNKNOWN = (
    "its pod labels are absent or empty: no pod was given it by the device plugin, or the exporter has lost which "
    "(a known fault of dcgm-exporter)"
)


def pod_of(labels: Mapping[str, str], *, scraped: bool = False) -> tuple[str, str, str] | None:
    """Namespace, pod and container of a series' labels; None where they name none, or only the exporter itself.

    ``scraped``: a Prometheus has been in between, so that ``pod`` is the exporter's own, whatever it is called.
    """
    for namespace, pod, container in _SPELLINGS[:1] if scraped else _SPELLINGS:
        name = labels.get(pod, "")
        if name and _EXPORTER not in name and _EXPORTER not in labels.get(container, ""):
            return labels.get(namespace, ""), name, labels.get(container, "")
    return None


def tell(parts: Parts) -> None:
    """Add what the labels tell of each GPU, and why no pod is known of one."""
    cards: dict[tuple[str, str], dict[str, str]] = {}
    holders: dict[tuple[str, str], dict[tuple[str, str, str], None]] = {}
    scraped = any(entry.source.get("exported_pod") for entry in parts.entries)
    for entry in parts.entries:
        card = entry.series.label("gpu"), entry.series.label("index")
        known = cards.setdefault(card, {})
        for name, spellings in _INFO:
            if name not in known and (text := _first(entry.source, spellings)):
                known[name] = text
        held = holders.setdefault(card, {})
        if (pod := pod_of(entry.source, scraped=scraped)) is not None:
            held[pod] = None
    for card, known in cards.items():
        if known:
            _put(parts, "llm_gpu_info", card, known)
    if not any(cards.values()):
        parts.gaps.append(FamilyGap("llm_gpu_info", GapKind.UNSUPPORTED, "no label names the card or its driver"))
    for card, pods in holders.items():
        for namespace, name, container in pods:
            _put(parts, "llm_gpu_pod", card, {"namespace": namespace, "pod": name, "container": container})
    _gaps(parts, holders)


def _put(parts: Parts, family: str, card: tuple[str, str], labels: Mapping[str, str]) -> None:
    gpu, index = card
    told = {"gpu": gpu, "index": index, **labels}
    parts.put(family, 1.0, {name: text for name, text in told.items() if text})


def _gaps(parts: Parts, holders: Mapping[tuple[str, str], Mapping[tuple[str, str, str], None]]) -> None:
    """No verdict waits for a pod: the process ids tell whose a GPU is as well."""
    if not any(pod in entry.source for entry in parts.entries for _, pod, _ in _SPELLINGS):
        parts.gaps.append(FamilyGap("llm_gpu_pod", GapKind.UNSUPPORTED, OFF))
        return
    free = [gpu for (gpu, _), pods in holders.items() if not pods]
    parts.gaps.extend(FamilyGap("llm_gpu_pod", GapKind.UNSUPPORTED, UNKNOWN, (("gpu", gpu),)) for gpu in free)


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((text for name in names if (text := labels.get(name, ""))), "")
