"""Tables of real hardware: arithmetic by hand, and loads that the simulated engine really carries."""

import pytest

from llmvitals.errors import SettingsError
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.hardware import (
    GPUS,
    LINKS,
    MODELS,
    decode_rate,
    decode_step,
    kv_blocks,
    machine,
    prefill_rate,
    service_rate,
)
from llmvitals.simulator.roofline import step_cost
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.simulator.world import World


def test_rows_are_plausible_and_refer_to_each_other():
    for card in GPUS.values():
        assert card.source
        assert all(link in LINKS for link in card.links)
        assert 10e9 < card.memory_bytes < 300e9
        # Bytes and FLOPs of every generation lie within these; a slip of a unit or of "with sparsity" does not.
        assert 0.1e12 < card.bandwidth < 10e12
        assert 50 < card.flops / card.bandwidth < 500
        assert card.fp8_flops == 0 or card.fp8_flops / card.flops == pytest.approx(2.0, rel=0.02)
    for model in MODELS.values():
        assert model.active <= model.parameters
        assert model.expert_parameters <= model.parameters
    assert LINKS["NVLink 4"].bandwidth > 10 * LINKS["PCIe 4.0 x16"].bandwidth


def test_a_machine_by_hand():
    plant = machine("H100-80GB", "Llama-3.1-8B")
    assert plant.weight_bytes == pytest.approx(16.06e9)
    assert plant.kv_bytes_per_token == 2 * 32 * 8 * 128 * 2
    assert plant.link is None
    # 80 GB x 0.9 - 16.06 - 4 GB = 51.94 GB, of 131,072 bytes: 396,270 tokens, 24,766 blocks.
    assert kv_blocks(plant, 0.9, 16, 4e9) == 24_766
    # One sequence: the weights at three quarters of 3.35 TB/s take 6.39 ms; the host 2.02 ms.
    assert decode_rate(plant, 1, 0, 1) == pytest.approx(1 / 0.008412, rel=1e-3)
    # 8,192 tokens: 131.6 TFLOP at 45 % of 989 are 296 ms.
    assert prefill_rate(plant, 8192) == pytest.approx(8192 / 0.2977, rel=1e-3)


def test_parts_of_a_model_over_several_gpus():
    two, four = machine("A100-80GB", "Qwen2.5-32B", 2), machine("A100-80GB", "Qwen2.5-32B", 4, "PCIe 4.0 x16")
    assert (two.link, four.link) == (LINKS["NVLink 3"], LINKS["PCIe 4.0 x16"])
    assert kv_blocks(two) < kv_blocks(four)
    # More GPUs than KV heads: each holds one, so 4 heads become 8 and a token takes twice the bytes.
    assert machine("H100-80GB", "Qwen2.5-7B", 8).kv_bytes_per_token == 2 * 28 * 8 * 128 * 2
    # 64 layers x 2 exchanges x (25 us + 1.5 x 5,120 x 2 bytes / 25.2 GB/s) for one token on four: 3.28 ms.
    cost = step_cost(four, 1, 1, 1)
    alone = (four.weight_bytes + four.kv_bytes_per_token) / 4 / (four.bandwidth * 0.75)
    assert cost.kernel - alone == pytest.approx(0.003278, rel=1e-3)
    assert cost.link_bytes == 128 * 1.5 * 5120 * 2


def test_over_a_slow_link_more_gpus_are_slower():
    def prefill(gpus: int, link: str) -> float:
        return step_cost(machine("H100-80GB", "Llama-3.1-8B", gpus, link), 1, 2048, 2048).kernel

    assert prefill(4, "NVLink 4") < 0.5 * prefill(1, "NVLink 4")
    assert prefill(4, "PCIe 4.0 x16") > prefill(1, "PCIe 4.0 x16")


def test_experts_are_read_as_far_as_tokens_reach_them():
    plant = machine("H100-80GB", "Qwen3-30B-A3B")
    one, many = step_cost(plant, 1, 1, 0), step_cost(plant, 1, 4096, 0)
    assert one.memory * plant.bandwidth == pytest.approx(2 * MODELS["Qwen3-30B-A3B"].active, rel=1e-6)
    assert many.memory * plant.bandwidth == pytest.approx(2 * MODELS["Qwen3-30B-A3B"].parameters, rel=1e-6)
    assert many.compute * plant.flops == pytest.approx(4096 * 2 * 3.3e9)


def test_fp8_halves_the_weights_and_computes_faster_where_the_card_can():
    full, half = machine("H100-80GB", "Llama-3.1-8B"), machine("H100-80GB", "Llama-3.1-8B", dtype="fp8")
    assert (half.weight_bytes, half.flops) == (full.weight_bytes / 2, GPUS["H100-80GB"].fp8_flops)
    assert machine("A100-80GB", "Llama-3.1-8B", dtype="fp8").flops == GPUS["A100-80GB"].flops


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("H100", "Llama-3.1-8B"), "no GPU 'H100'.*H100-80GB"),
        (("H100-80GB", "Llama-8B"), "no model"),
        (("H100-80GB", "Llama-3.1-8B", 2, "NVLink"), "no link"),
        (("L4-24GB", "Llama-3.3-70B"), "141 GB.*have less.*more GPUs"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(words, message):
    with pytest.raises(SettingsError, match=message):
        machine(*words)


@pytest.mark.parametrize(
    ("plant", "prompt", "output", "seats"),
    [
        (machine("H100-80GB", "Llama-3.1-8B"), 500, 200, 32),
        (machine("L40S-48GB", "Llama-3.1-8B"), 1500, 100, 16),
        (machine("A100-80GB", "Qwen2.5-32B", 2), 300, 300, 24),
    ],
)
def test_a_full_engine_serves_at_the_rate_that_was_estimated(plant, prompt, output, seats):
    config = EngineConfig(machine=plant, max_num_seqs=seats, prefix_caching=False)
    stream = Stream(clients=2 * seats, ramp=5.0, prompt=Lengths(prompt, 0.3), output=Lengths(output, 0.3))
    world = World(Setup(config, Workload((stream,))))
    world.advance(20.0)
    before = sum(world.engine.counters.finished.values())
    world.advance(140.0)
    served = (sum(world.engine.counters.finished.values()) - before) / 120.0
    assert world.engine.gauges.waiting >= seats
    assert served == pytest.approx(service_rate(plant, prompt, output, seats), rel=0.1)


def test_decoding_more_at_once_is_slower_for_each_and_faster_for_all():
    plant = machine("H100-80GB", "Llama-3.1-8B")
    steps = [decode_step(plant, 500, 200, batch).seconds for batch in (1, 8, 64)]
    assert steps == sorted(steps)
    assert decode_rate(plant, 500, 200, 64) > 20 * decode_rate(plant, 500, 200, 1)
