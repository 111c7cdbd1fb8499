"""Several engines that serve one model, as one window: their numbers side by side at common moments, ranks made unique.

What one of them cannot say is left out for all, with the reason: a sum over some of them would pass as the whole. Where
prefill and decode workers serve together, each family comes from those that it is true of, so that no request and no token
counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import Family, Kind, Origin, family_of, origin_of
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Service, Settings
from llmvitals.signals.context import Context
from llmvitals.signals.service import SILENT_PAGES, answers
from llmvitals.sources.roles import DECODE, OF_USERS, PREFILL, role_of

CARRY_SECONDS = 10.0
"""A gauge older than this says nothing any more; a counter stands until its process ends."""

EVERY_GPU, EVERY_HOST = "llm_gpu_*", "llm_host_*"
_OF_EACH = "each engine has its own: see the engines by themselves"
_UNLIKE = "its engines count with different edges, and share none"
_UP, _GAP = "llm_target_up", "llm_family_gap"
_AS_ASKED = frozenset({_UP, "llm_target_status", "llm_target_answer_seconds"})
_APART = frozenset({Origin.HOST, Origin.GATEWAY})
"""What hosts show is about one engine's process, and gateways are joined to the service itself."""

OF_REQUESTS = frozenset(
    {
        *OF_USERS,
        "llm_generation_tokens_total",
        "llm_http_requests_total",
        "llm_requests_aborted_total",
        "llm_request_queue_seconds",
        "llm_request_prefill_seconds",
        "llm_request_inference_seconds",
        "llm_request_preemptions",
        "llm_request_prompt_tokens",
        "llm_request_computed_prompt_tokens",
        "llm_request_n_param",
    }
)
"""Beside decode workers, a prefill worker's share of these is the same requests once more."""

OF_PROMPTS = frozenset(
    {
        "llm_prompt_tokens_total",
        "llm_prompt_tokens_by_source_total",
        "llm_prompt_tokens_cached_total",
        "llm_prompt_tokens_recomputed_total",
        "llm_prefix_cache_query_tokens_total",
        "llm_prefix_cache_hit_tokens_total",
        "llm_prefix_cache_reported_hit_ratio",
        "llm_external_prefix_cache_query_tokens_total",
        "llm_external_prefix_cache_hit_tokens_total",
    }
)
"""Beside prefill workers, a decode worker's share of these is the same prompts once more."""


@dataclass(frozen=True, slots=True)
class Member:
    """One engine of a service: every page asked for, in order of time, its role settled and its GPUs joined."""

    name: str
    pages: tuple[Snapshot, ...]


@dataclass(slots=True)
class _Seen:
    """What a member showed. ``good``: its readable pages; ``lacks``: families that it cannot say, and why."""

    name: str
    role: str
    good: tuple[Snapshot, ...]
    silent: bool
    shown: frozenset[str]
    lacks: Mapping[str, tuple[GapKind, str]]
    models: frozenset[str]
    left_out: frozenset[str] = frozenset()
    at: int = -1  # the newest good page at the moment under way
    moved: dict[Series, Series | None] = field(default_factory=dict)


def together(service: Service, members: Sequence[Member]) -> tuple[Snapshot, ...]:
    """The service's pages: what its engines show at common moments, with the service's name as ``instance`` and
    ``ENGINE/RANK`` as ``rank``.

    An engine that does not answer any more is left out, and stays visible by its ``llm_target_up``; only where none answers
    does the service's page fail.
    """
    seen = [_look(member) for member in members]
    serving = [one for one in seen if not one.silent] or [one for one in seen if one.good]
    _share(serving)
    asked = {id(page): member.name for member in members for page in member.pages}
    gaps, dropped = _gaps(service.name, serving)
    edges = _edges(serving)
    gaps |= {
        family_gap(f"{name}_bucket", GapKind.UNSUPPORTED, _UNLIKE, instance=service.name): 1.0
        for name, e in edges.items()
        if not e
    }
    turns = list(_turns(members, asked))
    first = turns[0][0] if turns else 0.0
    out: list[Snapshot] = []
    for t, pages in turns:
        for one in serving:
            while one.at + 1 < len(one.good) and one.good[one.at + 1].t <= t:
                one.at += 1
        answered = any(answers(page) for page in pages.values())
        if not answered and len(pages) < len(members):
            continue  # those that were not asked in this turn may well answer
        samples = dict(_asked(service.name, pages))
        if answered:
            if any(one.at < 0 and not _began_within(one, first) for one in serving):
                out.clear()  # sums begin where all are in them
                continue
            for one in serving:
                samples.update(_numbers(service, one, t, dropped, edges))
            samples.update(gaps)
        details = "; ".join(f"{name}: {page.detail}" for name, page in pages.items() if page.detail)
        out.append(Snapshot(t, samples, details))
    return tuple(out)


def models_of(members: Sequence[Member]) -> frozenset[str]:
    """The models that engines show."""
    return frozenset(name for member in members for name in _models(member.pages))


def _models(pages: Iterable[Snapshot]) -> set[str]:
    shown = {key.labels: key for page in pages for key in page.samples if origin_of(key.name) is Origin.ENGINE}
    return {model for key in shown.values() if (model := key.label("model"))}


def stopped(pages: Sequence[Snapshot]) -> bool:
    """Whether a target did not answer its last scrapes, or none at all."""
    last = pages[-SILENT_PAGES:]
    return not any(map(answers, last)) and (len(last) == SILENT_PAGES or not any(map(answers, pages)))


def _look(member: Member) -> _Seen:
    """The readable pages of one engine, of one process where several take turns, and what they say."""
    good = Context(Window.of(member.pages), Settings()).good.snapshots
    names = {key.name for page in good for key in page.samples}
    shown = frozenset(family.name for name in names if (family := family_of(name)) is not None)
    newest = good[-1].samples if good else {}
    told = {key.label("family"): (_kind(key.label("gap")), key.label("reason")) for key in newest if key.name == _GAP}
    return _Seen(
        member.name,
        role_of(good[-1]) if good else "",
        good,
        not good or stopped(member.pages),
        shown,
        {family: why for family, why in told.items() if family not in shown},
        frozenset(_models(good)),
    )


def _kind(text: str) -> GapKind:
    return GapKind(text) if text in set(GapKind) else GapKind.MISSING


def _share(serving: Sequence[_Seen]) -> None:
    """Who gives which families where prompts and tokens are computed by different engines."""
    roles = {one.role for one in serving}
    for one in serving:
        if one.role == PREFILL and roles != {PREFILL}:
            one.left_out = OF_REQUESTS
        elif one.role == DECODE and PREFILL in roles:
            one.left_out = OF_PROMPTS


def _gaps(instance: str, serving: Sequence[_Seen]) -> tuple[dict[Series, float], frozenset[str]]:
    """The families that the service cannot say, as gaps, and those of them that some of its engines could."""
    gaps: dict[Series, float] = {}
    dropped: set[str] = set()
    for family in dict.fromkeys(f for one in serving for f in one.lacks):
        asked = [one for one in serving if family not in one.left_out]
        without = [one for one in asked if family in one.lacks]
        if not without or origin_of(family) in _APART:
            continue
        shown = any(family in one.shown for one in asked)
        never = [one for one in without if one.lacks[family][0] is not GapKind.NO_TRAFFIC]
        if shown and not never:
            continue  # nothing of its kind has happened there yet
        one = next((o for o in never if o.lacks[family][0] is GapKind.MISSING), (never or without)[0])
        kind, why = one.lacks[family]
        alone = shown or len({o.lacks[family] for o in without}) > 1
        gaps[family_gap(family, kind, f"{one.name}: {why}" if alone else why, instance=instance)] = 1.0
        if shown:
            dropped.add(family)
    with_gpus = [one for one in serving if any(_card(name) for name in one.shown)]
    if with_gpus and len(with_gpus) < len(serving):
        one = next(one for one in serving if one not in with_gpus)
        # shown behind "no GPU is joined"; where a join was tried, why it failed
        why = f"{one.name}: {one.lacks[EVERY_GPU][1]}" if EVERY_GPU in one.lacks else f"{one.name} has none"
        gaps[family_gap(EVERY_GPU, GapKind.MISSING, why, instance=instance)] = 1.0
        dropped.update(name for one in with_gpus for name in one.shown if _card(name))
    if any(origin_of(name) is Origin.HOST for one in serving for name in one.shown):
        gaps[family_gap(EVERY_HOST, GapKind.UNSUPPORTED, _OF_EACH, instance=instance)] = 1.0
    return gaps, frozenset(dropped)


def _edges(serving: Sequence[_Seen]) -> dict[str, frozenset[str]]:
    """The edges that all engines have, of each histogram in which theirs differ; none where only +Inf is left.

    Counts at other edges do not add up: what one engine has at an edge, the others would seem to have none of.
    """
    found: dict[str, list[frozenset[str]]] = {}
    for one in serving:
        mine: dict[str, set[str]] = {}
        for key in one.good[-1].samples if one.good else ():
            family = family_of(key.name)
            if family is not None and family.kind is Kind.HISTOGRAM and family.name not in one.left_out:
                mine.setdefault(family.name, set()).update(filter(None, [key.label("le")]))
        for name, own in mine.items():
            found.setdefault(name, []).append(frozenset(own))
    shared = {name: frozenset.intersection(*own) for name, own in found.items() if len(set(own)) > 1}
    return {name: own if own - {"+Inf"} else frozenset() for name, own in shared.items()}


def _card(family: str) -> bool:
    return origin_of(family) is Origin.GPU


def _turns(members: Sequence[Member], asked: Mapping[int, str]) -> Iterator[tuple[float, dict[str, Snapshot]]]:
    """Pages of all engines by turn: a new one begins where an engine comes again. Its moment is that of its last page."""
    turn: dict[str, Snapshot] = {}
    for page in sorted((page for member in members for page in member.pages), key=lambda page: page.t):
        name = asked[id(page)]
        if name in turn:
            yield max(p.t for p in turn.values()), turn
            turn = {}
        turn[name] = page
    if turn:
        yield max(p.t for p in turn.values()), turn


def _began_within(one: _Seen, first: float) -> bool:
    """Whether this engine's process started inside the window: before that there was nothing to count."""
    starts = (v for page in one.good[:1] for k, v in page.samples.items() if k.name == "llm_process_start_time_seconds")
    return next(starts, 0.0) >= first


def _asked(instance: str, pages: Mapping[str, Snapshot]) -> Iterator[tuple[Series, float]]:
    """How each engine was reached in this turn."""
    for name, page in pages.items():
        for key, value in page.samples.items():
            if key.name in _AS_ASKED:
                yield key.plus(instance=instance, rank=f"{name}/0"), value


def _numbers(
    service: Service, one: _Seen, t: float, dropped: frozenset[str], edges: Mapping[str, frozenset[str]]
) -> Iterator[tuple[Series, float]]:
    """One engine's numbers at a moment: its newest page's, of an older page only what still holds."""
    if one.at < 0:
        return
    page = one.good[one.at]
    old = t - page.t > CARRY_SECONDS
    for key, value in page.samples.items():
        if key not in one.moved:
            one.moved[key] = _move(service, one, key, dropped, edges)
        moved = one.moved[key]
        if moved is not None and not (old and _fades(moved.name)):
            yield moved, value


@lru_cache(maxsize=4096)
def _fades(name: str) -> bool:
    family = family_of(name)
    return family is None or family.kind is Kind.GAUGE


def _move(
    service: Service, one: _Seen, key: Series, dropped: frozenset[str], edges: Mapping[str, frozenset[str]]
) -> Series | None:
    """A sample's place in the service; None where it has none there."""
    family: Family | None = family_of(key.name)
    origin = origin_of(key.name)
    if family is None or key.name in _AS_ASKED or key.name == _GAP or origin in _APART:
        return None
    if family.name in dropped or family.name in one.left_out:
        return None
    if key.name.endswith("_bucket") and key.label("le") not in edges.get(family.name, {key.label("le")}):
        return None
    labels = {"instance": service.name}
    model = key.label("model")
    if service.model and model:
        if model != service.model and len(one.models) > 1:
            return None
        labels["model"] = service.model
    if origin is not Origin.GPU:
        labels["rank"] = f"{one.name}/{key.label('rank') or '0'}"
    return key.plus(**labels)
