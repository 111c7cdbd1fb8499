"""One set-up with all that is known of it, as the rules ask for it: what was given, else what the release decides itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from llmvitals.audit import arguments, defaults, estimated, flags
from llmvitals.audit.arguments import FALSE, TRUE, Given
from llmvitals.audit.flags import Version
from llmvitals.audit.model import Around, Hardware, Setup, Traffic
from llmvitals.capacity import UTILIZATION

_NONE = frozenset({"", "none", "null"})

FALLS_BACK = ("preemption-mode", "num-scheduler-steps", "scheduler-delay-factor")
"""Flags with which releases 0.8 to 0.10 run V0 (``EngineArgs._is_v1_supported_oracle``)."""


@dataclass(frozen=True)
class Subject:
    """A set-up, a release, and what is known of hardware and traffic. ``assumed``: nobody told the release."""

    setup: Setup
    version: Version
    assumed: bool
    hardware: Hardware
    traffic: Traffic

    @cached_property
    def read(self) -> tuple[tuple[Given, ...], tuple[str, ...]]:
        """Flags, and words that are none."""
        return arguments.read(self.setup.words, self.version)

    @property
    def given(self) -> tuple[Given, ...]:
        """The flags as they were written."""
        return self.read[0] if self.setup.engine == "vllm" else ()

    @cached_property
    def values(self) -> Mapping[str, str]:
        """What counts of each flag. What the engine says of itself wins over what it was told."""
        if self.setup.engine != "vllm":
            return arguments.plain(self.setup.words)
        return {**arguments.last(self.given), **self.setup.told}

    @property
    def around(self) -> Around:
        """What stands around the command."""
        return self.setup.around

    @property
    def release(self) -> str:
        """The release in words."""
        return flags.spell(self.version)

    @cached_property
    def generation(self) -> str:
        """V0 or V1."""
        if self.setup.generation:
            return self.setup.generation
        chosen = self.setup.env.get("VLLM_USE_V1", "")
        back = self.version < defaults.V1_ONLY and chosen != "1" and any(map(self.falls_back, FALLS_BACK))
        return defaults.V0 if back else defaults.generation(self.version, chosen)

    def falls_back(self, name: str) -> bool:
        """Whether one of :data:`FALLS_BACK` is given with another value than its default."""
        return self.has(name) and self.values[name] not in ("1", "0", "0.0")

    def has(self, name: str) -> bool:
        """Whether a flag was written, or the engine spoke of it."""
        return name in self.values

    def text(self, name: str) -> str:
        """The value given, else the release's default; '' for none."""
        found = self.values.get(name, flags.default(name, self.version))
        return "" if found.lower() in _NONE else found

    def whole(self, name: str) -> int | None:
        """A whole number given or by default; None where there is none."""
        return arguments.whole(self.text(name)) if self.text(name) else None

    def real(self, name: str) -> float | None:
        """A number given or by default; None where there is none."""
        return arguments.real(self.text(name)) if self.text(name) else None

    def real_default(self, name: str) -> float | None:
        """The release's default of a number."""
        return arguments.real(flags.default(name, self.version))

    def on(self, name: str) -> bool | None:
        """A switch: given, else None."""
        found = self.values.get(name, "").lower()
        return {TRUE: True, FALSE: False}.get(found)

    def off(self, name: str) -> bool:
        """Whether a switch was written, and says no."""
        return self.on(name) is False

    @cached_property
    def context(self) -> int | None:
        """The longest context that is accepted, in tokens: given, else the model's own."""
        given = self.whole("max-model-len")
        return given if given is not None and given > 0 else self._own_context

    @cached_property
    def chunked(self) -> bool | None:
        """Whether prefill is chunked."""
        said = self.on("enable-chunked-prefill")
        return said if said is not None else defaults.chunked(self.version, self.generation, self.context)

    @cached_property
    def caches_prefixes(self) -> bool:
        """Whether prefixes are cached."""
        said = self.on("enable-prefix-caching")
        return said if said is not None else defaults.prefix_caching(self.generation)

    @cached_property
    def seats(self) -> int | None:
        """``max_num_seqs``: given, else what the release decides."""
        if self.has("max-num-seqs"):
            return self.whole("max-num-seqs")
        if not self.setup.whole:
            return None
        return defaults.seats(self.version, self.generation, self.hardware.name, self.hardware.gb)

    @cached_property
    def step_tokens(self) -> int | None:
        """``max_num_batched_tokens``: given, else what the release decides."""
        if self.has("max-num-batched-tokens"):
            return self.whole("max-num-batched-tokens")
        if not self.setup.whole or self.chunked is None:
            return None
        return defaults.step_tokens(
            self.version,
            self.generation,
            self.hardware.name,
            self.hardware.gb,
            chunked=self.chunked,
            context=self.context,
        )

    @property
    def _own_context(self) -> int | None:
        return (self.hardware.model.max_context or None) if self.hardware.model else None

    def pool_at(self, context: float, gpus: int | None = None) -> int | None:
        """Tokens of the KV pool: what the engine said, else an estimate for requests of ``context`` tokens."""
        if self.setup.pool_tokens:
            return self.setup.pool_tokens
        return estimated.pool_tokens(
            self.hardware,
            context=context,
            share=self.real("gpu-memory-utilization") or UTILIZATION,
            kv_dtype=self.text("kv-cache-dtype"),
            quantization=self.text("quantization"),
            tensor_parallel=gpus or self.tensor_parallel,
            pipeline_parallel=1 if gpus else self.whole("pipeline-parallel-size") or 1,
        )

    @cached_property
    def pool(self) -> int | None:
        """Tokens of the KV pool when every request has its full length."""
        return self.pool_at(self.context) if self.context else self.setup.pool_tokens

    @property
    def gpus_there(self) -> int | None:
        """GPUs that the engine is given."""
        return self.around.gpus if self.around.gpus is not None else self.hardware.gpus

    @property
    def pool_is_estimate(self) -> bool:
        """Whether the pool comes from a model's config and a GPU rather than from the engine."""
        return not self.setup.pool_tokens

    @cached_property
    def contexts(self) -> float | None:
        """Requests of full length that the pool holds. What the engine said counts: of some models only it knows."""
        if self.setup.contexts is not None:
            return self.setup.contexts
        return self.pool / self.context if self.pool is not None and self.context else None

    @property
    def tensor_parallel(self) -> int:
        """GPUs that share each layer."""
        return self.whole("tensor-parallel-size") or 1

    @property
    def ranks(self) -> int:
        """Engines side by side (data parallelism)."""
        return self.whole("data-parallel-size") or 1

    @property
    def gpus_needed(self) -> int:
        """GPUs that the command takes on all nodes together."""
        return self.tensor_parallel * (self.whole("pipeline-parallel-size") or 1) * self.ranks

    @cached_property
    def mean_tokens(self) -> float | None:
        """Mean tokens that a request holds at its end."""
        prompt, output = self.traffic.prompt_tokens, self.traffic.output_tokens
        return prompt + output if prompt is not None and output is not None else None
