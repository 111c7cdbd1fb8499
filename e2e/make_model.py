"""Makes a tiny Llama with random weights that vLLM serves with ``--load-format dummy``: no download, a few kilobytes.

Run it with the Python of the server's environment, which has tokenizers: ``make_model.py FOLDER``. The tokenizer is trained
on the standard library's own source.
"""

from __future__ import annotations

import argparse
import json
import sysconfig
from pathlib import Path
from typing import Any

SPECIAL = ("<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SOURCES = 80
"""Files of the standard library that the tokenizer reads: enough for its vocabulary."""


def config(sizes: argparse.Namespace, vocabulary: int) -> dict[str, Any]:
    """``config.json`` of the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": sizes.hidden,
        "intermediate_size": 2 * sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.hidden // sizes.heads,
        "max_position_embeddings": sizes.context,
        "vocab_size": vocabulary,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "initializer_range": 0.02,
    }


def train(folder: Path, vocabulary: int) -> int:
    """Write ``tokenizer.json`` and say how many tokens it knows."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:SOURCES]
    tokenizer.train([str(path) for path in files], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    sizes = (("layers", 2), ("hidden", 128), ("heads", 2), ("kv-heads", 1), ("vocabulary", 4096), ("context", 8192))
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    known = train(given.folder, given.vocabulary)
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "model_max_length": given.context,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
    }
    special = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1]}
    files = {
        "config.json": config(given, known),
        "tokenizer_config.json": tokenizer,
        "special_tokens_map.json": special,
    }
    for name, value in files.items():
        (given.folder / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    print(f"{given.folder}: {known} tokens")


if __name__ == "__main__":
    main()
