"""How the engines that are simulated count: the bounds of their histograms, and what their gauges show.

The engine underneath is one and the same, but for what it admits (``reserves``). Bounds are the defaults of vLLM 0.32 and
0.7.3, SGLang 0.5.23, TGI 3.3.7, TensorRT-LLM (main of 2026), Triton and Dynamo's front end 0.8.1, as their pages or sources
show them (seconds, tokens, pieces).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul

Bounds = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """``lengths``: bounds for token counts, empty: 1-2-5 steps up to the longest context, or so many equal ``steps``;
    ``answers``: those of generated tokens, empty: the same. ``prefill``: empty: those of ``request``. ``lone_zero``: a
    request of one token counts with a time per output token of 0. ``with_prefill``: that time is the whole one inside the
    engine over all tokens. ``reports``: gauges are written now and then, not after each step. ``polled``: they show the
    last step as it began, even after its requests have ended. ``reserves``: only what fits with all that it may generate
    is admitted, so that nobody is ever thrown out.
    """

    first_token: Bounds
    token_gap: Bounds
    per_token: Bounds
    request: Bounds
    queue: Bounds
    iteration: Bounds
    lengths: Bounds = ()
    answers: Bounds = ()
    prefill: Bounds = ()
    steps: int = 0
    lone_zero: bool = True
    with_prefill: bool = False
    reports: bool = False
    polled: bool = False
    reserves: bool = False


_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_WHOLE = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
_STEP = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0)

VLLM = Dialect(
    first_token=(*_TTFT, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
    token_gap=(*_GAP, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    per_token=(*_GAP, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    request=(*_WHOLE, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
    queue=(*_WHOLE, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
    iteration=(*_STEP, 8192.0, 16384.0),
)
VLLM_V0 = Dialect(
    first_token=_TTFT, token_gap=_GAP, per_token=_GAP, request=_WHOLE, queue=_WHOLE, iteration=(*_STEP, 8096.0)
)
_SG_GAP = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8),
    *(1.0, 2.0, 4.0, 6.0, 8.0),
)
_SG_TTFT = (*(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0),)
SGLANG = Dialect(
    first_token=_SG_TTFT,
    token_gap=_SG_GAP,
    per_token=_SG_GAP,
    request=(*_SG_TTFT, 600.0, 1200.0, 1800.0, 2400.0),
    queue=(
        *(0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0),
        *(60.0, 70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1200.0),
        *(1400.0, 1600.0, 1800.0, 2000.0, 2500.0, 3000.0),
    ),
    iteration=(),
    lengths=(
        *(100.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0, 9000.0),
        *(10_000.0, 12_500.0, 15_000.0, 17_500.0, 20_000.0, 22_500.0, 25_000.0, 27_500.0, 30_000.0, 35_000.0),
        *(40_000.0, 60_000.0, 80_000.0, 100_000.0, 200_000.0, 300_000.0, 400_000.0, 600_000.0, 800_000.0),
        *(1_000_000.0, 1_100_000.0),
    ),
    lone_zero=False,
    reports=True,
)

_TGI = tuple(accumulate((1.5,) * 34, mul, initial=0.0001 * 1.5))  # 0.0001 x 1.5^k, k = 1..35, multiplied as TGI does
TGI = Dialect(
    first_token=_TGI,
    token_gap=_TGI,
    per_token=_TGI,
    request=_TGI,
    queue=_TGI,
    iteration=(),
    steps=100,
    with_prefill=True,
    reserves=True,
)
TRTLLM = replace(
    VLLM,
    iteration=(),
    prefill=(
        *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0),
        2560.0,
    ),
    lone_zero=False,
    polled=True,
    reserves=True,
)
TRITON = replace(TRTLLM, first_token=(0.1, 0.5, 2.0, 5.0), prefill=())
LLAMACPP = replace(VLLM, iteration=())  # it has no histogram
DYNAMO = Dialect(
    first_token=(
        *(0.0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0, 100.0, 220.0),
        480.0,
    ),
    token_gap=(0.0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2.0),
    per_token=(),
    request=(0.0, 1.9, 3.4, 6.3, 12.0, 22.0, 40.0, 75.0, 140.0, 260.0),
    queue=(),
    iteration=(),
    lengths=(0.0, 100.0, 210.0, 430.0, 870.0, 1800.0, 3600.0, 7400.0, 15_000.0, 31_000.0, 63_000.0, 130_000.0),
    answers=(0.0, 100.0, 210.0, 430.0, 880.0, 1800.0, 3700.0, 7600.0, 16_000.0, 32_000.0),
)

COUNTING: Mapping[str, Dialect] = {
    "vllm": VLLM,
    "vllm-v0": VLLM_V0,
    "ray": VLLM,
    "sglang": SGLANG,
    "tgi": TGI,
    "trtllm": TRTLLM,
    "triton": TRITON,
    "llamacpp": LLAMACPP,
    "ollama": LLAMACPP,
    "dynamo": DYNAMO,
}
"""By the name that :data:`llmvitals.simulator.exposition.DIALECTS` has for the page."""
