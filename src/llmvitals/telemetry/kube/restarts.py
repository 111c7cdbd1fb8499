"""How often an engine's container was started anew and why, from one list of pods to the next.

A pod's status counts restarts and says how the last run ended. Everything else is remembered here: what each restart was due
to, and which new pod took the place of an old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llmvitals.gaps import GapKind, family_gap
from llmvitals.series import Series, series
from llmvitals.telemetry.identity.model import Container, Found, Pod
from llmvitals.telemetry.kube.reasons import REASONS, ROLLOUT, UNKNOWN

LISTS_REMEMBERED = 40
"""For so many lists a pod that left waits for its successor, and is known again should it come back: ten minutes at the usual
15 s. A workload's controller makes the successor at once; a list from a cache that lags may show an old pod once more."""

REVISIONS = ("pod-template-hash", "controller-revision-hash")
"""Labels that tell the revision of a pod's workload: those of Deployments, and of StatefulSets and DaemonSets."""

_RESTARTS = "llm_host_restarts_total"
_SEVERAL = "its pod has several containers, and none is known to be the engine's: name it in llmvitals.io/container"

_Of = tuple[str, str]  # a pod's uid, a container's name


@dataclass(frozen=True, slots=True)
class _Life:
    """What has to be known of a pod once it is gone. ``seen``: the number of the last list on which it lived."""

    workload: tuple[str, str]
    revision: str
    failed: bool = False
    seen: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """A container's highest count of restarts so far, and how many had which reason since it was first seen."""

    restarts: int
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restarts:
    """What was counted so far. A value: :meth:`after` gives the next one. Pods that are gone leave it after a while.

    Counts begin at 0 with the first list: what happened before nobody watched, and a count that comes up late must not pass
    for restarts in the window. ``lists``: how many have been taken in.
    """

    lists: int = 0
    runs: Mapping[_Of, _Run] = field(default_factory=dict)
    alive: Mapping[str, _Life] = field(default_factory=dict)
    gone: Mapping[str, _Life] = field(default_factory=dict)
    unfilled: tuple[str, ...] = ()  # gone, and no successor yet
    unpaired: tuple[str, ...] = ()  # came, and took nobody's place yet

    def after(self, pods: Sequence[Pod]) -> Restarts:
        """The counts once this list, the newest, is taken in."""
        number = self.lists + 1
        alive = {pod.uid: _life(pod, number) for pod in pods if not pod.leaving and not pod.ended}
        failed = {pod.uid for pod in pods if pod.ended}
        left = [uid for uid in self.alive if uid not in alive]
        came = [uid for uid in alive if uid not in self.alive and uid not in self.gone] if self.lists else []
        gone = {
            **{uid: life for uid, life in self.gone.items() if number - life.seen <= LISTS_REMEMBERED},
            **{uid: _with(self.alive[uid], failed=uid in failed) for uid in left},
        }
        unfilled = [uid for uid in (*self.unfilled, *left) if uid in gone and uid not in alive]
        unpaired = [uid for uid in (*self.unpaired, *came) if uid in alive]
        replaced = dict(_pairs(unfilled, unpaired, set(came), gone, alive))
        return Restarts(
            lists=number,
            runs={
                **{of: run for of, run in self.runs.items() if of[0] in gone},
                **dict(self._runs(pods, {new: gone[old].failed for new, old in replaced.items()})),
            },
            alive=alive,
            gone=gone,
            unfilled=tuple(uid for uid in unfilled if uid not in replaced.values()),
            unpaired=tuple(uid for uid in unpaired if uid not in replaced),
        )

    def of(self, pod: Pod, container: Container) -> Mapping[str, int] | None:
        """Restarts by reason, every reason named; None where the pod was on no list yet."""
        run = self.runs.get((pod.uid, container.name))
        return None if run is None else {reason: run.reasons.get(reason, 0) for reason in REASONS}

    def samples(self, found: Found) -> dict[Series, float]:
        """``llm_host_*`` of one engine, without its identity, as far as its pod tells; empty where it is in none."""
        pod = found.pod
        if pod is None:
            return {}
        samples = {series("llm_host_ready"): float(pod.ready)}
        if pod.ready_since is not None:
            samples[series("llm_host_ready_time_seconds")] = pod.ready_since
        container = found.container or (pod.containers[0] if len(pod.containers) == 1 else None)
        if container is None:
            return {**samples, family_gap(_RESTARTS, GapKind.UNSUPPORTED, _SEVERAL): 1.0}
        if container.started is not None:
            samples[series("llm_host_started_time_seconds")] = container.started
        counts = self.of(pod, container) or {}
        return {**samples, **{series(_RESTARTS, reason=reason): float(n) for reason, n in counts.items()}}

    def _runs(self, pods: Iterable[Pod], replaced: Mapping[str, bool]) -> Iterator[tuple[_Of, _Run]]:
        """``replaced``: the pods that took another's place, and whether that one had failed."""
        for pod in pods:
            for one in pod.containers:
                before = self.runs.get((pod.uid, one.name)) or _Run(0 if self.lists else one.restarts)
                reasons = Counter(before.reasons)
                new = one.restarts - before.restarts
                if new > 0:
                    reasons[one.last.reason if one.last else UNKNOWN] += 1
                    reasons[UNKNOWN] += new - 1  # several between two lists: only the last says why
                if pod.uid in replaced:
                    reasons[UNKNOWN if replaced[pod.uid] else ROLLOUT] += 1
                # the highest, since an API server whose cache lags may step back and forth
                yield (pod.uid, one.name), _Run(max(one.restarts, before.restarts), dict(+reasons))


def workload(pod: Pod) -> tuple[str, str]:
    """Namespace and what keeps the pod running: ``Deployment/chat`` rather than one of its ReplicaSets, else its owner."""
    kind, _, name = pod.owner.partition("/")
    suffix = f"-{pod.labels.get(REVISIONS[0], '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return pod.namespace, f"Deployment/{name.removesuffix(suffix)}"
    return pod.namespace, pod.owner or f"Pod/{pod.name}"


def _life(pod: Pod, number: int) -> _Life:
    revision = next((pod.labels[label] for label in REVISIONS if pod.labels.get(label)), "")
    return _Life(workload(pod), revision, seen=number)


def _with(life: _Life, *, failed: bool) -> _Life:
    return _Life(life.workload, life.revision, failed, life.seen)


def _pairs(
    unfilled: Sequence[str],
    unpaired: Sequence[str],
    came: set[str],
    gone: Mapping[str, _Life],
    alive: Mapping[str, _Life],
) -> Iterator[tuple[str, str]]:
    """New pods and those whose place they took, each once.

    A pod that comes when one of its workload has left takes its place. One that came before the other left does so only with
    another revision: then the workload was rolled out, while one more of the same revision is a larger workload.
    """
    free = list(unfilled)
    for new in unpaired:
        for old in free:
            same = gone[old].workload == alive[new].workload
            if same and (new in came or gone[old].revision != alive[new].revision):
                free.remove(old)
                yield new, old
                break
