"""The texts that the kernel shows of a process, as values. Pure functions: no text makes one fail.

Formats: proc_pid_stat(5), proc_pid_status(5), proc_pid_limits(5), proc_stat(5).
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.telemetry.host.files import plain

KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the field ``flags`` of stat (include/linux/sched.h)."""

DEAD = "ZXx"
"""States of a process that has ended and waits for its parent to notice, or is being taken down."""

MOST_CPUS = 65536
HIGHEST = 2**64


@dataclass(frozen=True, slots=True)
class Stat:
    """One process or thread. ``start`` and ``cpu`` (user and system) are in clock ticks, ``start`` since the host's boot."""

    name: str
    state: str
    parent: int
    start: int
    cpu: int
    kernel: bool = False

    @property
    def alive(self) -> bool:
        """Whether it may still do something."""
        return self.state not in DEAD


def stat(raw: bytes) -> Stat | None:
    """``/proc/PID/stat``; None when it is not such a text. The name may hold spaces and brackets: its last one counts."""
    opened, closed = raw.find(b"("), raw.rfind(b")")
    fields = raw[closed + 1 :].split(maxsplit=20)
    if not 0 <= opened < closed or len(fields) < 20:
        return None
    try:
        state = fields[0].decode("ascii")
        parent, flags, start, user, system = (int(fields[i]) for i in (1, 6, 19, 11, 12))
    except ValueError:
        return None
    if not (0 <= start < HIGHEST and 0 <= user + system < HIGHEST):
        return None
    return Stat(plain(raw[opened + 1 : closed]), state, parent, start, user + system, bool(flags & KERNEL_THREAD))


def cpu_ticks(raw: bytes) -> int | None:
    """User and system time alone of such a text, for the thousands of threads of which nothing else is asked."""
    fields = raw[raw.rfind(b")") + 1 :].split(maxsplit=13)
    try:
        ticks = int(fields[11]) + int(fields[12])
    except (ValueError, IndexError):
        return None
    return ticks if 0 <= ticks < HIGHEST else None


def command(raw: bytes) -> tuple[str, ...]:
    """``/proc/PID/cmdline`` as arguments. A process that wrote a title over its own has it as one argument."""
    told = raw.rstrip(b"\0 ").decode("utf-8", "replace")
    return tuple(told.split("\0")) if told else ()


def max_files(text: str) -> float | None:
    """The soft limit on open files of ``/proc/PID/limits``; None when there is none."""
    for line in text.splitlines():
        if line.startswith("Max open files"):
            words = line.removeprefix("Max open files").split()
            return (
                float(words[0]) if words and words[0].isascii() and words[0].isdigit() and len(words[0]) < 16 else None
            )
    return None


def allowed_cpus(text: str) -> frozenset[int]:
    """The CPUs that ``/proc/PID/status`` lets the process run on; empty when it does not say."""
    for line in text.splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return numbers(line.partition(":")[2], most=MOST_CPUS)
    return frozenset()


def numbers(text: str, *, most: int) -> frozenset[int]:
    """A list like ``0-3,8``; what is no range of numbers below ``most`` is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            continue
        if len(first) < 8 and len(last) < 8:
            found.update(range(int(first), min(int(last or first) + 1, most)))
    return frozenset(found)


def boot_time(text: str) -> float | None:
    """Unix seconds at which the host started, from ``/proc/stat``."""
    for line in text.splitlines():
        if line.startswith("btime "):
            word = line.removeprefix("btime ").strip()
            return float(word) if word.isascii() and word.isdigit() and len(word) < 16 else None
    return None


def online_cpus(text: str) -> frozenset[int]:
    """The CPUs that are on, from ``/proc/stat``: a process may be allowed some that are not there."""
    heads = (line.split(" ", 1)[0].removeprefix("cpu") for line in text.splitlines() if line.startswith("cpu"))
    return frozenset(int(head) for head in heads if head.isascii() and head.isdigit() and len(head) < 8)
