"""The HTTP side of a PromQL endpoint (Prometheus, Thanos, Mimir, VictoriaMetrics): stored samples as they were scraped.

One instant query with a range selector returns samples with their own times, where a range query would resample them. What a
server refuses for its size is asked in halves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from llmvitals.errors import LlmvitalsError, PageError, SettingsError, UnreachableError
from llmvitals.settings import Access
from llmvitals.sources.access import NOBODY, refused
from llmvitals.sources.client import Client, Reply, SlowError, TooLargeError

__all__ = ["Endpoint", "Question", "SlowError", "Stored", "TooMuchError", "bare", "warned"]

TIMEOUT_SECONDS = 30.0
MOST_ANSWER_BYTES = 256 * 1024 * 1024
"""The largest answer that is read: ten times what a thousand replicas' families of a minute and a half take."""

MOST_QUERY_BYTES = 12_000
"""Of the names in one query: VictoriaMetrics takes 16 KiB (``-search.maxQueryLen``)."""

ASK_FOR_LESS = "--selector or a shorter --for"
"""What a command calls its options to ask for less, in its remedies."""

_TOO_MUCH = (
    "too many samples",
    "exceeded the maximum",
    "exceeded maximum resolution",
    "too many points for the given",
    "exceeds the limit",
    "cannot select more than",
    "query timed out",
    "the query hit the",
    "is too long",
    "exceeds -search.",
)
"""How PromQL servers say that a query loads too much: it is then asked in halves."""

_CHECK = "Check --selector, and the times asked for."
_CHECK_SERVER = "Check that it knows the PromQL of Prometheus 2.33 and newer, and the times asked for."
"""That version has ``@ end()`` without a feature flag (its changelog). The query itself is not the user's."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored series: its labels (``__name__`` among them), and its samples as text, with their unix seconds."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the server: matchers beside the names, the moment (unix seconds, None is now), and how far back.

    ``parts``: whether it is asked for some of the names at a time where all are too much for it.
    """

    narrow: str
    at: float | None
    seconds: float
    parts: bool = True


class TooMuchError(Exception):
    """The server refused a query for its size."""


_WARNED: ContextVar[dict[str, None] | None] = ContextVar("warned", default=None)


@contextmanager
def warned() -> Iterator[Mapping[str, None]]:
    """Gathers what servers say in the block of answers that are not whole, in this thread, whoever asks: each once, in order."""
    found: dict[str, None] = {}
    token = _WARNED.set(found)
    try:
        yield found
    finally:
        _WARNED.reset(token)


class Endpoint:
    """One PromQL endpoint; a context, for its connections. ``access`` says how it lets us in; without one, credentials come from
    the URL or from ``~/.netrc``.

    ``retries``: how often a server that went away is asked again, after 0, 1, 2, 4, ... seconds; one that never answered is not
    waited for. ``less``: options that ask for less.
    """

    def __init__(self, url: str, *, access: Access = NOBODY, retries: int = 0, less: str = ASK_FOR_LESS) -> None:
        self._client = Client(url, access, timeout_s=TIMEOUT_SECONDS, most_bytes=MOST_ANSWER_BYTES)
        self._less, self._retries = less, retries
        self._patient = False
        self._told: dict[str, None] = {}

    @property
    def told(self) -> tuple[str, ...]:
        """What the server said of answers that are not whole: its warnings, each once."""
        return tuple(self._told)

    @property
    def place(self) -> str:
        """Its address, without secrets."""
        return self._client.place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._client.__exit__(kind, error, _)

    def samples(self, names: Sequence[str], question: Question) -> Iterator[Stored]:
        """All series of these names (regular expressions); where that is too much for the server, half of the names at a time.

        Raises :class:`UnreachableError`, :class:`PageError` or :class:`SettingsError`; :class:`TooMuchError` where the question
        may not be asked in parts.
        """
        for some in _fitting(names):
            try:
                found = self._whole(some, question)
            except TooMuchError as error:
                if not question.parts:
                    raise
                if len(some) == 1:
                    raise PageError(
                        f"refuses the query for its size ({error})",
                        place=self.place,
                        remedy=f"Narrow it with {self._less}.",
                    ) from None
                half = len(some) // 2
                yield from self.samples(some[:half], question)
                yield from self.samples(some[half:], question)
            else:
                yield from found

    def _whole(self, names: Sequence[str], question: Question) -> list[Stored]:
        """All series of these names, at once. Raises :class:`TooMuchError` besides."""
        matchers = f'__name__=~"{"|".join(names)}"' + (f",{question.narrow}" if question.narrow else "")
        query = f"{{{matchers}}}[{max(1, round(question.seconds * 1000))}ms]"
        form = {"query": query} | ({} if question.at is None else {"time": f"{question.at:.3f}"})
        answer = self._asked("query", form)
        try:
            data: Any = self._data(answer)
            return [_stored(result) for result in data["result"]]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._refusal(answer) from None

    def names(self, start: float, end: float, narrow: str = "") -> frozenset[str]:
        """The names of all series between two moments (unix seconds), and perhaps of some beyond: servers look into whole blocks.

        Raises as :meth:`samples`.
        """
        form = {"start": f"{start:.3f}", "end": f"{end:.3f}"} | ({"match[]": f"{{{narrow}}}"} if narrow else {})
        try:
            answer = self._asked("label/__name__/values", form, listed=True)
            found: Any = self._data(answer)
            return frozenset(map(str, found))
        except TooMuchError as error:
            raise PageError(
                f"refuses to list its names ({error})", place=self.place, remedy=f"Narrow it with {self._less}."
            ) from None
        except TypeError:
            raise self._refusal(answer) from None

    def now(self, query: str, at: float) -> list[Stored]:
        """What an expression is at a moment (unix seconds): one point for each series.

        Raises as :meth:`samples`.
        """
        return self._result("query", {"query": query, "time": f"{at:.3f}"})

    def values(self, query: str, at: float) -> list[tuple[Mapping[str, str], float]]:
        """What an expression is at a moment (unix seconds), each series' labels with its number: for answers of many series, which
        cost half of what :meth:`now` makes of them. Raises as :meth:`samples`.
        """
        with self._answered("query", {"query": query, "time": f"{at:.3f}"}) as data:
            return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def over(self, query: str, start: float, end: float, step: float) -> list[Stored]:
        """What an expression is from one moment to another (unix seconds), every ``step`` seconds.

        Raises as :meth:`samples`.
        """
        return self._result(
            "query_range", {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        )

    def _result(self, path: str, form: Mapping[str, str]) -> list[Stored]:
        with self._answered(path, form) as data:
            if data["resultType"] == "scalar":
                return [_stored({"metric": {}, "values": [data["result"]]})]
            return [_stored({"values": [one["value"]], **one} if "value" in one else one) for one in data["result"]]

    @contextmanager
    def _answered(self, path: str, form: Mapping[str, str]) -> Iterator[Any]:
        """The data of an answer to a query that is not asked in parts; what cannot be read in the block is no such answer."""
        try:
            answer = self._asked(path, form)
            try:
                yield self._data(answer, _CHECK_SERVER)
            except (AttributeError, KeyError, TypeError, ValueError):
                raise self._refusal(answer) from None
        except TooMuchError as error:
            raise PageError(
                f"refuses the query for its size ({error})", place=self.place, remedy=f"Ask for less with {self._less}."
            ) from None

    def _asked(self, path: str, form: Mapping[str, str], *, listed: bool = False) -> Reply:
        retries = self._retries if self._patient else 0
        try:
            if listed:
                answer = self._client.again(f"/api/v1/{path}", form, retries=retries)
            else:  # POST, because the names make a query longer than some proxies take in a URL
                answer = self._client.query(f"/api/v1/{path}", form, retries=retries)
        except TooLargeError as error:
            raise TooMuchError(error.thing) from None
        except SlowError as error:
            raise SlowError(error.thing, place=error.place, remedy=f"Ask for less with {self._less}.") from None
        self._patient = self._patient or answer.ok
        return answer

    def _data(self, answer: Reply, remedy: str = _CHECK) -> object:
        document = _document(answer)
        if answer.status in _LOOKED_AT or document is None or document.get("status") not in {"success", "error"}:
            raise self._refusal(answer)
        if document["status"] == "error":
            message = self._client.masked(str(document.get("error", "")))
            if any(words in message.lower() for words in _TOO_MUCH):
                raise TooMuchError(message)
            if answer.status >= 500:
                raise self._refusal(answer)
            raise SettingsError(f"refuses the query: {message}", place=self.place, remedy=remedy)
        self._remember(document)
        return document["data"]

    def _remember(self, document: Mapping[str, Any]) -> None:
        """Keep what says that an answer is not whole: Thanos' warnings, and VictoriaMetrics' ``isPartial``."""
        warnings = document.get("warnings")
        told = (
            {self._client.masked(str(one))[:MOST_WARNING]: None for one in warnings}
            if isinstance(warnings, list)
            else {}
        )
        if document.get("isPartial") is True:
            told["isPartial: some of its storage nodes did not answer"] = None
        self._told |= told
        gathered = _WARNED.get()
        if gathered is not None:
            gathered |= told

    def _refusal(self, answer: Reply) -> LlmvitalsError:
        told = self._client.masked(_message(answer))
        found = refused(answer.status, told, self._client.access, self.place)
        if found is not None:
            return found
        if answer.status == 404 or (answer.status == 400 and "unsupported path" in told.lower()):
            return UnreachableError(f"has no PromQL API there ({answer.status})", place=self.place, remedy=_WHERE)
        if answer.status == 405:
            return UnreachableError(
                "does not take the query by POST (405)",
                place=self.place,
                remedy="Ask the server itself, or let its proxy pass POST /api/v1/query.",
            )
        if answer.status >= 400:
            return UnreachableError(
                f"answered with status {answer.status}", place=self.place, remedy="Look at its logs."
            )
        what = "HTML" if answer.text.lstrip()[:1] == "<" else "something else"
        return PageError(
            f"answered with {what}, not with the PromQL API",
            place=self.place,
            remedy="Give the URL that /api/v1/query lies under.",
        )


def bare(selector: str) -> str:
    """The matchers of a selector, without its braces."""
    return selector.strip().removeprefix("{").removesuffix("}").strip().strip(",")


def _fitting(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The names in runs that fit into a query."""
    first, size = 0, 0
    for at, name in enumerate(names):
        size += len(name) + 1
        if size > MOST_QUERY_BYTES and at > first:
            yield names[first:at]
            first, size = at, len(name) + 1
    if first < len(names):
        yield names[first:]


def _stored(result: Mapping[str, Any]) -> Stored:
    points = tuple((float(t), str(value)) for t, value in result["values"])
    for t, value in points:
        float(value)  # kept as text, as on a page; what is no number is refused here
        if not abs(t) < _LATEST:
            raise ValueError(t)
    return Stored({str(k): str(v) for k, v in result["metric"].items()}, points)


_LATEST = 2.5e11
"""Unix seconds of the year 9892: what is later, or not a number, is no moment that anything was measured at."""


def _document(answer: Reply) -> dict[str, Any] | None:
    document = answer.document()
    return document if isinstance(document, dict) else None


def _message(answer: Reply) -> str:
    """What the server says of a refusal: the error in its JSON, else its text."""
    document = _document(answer)
    return str(document.get("error", "")) if document else answer.text


_LOOKED_AT = (401, 403, 404, 405, 407)
"""Statuses that say what is wrong, whatever is in the answer."""

_WHERE = (
    "Give the URL that /api/v1/query lies under, with its path prefix: Mimir's ends in /prometheus, that of a cluster of "
    "VictoriaMetrics in /select/0/prometheus."
)
MOST_WARNING = 300
"""Characters of a server's warning that are kept."""
