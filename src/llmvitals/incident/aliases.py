"""Other names for what is named: ``--anonymise`` calls a model ``model-1`` wherever it is spoken of.

A name is known by the label that it stands under on a page, by the targets and services of a recording, and by its form
(an IP address, the host of a URL). One name has one alias in the whole report, its recording and the notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache

import msgspec

from llmvitals.settings import Slo, SloClass

NAMING: dict[str, str] = {
    **dict.fromkeys(("instance", "exported_instance", "target", "replica"), "instance"),
    **dict.fromkeys(("host", "hostname", "Hostname", "node", "kubernetes_node", "nodename", "address"), "host"),
    **dict.fromkeys(("worker_addr", "worker_url", "upstream", "backend", "server", "api_base"), "host"),
    **dict.fromkeys(("envoy_cluster_name", "cluster", "cluster_name", "zone", "region", "rack"), "cluster"),
    **dict.fromkeys(("pod", "pod_name", "exported_pod"), "pod"),
    **dict.fromkeys(("container", "exported_container", "container_name"), "container"),
    **dict.fromkeys(("namespace", "exported_namespace", "kubernetes_namespace"), "namespace"),
    **dict.fromkeys(
        (
            "model",
            "model_name",
            "served_model_name",
            "requested_model",
            "litellm_model_name",
            "model_group",
            "model_id",
            "target_model_name",
            "gen_ai_request_model",
            "gen_ai_response_model",
            "lora_name",
            "adapter",
            "running_lora_adapters",
            "waiting_lora_adapters",
        ),
        "model",
    ),
    **dict.fromkeys(
        ("tenant", "user", "end_user", "user_id", "user_alias", "team", "team_alias", "organization", "customer"),
        "tenant",
    ),
    **dict.fromkeys(("api_key_alias", "org_alias", "fairness_id", "job", "deployment"), "tenant"),
}
"""What stands under a label, by the label's name."""

_OWN = re.compile(rf"(?:\w*_)?(?P<what>{'|'.join(sorted(NAMING, key=len, reverse=True))})(?:_id|_name)?")
"""``kubernetes_pod_name``, ``tenant_id``, ``ray_io_cluster``: labels that somebody's own setup made of these names."""


@cache
def kind_of(label: str) -> str | None:
    """What stands under a label; None where it names nobody."""
    own = None if label in NAMING else _OWN.fullmatch(label)
    return NAMING[own["what"]] if own else NAMING.get(label)


_WORDS = (
    "all any api auto both chat completions container count cpu cuda decode default engine error false gateway generate gpu "
    "healthy host http instance kv litellm llm llamacpp local localhost main model models none null ollama other pod prefill "
    "probe requests server service sglang tenant tgi tokens triton true trtllm unknown user v1 vllm waiting running worker"
)
ORDINARY = frozenset(_WORDS.split())
"""Words with a meaning of their own here, which say nothing of anybody: they keep their name."""

_SHORTEST = 3
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("host", re.compile(r"(?<=://)(?!\[secret-)(?P<n>[\w.-]+)")),
    ("host", re.compile(r"(?<![\w.])(?P<n>\d{1,3}(?:\.\d{1,3}){3})(?![\w.]*\d)")),
    ("host", re.compile(r"\b(?P<n>[\w-]+(?:\.[\w-]+)*\.(?:internal|local|corp|lan|svc|intra|home))\b")),
)


class Aliases:
    """What is called what. Without any name taken in, everything keeps its name."""

    def __init__(self, named: Iterable[tuple[str, str]] | None = None) -> None:
        self._by_name: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._on = named is not None
        for kind, name in sorted(set(named or ()), key=lambda one: (one[0], one[1])):
            self._add(kind, name)
        self._spoken = self._pattern()
        self._spoken_loosely = re.compile(self._spoken.pattern, re.IGNORECASE) if self._spoken is not None else None
        self._folded = {name.lower(): alias for name, alias in self._by_name.items()}

    def name(self, name: str) -> str:
        """The alias of a name; of one that is made of another (``engine-1/machine``), that with the alias in it."""
        return self._by_name.get(name) or self._exactly(name)

    def label(self, label: str, value: str) -> str:
        """A label's value; under a label that names, whatever it is."""
        if not self._on or not value:
            return value
        known = self._by_name.get(value) if kind_of(label) else None
        return known or self._exactly(value)

    def text(self, text: str) -> str:
        """A text with aliases in place of names, however a person wrote them: ``GPU-17`` is ``gpu-17``."""
        if self._on and self._spoken_loosely is not None:
            text = self._spoken_loosely.sub(
                lambda found: self._by_name.get(found[0]) or self._folded.get(found[0].lower(), found[0]), text
            )
        return self._exactly(text)

    def _exactly(self, text: str) -> str:
        """The same for what tells series apart: two that differ by their case alone stay two."""
        if not self._on or not text:
            return text
        if self._spoken is not None:
            text = self._spoken.sub(lambda found: self._by_name[found[0]], text)
        for kind, form in _FORMS:
            text = form.sub(lambda found, kind=kind: self._of_form(kind, found), text)  # type: ignore[misc]
        return text

    def slo(self, slo: Slo) -> Slo:
        """Promises whose patterns of models and tenants name the aliases of what they match now."""
        if not self._on:
            return slo
        return msgspec.structs.replace(slo, classes=tuple(map(self._class, slo.classes)))

    def _class(self, one: SloClass) -> SloClass:
        return msgspec.structs.replace(
            one,
            name=self.text(one.name),
            models=self._matched(one.models),
            tenants=self._matched(one.tenants),
            routes=tuple(map(self._exactly, one.routes)),
        )

    def _matched(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """The aliases of the names that match; a pattern that nothing matches goes on matching nothing."""
        if not patterns:
            return ()
        found = {alias for name, alias in self._by_name.items() if any(fnmatchcase(name, p) for p in patterns)}
        everything = ("*",) if "*" in patterns else ()
        return everything or tuple(sorted(found)) or ("nothing-that-was-seen",)

    def _of_form(self, kind: str, found: re.Match[str]) -> str:
        name = found["n"]
        if name in self._by_name.values() or name.lower() in ORDINARY:
            return name
        return self._by_name.get(name) or self._add(kind, name)

    def _add(self, kind: str, name: str) -> str:
        if name.lower() in ORDINARY:
            return name
        if name not in self._by_name:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            alias = self._by_name[name] = f"{kind}-{self._counts[kind]}"
            for part in _parts(kind, name):
                if part.lower() not in ORDINARY:
                    self._by_name.setdefault(part, alias)
        return self._by_name[name]

    def _pattern(self) -> re.Pattern[str] | None:
        spoken = [n for n in self._by_name if len(n) >= _SHORTEST and not _number(n)]
        if not spoken:
            return None
        longest = sorted(spoken, key=len, reverse=True)
        return re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")


def _parts(kind: str, name: str) -> Iterator[str]:
    """What else a name is called: a host without its port and its domain, a model without its publisher."""
    if kind == "model":
        yield name.rpartition("/")[2]
        return
    host = name.rpartition("://")[2].partition("/")[0]
    bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    yield from dict.fromkeys((host, bare, bare.strip("[]")))
    if not _number(bare.replace(".", "")):
        yield bare.partition(".")[0]


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
