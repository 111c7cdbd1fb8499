"""Capacity arithmetic against figures worked out by hand and published ones."""

from __future__ import annotations

import math

import pytest

from llmvitals import capacity
from llmvitals.errors import SettingsError
from llmvitals.sources.model_config import load, model_of

LLAMA3_70B = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
GIB = 2**30


def test_kv_per_token_of_llama_3_70b():
    assert capacity.kv_bytes_per_token(layers=80, kv_heads=8, head_dim=128, bytes_per_value=2) == 327_680


@pytest.mark.parametrize(("kv_heads", "gib"), [(8, 40), (64, 320)])
def test_a_whole_context_with_and_without_grouped_heads(kv_heads, gib):
    per_token = capacity.kv_bytes_per_token(80, kv_heads, 128, 2)
    assert 131_072 * per_token / GIB == gib


def test_two_h100_with_fp8_weights_hold_about_200_000_tokens():
    # 160 GB x 0.90 = 144; less 70 of weights and 8.5 for activations and graphs: 65.5 GB
    budget = capacity.kv_budget_bytes(160e9, 0.90, 70e9, 8.5e9)
    assert budget == pytest.approx(65.5e9)
    assert capacity.kv_budget_tokens(budget, 327_680) == 199_890  # 65.5e9 / 327,680 = 199,890.1


def test_the_estimate_from_the_models_own_config():
    model = model_of(LLAMA3_70B, place="config.json")
    assert model.parameters == pytest.approx(70.55e9, rel=0.001)  # the model card says 70.6 billion
    found = capacity.estimate(model, memory_gb_per_gpu=80, gpus=2, weight_bytes=1, kv_bytes=2, context=4000)
    assert found.kv_bytes_per_token == 327_680
    assert found.kv_budget_tokens == pytest.approx(200_000, rel=0.01)
    assert found.seats == 50


@pytest.mark.parametrize(
    ("tokens", "context", "seats"),
    [(200_000, 4000, 50), (199_730, 4000, 50), (3999, 4000, 0), (4000, 4000, 1), (7900, 4000, 1), (0, 1, 0)],
)
def test_seats(tokens, context, seats):
    assert capacity.seats(tokens, context) == seats


def test_queue_ceiling_and_little():
    assert capacity.queue_ceiling(service_rate=8, acceptable_wait=5) == 40
    assert capacity.littles_law(arrival_rate=2.5, mean_seconds=4) == 10


@pytest.mark.parametrize(("rho", "waits"), [(0.0, 0.0), (0.5, 1.0), (0.8, 4.0), (0.9, 9.0), (0.95, 19.0)])
def test_mm1_wait_in_service_times(rho, waits):
    assert capacity.mm1_wait(2.0, rho) == pytest.approx(2.0 * waits)


def test_mm1_has_no_wait_that_ends_at_full_load():
    assert math.isinf(capacity.mm1_wait(1.0, 1.0))


def test_a_model_that_does_not_fit_has_no_budget():
    model = model_of(LLAMA3_70B, place="c")
    found = capacity.estimate(model, memory_gb_per_gpu=24, gpus=1, weight_bytes=2, kv_bytes=2, context=4000)
    assert (found.kv_budget_gb, found.kv_budget_tokens, found.seats) == (0, 0, 0)


def test_fewer_kv_heads_than_gpus_are_copied():
    multi_query = capacity.Model(layers=10, heads=16, kv_heads=1, head_dim=64, parameters=1e9, max_context=2048)
    one, four = (
        capacity.estimate(multi_query, memory_gb_per_gpu=80, gpus=n, weight_bytes=2, kv_bytes=2, context=1)
        for n in (1, 4)
    )
    # 1 GPU: (72 - 2 - 4) GB over 2,560 bytes; 4 GPUs: (288 - 2 - 16) GB over four copies of them
    assert one.kv_budget_tokens == int(66e9 // 2560)
    assert four.kv_budget_tokens == int(270e9 // 10240)


@pytest.mark.parametrize(
    ("change", "heads"),
    [({}, 8), ({"num_key_value_heads": None}, 64), ({"num_key_value_heads": None, "multi_query": True}, 1)],
)
def test_grouped_full_and_multi_query_attention(change, heads):
    assert model_of(LLAMA3_70B | change, place="c").kv_heads == heads


def test_head_dim_is_taken_where_stated():
    assert model_of(LLAMA3_70B, place="c").head_dim == 128
    assert model_of(LLAMA3_70B | {"head_dim": 256}, place="c").head_dim == 256


def test_the_language_model_inside_a_multimodal_config_is_found():
    assert model_of({"model_type": "llava", "text_config": LLAMA3_70B}, place="c").layers == 80


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_hidden_layers": None}, "'num_hidden_layers' is missing"),
        ({"num_hidden_layers": "80"}, "not a positive whole number"),
        ({"hidden_size": 0}, "not a positive whole number"),
        ({"hidden_size": -8192}, "not a positive whole number"),
        ({"num_hidden_layers": 10**30}, "more than any model has"),
        ({"vocab_size": 1e9}, "not a positive whole number"),
        ({"vocab_size": None}, "'vocab_size' is missing"),
        ({"num_attention_heads": True}, "not a positive whole number"),
        ({"num_kv_shared_layers": 20}, "lets layers share their KV"),
        ({"is_encoder_decoder": True}, "an encoder and a decoder"),
        ({"layer_types": ["full_attention"] * 3}, "names 3 layers of 80"),
        ({"layer_types": ["conv"] * 80}, "unknown kind 'conv'"),
        ({"layer_types": [{}] * 80}, "unknown kind"),
        ({"num_local_experts": 8}, "'num_experts_per_tok' is missing"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "9 of 8 experts"),
        ({"kv_lora_rank": 512}, "'qk_nope_head_dim' is missing"),
    ],
)
def test_what_the_formulas_do_not_cover_is_refused(change, says):
    with pytest.raises(SettingsError, match=says) as caught:
        model_of(LLAMA3_70B | change, place="config.json")
    assert caught.value.place == "config.json"
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_window_that_is_switched_off_is_no_window():
    off = LLAMA3_70B | {"sliding_window": 4096, "use_sliding_window": False}
    for config in (off, LLAMA3_70B | {"sliding_window": None}, LLAMA3_70B | {"sliding_window": 8192}):
        assert [cache.kind for cache in model_of(config, place="c").kept] == [capacity.Kept.FULL]


def test_experts_are_taken_when_their_weights_are_given():
    assert model_of(LLAMA3_70B | {"num_local_experts": 8}, place="c", parameters=46.7e9).parameters == 46.7e9


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("", "is empty"),
        ("\n<!DOCTYPE html><html></html>", "is a web page, not JSON"),
        ("[" * 100_000, "is not JSON"),
        (" " * 5_000_000, "far more than a config.json"),
    ],
)
def test_a_file_that_is_no_config_is_named(tmp_path, text, says):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(SettingsError, match=says):
        load(file)
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "gone.json")
    file.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SettingsError, match="is not text"):
        load(file)


def test_the_table_of_gpus_names_each_once_with_its_memory():
    names = [gpu.name for gpu in capacity.GPUS]
    assert len(names) == len(set(names))
    for gpu in capacity.GPUS:
        assert gpu.name.endswith(f"-{gpu.memory_gb:g}GB")
        assert gpu.source
