"""A Prometheus (or Thanos, Mimir, VictoriaMetrics) that scrapes our exporter: its stored samples become snapshots again.

One instant query with a range selector returns the samples as scraped, with their own times, where a range query would
resample them. The verdict is then computed by the same walk as everywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from llmvitals.errors import LlmvitalsError, PageError, SettingsError, UnreachableError
from llmvitals.schema import FAMILIES, IDENTITY, Kind, family_of
from llmvitals.series import Labels, Series, Snapshot
from llmvitals.sources import Observed
from llmvitals.sources.place import base_url, without_secrets

TIMEOUT_SECONDS = 30.0
_SUFFIXES = "(_bucket|_sum|_count)"
_EXPORTED = "exported_"
_TOO_MUCH = ("too many samples", "exceeded the maximum", "exceeds the limit", "cannot select more than")
"""How PromQL servers say that a query loads too much: it is then asked in halves."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """One stored series: our identity, the labels that the server added, and its samples."""

    series: Series
    instance: str
    origin: Labels
    points: tuple[tuple[float, float], ...]


class _TooMuchError(Exception):
    """The server refused a query for its size."""


def read_prometheus(
    url: str, *, selector: str = "", at: float | None = None, seconds: float = 90.0
) -> tuple[Observed, ...]:
    """The canonical samples of the ``seconds`` up to ``at`` (unix seconds; None is now), one target per instance.

    ``selector`` narrows down which: ``{namespace="chat"}``. Labels that the server added (``job``, its own ``instance``)
    are dropped, and ``exported_instance`` is undone. Where two scrapes stored the same instance (replicated servers), the
    fuller one is taken. Raises :class:`UnreachableError`, :class:`PageError` or :class:`SettingsError`.
    """
    base = base_url(url)
    narrow = selector.strip().removeprefix("{").removesuffix("}").strip().strip(",")
    names = tuple(f"{f.name}{_SUFFIXES}" if f.kind is Kind.HISTOGRAM else f.name for f in FAMILIES)
    with requests.Session() as session:
        stored = list(_ask(session, base, names, _Question(narrow, at, seconds)))
    if not stored:
        raise PageError(
            f"holds no llm_ series for {{{narrow}}} in these {seconds:g} s" if narrow else "holds no llm_ series",
            place=without_secrets(base),
            remedy="Let it scrape an llmvitals exporter, and check --selector, --at and --for.",
        )
    return tuple(_observed(stored))


def _observed(stored: Sequence[_Stored]) -> Iterator[Observed]:
    sizes: Counter[tuple[str, Labels]] = Counter()
    for one in stored:
        sizes[one.instance, one.origin] += len(one.points)
    for instance in dict.fromkeys(one.instance for one in stored):
        origin = max((o for i, o in sizes if i == instance), key=lambda o: (sizes[instance, o], o))
        moments: dict[float, dict[Series, float]] = {}
        for one in stored:
            if one.instance == instance and one.origin == origin:
                for t, value in one.points:
                    moments.setdefault(t, {})[one.series] = value
        kinds = (one.series.label("engine") for one in stored if one.instance == instance)
        kind = next((k for k in kinds if k), "auto")
        yield Observed(instance, kind, tuple(Snapshot(t, moments[t]) for t in sorted(moments)))


def _stored(result: Mapping[str, Any]) -> _Stored:
    metric = {str(k): str(v) for k, v in result["metric"].items()}
    name = metric.pop("__name__", "")
    family = family_of(name)
    ours = {*IDENTITY, *(family.labels if family else ()), *(("le",) if name.endswith("_bucket") else ())}
    kept = {k: v for k, v in metric.items() if k in ours}
    rest = {k: v for k, v in metric.items() if k not in ours}
    # Without honor_labels the server keeps its own label under the name and ours under exported_<name>.
    for key in [key for key in rest if key.startswith(_EXPORTED) and key.removeprefix(_EXPORTED) in ours]:
        own = key.removeprefix(_EXPORTED)
        rest[own] = kept.get(own, "")
        kept[own] = rest.pop(key)
    return _Stored(
        Series(name, tuple(sorted(kept.items()))),
        kept.get("instance", ""),
        tuple(sorted(rest.items())),
        tuple((float(t), float(value)) for t, value in result["values"]),
    )


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of the server: matchers beside the names, the moment (unix seconds, None is now), and how far back."""

    narrow: str
    at: float | None
    seconds: float


def _ask(session: requests.Session, base: str, names: Sequence[str], question: _Question) -> Iterator[_Stored]:
    """Ask for all names at once; where that is too much for the server, for each half."""
    alternatives = "|".join(names)
    matchers = f'__name__=~"{alternatives}"' + (f",{question.narrow}" if question.narrow else "")
    query = f"{{{matchers}}}[{max(1, round(question.seconds * 1000))}ms]"
    try:
        yield from _query(session, base, query, question.at)
    except _TooMuchError as error:
        if len(names) == 1:
            raise PageError(
                f"refuses the query for its size ({error})",
                place=without_secrets(base),
                remedy="Narrow it with --selector or a shorter --for.",
            ) from None
        half = len(names) // 2
        yield from _ask(session, base, names[:half], question)
        yield from _ask(session, base, names[half:], question)


def _query(session: requests.Session, base: str, query: str, at: float | None) -> Sequence[_Stored]:
    place = without_secrets(base)
    form = {"query": query} | ({} if at is None else {"time": f"{at:.3f}"})
    try:
        # POST, because the names make a query longer than some proxies take in a URL.
        answer = session.post(f"{base}/api/v1/query", data=form, timeout=TIMEOUT_SECONDS)
    except requests.exceptions.Timeout:
        raise UnreachableError(
            f"gave no answer in {TIMEOUT_SECONDS:g} s", place=place, remedy="Ask for less with --selector or --for."
        ) from None
    except requests.exceptions.SSLError:
        raise UnreachableError(
            "has a certificate that cannot be verified", place=place, remedy="Set REQUESTS_CA_BUNDLE to its CA."
        ) from None
    except requests.exceptions.RequestException as error:
        raise UnreachableError(
            f"cannot be reached ({type(error).__name__})", place=place, remedy="Check the URL and that it runs."
        ) from None
    document = _document(answer)
    if answer.status_code in _STATUS or document is None or document.get("status") not in {"success", "error"}:
        raise _refusal(answer, place)
    if document["status"] == "error":
        message = str(document.get("error", ""))
        if any(words in message.lower() for words in _TOO_MUCH):
            raise _TooMuchError(message)
        raise SettingsError(f"refuses the query: {message}", place=place, remedy="Check --selector, --at and --for.")
    try:
        return [_stored(result) for result in document["data"]["result"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _refusal(answer, place) from None


def _document(answer: requests.Response) -> dict[str, Any] | None:
    try:
        document = answer.json()
    except requests.exceptions.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


_STATUS: dict[int, tuple[str, str]] = {
    401: ("asks for credentials (401)", "Put them into ~/.netrc, or into the URL as http://user:password@host."),
    403: ("forbids this user to ask (403)", "Use credentials that may query."),
    404: ("has no PromQL API there (404)", "Give the URL that /api/v1/query lies under, with its path prefix."),
    405: ("does not take the query by POST (405)", "Ask the server itself, or let its proxy pass POST /api/v1/query."),
}


def _refusal(answer: requests.Response, place: str) -> LlmvitalsError:
    if answer.status_code in _STATUS:
        thing, remedy = _STATUS[answer.status_code]
        return UnreachableError(thing, place=place, remedy=remedy)
    if answer.status_code >= 400:
        return UnreachableError(f"answered with status {answer.status_code}", place=place, remedy="Look at its logs.")
    what = "HTML" if answer.text.lstrip()[:1] == "<" else "something else"
    return PageError(
        f"answered with {what}, not with the PromQL API",
        place=place,
        remedy="Give the URL that /api/v1/query lies under.",
    )
