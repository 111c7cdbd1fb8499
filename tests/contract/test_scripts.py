"""What `make run` and `make test` say on a machine that lacks something, on a PATH made for the purpose."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ("sh", "bash", "dirname", "sort", "tr", "sed", "cat")
TOOLS = (
    "promtool",
    "prometheus-alertmanager",
    "chromium",
    "chromedriver",
    "openssl",
    "cc",
    "kubectl",
    "victoria-metrics",
    "systemd-analyze",
)


@pytest.fixture
def machine(tmp_path: Path):
    """A folder to be the whole PATH: a few plain tools, a user who is nobody, and what a test adds."""

    def add(name: str, body: str = "") -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    for name in PLAIN:
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    add("id", "echo 65534")
    return add


def run(script: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(path / "sh"), str(ROOT / "scripts" / script)],
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_with_every_tool_there_nothing_is_said(machine, tmp_path: Path) -> None:
    for tool in TOOLS:
        machine(tool)
    result = run("debian.sh", tmp_path, CI="true")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_without_leave_to_install_it_names_the_line_and_the_tests(machine, tmp_path: Path) -> None:
    for tool in TOOLS[2:]:
        machine(tool)
    result = run("debian.sh", tmp_path)
    assert result.returncode == 0
    assert "left out: the tests marked prometheus." in result.stderr
    line = "sudo apt-get install -y --no-install-recommends prometheus prometheus-alertmanager"
    assert result.stderr.rstrip().endswith(line)


def test_ci_leaves_nothing_out(machine, tmp_path: Path) -> None:
    result = run("debian.sh", tmp_path, CI="true")
    assert result.returncode == 1
    assert "CI needs every test" in result.stderr


def test_root_installs_what_is_missing_and_only_that(machine, tmp_path: Path) -> None:
    machine("id", "echo 0")
    for tool in TOOLS[1:]:
        machine(tool)
    log = tmp_path / "log"
    machine("apt-get", f'echo "$*" >> {log}; case "$*" in *install*) : > {tmp_path}/promtool; esac')
    result = run("debian.sh", tmp_path)
    asked = log.read_text().splitlines()
    assert asked == ["-qq update", "-qq install -y --no-install-recommends prometheus"]
    assert "installing Debian packages: prometheus" in result.stderr


def test_sudo_with_a_password_is_not_asked(machine, tmp_path: Path) -> None:
    machine("sudo", "exit 1")
    machine("apt-get", f"touch {tmp_path}/called")
    assert run("debian.sh", tmp_path).returncode == 0
    assert not (tmp_path / "called").exists()


def test_the_first_python_that_works_is_taken(machine, tmp_path: Path) -> None:
    machine("python3", "exit 1")
    machine("python3.13", "exit 127")
    machine("python3.12", f'exec {sys.executable} "$@"')
    result = run("python.sh", tmp_path)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).samefile(sys.executable)


def test_no_python_names_the_remedy(machine, tmp_path: Path) -> None:
    machine("python3", "exit 1")
    result = run("python.sh", tmp_path)
    assert result.returncode == 1
    assert "no Python >= 3.11" in result.stderr
    assert "sudo apt-get install -y --no-install-recommends python3 python3-venv" in result.stderr


@pytest.mark.parametrize("uv", [False, True])
def test_a_python_without_ensurepip_needs_its_package_or_uv(machine, tmp_path: Path, uv: bool) -> None:
    machine("python3", f'case "$*" in *ensurepip*) exit 1; esac; exec {sys.executable} "$@"')
    if uv:
        machine("uv")
    result = run("python.sh", tmp_path)
    assert result.returncode == (0 if uv else 1)
    if not uv:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        assert f"sudo apt-get install -y --no-install-recommends {package}" in result.stderr


@pytest.mark.parametrize(
    ("environment", "outcome", "exit_code"),
    [({}, "1 passed, 1 skipped", 0), ({"CI": "true"}, "CI leaves no test out", 1)],
)
def test_a_marked_test_without_its_tool(
    tmp_path: Path, environment: dict[str, str], outcome: str, exit_code: int
) -> None:
    """Left out where tools may be absent, failed in CI; the summary counts the recordings that ran."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "support").mkdir()
    for name in ("tools.py", "reliability.py"):
        shutil.copy(ROOT / "tests" / "support" / name, tmp_path / "tests" / "support")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = tests\nmarkers =\n    prometheus: x\n    browser: x\n")
    (tmp_path / "tests" / "test_two.py").write_text(
        "import pytest\n"
        "@pytest.mark.prometheus\n"
        "def test_rules(): pass\n"
        "def test_recording(ran_recording):\n"
        "    ran_recording('/elsewhere/one'); ran_recording('/elsewhere/one'); ran_recording('/elsewhere/two')\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == exit_code, result.stdout + result.stderr
    assert outcome in result.stdout
    assert "recordings run: 0 committed, 2 from LLMVITALS_SHARED" in result.stdout
    assert "left out: tests marked 'prometheus' (prometheus, promtool, prometheus-alertmanager absent)" in result.stdout
