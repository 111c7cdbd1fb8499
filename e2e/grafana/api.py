"""Grafana's HTTP API, as far as the boards need it. Every refusal is one line: what was asked, what came back, what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

Json = dict[str, Any]
TIMEOUT_SECONDS = 60.0
RESOURCES = "dashboard.grafana.app"
RESOURCE_VERSION = "v2"
HELPS = {
    401: "set GRAFANA_TOKEN, or GRAFANA_USER and GRAFANA_PASSWORD",
    403: "the account needs to create folders, dashboards and data sources: an editor's role, an administrator's for the latter",
    404: "is GRAFANA_URL the address that a browser opens, with its path?",
    412: "a board of this identity or title is there already; nothing was changed",
}


class GrafanaError(Exception):
    """What Grafana refused, and what helps."""


@dataclass(frozen=True)
class Access:
    """How to be let in: a service account's token, or a user and a password; neither for a server that lets anybody in."""

    token: str = ""
    user: str = ""
    password: str = ""


class Grafana:
    """One server. ``url``: what a browser opens."""

    def __init__(self, url: str, access: Access) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False  # a .netrc or a proxy must not speak for the one who runs this
        if access.token:
            self._session.headers["Authorization"] = f"Bearer {access.token}"
        elif access.user:
            self._session.auth = (access.user, access.password)

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        allowed: tuple[int, ...] = (),
    ) -> Any:
        """The answer's content. ``allowed``: statuses beside 2xx whose content is an answer as well."""
        try:
            answer = self._session.request(
                method, self._url + path, params=parameters, json=body, timeout=TIMEOUT_SECONDS
            )
        except requests.RequestException as error:
            raise GrafanaError(f"{method} {path}: no answer ({type(error).__name__}); is {self._url} right?") from None
        if not answer.ok and answer.status_code not in allowed:
            helps = HELPS.get(answer.status_code, "")
            said = f"{answer.status_code} {_message(answer)}"
            raise GrafanaError(f"{method} {path}: {said}{'; ' if helps else ''}{helps}")
        try:
            return answer.json() if answer.content else {}
        except ValueError:
            raise GrafanaError(f"{method} {path}: the answer is no JSON; {HELPS[404]}") from None

    def version(self) -> tuple[int, int]:
        """Its version, as far as shapes depend on it."""
        said = str(self.call("GET", "/api/health").get("version", ""))
        major, _, rest = said.partition(".")
        if not major.isdigit():
            raise GrafanaError(f"GET /api/health: no version in it ({said!r}); {HELPS[404]}")
        return int(major), int(rest.partition(".")[0] or 0)

    def keeps_resources(self) -> bool:
        """Whether boards can be brought as resources: servers say so themselves, whatever their version."""
        groups = self.call("GET", "/apis", allowed=(401, 403, 404)).get("groups", [])
        return any(
            group.get("name") == RESOURCES
            and any(v.get("version") == RESOURCE_VERSION for v in group.get("versions", []))
            for group in groups
        )

    def namespace(self) -> str:
        """What resources of the account's organisation are kept under."""
        number = self.call("GET", "/api/org").get("id", 1)
        return "default" if number == 1 else f"org-{number}"

    def source(self, uid: str, url: str) -> str:
        """The identity of a Prometheus data source: one made for ``url``, or without a URL the one that is there."""
        if url:
            made = {"name": uid, "uid": uid, "type": "prometheus", "access": "proxy", "url": url}
            self.call("POST", "/api/datasources", made)
            return uid
        found = [one for one in self.call("GET", "/api/datasources") if one["type"] == "prometheus"]
        if not found:
            raise GrafanaError("no Prometheus data source is there; give one with PROMETHEUS_URL")
        return str(max(found, key=lambda one: bool(one.get("isDefault")))["uid"])

    def ask(self, queries: list[Json], times: tuple[str, str]) -> Json:
        """The results of queries by refId: each with frames, or with an error."""
        body = {"queries": queries, "from": times[0], "to": times[1]}
        found = self.call("POST", "/api/ds/query", body, allowed=(207, 400, 500))
        if "results" not in found:
            raise GrafanaError(f"POST /api/ds/query: {found.get('message', 'no results')}")
        return dict(found["results"])

    def values(self, source: str, series: str, label: str) -> list[str]:
        """What a label may be, of series that match: what a variable at the top of a board offers."""
        path = f"/api/datasources/uid/{source}/resources/api/v1/label/{label}/values"
        return list(self.call("GET", path, parameters={"match[]": series})["data"])


def _message(answer: requests.Response) -> str:
    try:
        found = answer.json()
    except ValueError:
        return answer.reason or ""
    return str(found.get("message", "")) if isinstance(found, dict) else ""
