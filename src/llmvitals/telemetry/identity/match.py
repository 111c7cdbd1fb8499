"""Which GPUs serve an engine, and how that is known: four ways, the strongest that has an answer counts.

Configured names, the pod labels of a GPU exporter, the kubelet's pod-resources, and process ids. A way without an answer says
why, and the next is tried; a weaker one that contradicts is told. What nothing tells is no match: a GPU is never given to an
engine because it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from llmvitals.series import Snapshot
from llmvitals.telemetry.identity.cards import Cards, Owner, listed, numbered_alike, owner_of
from llmvitals.telemetry.identity.find import NO_HOST_PIDS
from llmvitals.telemetry.identity.model import Found, Held, Join, Match, Processes, Wanted


@dataclass(frozen=True, slots=True)
class _Case:
    wanted: Wanted
    found: Found
    cards: Cards
    held: Sequence[Held]
    held_why: str
    processes: Processes
    alike: bool

    @property
    def pod(self) -> tuple[str, str] | None:
        pod = self.found.pod
        return (pod.namespace, pod.name) if pod is not None else self.wanted.pod

    @property
    def container(self) -> str:
        return self.found.container.name if self.found.container is not None else self.wanted.container

    def owners(self, gpu: str) -> set[Owner]:
        pids = self.cards.pids.get(gpu, frozenset())
        return {owner_of(pid, self.found, self.processes, alike=self.alike) for pid in pids}


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one way says. ``why``: what it could not tell; without GPUs and ``why`` it has nothing to do with this engine."""

    gpus: tuple[str, ...] = ()
    why: str = ""


def match(
    wanted: Wanted,
    found: Found,
    gpus: Snapshot,
    held: Sequence[Held] = (),
    processes: Processes | None = None,
    *,
    own_page: bool = False,
    others: Collection[Found] = (),
    held_why: str = "",
) -> Match:
    """The GPUs of ``gpus`` that serve the engine.

    ``own_page``: the engine's own settings name the page that the GPUs are from; where nothing else tells, and no other engine
    uses it, all its GPUs are meant. ``others``: the other engines that the same GPUs may serve. ``processes``: those among which
    ``found`` was found. ``held_why``: why the kubelet did not say what it gave.

    The answer's ``why`` can stand beside GPUs too: what a stronger way lacked, or a weaker one contradicts.
    """
    cards = Cards.of(gpus)
    if not cards.gpus:
        quiet = found.elsewhere and not own_page and not wanted.gpus
        return Match(why="" if quiet else gpus.detail or "the GPU page shows no GPU")
    table = processes or Processes()
    on_gpus = frozenset[int]().union(*cards.pids.values())
    case = _Case(wanted, found, cards, held, held_why, table, numbered_alike(on_gpus, table))
    answers = {join: way(case) for join, way in _WAYS}
    answers = _apart(case, answers, others)
    join = next((join for join, answer in answers.items() if answer.gpus), None)
    if join is not None:
        return Match(answers[join].gpus, join, _told(join, answers))
    asked = [answers[Join.CONFIGURED]] if wanted.gpus else answers.values()  # a wrong name is what is to be mended then
    why = "; ".join(dict.fromkeys(answer.why for answer in asked if answer.why))
    if own_page and not others and not wanted.gpus:  # named wrongly is not unnamed
        return Match(tuple(cards.gpus), Join.CONFIGURED, why)
    if own_page or not found.elsewhere:
        why = "; ".join(filter(None, (why, _remedy(case, alone=not own_page or not others))))
    return Match(why=why)


def _remedy(case: _Case, *, alone: bool) -> str:
    """What can be done in any case: the settings are the way that needs nothing of the machine."""
    if case.wanted.gpus:
        return f"there are {listed([index or gpu for gpu, index in case.cards.gpus.items()])}"
    if alone:
        return "name its GPUs in gpus (of a pod: llmvitals.io/gpus)"
    return "other engines have the same GPU page: name each one's GPUs in gpus (of a pod: llmvitals.io/gpus)"


def _told(join: Join, answers: dict[Join, _Answer]) -> str:
    """Why no stronger way counts, what this one lacks, and what weaker ones say against it."""
    order = list(answers)
    stronger, weaker = order[: order.index(join)], order[order.index(join) + 1 :]
    said = [answers[one].why for one in (*stronger, join)]
    for one in weaker:
        more = set(answers[one].gpus) - set(answers[join].gpus)
        if more:
            said.append(f"by {one.replace('-', ' ')} it has {listed(list(more))} as well, against {_SAYS[join]}")
    return "; ".join(dict.fromkeys(filter(None, said)))


_SAYS = {
    Join.CONFIGURED: "the settings",
    Join.POD_LABELS: "its pod's labels on the GPU page",
    Join.POD_RESOURCES: "the kubelet's pod-resources",
    Join.PROCESS_IDS: "its process ids",
}


# -- the ways ---------------------------------------------------------------------------------------------------------
def _configured(case: _Case) -> _Answer:
    chosen: list[str] = []
    why: list[str] = []
    for name in case.wanted.gpus:
        slices = case.cards.slices(name)
        found = [gpu for gpu in case.cards.called(name) if gpu not in slices]
        if slices:
            why.append(f"GPU {name} is split: name the slice, one of {listed(slices)}")
        elif not found:
            why.append(f"GPU {name} is not on the GPU page")
        chosen += found
    return _Answer(case.cards.ordered(chosen), "; ".join(why))


def _by_labels(case: _Case) -> _Answer:
    if case.pod is None:
        return _Answer()
    if not case.cards.pods:
        return _Answer(why=case.cards.no_pods and f"by pod labels: {case.cards.no_pods}")
    of_pod = {
        (gpu, container) for gpu, pods in case.cards.pods.items() for *pod, container in pods if tuple(pod) == case.pod
    }
    own = {gpu for gpu, container in of_pod if container in {case.container, ""}}
    chosen = own if case.container else {gpu for gpu, _ in of_pod}
    return _Answer(case.cards.ordered(chosen), "" if chosen else f"the GPU page gives pod {'/'.join(case.pod)} no GPU")


def _by_resources(case: _Case) -> _Answer:
    if case.pod is None:
        return _Answer()
    if not case.held and case.held_why:
        return _Answer(why=f"by pod-resources: {case.held_why}")
    of_pod = [one for one in case.held if (one.namespace, one.pod) == case.pod]
    own = [one for one in of_pod if not case.container or one.container == case.container]
    chosen: list[str] = []
    unknown: list[str] = []
    for device in (device for one in own for device in one.devices if _is_gpu(one.resource)):
        found = case.cards.called(device)
        chosen += found
        unknown += [] if found else [device]
    why = f"the kubelet gave it {listed(unknown)}, which no GPU is called" if unknown else ""
    return _Answer(case.cards.ordered(chosen), why)


def _is_gpu(resource: str) -> bool:
    return "gpu" in resource.lower() or "mig-" in resource.lower()


def _by_pids(case: _Case) -> _Answer:
    if not case.found.pids:
        return _Answer(why=case.found.why)
    if not case.cards.pids and case.cards.no_pids:
        return _Answer(why="nothing shows which processes are on the GPUs: the driver's own reading (node.nvml) does")
    if not any(case.cards.pids.values()):
        return _Answer(why="no process is on a GPU that is shown")
    own = [gpu for gpu in case.cards.gpus if Owner.ENGINE in case.owners(gpu)]
    if own:
        return _Answer(case.cards.ordered(own))
    if not case.alike:
        return _Answer(why=f"the driver numbers processes as another process namespace does: {NO_HOST_PIDS}")
    return _Answer(why="none of its processes is on a GPU that is shown")


_WAYS: tuple[tuple[Join, Callable[[_Case], _Answer]], ...] = (
    (Join.CONFIGURED, _configured),
    (Join.POD_LABELS, _by_labels),
    (Join.POD_RESOURCES, _by_resources),
    (Join.PROCESS_IDS, _by_pids),
)
_OF_POD = (Join.POD_LABELS, Join.POD_RESOURCES)


def _apart(case: _Case, answers: dict[Join, _Answer], others: Collection[Found]) -> dict[Join, _Answer]:
    """Engines in one pod, or one container, told apart: the pod's GPUs are all theirs together.

    Process ids tell whose each is: what only other processes are on is not this engine's, and beside another engine only
    what it is on itself. Without them nothing does, unless all share one GPU.
    """
    running = set(answers[Join.PROCESS_IDS].gpus)
    company = [other for other in others if _shares(case.found, other)]
    out = dict(answers)
    for way in _OF_POD:
        whole = set(answers[way].gpus)
        if len(whole) < 2:
            continue
        strange = {gpu for gpu in whole - running if running and case.owners(gpu) == {Owner.OTHER}}
        kept = whole & running if company and running else whole - strange
        if company and not running:
            out[way] = _Answer(why=f"{_SHARED}: {answers[Join.PROCESS_IDS].why or 'name the GPUs of each in gpus'}")
        elif kept != whole:
            out[way] = _Answer(why=f"its pod holds {listed(list(whole - kept))} as well, which other processes use")
    return out


_SHARED = "another engine runs in the same pod, and only process ids tell their GPUs apart"


def _shares(found: Found, other: Found) -> bool:
    """Whether two engines hold the same devices: one pod, and one container as far as is known."""
    if found.pod is None or other.pod is None or found.pod.uid != other.pod.uid or found.pids & other.pids:
        return False
    return found.container is None or other.container is None or found.container.name == other.container.name


def match_page(
    gpus: Snapshot, names: tuple[str, ...], *, pod: tuple[str, str] | None = None, shared: bool = False
) -> Match:
    """The GPUs of a page that an engine's settings name, where nothing is read of the machine under it.

    ``names``: of GPUs, none for all; ``pod``: namespace and name; ``shared``: other engines have the same page.
    """
    wanted = Wanted(instance="", host="", port=0, gpus=names, pod=pod)
    return match(wanted, Found(), gpus, own_page=True, others=(Found(),) if shared else ())
