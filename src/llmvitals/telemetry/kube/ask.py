"""One GET from the Kubernetes API server: the service account's token and authority, a deadline, and errors in words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests
import urllib3
from requests.adapters import HTTPAdapter

from llmvitals.errors import LlmvitalsError, PageError, SettingsError, UnreachableError
from llmvitals.telemetry.innermost import innermost
from llmvitals.telemetry.reach import ANYWHERE
from llmvitals.telemetry.watchdog import Watchdog, watchdog, watched_pools

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the service account: ``token``, which it renews, and ``ca.crt``."""

MAX_BYTES = 64 * 1024 * 1024
"""The largest answer that is read: 500 pods with all their managed fields come to a tenth of it."""

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_CHUNK = 262_144
RBAC = "exporters/kubernetes/base/rbac.yaml"


class GoneError(LlmvitalsError):
    """The list that was being read in pages is too old to go on with: begin again."""


class BusyError(UnreachableError):
    """The server asks for patience. ``seconds``: how long, where it says so."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    thing: str
    remedy: str
    kind: type[LlmvitalsError] = UnreachableError


_STATUS: Mapping[int, _Refusal] = {
    400: _Refusal("does not understand the question", "Check node.kubernetes.selector: it is a label selector."),
    401: _Refusal(
        "does not accept the service account's token",
        "Let the pod mount a current one: serviceAccountName and automountServiceAccountToken: true.",
    ),
    403: _Refusal(
        "forbids to list pods",
        f"Give the service account the verb 'list' on pods ({RBAC}), or name in node.kubernetes.namespaces those "
        "where it has it.",
    ),
    404: _Refusal("knows no such path", "Check that node.kubernetes.api_url is an API server's address."),
    410: _Refusal("has forgotten the list that was being read", "Ask again.", GoneError),
    429: _Refusal("is asked too much", "Raise node.kubernetes.interval_seconds.", BusyError),
}
_BY_CLASS: Mapping[int, _Refusal] = {
    3: _Refusal("redirects, and a token is not sent elsewhere", "Give the final address in node.kubernetes.api_url."),
    5: _Refusal("failed", "Look at the API server; the next list is asked for as usual."),
}
_OTHER = _Refusal("gave no list", "Check that node.kubernetes.api_url is an API server's address.")

_LATE = _Refusal(
    "gave no whole answer within {timeout:g} s", "Check network policies between this pod and the API server."
)
_FAILURES: tuple[tuple[type[BaseException], _Refusal], ...] = (
    (
        requests.exceptions.SSLError,
        _Refusal(
            "its certificate is not accepted ({error})",
            "Let the pod mount the cluster's ca.crt, and call the server in node.kubernetes.api_url as its certificate does.",
        ),
    ),
    (requests.exceptions.Timeout, _LATE),
    (
        requests.exceptions.ConnectionError,
        _Refusal("could not be reached ({error})", f"Check {_HOST} and {_PORT}, or node.kubernetes.api_url."),
    ),
    (
        requests.exceptions.InvalidHeader,
        _Refusal("cannot be asked: the token holds more than a token", "Mount the service account's token anew."),
    ),
)
_UNASKED = _Refusal("could not be asked ({error})", "Check node.kubernetes.api_url.")


def base_of(api_url: str, environ: Mapping[str, str]) -> str:
    """The API server's address: the one given, else that of the cluster around. Raises :class:`SettingsError`."""
    if not api_url:
        if not environ.get(_HOST):
            raise SettingsError(
                f"this is no pod of a cluster: {_HOST} is not set",
                place="node.kubernetes.api_url",
                remedy="Give the API server's address, or set node.kubernetes.enabled: off.",
            )
        host = environ[_HOST]
        api_url = f"https://{f'[{host}]' if ':' in host else host}:{environ.get(_PORT) or 443}"
    try:
        parts = urlsplit(api_url)
        fine = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or "@" in parts.netloc:
        raise SettingsError(
            "is no address of an API server",
            place="node.kubernetes.api_url",
            remedy="Write it like https://host:6443; who asks is the service account.",
        )
    return api_url.rstrip("/")


class Api:
    """Asks one API server. The token is read anew for each call, since the kubelet renews it.

    Over plain http, which is how ``kubectl proxy`` listens on loopback, no token is sent.
    """

    def __init__(self, base: str, *, account: Path = ACCOUNT, in_pod: bool = False) -> None:
        self.base = base
        self._account = account
        self._in_pod = in_pod
        self._session = requests.Session()
        self._session.trust_env = False  # neither a proxy nor a .netrc stands between a pod and its API server
        self._session.mount("http://", _Adapter())
        self._session.mount("https://", _Adapter())

    def get(self, path: str, parameters: Mapping[str, str], *, until: float, timeout_s: float) -> bytes:
        """The body of a 200. ``until``: monotonic seconds at which the whole must be here; ``timeout_s``: what to call that.

        Raises :class:`LlmvitalsError` with the remedy; :class:`GoneError` and :class:`BusyError` for 410 and 429.
        """
        left = until - time.monotonic()
        dog: Watchdog | None = None
        try:
            if left <= 0:
                raise requests.exceptions.Timeout
            with watchdog(left, ANYWHERE) as dog:  # the cluster, or the settings, say where it is
                return self._get(path, parameters, until, left)
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as failure:
            late = dog is not None and dog.fired
            refusal = _LATE if late else next((r for kind, r in _FAILURES if isinstance(failure, kind)), _UNASKED)
            thing = refusal.thing.format(timeout=timeout_s, error=innermost(failure))
            raise UnreachableError(thing, place=self.base, remedy=refusal.remedy) from None

    def _get(self, path: str, parameters: Mapping[str, str], until: float, left: float) -> bytes:
        with self._session.get(
            self.base + path,
            params=dict(parameters),
            headers=self._headers(),
            timeout=left,
            verify=self._authority(),
            allow_redirects=False,
            stream=True,
        ) as answer:
            body = bytearray()
            for chunk in answer.iter_content(_CHUNK):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise PageError(
                        f"its list is larger than {MAX_BYTES // 2**20} MiB",
                        place=self.base,
                        remedy="Narrow it down with node.kubernetes.selector or node.kubernetes.namespaces.",
                    )
                if time.monotonic() >= until:
                    break
            if time.monotonic() >= until:  # what the watchdog cut off looks like a whole answer
                raise requests.exceptions.Timeout
            if answer.status_code != 200:
                raise self._refused(answer, bytes(body))
            return bytes(body)

    def _headers(self) -> dict[str, str]:
        common = {"Accept": "application/json", "User-Agent": "llmvitals"}
        if not self.base.startswith("https:"):
            return common
        try:
            token = (self._account / "token").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if not self._in_pod:
                return common
            token = ""
        except (OSError, ValueError) as failure:
            raise self._no_token(f"cannot be read ({innermost(failure)})") from None
        if not token:
            raise self._no_token("is not there")
        return {**common, "Authorization": f"Bearer {token}"}

    def _no_token(self, what: str) -> LlmvitalsError:
        return UnreachableError(
            f"the service account's token {what}",
            place=str(self._account / "token"),
            remedy="Let the pod mount it: automountServiceAccountToken: true.",
        )

    def _authority(self) -> str | bool:
        authority = self._account / "ca.crt"
        return str(authority) if authority.is_file() else True

    def _refused(self, answer: requests.Response, body: bytes) -> LlmvitalsError:
        refusal = _STATUS.get(answer.status_code) or _BY_CLASS.get(answer.status_code // 100, _OTHER)
        said = _message(body)
        thing = f"answered {answer.status_code}: it {refusal.thing}{f' ({said})' if said else ''}"
        error = refusal.kind(thing, place=self.base, remedy=refusal.remedy)
        if isinstance(error, BusyError):
            after = answer.headers.get("Retry-After", "")
            error.seconds = float(after) if after.isascii() and after.isdigit() else 0.0
        return error


class _Adapter(HTTPAdapter):
    """Connections that heed the watchdog of the call that runs."""

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = False,
        **settings: Any,  # noqa: ANN401 - the library's own
    ) -> None:
        self.poolmanager = watched_pools(num_pools=connections, maxsize=maxsize, block=block, **settings)


class _Told(msgspec.Struct, frozen=True):
    message: str = ""


def _message(body: bytes) -> str:
    """What the server itself says of a refusal, on one line and not too long."""
    try:
        text = msgspec.json.decode(body, type=_Told).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]
