"""What an engine's command line says of it: its tensor-parallel size.

Read from a process of the host or from a container's spec alike. What is not written there is not guessed: a
configuration file or an image's own default may say otherwise than the engine's default of 1.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

FLAGS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("--tensor-parallel-size", "-tp"),
    "sglang": ("--tensor-parallel-size", "--tp-size", "--tp"),
    "trtllm": ("--tensor-parallel-size", "--tp-size"),
    "tgi": ("--num-shard",),
}
"""How each engine calls it on the command line. All take ``_`` for ``-`` inside a long name, and ``=`` before the value.

Sources: ``vllm serve --help``, SGLang's server arguments, ``trtllm-serve --help``, ``text-generation-launcher --help``.
"""

VARIABLES: Mapping[str, str] = {
    "NUM_SHARD": "tgi",
    "NIM_TENSOR_PARALLEL_SIZE": "NVIDIA NIM",
    "DYN_TRTLLM_TENSOR_PARALLEL_SIZE": "a Dynamo worker of TensorRT-LLM",
}
"""Environment variables that say it, and whose they are. A flag beats them."""

MOST = 4096
"""No engine shares a layer among more GPUs: a larger number is something else."""

_KNOWN = frozenset(flag for flags in FLAGS.values() for flag in flags)
_NUMBER = re.compile(r"[0-9]{1,4}")


def tensor_parallel(words: Sequence[str], environ: Mapping[str, str] | None = None) -> int | None:
    """GPUs that share each layer of one replica, as the command line or the environment says.

    ``words``: program and arguments; one that holds a whole command (``sh -c "vllm serve ..."``) is taken apart. None where
    nothing says it, where the value is no number (a shell's ``$TP``), and where two commands say different things.
    """
    told = list(_values(tuple(_plain(words))))
    if not told and environ:
        told = [environ[name] for name in VARIABLES if environ.get(name)]
    sizes = {_size(value) for value in told}
    return sizes.pop() if len(sizes) == 1 else None


def _plain(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if not any(map(str.isspace, word)):
            yield word
            continue
        try:
            yield from shlex.split(word, comments=True)
        except ValueError:  # a quote that does not close: a text, no command
            continue


def _values(words: Sequence[str]) -> Iterator[str]:
    for word, following in zip(words, (*words[1:], ""), strict=False):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            flag = flag.replace("_", "-")
        if flag in _KNOWN:
            yield value if equals else following


def _size(value: str) -> int | None:
    return int(value) if _NUMBER.fullmatch(value) and 0 < int(value) <= MOST else None
