"""What a failed call is, in words; what helps then is in ``remedies.py``."""

from __future__ import annotations

import http.client
import ssl
import zlib
from collections.abc import Iterable, Iterator

import urllib3

from llmvitals.telemetry.ingest.page import TooLargeError
from llmvitals.telemetry.reach import RefusedAddressError


class TimeUpError(Exception):
    """The deadline is over."""


class RedirectedError(Exception):
    """A redirect that is not followed. ``status``: the answer's; ``words``: why."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


# The first kind that fits. Most specific first.
_FAILURES: tuple[tuple[type[BaseException], str], ...] = (
    (TimeUpError, "did not finish its answer within {timeout:g} s"),
    (RefusedAddressError, "is not asked: {whole}"),
    (TooLargeError, "the page is larger than {mib:.4g} MiB"),
    (zlib.error, "the compressed page is damaged or cut short"),
    (urllib3.exceptions.NameResolutionError, "its host name is not known"),
    (urllib3.exceptions.NewConnectionError, "refused the connection"),
    (urllib3.exceptions.ConnectTimeoutError, "gave no connection within {timeout:g} s"),
    (urllib3.exceptions.TimeoutError, "did not finish its answer within {timeout:g} s"),
    (urllib3.exceptions.SSLError, "its TLS certificate or protocol is not accepted ({error})"),
    (urllib3.exceptions.ProtocolError, "closed the connection without a whole answer"),
    (urllib3.exceptions.LocationParseError, "is not a URL"),
    (urllib3.exceptions.HTTPError, "could not be asked ({error})"),
    (OSError, "could not be reached ({error})"),
)

_NO_AUTHORITY = "its certificate is signed by nobody whom we trust ({error})"
_OTHER_NAME = "its certificate is for another name ({error})"
_VERIFIED = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: _NO_AUTHORITY,
    19: _NO_AUTHORITY,
    20: _NO_AUTHORITY,
    21: _NO_AUTHORITY,
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""What is wrong with a server's certificate, by OpenSSL's ``X509_V_ERR_`` codes (x509_vfy.h)."""

_ALERTS = (
    ("CERTIFICATE_REQUIRED", "wants a certificate of ours"),
    ("ALERT_CERTIFICATE_EXPIRED", "does not accept our certificate: it has expired"),
    ("ALERT_UNKNOWN_CA", "does not accept our certificate: it does not know who signed it"),
    ("ALERT_BAD_CERTIFICATE", "does not accept our certificate"),
    ("ALERT_CERTIFICATE", "does not accept our certificate ({error})"),
    ("ALERT_HANDSHAKE_FAILURE", "does not agree on TLS with us, and may want a certificate of ours"),
    ("WRONG_VERSION_NUMBER", "does not speak TLS there"),
    ("RECORD_LAYER_FAILURE", "does not speak TLS there"),
    ("HTTP_REQUEST", "does not speak TLS there"),
    ("EOF", "ended the connection while TLS was agreed on, and may want a certificate of ours"),
)
"""What OpenSSL calls a failure, or the other side's alert (RFC 8446, section 6), with what it is."""


def words_of(failure: BaseException, *, timeout_s: float, mib: float) -> str:
    """A failed call in words. ``mib``: the largest page that is read."""
    chain = tuple(_chain(failure))
    tls = next((one for one in chain if isinstance(one, ssl.SSLError)), None)
    if tls is not None and (words := _tls(tls)):
        return words
    if any(type(one) is http.client.BadStatusLine for one in chain):  # not the end of a connection, a kind of it
        return "answers in something that is not HTTP/1"
    if any("header" in str(one) for one in chain if isinstance(one, http.client.HTTPException)):
        return "its headers are longer than what is read"
    reason = getattr(failure, "reason", None)
    cause = reason if isinstance(reason, BaseException) else failure
    # not an unknown name, a kind of it
    if type(cause) is urllib3.exceptions.NewConnectionError and (why := _not_refused(chain)):
        return f"could not be reached ({why})"
    text = next((words for kind, words in _FAILURES if isinstance(cause, kind)), "could not be asked ({error})")
    whole = str(cause).split("\n", 1)[0]
    return text.format(timeout=timeout_s, mib=mib, error=whole[:120], whole=whole)


def _not_refused(chain: Iterable[BaseException]) -> str:
    """Why there is no connection where nobody refused one, as without a route or a file descriptor left; else ''."""
    why = next((one for one in chain if isinstance(one, OSError) and one.strerror), None)
    return "" if why is None or isinstance(why, ConnectionRefusedError) else str(why.strerror)


def _tls(failure: ssl.SSLError) -> str:
    if isinstance(failure, ssl.SSLCertVerificationError):
        return _VERIFIED.get(failure.verify_code, "").format(error=failure.verify_message[:120].rstrip("."))
    found = (failure.reason or str(failure)).upper().replace(" ", "_")
    text = next((words for part, words in _ALERTS if part in found), "")
    return text.format(error=found.replace("_", " ").lower()[:120])


def _chain(failure: BaseException) -> Iterator[BaseException]:
    """A failure and what is behind it: transports wrap one in another."""
    seen: set[int] = set()
    left = [failure]
    while left:
        one = left.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inside = (*one.args, getattr(one, "reason", None), one.__cause__, one.__context__)
        left += [other for other in inside if isinstance(other, BaseException)]
