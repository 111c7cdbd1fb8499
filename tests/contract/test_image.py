"""The image: how its file is written, what goes into it, and its steps done in a plain root where what came out then serves.

No engine is asked and no base image fetched: this machine's Python and C library stand in for it (:mod:`support.image`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import llmvitals
from support.dockerfile import Ignored, read
from support.image import Plain, able, chain, env_of
from support.tools import needed
from support.waiting import free_port, wait_for
from support.wheelhouse import fill, pinned

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "exporters" / "Dockerfile"
STAGES = read(DOCKERFILE)
SHOWN = ("exporter", "all")
IN_CI = bool(os.environ.get("CI"))
SELF = f"llmvitals {llmvitals.__version__}"


@pytest.mark.hadolint
def test_the_linter_has_nothing_to_say() -> None:
    done = subprocess.run([needed("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_last_stage_is_the_image_for_all_and_the_exporter_is_one_of_its_own() -> None:
    assert list(STAGES)[-1] == "all"
    assert set(SHOWN) < set(STAGES)


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_nobody_without_a_shell(name: str) -> None:
    """Whatever runs in a container is in the exec form; the build's stages are not what is shipped."""
    steps = chain(STAGES, STAGES[name])
    told = {step.word: step for step in steps}
    assert told["USER"].text == "65534:65534"
    assert told["STOPSIGNAL"].text == "SIGTERM"
    assert told["ENTRYPOINT"].argv == ("/opt/llmvitals/bin/llmvitals",)
    assert told["CMD"].argv[0] == "serve"
    assert told["HEALTHCHECK"].text.partition(" CMD ")[2].startswith('["/opt/llmvitals/bin/python"')
    assert [step.text for step in steps if step.word == "RUN" and not step.argv] == []
    ports = {step.text for step in steps if step.word == "EXPOSE"}
    assert ports == ({"9464", "8501"} if name == "all" else {"9464"})


def test_the_labels_say_what_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = next(step.text for step in STAGES["base"].steps if step.word == "LABEL")
    for key, said in {
        "title": project["name"],
        "description": project["description"],
        "licenses": project["license"],
        "documentation": project["urls"]["Documentation"],
        "version": llmvitals.__version__,
    }.items():
        assert f'org.opencontainers.image.{key}="{said}"' in text


@pytest.mark.parametrize(("file", "stage"), [("exporter.txt", "build-exporter"), ("image.txt", "build-all")])
def test_what_it_installs_is_pinned_as_everywhere(file: str, stage: str) -> None:
    """The same versions as `make test` runs with, and nothing that was not said."""
    steps = " ".join(step.text for step in STAGES[stage].steps)
    assert f"--requirement requirements/{file}" in steps
    pins = set((ROOT / "requirements" / "run.txt").read_text().splitlines())
    own = {line for line in (ROOT / "requirements" / file).read_text().splitlines() if not line.startswith("#")}
    assert own <= pins
    runs = [s.text for one in STAGES.values() for s in one.steps if s.word == "RUN" and " install " in s.text]
    assert len(runs) == 3
    assert all("--no-deps" in text for text in runs)


def test_only_what_is_built_from_goes_into_the_build() -> None:
    ignored = Ignored.of(ROOT / ".dockerignore")
    for path in (".git/config", "tests/conftest.py", ".venv/bin/python", "secrets.toml", "src/a/__pycache__/x", ".env"):
        assert ignored(path), path
    include = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    for name in (*include["sdist"]["include"], *include["wheel"]["force-include"], "pyproject.toml", "requirements"):
        assert not ignored(name), name


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """A place for roots, and wheels of all that is pinned."""
    if not able():
        (pytest.fail if IN_CI else pytest.skip)("needs root and unshare, chroot, mount, to make a root")
    folder = tmp_path_factory.mktemp("image")
    wheels = folder / "wheels"
    wheels.mkdir()
    pins = {str(pin): pin for name in ("build", "image") for pin in pinned(ROOT / "requirements" / f"{name}.txt")}
    fill(wheels, pins.values())
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/root",
        "LD_LIBRARY_PATH": "/usr/local/lib",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "/wheels",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    return Plain(folder, ROOT, wheels, environment)


@contextmanager
def started(plain: Plain, root: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """The entry point in a root that nobody can write to, as nobody."""
    env = {key: value for key, value in plain.environment.items() if key in {"PATH", "LD_LIBRARY_PATH"}}
    env |= {"HOME": "/nonexistent", **env_of(STAGES, STAGES["base"])}  # as engines set it for nobody
    (entry,) = next(step.argv for step in STAGES["base"].steps if step.word == "ENTRYPOINT")
    argv = plain.argv(root, [entry, *command])
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def body(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def comes(process: subprocess.Popen[str], url: str) -> str:
    def ask() -> str:
        assert process.poll() is None, process.stdout and process.stdout.read()
        try:
            return body(url)
        except OSError:
            return ""

    return wait_for(ask, f"{url} answers")


def test_the_exporter_serves_from_its_stage_as_nobody_with_nothing_to_write_to(plain: Plain) -> None:
    root = plain.build(STAGES, "exporter")
    own = root / "opt/llmvitals/lib"
    assert list(own.rglob("llmvitals/__pycache__/*.pyc")), "bytecode must come with it: none can be written later"
    names = {path.name.partition("-")[0] for path in own.rglob("*.dist-info")}
    assert names & {"streamlit", "matplotlib", "pip", "grafanalib"} == set()
    assert not (root / "bin/sh").is_file() or (root / "bin").is_symlink()
    port = free_port()
    with started(plain, root, "serve", "http://127.0.0.1:9", "--listen", f"127.0.0.1:{port}") as process:
        assert comes(process, f"http://127.0.0.1:{port}/healthz")
        page = body(f"http://127.0.0.1:{port}/metrics")
        assert 'llm_target_up{instance="127.0.0.1:9"} 0.0' in page
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "Uid:\t65534\t65534\t65534\t65534" in status
        inside = Path(f"/proc/{process.pid}/root")
        assert not (inside / "usr/bin").exists() or not list((inside / "usr/bin").iterdir()), "no shell to start"
        with pytest.raises(OSError, match="Read-only"):
            (inside / "tmp/x").write_text("")
        with pytest.raises(OSError, match="Read-only"):
            (inside / "usr/local/x").write_text("")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_the_image_has_no_installer_left_and_says_its_version(plain: Plain) -> None:
    root = plain.build(STAGES, "exporter")
    env = {"LD_LIBRARY_PATH": plain.environment["LD_LIBRARY_PATH"]}
    for python in ("/usr/local/bin/python3", "/opt/llmvitals/bin/python"):
        look = "import importlib.util as u; print([n for n in ('pip', 'ensurepip') if u.find_spec(n)])"
        done = subprocess.run(
            plain.argv(root, [python, "-c", look]), env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]", python
    command = plain.argv(root, ["/opt/llmvitals/bin/llmvitals", "--version"])
    assert llmvitals.__version__ in subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_the_app_starts_from_the_whole_image_in_the_same_way(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.environment["PIP_NO_COMPILE"] = "1"  # type: ignore[index]  # half of the time, and nothing that this asks
    root = plain.build(STAGES, "all")
    port = free_port()
    with started(plain, root, "app", "--port", str(port)) as process:
        assert comes(process, f"http://127.0.0.1:{port}/_stcore/health") == "ok"
        assert "<title>" in body(f"http://127.0.0.1:{port}/")
