"""Configs of public models: counts of weights against their cards, and what each kind of attention keeps of a sequence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals import capacity
from llmvitals.capacity import Kept
from llmvitals.capacity.known import KNOWN
from llmvitals.capacity.model import further_token_bytes, sequence_bytes, state_bytes, token_bytes
from llmvitals.capacity.report import Question, answer
from llmvitals.errors import SettingsError
from llmvitals.sources.model_config import model_of
from support import model_configs as known

GIB = 2**30


def read(config, **more):
    """The model of a config, with fields changed."""
    return model_of(config | more, place="config.json")


@pytest.mark.parametrize("card", known.CARDS, ids=lambda card: card.name)
def test_weights_are_within_two_percent_of_the_card(card):
    assert read(card.config).parameters / 1e9 == pytest.approx(card.parameters, rel=0.02)


@pytest.mark.parametrize("card", [c for c in known.CARDS if c.active], ids=lambda card: card.name)
def test_weights_that_a_token_uses_are_near_the_card(card):
    # Cards round to whole billions, and some leave the embeddings out.
    assert read(card.config).used / 1e9 == pytest.approx(card.active, rel=0.13)


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (known.LLAMA_70B, {Kept.FULL: 80}),
        (known.MISTRAL_7B_01, {Kept.WINDOW: 32}),
        (known.MISTRAL_7B_03, {Kept.FULL: 32}),
        (known.QWEN25_7B, {Kept.FULL: 28}),
        (known.GEMMA2_9B, {Kept.WINDOW: 21, Kept.FULL: 21}),
        (known.GEMMA3_27B, {Kept.WINDOW: 52, Kept.FULL: 10}),  # the 6th, 12th, ... 60th of 62 sees everything
        (known.GPT_OSS_20B, {Kept.WINDOW: 12, Kept.FULL: 12}),
        (known.LLAMA4_SCOUT, {Kept.WINDOW: 36, Kept.FULL: 12}),
        (known.DEEPSEEK_V3, {Kept.LATENT: 61}),
        (known.JAMBA, {Kept.STATE: 28, Kept.FULL: 4}),
        (known.QWEN3_NEXT, {Kept.STATE: 36, Kept.FULL: 12}),
        (known.FALCON_MAMBA, {Kept.STATE: 64}),
    ],
)
def test_layers_by_what_they_keep(config, kinds):
    assert {cache.kind: cache.layers for cache in read(config).kept} == kinds


@pytest.mark.parametrize(
    ("config", "attention"),
    [
        (known.PHI3_MINI, "MHA: 32 layers with a window of 2,047 tokens"),
        (known.LLAMA_70B, "GQA"),
        (known.LLAMA_70B | {"num_key_value_heads": 1}, "MQA"),
        (known.DEEPSEEK_V3, "MLA"),
        (known.QWEN3_NEXT, "GQA: 36 layers with a constant state, 12 full layers"),
        (known.FALCON_MAMBA, "state space"),
    ],
)
def test_the_kind_of_attention_is_said(config, attention):
    assert read(config).attention == attention


def test_a_latent_is_one_for_all_heads_and_not_split_over_gpus():
    model = read(known.DEEPSEEK_V3)
    assert token_bytes(model, 2) == (512 + 64) * 61 * 2  # 70,272: "DeepSeek-V3", table of KV per token in other reports
    one, eight = (sum(cache.on_one_gpu(1000, 2, tp) for cache in model.kept) for tp in (1, 8))
    assert one == eight


def test_an_index_of_sparse_attention_is_kept_too():
    plain, sparse = read(known.DEEPSEEK_V3), read(known.DEEPSEEK_V3, index_head_dim=128)
    assert token_bytes(sparse, 2) - token_bytes(plain, 2) == 61 * 132


def test_windows_stop_growing():
    model = read(known.MISTRAL_7B_01)
    at_window = sequence_bytes(model, 4096, 2)
    assert at_window == 4096 * 131_072
    assert sequence_bytes(model, 32_768, 2) == at_window
    assert further_token_bytes(model, 2) == 0


def test_half_of_gemma_2_grows_beyond_the_window():
    model = read(known.GEMMA2_9B)
    assert token_bytes(model, 2) == 2 * 42 * 8 * 256 * 2  # 344,064
    assert further_token_bytes(model, 2) == token_bytes(model, 2) / 2
    assert sequence_bytes(model, 8192, 2) == 21 * 8192 * (8192 + 4096)  # 8,192 bytes for each token and layer


def test_a_state_is_the_same_for_any_length():
    model = read(known.FALCON_MAMBA)
    assert sequence_bytes(model, 1, 2) == sequence_bytes(model, 100_000, 2) == state_bytes(model, 2)
    assert (
        state_bytes(model, 2) == 64 * 8192 * (16 + 3) * 2
    )  # inner width x (state + what the convolution looks back at)
    assert state_bytes(model, 1) == state_bytes(model, 2)  # the KV data type is not the state's


def test_a_delta_rule_keeps_a_matrix_per_head():
    model = read(known.QWEN3_NEXT)
    each = 32 * 128 * 128 + (2 * 16 * 128 + 32 * 128) * 3
    assert state_bytes(model, 2) == 36 * each * 2
    assert token_bytes(model, 2) == 2 * 12 * 2 * 256 * 2


@pytest.mark.parametrize(("tensor_parallel", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_heads_are_split_and_then_copied(tensor_parallel, heads):
    (cache,) = read(known.LLAMA_70B).kept
    assert cache.on_one_gpu(1, 2, tensor_parallel) == 2 * 80 * heads * 128 * 2


def test_stages_of_a_pipeline_split_layers_and_the_fullest_decides():
    model = read(known.LLAMA_70B, num_hidden_layers=81)
    asked = {"memory_gb_per_gpu": 80, "weight_bytes": 1, "kv_bytes": 2, "context": 4096}
    two = capacity.estimate(model, gpus=2, pipeline_parallel=2, **asked)
    on_one = model.parameters * 41 / 81
    assert two.kv_budget_tokens == int((72e9 - on_one - 4e9) // (41 * 4096))


@pytest.mark.parametrize(
    ("quantization", "dtype", "size"),
    [
        (None, "bf16", 2.0),
        ({"quant_method": "fp8"}, "fp8", 1.0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", (4 + 20 / 128) / 8),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", (8 + 24 / 128) / 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", 0.5),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 4.5 / 8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
            },
            "int8",
            1.0,
        ),
    ],
)
def test_a_checkpoint_says_how_it_is_stored(quantization, dtype, size):
    model = read(known.LLAMA_8B, quantization_config=quantization)
    apart = 2 * 128_256 * 4096  # embedding and output head stay at two bytes
    assert model.dtype == dtype
    assert model.stored == pytest.approx((model.parameters - apart) * size + apart * 2)


def test_an_unknown_quantization_is_counted_in_full_and_said():
    model = read(known.LLAMA_8B, quantization_config={"quant_method": "tomorrow"})
    assert model.stored == model.parameters * 2
    assert any("'tomorrow' is not known" in note for note in model.notes)


def test_a_count_that_is_known_needs_no_vocabulary():
    model = model_of(known.LLAMA_8B | {"vocab_size": None}, place="c", parameters=8e9)
    assert model.parameters == 8e9
    assert token_bytes(model, 2) == 131_072


def test_the_language_model_inside_and_the_eyes_beside_it_are_counted():
    whole, blind = read(known.GEMMA3_27B), read(known.GEMMA3_27B, vision_config=None)
    assert whole.parameters - blind.parameters == pytest.approx(0.41e9, rel=0.02)  # SigLIP So400m


def test_known_counts_keep_the_shares_of_experts():
    counted, given = read(known.QWEN3_30B), model_of(known.QWEN3_30B, place="c", parameters=61e9)
    assert given.parameters == pytest.approx(61e9)
    assert given.expert_share == pytest.approx(counted.expert_share)
    assert given.used / given.parameters == pytest.approx(counted.used / counted.parameters)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 3),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.integers(-1, 3), st.text(max_size=3), st.none()), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
FIELDS = sorted({key for card in known.CARDS for key in (*card.config, *card.config.get("text_config", ()))})


def attempt(config):
    """The model, or why there is none."""
    try:
        return model_of(config, place="config.json")
    except SettingsError as error:
        return error


@settings(max_examples=400, deadline=None)
@given(
    card=st.sampled_from(known.CARDS),
    changes=st.dictionaries(st.sampled_from(FIELDS), JUNK, max_size=3),
    nested=st.booleans(),
)
def test_whatever_stands_in_a_config_is_a_model_or_one_line(card, changes, nested):
    inner = card.config.get("text_config")
    config = card.config | ({"text_config": inner | changes} if nested and inner else changes)
    model = attempt(config)
    if isinstance(model, SettingsError):
        assert model.place.startswith("config.json")
        assert "\n" not in str(model)
        assert len(str(model)) < 300
        return
    assert model.parameters > 0
    assert model.used <= model.parameters
    for context in (1, 5000):
        assert sequence_bytes(model, context, 2) >= 0
    answer(model, Question(gpu="H100-80GB"))


@pytest.mark.parametrize(
    ("name", "config"),
    [("Llama-3.3-70B", known.LLAMA_70B), ("Mixtral-8x7B", known.MIXTRAL), ("Qwen3-30B-A3B", known.QWEN3_30B)],
)
def test_a_known_model_has_the_shape_of_its_config(name, config):
    shape = ("layers", "heads", "kv_heads", "head_dim", "hidden", "attention")
    ours, theirs = KNOWN[name], read(config)
    assert [getattr(ours, one) for one in shape] == [getattr(theirs, one) for one in shape]
