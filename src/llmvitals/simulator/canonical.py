"""Canonical samples as a page in the text exposition format, for telemetry whose source is the simulator itself."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.schema import family_of
from llmvitals.series import Series


def text(samples: Mapping[Series, float]) -> bytes:
    """The page, families in the order in which they first come."""
    families: dict[str, list[str]] = {}
    for key, value in samples.items():
        family = family_of(key.name)
        name = family.name if family is not None else key.name
        if name not in families:
            kind, about = (family.kind, family.help) if family is not None else ("untyped", name)
            families[name] = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        families[name].append(f"{key.name}{_labels(key)} {value!r}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines).encode()


def _labels(key: Series) -> str:
    pairs = ((k, v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for k, v in key.labels)
    inside = ",".join(f'{k}="{v}"' for k, v in pairs)
    return f"{{{inside}}}" if inside else ""
