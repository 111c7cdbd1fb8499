# ruff: noqa: PTH103, PTH106, PTH108, PTH211 (a play writes thousands of files: pathlib takes several times as long)
"""The machine under a play, read as a node's exporter reads its own: the GPU exporter's page and the driver's library, /proc and
control groups, and the node's pods, joined to the engine by the readers that production uses.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import cast

from llmvitals.series import Series, Snapshot
from llmvitals.simulator import node
from llmvitals.simulator.live import Live
from llmvitals.simulator.procfs import Tree
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.gpu.merge import merged
from llmvitals.telemetry.gpu.nvml.library import Library
from llmvitals.telemetry.gpu.nvml.reader import Reader
from llmvitals.telemetry.host.reader import HostReader
from llmvitals.telemetry.identity.find import find
from llmvitals.telemetry.identity.match import match
from llmvitals.telemetry.identity.model import Pod, Wanted
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.kube import pods
from llmvitals.telemetry.kube.restarts import Restarts

IN_MEMORY = Path("/dev/shm")
"""Where Linux keeps a file system in memory that anybody may write to."""

GAP = "llm_family_gap"


@dataclass(frozen=True, slots=True)
class Sight:
    """One look: the GPU exporter's page as it came, the engine's snapshot with all that was joined to it, and of this what did
    not come from any page.
    """

    cards: RawPage
    joined: Snapshot
    beside: Mapping[Series, float]


class Machine:
    """``seed`` draws whether the GPU exporter's series carry pods; without them, as under its open bug, process ids join.

    A context: files of the machine lie in a folder while it is open.
    """

    def __init__(self, live: Live, labels: Mapping[str, str], seed: str) -> None:
        self._live, self._labels = live, dict(labels)
        self.pods_on_page = random.Random(f"{seed}/pods").random() < 0.5
        self._folder = Path(tempfile.mkdtemp(prefix="llmvitals-", dir=_memory()))
        self._proc, self._groups = Files(self._folder / "proc"), Files(self._folder / "cgroup")
        self._page = Ingest(instance="gpus", kind="dcgm")
        driver = cast(Library, live.nvml())  # some functions are absent, as in an old driver
        self._driver = Reader(driver, clock=lambda: live.world.now)
        self._wanted = Wanted(labels["instance"], node.ADDRESS, node.PORT)
        self._restarts = Restarts()
        self._listed: tuple[bytes, tuple[Pod, ...]] = (b"", ())
        self._host: HostReader | None = None
        self._t = live.origin

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def look(self, engine: Snapshot, t: float) -> Sight:
        """Everything that this machine shows at unix moment ``t``, joined to the engine's snapshot."""
        live, self._t = self._live, t
        page = RawPage(t, 0.01, 200, live.gpu_page_at(t, pods=self.pods_on_page), "")
        paged = self._page.snapshot(page)
        gpus = merged(paged, self._driver.read(t))
        proc, groups = live.trees_at(t)
        self._proc.write(proc)
        self._groups.write(groups)
        reader = self._host = self._host or self._reader()
        processes = reader.processes(frozenset({self._wanted.port}))
        listed = self._pods(live.pods_at(t))
        self._restarts = self._restarts.after(listed)
        found = find(self._wanted, processes, listed)
        joined = join_gpus(
            engine,
            gpus,
            match(self._wanted, found, gpus, (), processes),
            found=found,
            processes=processes,
            instance=self._labels["instance"],
            model=self._labels["model"],
        )
        host = {**reader.samples(found, t, restarts=found.pod is None), **self._restarts.samples(found)}
        own = {key.plus(**self._labels): value for key, value in host.items()}
        samples = {**joined.samples, **own}
        shown = {key.name for key in paged.samples if key.name != GAP}
        beside = {k: v for k, v in samples.items() if k not in engine.samples and k.name not in shown}
        return Sight(page, Snapshot(joined.t, samples, joined.detail), beside)

    def _pods(self, body: bytes) -> tuple[Pod, ...]:
        """The list of pods; most looks give the one before."""
        if body != self._listed[0]:
            self._listed = (body, pods.read(body, node.NAME).pods)
        return self._listed[1]

    def _reader(self) -> HostReader:
        def clock() -> float:
            return self._t

        return HostReader(self._proc.root, self._groups.root, clock=clock, steady=clock)


def _memory() -> Path | None:
    return IN_MEMORY if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) else None


def _write(path: str, text: str) -> None:
    """A file is written thousands of times in a play, so no buffer and no decoder are made for it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


class Files:
    """A folder that holds a tree. What did not change is not written again: most of a machine stands still."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._at = str(root)
        self._tree = Tree({}, {})
        self._folders: set[str] = set()
        root.mkdir()

    def write(self, tree: Tree) -> None:
        """Make the folder hold this tree and nothing else."""
        before, self._tree = self._tree, tree
        for path in (*(before.files.keys() - tree.files.keys()), *(before.links.keys() - tree.links.keys())):
            self._remove(path)
        for path, text in tree.files.items():
            if before.files.get(path) != text:
                self._place(path)
                _write(f"{self._at}/{path}", text)
        for path, target in tree.links.items():
            if before.links.get(path) != target:
                if path in before.links:
                    os.unlink(f"{self._at}/{path}")
                self._place(path)
                os.symlink(target, f"{self._at}/{path}")

    def _place(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            os.makedirs(f"{self._at}/{folder}", exist_ok=True)
            self._folders.add(folder)

    def _remove(self, path: str) -> None:
        """A file that is gone, and the folders that are empty without it."""
        os.unlink(f"{self._at}/{path}")
        folder = path.rpartition("/")[0]
        with suppress(OSError):
            while folder:
                os.rmdir(f"{self._at}/{folder}")
                self._folders.discard(folder)
                folder = folder.rpartition("/")[0]
