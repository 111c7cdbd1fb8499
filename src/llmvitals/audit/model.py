"""The values of an audit: what was given, what is known around it, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from llmvitals.capacity import Gpu, Model
from llmvitals.capacity.report import AUTO
from llmvitals.errors import LlmvitalsError

if TYPE_CHECKING:
    from llmvitals.audit.subject import Subject

Values = Mapping[str, object]
"""What stands in the braces of a rule's words."""

LARGEST = 2_000_000
"""Characters of a text that are read, and of what its variables and aliases stand for; no manifest is longer."""


class AuditError(LlmvitalsError):
    """What was given cannot be read as a set-up of an engine."""


class Severity(IntEnum):
    """How much a finding matters; a command in CI fails from one of them on."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        """As the options and the JSON have it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Probe:
    """A Kubernetes probe. Seconds; what the manifest leaves out has Kubernetes' own default."""

    path: str = ""
    words: str = ""
    delay: int = 0
    period: int = 10
    timeout: int = 1
    failures: int = 3

    @property
    def patience(self) -> int:
        """Seconds from the container's start until the last failure that is let pass."""
        return self.delay + self.period * self.failures


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the engine's command. None: not said, or not known in this form."""

    kind: str = ""
    image: str = ""
    gpus: int | None = None
    mig: str = ""
    cpu_limit: float | None = None
    shared_memory: bool | None = None
    cache_kept: bool | None = None
    startup: Probe | None = None
    liveness: Probe | None = None
    readiness: Probe | None = None
    grace_seconds: int | None = None
    scaled_on: str = ""
    proxy_read_seconds: float | None = None
    proxy_buffering: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """One engine as it was given. ``words``: its arguments as written; ``told``: what it said of itself, by flag."""

    place: str
    engine: str
    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    generation: str = ""
    pool_tokens: int | None = None
    contexts: float | None = None
    around: Around = Around()
    whole: bool = True
    """Whether this is all of it: a metrics page and a log show only some settings."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is known of the requests, in tokens; ``users_wait``: somebody waits in the queue."""

    prompt_tokens: float | None = None
    output_tokens: float | None = None
    longest_tokens: float | None = None
    users_wait: bool = False


@dataclass(frozen=True, slots=True)
class Hardware:
    """The model and the GPU, for an estimate of the pool. ``gpus``: how many there are; ``weights``: their data type."""

    model: Model | None = None
    gpu: Gpu | None = None
    memory_gb: float | None = None
    gpus: int | None = None
    weights: str = AUTO

    @property
    def name(self) -> str:
        """The GPU's name; '' for one that is given by its memory, or not at all."""
        return self.gpu.name if self.gpu else ""

    @property
    def gb(self) -> float | None:
        """Decimal GB of one GPU, as an engine sees them where that is known."""
        if self.memory_gb is not None:
            return self.memory_gb
        return (self.gpu.shown_gb or self.gpu.memory_gb) if self.gpu else None


@dataclass(frozen=True, slots=True)
class Rule:
    """One mistake. ``when`` gives the values of its words, once for each time it is made; nothing where it is not."""

    id: str
    severity: Severity
    cause: str
    title: str
    why: str
    fix: str
    when: Callable[[Subject], tuple[Values, ...]]
    source: str
    engine: str = "vllm"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds. ``values`` fill the words of ``title``, ``why`` and ``fix``, which stay apart to be translated."""

    rule: str
    severity: Severity
    cause: str
    title: str
    why: str
    fix: str
    values: Values
    source: str

    def said(self, words: str) -> str:
        """Some words of it with the values put in."""
        return words.format(**self.values)


@dataclass(frozen=True, slots=True)
class Report:
    """What an audit of one set-up says. ``assumed``: the release, where none was told. ``remark``: words with ``{engine}``."""

    place: str
    engine: str
    version: str
    assumed: bool
    findings: tuple[Finding, ...]
    remark: str = ""

    @property
    def worst(self) -> Severity | None:
        """The gravest severity; None where nothing was found."""
        return max((finding.severity for finding in self.findings), default=None)
