"""The page on adding an engine is followed word by word in a copy of the tree, and the engine is there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-an-engine.md").read_text(encoding="utf-8")
FILES = re.findall(r"^`(?P<path>[\w./-]+)`:\n\n```\w+\n(?P<text>.*?)^```$", PAGE, flags=re.M | re.S)
(COMMANDS,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.M | re.S)


def run(command: str, tree: Path) -> subprocess.CompletedProcess[str]:
    """The command in the tree, with the tree's own package."""
    words = command.replace("llmvitals ", "python -m llmvitals ", 1) if command.startswith("llmvitals ") else command
    argv = [sys.executable, *words.split()[1:]]
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the files that the page gives, and nothing else changed."""
    tree = tmp_path_factory.mktemp("tree")
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "llmvitals", tree / "src" / "llmvitals", ignore=leave)
    shutil.copytree(ROOT / "tests" / "golden", tree / "tests" / "golden", ignore=leave)
    for path, text in FILES:
        assert not (tree / path).exists(), f"{path} is there already"
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    return tree


def test_one_file_a_page_and_a_golden_are_all_it_takes(tree: Path) -> None:
    assert [Path(path).suffix for path, _ in FILES] == [".py", ".prom", ".yaml"]
    canonical, golden, check = COMMANDS.splitlines()
    written = run(canonical, tree)
    assert written.returncode == 0, written.stderr
    passed = run(f"{golden} -q -p no:cacheprovider -p no:xdist", tree)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert int(re.findall(r"(\d+) passed", passed.stdout)[0]) >= 8
    shown = run(f"{check} --json", tree)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    found = json.loads(shown.stdout)
    assert (found["kind"], found["unknown"], found["warnings"]) == ("acme", [], [])
    states = {family["family"]: family["state"] for family in found["families"]}
    assert states["llm_kv_usage_ratio"] == "mapped"
    assert states["llm_prompt_tokens_total"] == "derived"
    assert states["llm_preemptions_total"] == "unsupported"


def test_it_shows_in_the_support_matrix(tree: Path) -> None:
    assert "\nAcme" in run("llmvitals engines", tree).stdout


def test_a_wrong_conversion_would_be_seen(tree: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "tree"
    shutil.copytree(tree, spoiled)
    file = spoiled / FILES[0][0]
    file.write_text(file.read_text(encoding="utf-8").replace("scale=0.01", "scale=1"), encoding="utf-8")
    failed = run(f"{COMMANDS.splitlines()[1]} -q -p no:cacheprovider -p no:xdist", spoiled)
    assert failed.returncode == 1
    assert "llm_kv_usage_ratio" in failed.stdout
