"""GPUs joined to an engine because the configuration says so."""

from __future__ import annotations

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.series import Series, Snapshot

CONFIGURED = "configured"

_OWN = frozenset(label for f in FAMILIES if origin_of(f.name) is Origin.GPU for label in f.labels)


def join_gpus(engine: Snapshot, gpus: Snapshot, wanted: tuple[str, ...], *, instance: str, model: str) -> Snapshot:
    """The engine's snapshot with the GPUs that serve it.

    ``wanted``: UUIDs or indices, ``UUID/instance`` for a MIG slice; empty takes every GPU of the page. The samples get the
    engine's ``instance`` and ``model`` (none when the model is empty) and ``join="configured"``. What is not on the page,
    and a GPU that is split into slices but named whole, becomes an ``llm_family_gap`` of ``llm_gpu_*``.
    """
    samples = dict(engine.samples)
    whose = {"instance": instance, **({"model": model} if model else {})}
    found: dict[str, list[tuple[Series, float]]] = {}
    for key, value in gpus.samples.items():
        if key.name.startswith("llm_gpu_"):
            found.setdefault(key.label("gpu"), []).append((key, value))
    if not found:
        reason = gpus.detail or "the GPU page shows no GPU"
        samples[_gap(whose, reason)] = 1.0
    for name in wanted or tuple(found):
        chosen = [gpu for gpu, rows in found.items() if name in (gpu, rows[0][0].label("index"))]
        slices = [gpu for gpu in found if gpu.startswith(f"{name}/")]
        if found and not chosen and not slices:
            samples[_gap(whose, f"GPU {name} is not on the GPU page")] = 1.0
        if wanted and slices:
            samples[_gap(whose, f"GPU {name} is split: name the slice, one of {', '.join(sorted(slices))}")] = 1.0
        samples |= {_moved(key, whose): 1.0 for key in gpus.samples if _told(key, chosen)}
        for gpu in chosen:
            for key, value in found[gpu]:
                own = {name: text for name, text in key.labels if name in _OWN and text}
                labels = {**own, "join": CONFIGURED, **whose}
                samples[Series(key.name, tuple(sorted(labels.items())))] = value
    return Snapshot(engine.t, samples, engine.detail)


def _told(key: Series, chosen: list[str]) -> bool:
    """Whether this is what the GPU page cannot say of the chosen GPUs."""
    return bool(chosen) and key.name == "llm_family_gap" and key.label("gpu") in {"", *chosen}


def _moved(key: Series, whose: dict[str, str]) -> Series:
    return Series(key.name, tuple(sorted({**dict(key.labels), **whose}.items())))


def _gap(whose: dict[str, str], reason: str) -> Series:
    labels = {**whose, "family": "llm_gpu_*", "gap": GapKind.MISSING.value, "reason": reason}
    return Series("llm_family_gap", tuple(sorted(labels.items())))
