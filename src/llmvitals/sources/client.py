"""One way to ask a source over HTTP: a time limit on the whole call, a bound on the answer, and no secret sent elsewhere.

What is asked changes nothing: GET, and POST of a query.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NoReturn, Self
from urllib.parse import urljoin, urlsplit

import msgspec
import requests
import urllib3
from requests.adapters import HTTPAdapter

from llmvitals.errors import LlmvitalsError, PageError, UnreachableError
from llmvitals.settings import Access
from llmvitals.sources import access as let_in
from llmvitals.sources.place import base_url, without_secrets
from llmvitals.telemetry.innermost import innermost
from llmvitals.telemetry.reach import RefusedAddressError, reach_of
from llmvitals.telemetry.watchdog import heed, watchdog, watched_pools

_CHUNK = 65_536
"""Packed bytes that are unpacked at once: gzip makes at most a thousand times as many of them."""

_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip"})
_MOST_HOPS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_AWAY = (429, 502, 503, 504)
"""Answers of a server, or of the proxy in front of it, that is there again in a moment."""

_MOST_WAIT_SECONDS = 60.0
Method = Literal["GET", "POST"]


class SlowError(UnreachableError):
    """The server did not answer in time."""


class TooLargeError(PageError):
    """The answer is larger than what is read."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whole."""

    status: int
    reason: str
    body: bytes
    retry_after: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is one that was asked for."""
        return self.status < 400

    @property
    def text(self) -> str:
        """Its beginning, for people."""
        return self.body[:4096].decode("utf-8", "replace")

    def document(self) -> object:
        """What its JSON says; None where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


class _LetIn(requests.auth.AuthBase):
    """Keeps requests from looking into ``~/.netrc``: who asks is said by the headers of ``access``."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _Adapter(HTTPAdapter):
    """Connections that heed the watchdog of the call that runs."""

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **settings: Any) -> None:  # noqa: ANN401
        self.poolmanager = watched_pools(num_pools=connections, maxsize=maxsize, block=block, **settings)

    def proxy_manager_for(self, proxy: str, **settings: Any) -> urllib3.ProxyManager:  # noqa: ANN401
        found: urllib3.ProxyManager = heed(super().proxy_manager_for(proxy, **settings))
        return found


class Client:
    """Asks one server; a context, for its connections. ``most_bytes``: of an answer, unpacked.

    ``access`` says how it lets us in; without one, credentials may come from the URL or from ``~/.netrc``.
    """

    def __init__(self, url: str, access: Access = let_in.NOBODY, *, timeout_s: float, most_bytes: int) -> None:
        self.base = base_url(url)
        self.access = access
        self._timeout_s, self._most = timeout_s, most_bytes
        self._secrets: tuple[str, ...] = ()
        self._session = requests.Session()
        self._session.auth = None if access == let_in.NOBODY else _LetIn()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter())

    def __repr__(self) -> str:
        return f"Client({self.place!r})"

    @property
    def place(self) -> str:
        """Its address, without secrets."""
        return without_secrets(self.base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._session.close()

    def masked(self, text: str) -> str:
        """What a server said, without the secrets that it was sent: some repeat them."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def get(self, path: str, query: Mapping[str, Sequence[str]] | None = None) -> Reply:
        """What is there. Raises :class:`SlowError`, :class:`TooLargeError` and other :class:`LlmvitalsError`."""
        return self._patient("GET", path, {"params": dict(query or {})}, 0)

    def query(self, path: str, form: Mapping[str, str], *, retries: int = 0) -> Reply:
        """The answer to a question that is too long for an address. Raises as :meth:`get`."""
        return self._patient("POST", path, {"data": dict(form)}, retries)

    def again(self, path: str, query: Mapping[str, str], *, retries: int) -> Reply:
        """As :meth:`get`, asked again after 0, 1, 2, 4, ... seconds while the server is away."""
        return self._patient("GET", path, {"params": dict(query)}, retries)

    def _patient(self, method: Method, path: str, what: Mapping[str, Any], retries: int) -> Reply:
        wait = 0.0
        for left in range(retries, -1, -1):
            after = 0.0
            try:
                reply = self._followed(method, f"{self.base}{path}", what)
                if not left or reply.status not in _AWAY:
                    return reply
                after = float(reply.retry_after) if reply.retry_after.isdecimal() else 0.0
            except (SlowError, PageError):  # what is too slow is as slow the next time
                raise
            except UnreachableError:
                if not left:
                    raise
            time.sleep(min(max(wait, after), _MOST_WAIT_SECONDS))
            wait = 2 * wait or 1.0
        raise AssertionError  # the last turn returns or raises

    def _followed(self, method: Method, url: str, what: Mapping[str, Any]) -> Reply:
        """The answer, through redirects within the same server, with method and body: a question stays one."""
        until = time.monotonic() + self._timeout_s
        for _ in range(_MOST_HOPS):
            reply, location = self._once(method, url, what, until)
            if location is None:
                return reply
            url, before = urljoin(url, location), url
            what = {
                key: value for key, value in what.items() if key != "params"
            }  # its address has them, if it wants any
            if not _same_server(before, url):
                raise UnreachableError(
                    f"redirects to {_origin(url)}, and nothing that lets us in is sent there",
                    place=self.place,
                    remedy="Give the final address; where people sign in there, one that machines may ask.",
                )
        raise UnreachableError("redirects in a circle", place=self.place, remedy="Give the final address.")

    def _once(self, method: Method, url: str, what: Mapping[str, Any], until: float) -> tuple[Reply, str | None]:
        sent = let_in.headers(self.access)
        self._secrets = let_in.secrets_of(self.access, sent)
        verify, cert = let_in.certificates(self.access)
        common = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "llmvitals"}
        left = until - time.monotonic()
        if left <= 0:
            self._late()
        with watchdog(left, reach_of(self.access.allow_addresses)) as dog:
            try:
                asked = self._session.prepare_request(requests.Request(method, url, headers={**common, **sent}, **what))
                # verify is given here, since a variable for all hosts (REQUESTS_CA_BUNDLE) would win over the session's
                how = self._session.merge_environment_settings(asked.url or url, {}, True, verify, cert)
                with self._session.send(asked, timeout=left, allow_redirects=False, **how) as answer:
                    reply = Reply(
                        answer.status_code,
                        answer.reason or "",
                        self._body(answer),
                        answer.headers.get("retry-after", ""),
                    )
                    location = answer.headers.get("location") if answer.status_code in _REDIRECTS else None
            except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as failure:
                if dog.fired or isinstance(failure, requests.exceptions.Timeout):
                    self._late()
                raise self._failed(failure) from None
        if dog.fired:  # what was cut off looks like a whole answer
            self._late()
        return reply, location

    def _body(self, answer: requests.Response) -> bytes:
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            raise PageError(
                f"answers in an encoding that was not asked for ({encoding[:40]})",
                place=self.place,
                remedy="Let the proxy in front of it pack with gzip, or not at all.",
            )
        body = bytearray()
        for chunk in answer.iter_content(_CHUNK):
            body += chunk
            if len(body) > self._most:
                raise TooLargeError(
                    f"answers with more than {self._most / 2**20:g} MiB", place=self.place, remedy="Ask it for less."
                )
        return bytes(body)

    def _late(self) -> NoReturn:
        raise SlowError(
            f"gave no whole answer in {self._timeout_s:g} s",
            place=self.place,
            remedy="Ask for less, or check that it is alive.",
        )

    def _failed(self, failure: BaseException) -> LlmvitalsError:
        if isinstance(failure, RefusedAddressError):
            return UnreachableError(
                f"is not asked: {failure}", place=self.place, remedy="Name its network there if it is what is meant."
            )
        reason = self.masked(innermost(failure))
        for words, thing, remedy in _FAILURES:
            if any(one in reason.lower() for one in words):
                return UnreachableError(thing.format(reason=reason), place=self.place, remedy=remedy)
        if isinstance(failure, requests.exceptions.SSLError):
            return UnreachableError(
                f"has a certificate that cannot be verified ({reason})", place=self.place, remedy=self._authority()
            )
        return UnreachableError(
            f"cannot be reached ({reason})",
            place=self.place,
            remedy="Check the URL (https where it speaks TLS) and that it runs.",
        )

    def _authority(self) -> str:
        if self.access.ca_file:
            return (
                f"Check that {self.access.ca_file} holds the authority that signed it, and that the URL has its name."
            )
        return "Name the file of its authority under access.ca_file of the source, or in REQUESTS_CA_BUNDLE."


_CERTIFICATE = "Name one that it accepts under access.cert_file and access.key_file of the source."
_FAILURES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("certificate required", "bad certificate", "alert unknown ca", "handshake failure", "certificate_required"),
        "does not accept ours, or seems to want a certificate ({reason})",
        _CERTIFICATE,
    ),
    (
        (
            "eof occurred in violation of protocol",
            "unexpected_eof",
        ),  # Go's servers may be gone before their alert is read
        "ended the connection while TLS was agreed on, and may want a certificate ({reason})",
        _CERTIFICATE,
    ),
    (
        ("wrong version number", "wrong_version_number", "record layer failure", "packet length too long"),
        "does not speak TLS there ({reason})",
        "Write http://, or give the port that speaks TLS.",
    ),
    (
        ("private key is encrypted", "key values mismatch", "pem lib", "no start line", "no certificate or crl found"),
        "cannot be asked with the certificate files of access ({reason})",
        "Check ca_file, cert_file and key_file: PEM, with a key that is not encrypted and that is the certificate's.",
    ),
)
"""What a failure's words are known by, with what it is and what helps."""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _same_server(one: str, other: str) -> bool:
    """Whether a redirect stays where what lets us in was meant for; a server that leads to its own TLS does."""
    before, after = urlsplit(one), urlsplit(other)
    if before.hostname != after.hostname or after.scheme not in ("http", "https"):
        return False
    return _origin(one) == _origin(other) or (before.scheme, after.scheme) == ("http", "https")
