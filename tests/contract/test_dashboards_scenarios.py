"""Every panel over simulated incidents on a real Prometheus: none is empty in the scenario that should move it.

Each play is a server of its own in one store, so one query is asked once and tells which plays it finds something in. A panel's
plays are the scenarios of its causes and those that it names itself. Beside them one server is idle: there panels that say
"no traffic" are empty, and everywhere what they find is a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context

import pytest

from llmvitals.alerts.recording import recording_groups
from llmvitals.dashboards.model import NO_TRAFFIC, PLACE
from llmvitals.dashboards.raw.tree import Node, read
from llmvitals.lab.parallel import cores
from llmvitals.lab.play import ORIGIN, watch
from llmvitals.lab.scenarios import BY_NAME, SCENARIOS
from llmvitals.settings import Settings
from support.backfilled import backfilled
from support.boards import ONCE, Asked, Drawn, each, filled
from support.plays import FAULTS, jobs, played, told
from support.prometheus import Points, PrometheusServer, joined, prometheus_of
from support.promql_tree import name_of, needed, selectors

pytestmark = pytest.mark.prometheus

SETTINGS = Settings()
IDLE = "idle"
NAMED = tuple(sorted({name for drawn in ONCE for name in drawn.panel.moved} & BY_NAME.keys()))
PLAYED = tuple(dict.fromkeys([*(row.name for row in FAULTS), "context-imbalance", IDLE, *NAMED]))
BEGIN, END, STEP = ORIGIN, ORIGIN + 600.0, 10.0
WINDOW = "120s"
"""Four scrapes of the slowest play."""

NO_PLAY: Mapping[str, str] = {
    "llm_probe_": "a play sends no probes",
    "llmvitals_target_left_out": "a play has no pods that another exporter asks",
}
"""Families that no play of a server shows, and why: queries of them alone need find nothing here."""


def plays_of(drawn: Drawn) -> tuple[str, ...]:
    """The plays that should move a panel."""
    causes = {row.name for row in SCENARIOS if set(row.causes) & set(drawn.panel.causes)}
    return tuple(name for name in PLAYED if name in causes or name in drawn.panel.moved)


AMONG_MANY = re.compile(r"\b(top|bottom)k\b")
"""A query that shows some servers of many is asked for each by itself: whether it is among them is not the question."""

HIDDEN = frozenset({"cause"})
"""A click on a value needs it; a legend may leave it out."""

Found = dict[str, set[frozenset[str]]]
"""By server, '' for none: the labels of the series that have a number at some moment."""


@dataclass
class Store:
    """A Prometheus over plays, asked each question once."""

    server: PrometheusServer
    begin: float = BEGIN
    end: float = END
    _kept: dict[str, Found] = field(default_factory=dict)

    def found(self, expr: str, instance: str = ".*") -> Found:
        """What a query of a panel finds along the plays. Fails where anything that it finds is no number."""
        text = filled(expr, window=WINDOW, span=f"{self.end - self.begin:.0f}s", instance=instance)
        if text not in self._kept:
            times = {"start": f"{self.begin:.0f}", "end": f"{self.end:.0f}", "step": f"{STEP:.0f}"}
            found: Found = {}
            for one in self.server.get("query_range", query=text, **times)["result"]:
                labels = one["metric"]
                bad = [value for _, value in one["values"] if not math.isfinite(float(value))]
                assert not bad, f"{bad[0]} for {labels}: a panel cannot draw it, and would not say why"
                found.setdefault(labels.get("instance", ""), set()).add(frozenset(labels))
            self._kept[text] = found
        return self._kept[text]

    def moves(self, asked: Asked, play: str) -> bool:
        """Whether a query finds something in a play."""
        if "instance" in asked.labels and not AMONG_MANY.search(asked.expr):
            return play in self.found(asked.expr)
        return bool(self.found(asked.expr, play))


def problems(store: Store, drawn: Drawn, plays: Iterable[str]) -> list[str]:
    """The plays that should move a panel and leave it empty."""
    return [f"{drawn.id} is empty in {play}" for play in plays if not any(store.moves(q, play) for q in drawn.asked)]


def recorded(panels: Iterable[Drawn]) -> list[dict]:
    """The recording rules of which some panel reads what they make."""
    read = {one.name for drawn in panels for asked in drawn.asked for one in selectors(tree(asked))}
    groups = [
        group | {"rules": [rule for rule in group["rules"] if rule["record"] in read]}
        for group in recording_groups(SETTINGS)
    ]
    return [group for group in groups if group["rules"]]


def tree(asked: Asked) -> Node:
    """A query as it is read."""
    return read(filled(asked.expr))


def names(asked: Asked) -> frozenset[str]:
    """The series without which a query finds nothing."""
    return needed(tree(asked), name_of)


CAUSE = "kv-cache-saturation"
PROFILED = ("llm_gpu_sm_active_ratio", "llm_gpu_tensor_active_ratio", "llm_gpu_dram_active_ratio")


def shown(*without: str) -> Points:
    """A play of a cause on a server that lacks some families; what is concluded from its page lacks them too."""
    run = watch(next(jobs(CAUSE)))
    run.snapshots = [
        replace(one, samples={key: value for key, value in one.samples.items() if key.name not in without})
        for one in run.snapshots
    ]
    return played(run, SETTINGS)


def unprofiled() -> Points:
    """A server whose GPU tells its utilisation only, as cards and drivers without profiling do."""
    name = "unprofiled"
    return {
        key.plus(**{"instance": name, **({"model": name} if key.label("model") else {})}): samples
        for key, samples in shown(*PROFILED).items()
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        plain = pool.submit(unprofiled)
        plays = backfilled(
            tmp_path_factory.mktemp("plays"),
            joined([*pool.map(partial(told, traced=True), PLAYED), plain.result()]),
            recorded(ONCE),
            start=BEGIN + 60,
            end=END,
        )
    with plays as server:
        yield Store(server)


MOVED = tuple(drawn for drawn in ONCE if not drawn.panel.apart)


@each([drawn for drawn in MOVED if plays_of(drawn)])
def test_a_panel_shows_something_in_every_play_that_should_move_it(store: Store, drawn: Drawn) -> None:
    assert not problems(store, drawn, plays_of(drawn))


@each(MOVED)
def test_every_query_finds_something_in_a_play(store: Store, drawn: Drawn) -> None:
    for asked in drawn.asked:
        excused = [why for prefix, why in NO_PLAY.items() if any(name.startswith(prefix) for name in names(asked))]
        if "instance" in asked.labels or not plays_of(drawn):
            moving = set(store.found(asked.expr))
        else:
            moving = {play for play in plays_of(drawn) if store.moves(asked, play)}
        assert bool(moving) != bool(excused), f"{drawn.id}: {asked.expr} {excused or 'finds nothing in any play'}"


@each(MOVED)
def test_what_a_query_finds_has_the_labels_that_the_panel_shows(store: Store, drawn: Drawn) -> None:
    for asked in drawn.asked:
        for labels in set().union(*store.found(asked.expr).values()):
            assert labels - set(PLACE) - HIDDEN == asked.labels - HIDDEN, f"{drawn.id}: {asked.expr}"


SILENT = tuple(drawn for drawn in ONCE if drawn.panel.empty.startswith(NO_TRAFFIC))


@each(SILENT)
def test_without_traffic_a_panel_that_says_so_is_empty(store: Store, drawn: Drawn) -> None:
    shown = [asked.expr for asked in drawn.asked if store.moves(asked, IDLE)]
    assert not shown, f"{drawn.id} says '{drawn.panel.empty}' and shows something of an idle server"


def test_every_name_of_a_scenario_is_one() -> None:
    unknown = {(d.id, name) for d in ONCE for name in d.panel.moved if name not in BY_NAME}
    assert not unknown
    apart = {drawn.id for drawn in ONCE if drawn.panel.apart and drawn.panel.moved}
    assert not apart, "what no play fills is moved by none"


@each(ONCE)
def test_every_panel_names_what_moves_it_or_says_why_nothing_does(drawn: Drawn) -> None:
    assert drawn.panel.apart or plays_of(drawn), f"{drawn.id} has neither causes nor moved nor apart"


# -- a family that is gone ---------------------------------------------------------------------------------------------


def needing() -> dict[str, list[tuple[Drawn, Asked]]]:
    """By family, the queries that find nothing without it."""
    found: dict[str, list[tuple[Drawn, Asked]]] = {}
    for drawn in MOVED:
        for asked in drawn.asked:
            for name in names(asked):
                found.setdefault(name, []).append((drawn, asked))
    return found


NEEDING = needing()


@pytest.mark.parametrize("family", sorted(NEEDING))
def test_without_a_family_every_panel_that_needs_it_is_found_out(store: Store, family: str) -> None:
    """A family that is not on the page is, for a query, one of another name."""
    gone = re.compile(rf"\b{family}\b(?=[{{\[\s)])")
    kept = {drawn.id for drawn, asked in NEEDING[family] if store.found(gone.sub(f"{family}_gone", asked.expr))}
    assert NEEDING[family]
    assert not kept, f"without {family} something is still shown by"


FAMILY = "llm_kv_usage_ratio"


def test_a_family_that_leaves_the_page_empties_just_the_panels_that_are_made_of_it(tmp_path) -> None:
    whole, lacking = shown(), shown(FAMILY)
    gone = {key.name for key in whole} - {key.name for key in lacking}
    assert FAMILY in gone
    found: list[dict[str, list[bool]]] = []
    mine = [drawn for drawn in MOVED if CAUSE in plays_of(drawn)]
    for name, points in (("whole", whole), ("lacking", lacking)):
        with prometheus_of(tmp_path / name, points) as server:
            store = Store(server)
            found.append({drawn.id: [store.moves(asked, CAUSE) for asked in drawn.asked] for drawn in mine})
    before, after = found
    emptied = {drawn.id for drawn in mine if any(before[drawn.id]) and not any(after[drawn.id])}
    assert emptied == {
        drawn.id
        for drawn in mine
        if any(before[drawn.id])
        and all(names(asked) & gone for asked, moved in zip(drawn.asked, before[drawn.id], strict=True) if moved)
    }
    assert emptied, "no panel is made of it alone"
