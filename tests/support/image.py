"""The steps of a Dockerfile in a plain root on this machine, without an engine, and programs started from what came out.

This machine's C library and Python stand in for the base image: its Python appears at /usr/local as in the official image.
Whoever runs this must be root, or nothing can be mounted; every mount is gone with the process that made it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.dockerfile import Ignored, Stage, Step

_LINKED = ("bin", "sbin", "lib", "lib32", "lib64")


def able() -> bool:
    """Whether a root can be made here."""
    tools = all(map(shutil.which, ("unshare", "chroot", "mount")))
    return tools and os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Plain:
    """A folder in which stages are roots. ``environment``: what every step sees, as the base image's own."""

    folder: Path
    context: Path
    wheels: Path
    environment: Mapping[str, str]

    def root(self, stage: str) -> Path:
        """The files that the stage made beside those of its base image."""
        return self.folder / stage

    def build(self, stages: Mapping[str, Stage], name: str) -> Path:
        """Every step of a stage and of those it stands on or takes from, in their order; once for each stage."""
        stage, root = stages[name], self.root(name)
        if root.exists():
            return root
        if stage.base in stages:
            below = self.build(stages, stage.base)
            for one in (below, _changed(below)):  # what was removed of a base image's Python is a device there
                subprocess.run(
                    ["cp", "-a", str(one), str(self.folder / one.name.replace(below.name, name, 1))], check=True
                )
        else:
            self._bare(root)
        for step in stage.steps:
            self._do(step, stages, stage, root)
        return root

    def _bare(self, root: Path) -> None:
        for place in ("usr", "proc", "dev", "tmp", "wheels", "etc"):
            (root / place).mkdir(parents=True)
        shutil.copy("/etc/ld.so.cache", root / "etc")
        for name in _LINKED:
            if Path("/", name).is_symlink():
                (root / name).symlink_to(Path("/", name).readlink())
        python = _changed(root) / "bin"
        python.mkdir(parents=True)
        for name in ("python", "python3"):  # Debian's has no plain name
            (python / name).symlink_to(Path(sys.base_prefix, "bin", _python()).name)

    def _do(self, step: Step, stages: Mapping[str, Stage], stage: Stage, root: Path) -> None:
        if step.word == "COPY":
            self._copy(step, stages, stage, root)
        elif step.word == "RUN":
            command = step.argv or ("/bin/sh", "-c", step.text)
            done = self.run(root, command, cwd=workdir(stages, stage), writable=True, **env_of(stages, stage))
            assert done.returncode == 0, f"{step.text}\n{done.stdout}{done.stderr}"

    def _copy(self, step: Step, stages: Mapping[str, Stage], stage: Stage, root: Path) -> None:
        *flags, source, target = step.text.split()
        to = root / (target if target.startswith("/") else workdir(stages, stage) + "/" + target).lstrip("/")
        if flags:
            (name,) = (flag.removeprefix("--from=") for flag in flags)
            shutil.copytree(self.build(stages, name) / source.lstrip("/"), to, symlinks=True, dirs_exist_ok=True)
            return
        ignored = Ignored.of(self.context / ".dockerignore")
        for file in _files(self.context, source, ignored):
            path = to / file.relative_to(self.context / source)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, path)

    def run(
        self, root: Path, command: Sequence[str], *, cwd: str = "/", writable: bool = False, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """One command in a root, to its end."""
        argv = self.argv(root, command, cwd=cwd, writable=writable)
        return subprocess.run(
            argv, env={**self.environment, **env}, capture_output=True, text=True, check=False, timeout=300
        )

    def argv(self, root: Path, command: Sequence[str], *, cwd: str = "/", writable: bool = False) -> list[str]:
        """The command line that runs a command in a root.

        Built in (``writable``): as root, with this machine's programs. Served from: as nobody without any right, nothing
        writable, no shell, no program but Python, and no folder for temporary files.
        """
        mount = _host("mount")
        inside, work = str(root), root.with_name(f"{root.name}.work")
        work.mkdir(exist_ok=True)
        python = f"lowerdir={sys.base_prefix},upperdir={_changed(root)},workdir={work}"
        q = shlex.quote
        mounts = [
            f"{mount} --bind {q(inside)} {q(inside)}",
            f"{mount} --rbind /dev {q(inside)}/dev",
            f"{mount} -t proc proc {q(inside)}/proc",
        ]
        if writable:
            mounts += [
                f"{mount} --bind /usr {q(inside)}/usr",
                f"{mount} --bind {q(str(self.wheels))} {q(inside)}/wheels",
            ]
            who: list[str] = []
        else:
            (root / "usr/local").mkdir(exist_ok=True)
            for name in ("lib", "lib64", "share/zoneinfo"):
                if Path("/usr", name).is_dir():
                    (root / "usr" / name).mkdir(parents=True, exist_ok=True)
                    mounts += [f"{mount} --bind /usr/{name} {q(inside)}/usr/{name}"]
            who = ["--userspec=65534:65534", "--groups="]
        mounts += [f"{mount} -t overlay overlay -o {q(python)} {q(inside)}/usr/local"]
        if not writable:
            mounts += [f"{mount} -o remount,bind,ro {q(inside)}", f"{mount} -o remount,ro {q(inside)}/usr/local"]
            mounts += [f"{mount} -o remount,bind,ro {q(inside)}/usr/lib"]
        chroot = [_host("chroot"), *who, inside]
        if writable:
            chroot += ["/usr/bin/env", "-C", cwd]
        return [
            _host("unshare"),
            "--mount",
            _host("sh"),
            "-ec",
            "\n".join([*mounts, 'exec "$@"']),
            "sh",
            *chroot,
            *command,
        ]


def _changed(root: Path) -> Path:
    """What a root has changed of its base image's Python."""
    return root.with_name(f"{root.name}.python")


def _host(name: str) -> str:
    """This machine's program, whatever PATH the image has."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert found is not None, f"{name} is absent"
    return found


def _python() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _files(context: Path, source: str, ignored: Ignored) -> list[Path]:
    """The files below a source that go into the build; a folder that is left out is not walked."""
    found: list[Path] = []
    for folder, below, names in os.walk(context / source):
        at = Path(folder).relative_to(context)
        below[:] = [name for name in below if not ignored((at / name).as_posix())]
        found += [Path(folder, name) for name in names if not ignored((at / name).as_posix())]
    return found


def chain(stages: Mapping[str, Stage], stage: Stage) -> list[Step]:
    """The steps of a stage and of those below it, the lowest first."""
    below = chain(stages, stages[stage.base]) if stage.base in stages else []
    return [*below, *stage.steps]


def workdir(stages: Mapping[str, Stage], stage: Stage) -> str:
    """Where a stage's commands run."""
    told = [step.text for step in chain(stages, stage) if step.word == "WORKDIR"]
    return told[-1] if told else "/"


def env_of(stages: Mapping[str, Stage], stage: Stage) -> dict[str, str]:
    """The variables that a stage sets."""
    pairs = (pair for step in chain(stages, stage) if step.word == "ENV" for pair in shlex.split(step.text))
    return dict(pair.split("=", 1) for pair in pairs)
