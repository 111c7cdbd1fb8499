"""What a command line says of tensor parallelism, and that nothing is guessed where it says nothing."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.identity.arguments import tensor_parallel


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (("vllm", "serve", "m", "--tensor-parallel-size", "4"), 4),
        (("vllm", "serve", "m", "--tensor-parallel-size=2", "--port", "8000"), 2),
        (("vllm", "serve", "m", "--tensor_parallel_size", "2"), 2),
        (("vllm", "serve", "m", "-tp", "8"), 8),
        (("vllm", "serve", "m", "-tp=8"), 8),
        (("python3", "-m", "sglang.launch_server", "--tp", "2", "--dp", "4"), 2),
        (("python3", "-m", "sglang.launch_server", "--tp-size=16"), 16),
        (("trtllm-serve", "m", "--tp_size", "4"), 4),
        (("text-generation-launcher", "--num-shard", "2"), 2),
        (("sh", "-c", "exec vllm serve m --tensor-parallel-size 4 # four cards"), 4),
        (("bash", "-lc", "set -e\nvllm serve m \\\n  -tp 2\n"), 2),
    ],
)
def test_each_engines_flag_says_it(words, size):
    assert tensor_parallel(words) == size


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("vllm", "serve", "m"),
        ("vllm", "serve", "m", "--tensor-parallel-size"),
        ("vllm", "serve", "m", "--tensor-parallel-size", "$(TP)"),
        ("sh", "-c", "vllm serve m -tp $TP"),
        ("vllm", "serve", "m", "--tensor-parallel-size", "0"),
        ("vllm", "serve", "m", "--tensor-parallel-size", "-2"),
        ("vllm", "serve", "m", "--tensor-parallel-size", "99999"),
        ("vllm", "serve", "m", "--tensor-parallel-size", "²"),
        ("vllm", "serve", "m", "--pipeline-parallel-size", "4"),
        ("vllm", "serve", "m", "--served-model-name", "the 'tp one"),
        ("sh", "-c", "vllm serve a -tp 2 & vllm serve b -tp 4"),
        ("vllm", "serve", "m", "--override", '{"tensor_parallel_size": 4}'),
    ],
)
def test_what_is_not_said_or_not_clear_is_none(words):
    assert tensor_parallel(words) is None


def test_a_variable_says_it_where_no_flag_does():
    assert tensor_parallel(("text-generation-launcher",), {"NUM_SHARD": "4"}) == 4
    assert tensor_parallel((), {"NIM_TENSOR_PARALLEL_SIZE": "8", "OTHER": "2"}) == 8
    assert tensor_parallel(("text-generation-launcher", "--num-shard", "2"), {"NUM_SHARD": "4"}) == 2
    assert tensor_parallel((), {"NUM_SHARD": "all"}) is None
