"""The tool that reads flags from a release's source: every way in which vLLM has declared them."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "vllm_flags.py"

OLD = """
class EngineArgs:
    max_num_seqs: int = 256
    swap_space: int = 4
    model: str

def add(parser):
    parser.add_argument("--max-num-seqs", type=int, default=EngineArgs.max_num_seqs, help="x")
    parser.add_argument("--swap-space", type=int, default=EngineArgs.swap_space)
    parser.add_argument("--block-size", type=int, default=16, choices=[8, 16, 32])
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--lora-modules", nargs="+", default=None)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--old-thing", action="store_true", help="[DEPRECATED] nothing")
"""
NEW_CONFIG = """
from typing import ClassVar, Literal
Mode = Literal["auto", "slow"]
class CacheConfig:
    gpu_memory_utilization: float = Field(default=0.92, gt=0, le=1)
    enable_prefix_caching: bool | None = None
    mode: Mode = "auto"
    names: str | list[str] | None = None
"""
NEW = """
class EngineArgs:
    gpu_memory_utilization: float = CacheConfig.gpu_memory_utilization
    enable_prefix_caching: bool | None = None

def add(parser):
    cache_kwargs = get_kwargs(CacheConfig)
    group = parser.add_argument_group(title="a")
    group.add_argument("--gpu-memory-utilization", **cache_kwargs["gpu_memory_utilization"])
    group.add_argument("--enable-prefix-caching", **cache_kwargs["enable_prefix_caching"])
    group.add_argument("--tokenizer-mode", **cache_kwargs["mode"])
    group.add_argument("--served-model-name", **cache_kwargs["names"])
"""
FRONT = """
class FrontendArgs:
    host: str | None = None
    disable_access_log: bool = False
    skipped: ClassVar[int] = 3
    def add(parser):
        parser.add_argument_group(title="b")
"""


@pytest.fixture(scope="module")
def tool():
    """The script as a module, known by its name: dataclasses look their module up."""
    spec = importlib.util.spec_from_file_location("vllm_flags", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["vllm_flags"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["vllm_flags"]


def release(root, files):
    for name, text in files.items():
        path = root / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_table_of_two_releases(tool, tmp_path, capsys):
    old = release(
        tmp_path / "old",
        {"engine/arg_utils.py": OLD, "config.py": "", "envs.py": "environment_variables = {'VLLM_A': 1}"},
    )
    new = release(
        tmp_path / "new",
        {
            "engine/arg_utils.py": NEW,
            "config/cache.py": NEW_CONFIG,
            "entrypoints/openai/cli_args.py": FRONT,
            "envs.py": "environment_variables: dict = {'VLLM_A': 1, 'VLLM_B': 2}",
        },
    )
    tool.main([f"0.20.0={new}", f"0.4.2={old}"])
    head, columns, *lines = capsys.readouterr().out.splitlines()
    assert head == "# releases 0.4.2 0.20.0"
    rows = {
        cells[0]: dict(zip(columns.split("\t"), cells, strict=True)) for cells in (line.split("\t") for line in lines)
    }
    assert rows["--max-num-seqs"]["default"] == "256"
    assert (rows["--swap-space"]["first"], rows["--swap-space"]["last"]) == ("0.4.2", "0.4.2")
    assert rows["--block-size"]["choices"] == "8 16 32"
    assert (rows["--enforce-eager"]["takes"], rows["--enforce-eager"]["default"]) == ("switch", "False")
    assert rows["--lora-modules"]["takes"] == "list"
    assert rows["--tensor-parallel-size"]["also"] == "-tp"
    assert rows["--old-thing"]["state"] == "deprecated"
    assert (rows["--gpu-memory-utilization"]["default"], rows["--gpu-memory-utilization"]["takes"]) == ("0.92", "value")
    assert rows["--enable-prefix-caching"]["takes"] == "switch"
    assert rows["--tokenizer-mode"]["choices"] == "auto slow"
    assert rows["--served-model-name"]["takes"] == "list"
    assert (rows["--host"]["takes"], rows["--disable-access-log"]["takes"]) == ("value", "switch")
    assert "--skipped" not in rows
    assert (rows["VLLM_A"]["first"], rows["VLLM_A"]["last"]) == ("0.4.2", "0.20.0")
    assert rows["VLLM_B"]["first"] == "0.20.0"
