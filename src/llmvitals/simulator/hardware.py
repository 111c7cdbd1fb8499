"""Real GPUs, links and models as machines for the roofline, and what follows for loads and pools.

Peaks are the data sheets': decimal bytes, FLOP/s dense (data sheets of NVIDIA since Ampere lead with twice that, "with
sparsity"). What no data sheet says (efficiencies, host time, latencies) is an assumption and is marked as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from llmvitals import capacity
from llmvitals.errors import SettingsError
from llmvitals.simulator.roofline import Link, Machine, StepCost, step_cost

T = TypeVar("T")

BANDWIDTH_EFFICIENCY, FLOPS_EFFICIENCY = 0.75, 0.45
"""Assumption: what kernels reach of the peaks. Pope et al. 2023 report up to 76 % of peak FLOP/s for prefill of a large model
tuned by hand; engines on one GPU are usually seen near half, and decoding at 70-85 % of the memory's bandwidth."""

STEP_SECONDS, SEQUENCE_SECONDS = 0.002, 0.00002
"""Assumption: the host's part of a step, and what each sequence adds to it (order of magnitude of vLLM V1)."""

IDLE_SHARE = 0.1
"""Assumption: a GPU that holds a model and does nothing draws a tenth of its limit (an H100: about 70 of 700 W)."""

_REACHED = 0.8
"""Share of a link's peak that all-reduces reach: about 370 of 450 GB/s on H100 in nccl-tests (bus bandwidth), and 25 of 31.5
GB/s over PCIe 4.0."""

LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        # bytes/s one way: half of what data sheets give for both. Latency of one small all-reduce: an assumption, near 8 us
        # for one-shot kernels over NVLink, and some 25 us where copies cross a PCIe switch or the host.
        Link("NVLink 3", 300e9, 8e-6, _REACHED),  # NVIDIA A100 data sheet: 600 GB/s
        Link("NVLink 4", 450e9, 8e-6, _REACHED),  # NVIDIA H100 data sheet: 900 GB/s
        Link("NVLink 5", 900e9, 8e-6, _REACHED),  # NVIDIA DGX B200 data sheet: 14.4 TB/s over 8 GPUs
        Link("Infinity Fabric", 448e9, 12e-6, _REACHED),  # AMD Instinct MI300X data sheet: 7 links of 128 GB/s
        Link("PCIe 3.0 x16", 15.75e9, 25e-6, _REACHED, 3, 16),  # PCI-SIG: 8 GT/s x 16 lanes, 128b/130b
        Link("PCIe 4.0 x16", 31.5e9, 25e-6, _REACHED, 4, 16),  # 16 GT/s
        Link("PCIe 5.0 x16", 63.0e9, 25e-6, _REACHED, 5, 16),  # 32 GT/s
    )
}


def pcie(generation: int, lanes: int, latency: float, apart: int = 30) -> Link:
    """A slot of fewer lanes than the card has, or of an older bus; ``apart`` as :class:`Link` has it."""
    whole = LINKS[f"PCIe {generation}.0 x16"]
    name = f"PCIe {generation}.0 x{lanes}"
    return Link(name, whole.bandwidth * lanes / 16, latency, _REACHED, generation, lanes, apart)


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU. ``bandwidth``: bytes/s of its memory; ``flops``: dense FP16/BF16 FLOP/s, ``fp8_flops`` 0 where it has none;
    ``watts``: its limit; ``links``: what it offers, best first. Its memory is in :data:`llmvitals.capacity.GPUS`.
    """

    name: str
    product: str  # as NVML names it
    bandwidth: float
    flops: float
    fp8_flops: float
    watts: float
    sm_clock_mhz: int
    links: tuple[str, ...]
    source: str

    @property
    def memory_bytes(self) -> float:
        """Decimal bytes, as it is sold."""
        return next(gpu.memory_gb for gpu in capacity.GPUS if gpu.name == self.name) * capacity.GB


_P3, _P4, _P5 = ("PCIe 3.0 x16",), ("PCIe 4.0 x16",), ("PCIe 5.0 x16",)

GPUS: dict[str, Card] = {
    card.name: card
    for card in (
        Card("T4-16GB", "Tesla T4", 0.32e12, 65e12, 0.0, 70, 1590, _P3, "NVIDIA T4 data sheet"),
        Card("L4-24GB", "NVIDIA L4", 0.3e12, 121e12, 242e12, 72, 2040, _P4, "NVIDIA L4 data sheet"),
        Card("A10-24GB", "NVIDIA A10", 0.6e12, 125e12, 0.0, 150, 1695, _P4, "NVIDIA A10 data sheet"),
        Card(
            *("RTX4090-24GB", "NVIDIA GeForce RTX 4090", 1.008e12, 165.2e12, 330.3e12, 450, 2520, _P4),
            "NVIDIA Ada GPU architecture whitepaper, appendix A (FP32 accumulation)",
        ),
        Card("L40S-48GB", "NVIDIA L40S", 0.864e12, 362e12, 733e12, 350, 2520, _P4, "NVIDIA L40S data sheet"),
        Card(
            *("A100-40GB", "NVIDIA A100-SXM4-40GB", 1.555e12, 312e12, 0.0, 400, 1410, ("NVLink 3", *_P4)),
            "NVIDIA A100 data sheet (SXM)",
        ),
        Card(
            *("A100-80GB", "NVIDIA A100-SXM4-80GB", 2.039e12, 312e12, 0.0, 400, 1410, ("NVLink 3", *_P4)),
            "NVIDIA A100 data sheet (SXM)",
        ),
        Card(
            *("H100-80GB", "NVIDIA H100 80GB HBM3", 3.35e12, 989e12, 1979e12, 700, 1980, ("NVLink 4", *_P5)),
            "NVIDIA H100 data sheet (SXM)",
        ),
        Card(
            *("H200-141GB", "NVIDIA H200", 4.8e12, 989e12, 1979e12, 700, 1980, ("NVLink 4", *_P5)),
            "NVIDIA H200 data sheet (SXM)",
        ),
        Card(
            *("B200-180GB", "NVIDIA B200", 8.0e12, 2250e12, 4500e12, 1000, 1965, ("NVLink 5", *_P5)),
            "NVIDIA DGX B200 data sheet, Blackwell architecture brief (HGX B200, 1,000 W)",
        ),
        Card(
            *("MI300X-192GB", "AMD Instinct MI300X", 5.3e12, 1307e12, 2615e12, 750, 2100, ("Infinity Fabric", *_P5)),
            "AMD Instinct MI300X data sheet",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder. ``parameters``: all of them; ``active``: those that one token uses (the same unless it has experts, of
    which each token uses ``expert_share``); ``context``: its longest, in tokens, without rope scaling beyond its config.
    """

    name: str
    parameters: float
    active: float
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    context: int
    source: str
    expert_share: float = 1.0

    @property
    def expert_parameters(self) -> float:
        """Weights in experts: what ``parameters - active`` is the unused part of."""
        return (self.parameters - self.active) / (1.0 - self.expert_share) if self.expert_share < 1.0 else 0.0


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        # layers, KV heads, head dimension, hidden size, context: config.json of the model; parameters: its card
        Model("Llama-3.1-8B", 8.03e9, 8.03e9, 32, 8, 128, 4096, 131_072, "meta-llama/Llama-3.1-8B-Instruct"),
        Model("Llama-3.3-70B", 70.55e9, 70.55e9, 80, 8, 128, 8192, 131_072, "meta-llama/Llama-3.3-70B-Instruct"),
        Model("Qwen2.5-7B", 7.62e9, 7.62e9, 28, 4, 128, 3584, 32_768, "Qwen/Qwen2.5-7B-Instruct"),
        Model("Qwen2.5-32B", 32.76e9, 32.76e9, 64, 8, 128, 5120, 32_768, "Qwen/Qwen2.5-32B-Instruct"),
        Model("Mistral-7B", 7.25e9, 7.25e9, 32, 8, 128, 4096, 32_768, "mistralai/Mistral-7B-Instruct-v0.3"),
        Model("Gemma-2-9B", 9.24e9, 9.24e9, 42, 8, 256, 3584, 8192, "google/gemma-2-9b-it"),
        Model("Mixtral-8x7B", 46.7e9, 12.9e9, 32, 8, 128, 4096, 32_768, "mistralai/Mixtral-8x7B-Instruct-v0.1", 2 / 8),
        Model("Qwen3-30B-A3B", 30.5e9, 3.3e9, 48, 4, 128, 2048, 40_960, "Qwen/Qwen3-30B-A3B", 8 / 128),
    )
}

DTYPES: dict[str, float] = capacity.BYTES
"""Bytes per value by data type."""


def machine(
    gpu: str, model: str, gpus: int = 1, link: str | None = None, dtype: str = "bf16", kv_dtype: str = "bf16"
) -> Machine:
    """``model`` on ``gpus`` of one kind, joined by ``link`` (None: the best that the card has).

    ``dtype``: of the weights; FP8 is computed at the card's FP8 rate, other short types only save memory. Raises
    :class:`SettingsError` for a name that no table has and for weights that do not fit.
    """
    card, kind = _row(GPUS, gpu, "GPU"), _row(MODELS, model, "model")
    size, kv_size = _row(DTYPES, dtype, "data type"), _row(DTYPES, kv_dtype, "data type")
    weights = kind.parameters * size
    if weights > card.memory_bytes * gpus:
        raise SettingsError(
            f"{model} in {dtype} takes {weights / capacity.GB:.0f} GB, and {gpus} x {gpu} have less",
            place="machine",
            remedy="Take more GPUs or a shorter data type.",
        )
    heads = capacity.held_kv_heads(kind.kv_heads, gpus)
    return Machine(
        name=card.product,
        memory_bytes=card.memory_bytes,
        bandwidth=card.bandwidth,
        bandwidth_efficiency=BANDWIDTH_EFFICIENCY,
        flops=card.fp8_flops if dtype == "fp8" and card.fp8_flops else card.flops,
        flops_efficiency=FLOPS_EFFICIENCY,
        weight_bytes=weights,
        kv_bytes_per_token=capacity.kv_bytes_per_token(kind.layers, heads, kind.head_dim, kv_size),
        flops_per_token=2.0 * kind.active,
        step_seconds=STEP_SECONDS,
        sequence_seconds=SEQUENCE_SECONDS,
        idle_watts=IDLE_SHARE * card.watts,
        max_watts=card.watts,
        gpus=gpus,
        layers=kind.layers,
        hidden=kind.hidden,
        link=_row(LINKS, link or card.links[0], "link") if gpus > 1 else None,
        expert_bytes=kind.expert_parameters * size,
        expert_share=kind.expert_share,
        sm_clock_mhz=card.sm_clock_mhz,
    )


def kv_blocks(
    machine: Machine,
    utilization: float = capacity.UTILIZATION,
    block_tokens: int = 16,
    overhead: float = capacity.OVERHEAD_GB_PER_GPU * capacity.GB,
) -> int:
    """Blocks of the KV pool: what ``utilization`` of the memory leaves beside weights and ``overhead`` bytes a GPU."""
    memory = machine.memory_bytes * machine.gpus
    budget = capacity.kv_budget_bytes(memory, utilization, machine.weight_bytes, overhead * machine.gpus)
    return capacity.kv_budget_tokens(budget, machine.kv_bytes_per_token) // block_tokens


def decode_step(machine: Machine, prompt: float, output: float, batch: int) -> StepCost:
    """A decode step of ``batch`` sequences that are halfway through their answers."""
    return step_cost(machine, batch, batch, round(batch * (prompt + output / 2)))


def decode_rate(machine: Machine, prompt: float, output: float, batch: int) -> float:
    """Tokens/s that ``batch`` sequences get together while nothing but decoding goes on."""
    return batch / decode_step(machine, prompt, output, batch).seconds


def prefill_rate(machine: Machine, prompt: float) -> float:
    """Prompt tokens/s while nothing but prefill goes on, one prompt a step."""
    tokens = round(prompt)
    return tokens / step_cost(machine, 1, tokens, tokens).seconds


def service_rate(machine: Machine, prompt: float, output: float, batch: int) -> float:
    """Requests/s with ``batch`` seats always taken: an estimate to choose loads by.

    While ``batch`` requests pass, there are ``output`` decode steps of all of them and ``batch`` prefills, whose host time
    the decode steps they share have paid: batch / (output x step + batch x prefill kernels).
    """
    tokens = round(prompt)
    prefill = step_cost(machine, 1, tokens, tokens).kernel
    return batch / (output * decode_step(machine, prompt, output, batch).seconds + batch * prefill)


def _row(table: dict[str, T], name: str, what: str) -> T:
    if name not in table:
        raise SettingsError(f"there is no {what} '{name}'", place="machine", remedy=f"Known: {', '.join(table)}.")
    return table[name]
