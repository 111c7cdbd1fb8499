"""How long a step lasts on a machine: a roofline, plus the host's part.

Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009; its use for LLM decoding: Pope et al., "Efficiently
Scaling Transformer Inference", MLSys 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Link:
    """What joins the GPUs of one engine: bytes/s that a GPU can move one way at the peak, seconds that one exchange takes at
    least, and the share (0-1) of the peak that exchanges reach.

    ``generation``, ``lanes``: of PCIe, 0 for any other link. ``apart``: how far two GPUs are from each other on the bus, as
    NVML's levels have it (10 one switch, 20 several, 30 a host bridge, 40 one NUMA node, 50 several).
    """

    name: str
    bandwidth: float
    latency: float
    efficiency: float = 1.0
    generation: int = 0
    lanes: int = 0
    apart: int = 30


@dataclass(frozen=True, slots=True)
class Machine:
    """One accelerator and the model on it, or ``gpus`` of them over which tensor parallelism splits the model.

    All figures are those of one GPU but for ``weight_bytes``, ``kv_bytes_per_token`` and ``flops_per_token``, which are the
    whole model's and are split evenly.

    ``bandwidth`` and ``flops`` are peaks (bytes/s, FLOP/s); the efficiencies (0-1) say what real kernels reach of them.
    ``flops_per_token`` is 2 x parameters (Kaplan et al. 2020, section 2.1: the forward pass); ``attention_flops`` what each
    token costs for each token before it: 4 x layers x width of the attention (a product with its key, one with its value; 0:
    left out, which is about 6 % for an 8B model at 2,000 tokens). ``step_seconds`` is the fixed cost of a step on the host
    (scheduling, launches, sampling), ``sequence_seconds`` what each sequence in the batch adds to it.

    ``expert_bytes``: the part of the weights that lies in experts, of which each token uses ``expert_share`` (0-1).
    """

    name: str
    memory_bytes: float
    bandwidth: float
    bandwidth_efficiency: float
    flops: float
    flops_efficiency: float
    weight_bytes: float
    kv_bytes_per_token: float
    flops_per_token: float
    step_seconds: float
    sequence_seconds: float
    idle_watts: float = 75.0
    max_watts: float = 700.0
    gpus: int = 1
    layers: int = 32
    hidden: int = 4096
    link: Link | None = None
    expert_bytes: float = 0.0
    expert_share: float = 1.0
    sm_clock_mhz: int = 1980
    attention_flops: float = 0.0


GPU_8B = Machine(
    # H200 SXM data sheet: 141 GB, 4.8 TB/s, 989 TFLOP/s dense BF16, 700 W. Llama-3.1-8B in BF16: 8.03e9 parameters,
    # 32 layers x 8 KV heads x 128 x 2 (key and value) x 2 bytes = 131,072 bytes of KV per token.
    name="NVIDIA H200",
    memory_bytes=141e9,
    bandwidth=4.8e12,
    bandwidth_efficiency=0.75,
    flops=989e12,
    flops_efficiency=0.45,
    weight_bytes=16.06e9,
    kv_bytes_per_token=131_072,
    flops_per_token=16.06e9,
    step_seconds=0.006,
    sequence_seconds=0.0001,
)

CPU_TINY = Machine(
    # A two-layer model (width 128, two heads of 64) on two processor cores: 512 bytes of KV per token, and what fits five
    # recordings best: 6.5 ms a step, 0.35 ms a sequence, 6,500 tokens/s before attention. docs/simulator.md says how well.
    name="CPU",
    memory_bytes=4e9,
    bandwidth=1e10,
    bandwidth_efficiency=1.0,
    flops=2.34e10,
    flops_efficiency=1.0,
    weight_bytes=3e6,
    kv_bytes_per_token=512,
    flops_per_token=3.6e6,
    step_seconds=0.0065,
    sequence_seconds=0.00035,
    idle_watts=10.0,
    max_watts=60.0,
    layers=2,
    hidden=128,
    attention_flops=4 * 2 * 128,
)


class StepCost(NamedTuple):
    """One step in seconds: as a whole, with kernels on the machine (those of the exchange between GPUs included), and at
    the peaks of memory and arithmetic; ``link_bytes``: what each GPU sends.
    """

    seconds: float
    kernel: float
    memory: float
    compute: float
    link_bytes: float = 0.0


def step_cost(machine: Machine, sequences: int, tokens: int, context: int, pairs: float = 0.0) -> StepCost:
    """The roofline of one step: ``tokens`` computed for ``sequences`` that read ``context`` tokens of KV in all; ``pairs``:
    how many tokens come before those that are computed, each counted for itself.

    kernel time = max(bytes / reachable bandwidth, FLOPs / reachable FLOP/s); the weights are read once a step, and of the
    experts those that some token is sent to: each is missed by n tokens with a chance of (1 - share)^n.
    """
    weights = machine.weight_bytes
    if machine.expert_bytes:
        weights -= machine.expert_bytes * (1.0 - machine.expert_share) ** tokens
    memory = (weights + context * machine.kv_bytes_per_token) / machine.gpus / machine.bandwidth
    compute = (tokens * machine.flops_per_token + pairs * machine.attention_flops) / machine.gpus / machine.flops
    exchange, sent = _exchange(machine, tokens)
    kernel = max(memory / machine.bandwidth_efficiency, compute / machine.flops_efficiency) + exchange
    seconds = machine.step_seconds + sequences * machine.sequence_seconds + kernel
    return StepCost(seconds, kernel, memory, compute, sent)


def with_drafting(cost: StepCost, plain: StepCost, share: float) -> StepCost:
    """The step ``cost`` after drafts that took ``share`` of the kernel time of ``plain``, a decode step without them."""
    return StepCost(
        cost.seconds + share * plain.kernel,
        cost.kernel + share * plain.kernel,
        cost.memory + share * plain.memory,
        cost.compute + share * plain.compute,
        cost.link_bytes + share * plain.link_bytes,
    )


def _exchange(machine: Machine, tokens: int) -> tuple[float, float]:
    """Seconds and bytes per GPU of a step's all-reduces: two a layer of the activations in 2 bytes, as rings.

    Shoeybi et al., "Megatron-LM", 2019, section 3 (two per layer); a ring moves 2 (n - 1) / n of the data through each of n
    GPUs (Patarasuk and Yuan, JPDC 69, 2009).
    """
    if machine.gpus < 2 or machine.link is None:
        return 0.0, 0.0
    share = 2.0 * (machine.gpus - 1) / machine.gpus
    reached = machine.link.bandwidth * machine.link.efficiency
    times, size = 2 * machine.layers, tokens * machine.hidden * 2.0
    return times * (machine.link.latency + share * size / reached), times * share * size
