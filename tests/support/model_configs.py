"""Fields of public models' ``config.json`` as their authors published them, and the counts on their cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]


def _llama(hidden: int, wide: int, layers: int, heads: int, kv: int, vocabulary: int = 128_256, **more: Any) -> Config:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocabulary,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    } | more


LLAMA_8B = _llama(4096, 14_336, 32, 32, 8)
LLAMA_70B = _llama(8192, 28_672, 80, 64, 8)
LLAMA_1B = _llama(2048, 8192, 16, 32, 8, head_dim=64, tie_word_embeddings=True)
MISTRAL_7B_01 = _llama(
    4096, 14_336, 32, 32, 8, 32_000, model_type="mistral", sliding_window=4096, max_position_embeddings=32_768
)
MISTRAL_7B_03 = _llama(
    4096, 14_336, 32, 32, 8, 32_768, model_type="mistral", sliding_window=None, max_position_embeddings=32_768
)
MIXTRAL = _llama(
    4096,
    14_336,
    32,
    32,
    8,
    32_000,
    model_type="mixtral",
    num_local_experts=8,
    num_experts_per_tok=2,
    sliding_window=None,
    max_position_embeddings=32_768,
)
QWEN25_7B = _llama(
    3584,
    18_944,
    28,
    28,
    4,
    152_064,
    model_type="qwen2",
    sliding_window=131_072,
    use_sliding_window=False,
    max_window_layers=28,
    max_position_embeddings=32_768,
)
QWEN25_72B = QWEN25_7B | {
    "hidden_size": 8192,
    "intermediate_size": 29_568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
}
QWEN25_1B = QWEN25_7B | {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}
QWEN3_30B = _llama(
    2048,
    6144,
    48,
    32,
    4,
    151_936,
    model_type="qwen3_moe",
    head_dim=128,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=768,
    decoder_sparse_step=1,
    mlp_only_layers=[],
    max_position_embeddings=40_960,
    max_window_layers=48,
    sliding_window=None,
    use_sliding_window=False,
)
QWEN3_235B = QWEN3_30B | {
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "intermediate_size": 12_288,
    "moe_intermediate_size": 1536,
}
QWEN3_235B_FP8 = QWEN3_235B | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
QWEN3_NEXT = _llama(
    2048,
    5120,
    48,
    16,
    2,
    151_936,
    model_type="qwen3_next",
    head_dim=256,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    decoder_sparse_step=1,
    mlp_only_layers=[],
    full_attention_interval=4,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
    max_position_embeddings=262_144,
)
QWEN35_35B = {  # Qwen3.5-35B-A3B and its later releases of the same shape
    "model_type": "qwen3_5_moe",
    "text_config": _llama(
        2048,
        0,
        40,
        16,
        2,
        248_320,
        model_type="qwen3_5_moe_text",
        head_dim=256,
        num_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        attn_output_gate=True,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 10,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
        max_position_embeddings=262_144,
    ),
}
GEMMA2_9B = {
    "model_type": "gemma2",
    "hidden_size": 3584,
    "intermediate_size": 14_336,
    "num_hidden_layers": 42,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "vocab_size": 256_000,
    "sliding_window": 4096,
    "max_position_embeddings": 8192,
    "torch_dtype": "float32",
}
GEMMA2_27B = GEMMA2_9B | {
    "hidden_size": 4608,
    "intermediate_size": 36_864,
    "num_hidden_layers": 46,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
}
GEMMA3_27B = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21_504,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "query_pre_attn_scalar": 168,
        "sliding_window": 1024,
    },
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
    },
}
DEEPSEEK_V3 = _llama(
    7168,
    18_432,
    61,
    128,
    128,
    129_280,
    model_type="deepseek_v3",
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    first_k_dense_replace=3,
    moe_layer_freq=1,
    num_nextn_predict_layers=1,
    max_position_embeddings=163_840,
    quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
)
DEEPSEEK_V2_LITE = DEEPSEEK_V3 | {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10_944,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 102_400,
    "q_lora_rank": None,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "quantization_config": None,
}
GPT_OSS_20B = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 201_088,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
}
GPT_OSS_120B = GPT_OSS_20B | {
    "num_hidden_layers": 36,
    "num_local_experts": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}
PHI3_MINI = _llama(3072, 8192, 32, 32, 32, 32_064, model_type="phi3", sliding_window=2047, max_position_embeddings=4096)
PHI4 = _llama(5120, 17_920, 40, 40, 10, 100_352, model_type="phi3", sliding_window=None, max_position_embeddings=16_384)
LLAMA4_SCOUT = {
    "model_type": "llama4",
    "torch_dtype": "bfloat16",
    "text_config": _llama(
        5120,
        8192,
        48,
        40,
        8,
        202_048,
        model_type="llama4_text",
        head_dim=128,
        intermediate_size_mlp=16_384,
        num_local_experts=16,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1,
        attention_chunk_size=8192,
        no_rope_layers=[],
        max_position_embeddings=10_485_760,
    ),
}
JAMBA = _llama(
    4096,
    14_336,
    32,
    32,
    8,
    65_536,
    model_type="jamba",
    attn_layer_period=8,
    attn_layer_offset=4,
    expert_layer_period=2,
    expert_layer_offset=1,
    num_experts=16,
    num_experts_per_tok=2,
    mamba_d_state=16,
    mamba_d_conv=4,
    mamba_expand=2,
    mamba_dt_rank=256,
    sliding_window=None,
    max_position_embeddings=262_144,
)
GLM45_AIR = _llama(
    4096,
    10_944,
    46,
    96,
    8,
    151_552,
    model_type="glm4_moe",
    head_dim=128,
    n_routed_experts=128,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=1408,
    first_k_dense_replace=1,
)
FALCON_MAMBA = {
    "model_type": "falcon_mamba",
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 64,
    "state_size": 16,
    "conv_kernel": 4,
    "time_step_rank": 256,
    "vocab_size": 65_024,
    "tie_word_embeddings": False,
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50_257}


@dataclass(frozen=True, slots=True)
class Card:
    """What a model's card or report says: billions of weights, and of those that one token uses (None: all)."""

    name: str
    config: Config
    parameters: float
    active: float | None = None


CARDS: tuple[Card, ...] = (
    Card("meta-llama/Llama-3.1-8B", LLAMA_8B, 8.03),
    Card("meta-llama/Llama-3.1-70B", LLAMA_70B, 70.55),
    Card("meta-llama/Llama-3.2-1B", LLAMA_1B, 1.236),
    Card("mistralai/Mistral-7B-v0.1", MISTRAL_7B_01, 7.24),
    Card("mistralai/Mistral-7B-v0.3", MISTRAL_7B_03, 7.25),
    Card("mistralai/Mixtral-8x7B-v0.1", MIXTRAL, 46.7, 12.9),
    Card("Qwen/Qwen2.5-7B", QWEN25_7B, 7.62),
    Card("Qwen/Qwen2.5-72B", QWEN25_72B, 72.7),
    Card("Qwen/Qwen2.5-1.5B", QWEN25_1B, 1.54),
    Card("Qwen/Qwen3-30B-A3B", QWEN3_30B, 30.5, 3.3),
    Card("Qwen/Qwen3-235B-A22B", QWEN3_235B, 235.0, 22.0),
    Card("Qwen/Qwen3-Next-80B-A3B", QWEN3_NEXT, 80.0),
    Card("google/gemma-2-9b", GEMMA2_9B, 9.24),
    Card("google/gemma-2-27b", GEMMA2_27B, 27.2),
    Card("google/gemma-3-27b", GEMMA3_27B, 27.4),
    Card("deepseek-ai/DeepSeek-V3", DEEPSEEK_V3, 671.0, 37.0),
    Card("deepseek-ai/DeepSeek-V2-Lite", DEEPSEEK_V2_LITE, 15.7),
    Card("openai/gpt-oss-20b", GPT_OSS_20B, 20.9),
    Card("openai/gpt-oss-120b", GPT_OSS_120B, 116.8),
    Card("microsoft/Phi-3-mini-4k", PHI3_MINI, 3.82),
    Card("microsoft/phi-4", PHI4, 14.7),
    Card("meta-llama/Llama-4-Scout-17B-16E", LLAMA4_SCOUT, 109.0, 17.0),
    Card("ai21labs/Jamba-v0.1", JAMBA, 51.6, 12.0),
    Card("zai-org/GLM-4.5-Air", GLM45_AIR, 106.0, 12.0),
    Card("tiiuae/falcon-mamba-7b", FALCON_MAMBA, 7.27),
    Card("openai-community/gpt2", GPT2, 0.124),
)
