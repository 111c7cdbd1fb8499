"""Which engine a command or an image starts, and which of its words are the engine's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TITLES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tgi": "TGI",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
    "trtllm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
}
"""The engines that are recognised; what is audited of each is in the table of rules."""


@dataclass(frozen=True, slots=True)
class Run:
    """An engine, and the words that come after its name."""

    engine: str
    words: tuple[str, ...]


STARTS: tuple[tuple[str, str], ...] = (
    ("vllm", r"vllm serve"),
    ("vllm", r"python[\d.]* -m vllm\.entrypoints\.(openai\.)?api_server"),
    ("vllm", r"python[\d.]* -m vllm\.entrypoints\.cli\.main serve"),
    ("vllm", r"vllm\.entrypoints\.openai\.api_server"),
    ("sglang", r"python[\d.]* -m sglang\.launch_server"),
    ("sglang", r"sglang serve"),
    ("tgi", r"text-generation-launcher"),
    ("llamacpp", r"llama-server"),
    ("ollama", r"ollama serve"),
    ("trtllm", r"trtllm-serve( serve)?"),
    ("lmdeploy", r"lmdeploy serve api_server"),
)
"""Engine, and the words that start it; a program's folder does not matter."""

IMAGES: tuple[tuple[str, str], ...] = (
    ("sglang", r"sglang"),
    ("tgi", r"text-generation-inference"),
    ("llamacpp", r"llama\.?cpp"),
    ("ollama", r"ollama"),
    ("trtllm", r"tensorrt[-_]?llm"),
    ("lmdeploy", r"lmdeploy"),
    ("vllm", r"vllm(?!-(router|stack|lora)|_router)"),
)
"""Engine, and what its images are called."""

_LONGEST = 4
_FIRST = re.compile(r"(?:python|vllm|sglang|text-generation|llama-server|ollama|trtllm|lmdeploy)")
"""What the first of these words begins with."""


def started(words: Sequence[str], *, image: str = "") -> Run | None:
    """The engine that these words start; with an image whose entry point is the engine, all of them are its own."""
    bare = [word.rpartition("/")[2] if word.startswith(("/", "./")) else word for word in words]
    for at in range(len(bare)):
        if not _FIRST.match(bare[at]):
            continue
        for engine, pattern in STARTS:
            for length in range(_LONGEST, 0, -1):
                if re.fullmatch(pattern, " ".join(bare[at : at + length])):
                    return Run(engine, tuple(words[at + length :]))
    name = image.partition("@")[0].rpartition("/")[2] if image else ""
    for engine, pattern in IMAGES:
        if (re.search(pattern, image.partition("@")[0], re.IGNORECASE) and _own(words)) and name:
            return Run(engine, tuple(words[1:]) if words[:1] in (["serve"], ("serve",)) else tuple(words))
    return None


def _own(words: Sequence[str]) -> bool:
    """Whether an entry point gets these words: flags or a model's name, rather than another program."""
    return not words or words[0].startswith("-") or words[0] == "serve" or "/" in words[0]
