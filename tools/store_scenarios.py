"""Keep the situations that pin the table of checks: each limit, made wrong, changes the verdict on one of them.

    python tools/store_scenarios.py [--rounds 6] [--jobs 2] [--seed 1] [--seconds 3600] [--recordings ../shared/captures]
    python tools/store_scenarios.py --add

Plays the lab's scenarios, looks at them at several moments and with each level of telemetry, and keeps as few of these
windows as tell every wrong limit apart; then, for what no play tells, windows of recordings and made ones, at last made
ones with more or less of one thing. Writes ``tests/fixtures/lab/scenarios.json.gz``, and says which limits no play pins, and
which nothing does. That takes an hour. ``--add`` takes minutes: it keeps the readings that are
stored, with the verdicts of today's table on them, and adds made windows for what they leave. A signal that is newer than a
stored situation is a gap in it, or what it refines.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from llmvitals.gaps import Gap, GapKind  # noqa: E402
from llmvitals.lab.play import Job  # noqa: E402
from llmvitals.lab.scenarios import SCENARIOS  # noqa: E402
from llmvitals.series import Window  # noqa: E402
from llmvitals.signals.catalogue import SIGNALS  # noqa: E402
from llmvitals.signals.reading import Reading  # noqa: E402
from support import lab, nudged, stored  # noqa: E402 - the path comes first
from support.mutants import Judged, Readings, Seen, mutants  # noqa: E402

ENOUGH = 3
"""Situations that tell a wrong limit apart from which on no more are looked for: some choice keeps the file small."""

Kills = dict[str, frozenset[int]]
"""For each situation, by its name: which wrong limits it tells apart (numbers of the list of mutants)."""


def kills(windows: Iterable[tuple[str, Window]], wanted: frozenset[int]) -> Kills:
    """What each window tells apart, of what is wanted."""
    table = mutants()
    found, often = {}, dict.fromkeys(wanted, 0)
    for name, window in windows:
        judged = Judged(stored.look(window))
        told = frozenset(i for i, n in often.items() if n < ENOUGH and judged.changes(table[i]))
        often |= {i: often[i] + 1 for i in told}
        if told:
            found[name] = told
    return found


def of_job(job: Job, wanted: frozenset[int]) -> Kills:
    """What the windows of one play tell apart."""
    return kills(lab.played(job), wanted)


def of_others(source: str, wanted: frozenset[int]) -> Kills:
    """What a recording, or all made windows (no source), tell apart."""
    return kills(lab.recorded(Path(source)) if source else lab.made(), wanted)


def of_nudged(numbers: tuple[int, ...], seconds: float) -> dict[int, stored.Stored]:
    """Made windows with more or less of one thing, for each of these wrong limits that one tells apart within the time."""
    table, until = mutants(), time.monotonic() + seconds
    bases = [nudged.Base(name, window, Judged(stored.look(window))) for name, window in lab.made()]
    found = {}
    for i in numbers:
        if time.monotonic() > until:
            break
        one = nudged.told_apart(table[i], bases)
        if one is not None:
            found[i] = one
    return found


def jobs(seed: int, number: int) -> Iterator[Job]:
    """One play of every scenario; its severity changes from round to round."""
    for row in SCENARIOS:
        if row.name.startswith("without-"):
            continue  # each fault is looked at without it anyway
        yield Job(
            row.name, seed, number, row.severities[number % len(row.severities)] if lab.graded(row.kind) else "clear"
        )


def unsure(found: Mapping[str, frozenset[int]], count: int) -> frozenset[int]:
    """Wrong limits that are not told apart often enough yet."""
    told = [0] * count
    for numbers in found.values():
        for i in numbers:
            told[i] += 1
    return frozenset(i for i, n in enumerate(told) if n < ENOUGH)


def fewest(found: Kills, pinned: set[int]) -> list[str]:
    """Names of situations that together tell apart what all do beyond ``pinned``, which grows: the most telling first."""
    chosen = []
    while found:
        name = max(sorted(found), key=lambda n: len(found[n] - pinned))
        if not found[name] - pinned:
            break
        chosen.append(name)
        pinned |= found[name]
    return chosen


def again(names: Iterable[str], played: Iterable[Job], others: Iterable[str]) -> Iterator[tuple[str, Window]]:
    """The windows with these names, from plays and from the other sources."""
    wanted = set(names)
    for job in played:
        begins = f"{job.scenario} {job.severity} {job.seed}/{job.number}"
        if any(name.startswith((f"{begins} at", f"{begins} without")) for name in wanted):
            yield from lab.played(job, wanted)
    for source in others:
        windows = lab.recorded(Path(source)) if source else lab.made()
        yield from ((name, window) for name, window in windows if name in wanted)


def say(line: str) -> None:
    """One line for whoever watches."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit 1 when a limit is pinned by nothing."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rounds", type=int, default=6, help="plays of each scenario")
    ask.add_argument("--jobs", type=int, default=2, help="processes")
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument(
        "--seconds", type=float, default=3600.0, help="how long to look for made windows with more or less"
    )
    ask.add_argument("--recordings", type=Path, default=ROOT.parent / "shared" / "captures")
    ask.add_argument("--add", action="store_true", help="keep what is stored, and add made windows for what it leaves")
    given = ask.parse_args()
    if given.add:
        return keep(*added(given.seconds))
    table = mutants()
    folders = [*sorted((ROOT / "tests/fixtures/captures").glob("*/capture.json"))]
    folders += sorted(given.recordings.glob("*/capture.json"))
    others = [*(str(path.parent) for path in folders), ""]

    plays: Kills = {}
    every: list[Job] = []
    rest: Kills = {}
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        for number in range(given.rounds):
            wanted, now = unsure(plays, len(table)), list(jobs(given.seed, number))
            every += now
            for told in pool.map(of_job, now, [wanted] * len(now)):
                plays |= told
            left = len(table) - len({i for told in plays.values() for i in told})
            say(f"round {number}: {len(plays)} telling windows, {left} of {len(table)} wrong limits left")
        left_over = frozenset(range(len(table))) - {i for told in plays.values() for i in told}
        for told in pool.map(of_others, others, [left_over] * len(others)):
            rest |= told
        by_hand = sorted(left_over - {i for told in rest.values() for i in told})
        parts = [tuple(by_hand[at :: given.jobs]) for at in range(given.jobs)]
        nudges = {}
        for found in pool.map(of_nudged, parts, [given.seconds] * len(parts)):
            nudges |= found

    pinned: set[int] = set()
    names = fewest(plays, pinned) + fewest(rest, pinned)
    kept = []
    for name, window in again(names, every, others):
        seen = stored.look(window)
        kept.append(stored.Stored(name, seen, Judged(seen).key))
    for i in sorted(nudges.keys() - pinned):
        if i not in pinned:
            kept.append(nudges[i])
            judged = Judged(nudges[i].seen)
            pinned |= {j for j in nudges if judged.changes(table[j])}
    for i in sorted(left_over & pinned):
        say(f"  no play pins {table[i].name}")
    return keep(kept, pinned)


REFINES = {"tensor_parallel_gpus": "gpus_per_rank"}
"""Newer signals, and the older one that each falls back on where nothing says it better."""

NEWER = Reading(None, Gap(GapKind.UNSUPPORTED, "nothing said it when this was kept"))


def completed(one: stored.Stored) -> stored.Stored:
    """A stored situation with the signals that are newer than it; those that are gone leave it."""

    def whole(readings: Readings) -> dict[str, Reading]:
        return {s.id: readings.get(s.id) or readings.get(REFINES.get(s.id, ""), NEWER) for s in SIGNALS}

    seen = Seen(one.seen.window, whole(one.seen.whole), tuple(whole(part) for part in one.seen.parts))
    return stored.Stored(one.source, seen, one.expected)


def added(seconds: float) -> tuple[list[stored.Stored], set[int]]:
    """What is stored, with the verdicts of the table as it is now, and made windows for what it leaves."""
    table, kept, pinned = mutants(), [], set[int]()
    for one in map(completed, stored.read()):
        judged = Judged(one.seen)
        if judged.key[:2] != one.expected[:2]:
            say(f"  no longer {' '.join(map(str, one.expected[:2]))}: {one.source}")
        kept.append(stored.Stored(one.source, one.seen, judged.key))
        pinned |= {i for i, mutant in enumerate(table) if i not in pinned and judged.changes(mutant)}
    say(f"{len(table) - len(pinned)} of {len(table)} wrong limits left")
    names = fewest(kills(lab.made(), frozenset(range(len(table))) - pinned), pinned)
    for name, window in again(names, (), [""]):
        seen = stored.look(window)
        kept.append(stored.Stored(name, seen, Judged(seen).key))
    for i, one in of_nudged(tuple(sorted(set(range(len(table))) - pinned)), seconds).items():
        kept.append(one)
        pinned.add(i)
    return kept, pinned


def keep(kept: list[stored.Stored], pinned: set[int]) -> int:
    """Write the situations, and say which wrong limits none tells apart; 1 where there is one."""
    table = mutants()
    size = stored.write(kept)
    say(f"{len(kept)} situations, {size / 1024:.0f} KiB; {len(pinned)} of {len(table)} wrong limits are told apart")
    for i in sorted(set(range(len(table))) - pinned):
        say(f"  nothing pins {table[i].name}")
    return 0 if len(pinned) == len(table) else 1


if __name__ == "__main__":
    sys.exit(main())
