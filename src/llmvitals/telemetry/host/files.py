"""Reading the small files of /proc and of cgroups: no buffers, no decoding; and what would make readable what is not."""

from __future__ import annotations

import os

CHUNK = 65536
LINE = 4096
"""More than a line of stat takes: 52 numbers and a name."""

AS_ROOT = "run the exporter as root of the machine, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
HOST_PROCESSES = "give it hostPID: true, or mount the host's /proc and set node.procfs"
HOST_CGROUPS = "mount the host's /sys/fs/cgroup and set node.cgroups"


def glance(path: str) -> bytes:
    """The content of a file that comes whole in one read, as ``stat`` and ``statm`` do. Raises :class:`OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, LINE)
    finally:
        os.close(handle)


def read(path: str) -> bytes:
    """The whole content of a file. Raises :class:`OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def text_of(path: str) -> str:
    """The content of a file as text, '' when it cannot be read."""
    try:
        return read(path).decode("utf-8", "replace")
    except OSError:
        return ""


def names(folder: str) -> list[str]:
    """The names in a folder, none when it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - pathlib takes several times as long
    except OSError:
        return []


def link(path: str) -> str:
    """What a link points to, '' when it may not be seen."""
    try:
        return os.readlink(path)  # noqa: PTH115 - pathlib takes several times as long
    except OSError:
        return ""


def is_folder(path: str) -> bool:
    """Whether there is such a folder."""
    return os.path.isdir(path)  # noqa: PTH112 - pathlib takes several times as long


def plain(raw: bytes) -> str:
    """A name that a process gave itself, safe to show: what cannot be printed becomes ``?``."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
