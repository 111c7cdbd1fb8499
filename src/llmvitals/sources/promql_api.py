"""The HTTP side of a PromQL endpoint (Prometheus, Thanos, Mimir, VictoriaMetrics): stored samples as they were scraped.

One instant query with a range selector returns samples with their own times, where a range query would resample them. What a
server refuses for its size is asked in halves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from llmvitals.errors import LlmvitalsError, PageError, SettingsError, UnreachableError
from llmvitals.sources.place import base_url, without_secrets

TIMEOUT_SECONDS = 30.0
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

_AWAY = (429, 502, 503, 504)
"""Answers of a server, or of the proxy in front of it, that is there again in a moment."""


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


class SlowError(UnreachableError):
    """The server did not answer in time."""


class Endpoint:
    """One PromQL endpoint; a context, for its connections. Credentials come from the URL or from ``~/.netrc``.

    ``retries``: how often a server that went away is asked again, after 0, 1, 2, 4, ... seconds; one that never answered is not
    waited for. ``less``: options that ask for less.
    """

    def __init__(self, url: str, *, retries: int = 0, less: str = ASK_FOR_LESS) -> None:
        self._base, self._less, self._retries = base_url(url), less, retries
        self._session = requests.Session()
        self._patient = False

    def _wait_for_it(self) -> None:
        """From now on the server is known to be there."""
        again = Retry(
            total=self._retries,
            read=False,  # a query that is too slow is as slow the next time
            backoff_factor=0.5,
            status_forcelist=_AWAY,
            allowed_methods=None,  # queries change nothing, POSTed or not
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=again))
        self._patient = True

    @property
    def place(self) -> str:
        """Its address, without secrets."""
        return without_secrets(self._base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._session.close()

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
        # POST, because the names make a query longer than some proxies take in a URL.
        answer = self._asked("POST", "query", data=form)
        try:
            data: Any = self._data(answer)
            return [_stored(result) for result in data["result"]]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise _refusal(answer, self.place) from None

    def names(self, start: float, end: float, narrow: str = "") -> frozenset[str]:
        """The names of all series between two moments (unix seconds), and perhaps of some beyond: servers look into whole blocks.

        Raises as :meth:`samples`.
        """
        form = {"start": f"{start:.3f}", "end": f"{end:.3f}"} | ({"match[]": f"{{{narrow}}}"} if narrow else {})
        answer = self._asked("GET", "label/__name__/values", params=form)
        try:
            found: Any = self._data(answer)
            return frozenset(map(str, found))
        except TooMuchError as error:
            raise PageError(
                f"refuses to list its names ({error})", place=self.place, remedy=f"Narrow it with {self._less}."
            ) from None
        except TypeError:
            raise _refusal(answer, self.place) from None

    def now(self, query: str, at: float) -> list[Stored]:
        """What an expression is at a moment (unix seconds): one point for each series.

        Raises as :meth:`samples`.
        """
        return self._result("query", {"query": query, "time": f"{at:.3f}"})

    def over(self, query: str, start: float, end: float, step: float) -> list[Stored]:
        """What an expression is from one moment to another (unix seconds), every ``step`` seconds.

        Raises as :meth:`samples`.
        """
        return self._result(
            "query_range", {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        )

    def _result(self, path: str, form: Mapping[str, str]) -> list[Stored]:
        answer = self._asked("POST", path, data=form)
        try:
            data: Any = self._data(answer, _CHECK_SERVER)
            if data["resultType"] == "scalar":
                return [_stored({"metric": {}, "values": [data["result"]]})]
            return [_stored({"values": [one["value"]], **one} if "value" in one else one) for one in data["result"]]
        except TooMuchError as error:
            raise PageError(
                f"refuses the query for its size ({error})", place=self.place, remedy=f"Ask for less with {self._less}."
            ) from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise _refusal(answer, self.place) from None

    def _asked(self, method: str, path: str, **form: Mapping[str, str]) -> requests.Response:
        place = self.place
        try:
            answer = self._session.request(
                method,
                f"{self._base}/api/v1/{path}",
                timeout=TIMEOUT_SECONDS,
                data=form.get("data"),
                params=form.get("params"),
            )
        except requests.exceptions.Timeout:
            raise SlowError(
                f"gave no answer in {TIMEOUT_SECONDS:g} s", place=place, remedy=f"Ask for less with {self._less}."
            ) from None
        except requests.exceptions.SSLError:
            raise UnreachableError(
                "has a certificate that cannot be verified", place=place, remedy="Set REQUESTS_CA_BUNDLE to its CA."
            ) from None
        except requests.exceptions.RequestException as error:
            raise UnreachableError(
                f"cannot be reached ({type(error).__name__})", place=place, remedy="Check the URL and that it runs."
            ) from None
        if self._retries and not self._patient and answer.ok:
            self._wait_for_it()
        return answer

    def _data(self, answer: requests.Response, remedy: str = _CHECK) -> object:
        document = _document(answer)
        if answer.status_code in _STATUS or document is None or document.get("status") not in {"success", "error"}:
            raise _refusal(answer, self.place)
        if document["status"] == "error":
            message = str(document.get("error", ""))
            if any(words in message.lower() for words in _TOO_MUCH):
                raise TooMuchError(message)
            if answer.status_code >= 500:
                raise _refusal(answer, self.place)
            raise SettingsError(f"refuses the query: {message}", place=self.place, remedy=remedy)
        return document["data"]


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
    for _, value in points:
        float(value)  # kept as text, as on a page; what is no number is refused here
    return Stored({str(k): str(v) for k, v in result["metric"].items()}, points)


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
