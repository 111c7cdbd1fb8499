"""A small Grafana on loopback: what its HTTP API documents of folders, boards, data sources and queries; a Prometheus answers.

It is made from Grafana's documentation, not from a Grafana: it shows that the client keeps to what is written there.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UID = re.compile(r"[A-Za-z0-9_-]{1,40}")
API_GROUPS = {
    "kind": "APIGroupList",
    "groups": [{"name": "dashboard.grafana.app", "versions": [{"version": "v1"}, {"version": "v2"}]}],
}


class RefusedError(Exception):
    """A status and what is said with it."""

    def __init__(self, code: int, **said: Any) -> None:
        super().__init__(code)
        self.code, self.said = code, said


@dataclass
class GrafanaApi:
    """The server. ``prometheus``: who answers queries; ``now``: unix seconds; ``token`` and ``user``: who is let in.

    ``resources``: whether it keeps boards as resources; ``changes``: what becomes of a board that is stored.
    """

    prometheus: str
    now: float
    version: str = "13.2.3"
    token: str = "let-me-in"
    user: tuple[str, str] = ("admin", "secret")
    resources: bool = True
    org: int = 1
    changes: Callable[[Json], Json] = lambda board: board
    folders: dict[str, str] = field(default_factory=dict)
    boards: dict[str, Json] = field(default_factory=dict)
    sources: dict[str, Json] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    asked: list[Json] = field(default_factory=list)

    def __enter__(self) -> Self:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length)) if length else {}
                try:
                    status, said = double.answer(self.command, self.path, self.headers.get("Authorization", ""), body)
                except RefusedError as refused:
                    status, said = refused.code, refused.said
                content = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self._answer
                raise AttributeError(name)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, method: str, target: str, access: str, body: Json) -> tuple[int, Json | list[Json]]:
        """Status and content. Health is for everybody, the rest for those who say who they are."""
        path, _, query = target.partition("?")
        self.calls.append((method, path))
        if path == "/api/health":
            return 200, {"database": "ok", "version": self.version}
        basic = "Basic " + base64.b64encode(":".join(self.user).encode()).decode()
        if access not in (f"Bearer {self.token}", basic):
            raise RefusedError(401, message="Unauthorized")
        for pattern, found in _ROUTES:
            matched = re.fullmatch(f"{method} {pattern}", f"{method} {path}")
            if matched and found[0] == method:
                return found[1](self, matched.groups(), urllib.parse.parse_qs(query), body)
        raise RefusedError(404, message="Not found")

    def _groups(self, _: Any, __: Any, ___: Json) -> tuple[int, Json]:
        return 200, API_GROUPS if self.resources else {"kind": "APIGroupList", "groups": []}

    def _org(self, _: Any, __: Any, ___: Json) -> tuple[int, Json]:
        return 200, {"id": self.org, "name": "Main Org."}

    def _folder(self, _: Any, __: Any, body: Json) -> tuple[int, Json]:
        if body["uid"] in self.folders:
            raise RefusedError(412, message="the folder has been changed by someone else", status="version-mismatch")
        self.folders[body["uid"]] = body["title"]
        return 200, body

    def _drop_folder(self, found: Any, _: Any, __: Json) -> tuple[int, Json]:
        """A folder goes with the boards in it."""
        if self.folders.pop(found[0], None) is None:
            raise RefusedError(404, message="folder not found")
        self.boards = {uid: one for uid, one in self.boards.items() if one["folder"] != found[0]}
        return 200, {"message": "Folder deleted"}

    def _list(self, _: Any, __: Any, ___: Json) -> tuple[int, list[Json]]:
        return 200, list(self.sources.values())

    def _source(self, _: Any, __: Any, body: Json) -> tuple[int, Json]:
        if any(one["name"] == body["name"] for one in self.sources.values()):
            raise RefusedError(409, message="data source with the same name already exists")
        self.sources[body["uid"]] = body
        return 200, {"datasource": body, "message": "Datasource added"}

    def _drop_source(self, found: Any, _: Any, __: Json) -> tuple[int, Json]:
        if self.sources.pop(found[0], None) is None:
            raise RefusedError(404, message="Data source not found")
        return 200, {"message": "Data source deleted"}

    def _save(self, _: Any, __: Any, body: Json) -> tuple[int, Json]:
        board, folder = body["dashboard"], body.get("folderUid", "")
        if "spec" in board or not board.get("title"):
            raise RefusedError(400, message="Dashboard title cannot be empty", status="empty-name")
        self._store(board["uid"], folder, board, overwrite=body.get("overwrite", False))
        return 200, {"status": "success", "uid": board["uid"], "version": 1, "url": f"/d/{board['uid']}"}

    def _save_resource(self, found: Any, _: Any, body: Json) -> tuple[int, Json]:
        if not self.resources or found[0] != ("default" if self.org == 1 else f"org-{self.org}"):
            raise RefusedError(404, message="the server could not find the requested resource")
        if "elements" not in body.get("spec", {}) or body.get("apiVersion") != "dashboard.grafana.app/v2":
            raise RefusedError(400, message="Dashboard in version v2 is no such object")
        metadata = body["metadata"]
        self._store(metadata["name"], metadata.get("annotations", {}).get("grafana.app/folder", ""), body)
        return 201, body

    def _store(self, uid: str, folder: str, board: Json, *, overwrite: bool = False) -> None:
        if not _UID.fullmatch(uid):
            raise RefusedError(400, message="uid contains illegal characters or is too long")
        if folder not in self.folders:
            raise RefusedError(400, message="folder not found")
        if uid in self.boards and not overwrite:
            said = "The dashboard has been changed by someone else"
            raise RefusedError(412, message=said, status="version-mismatch")
        self.boards[uid] = {"folder": folder, "board": self.changes(board)}

    def _read(self, found: Any, _: Any, __: Json) -> tuple[int, Json]:
        kept = self._kept(found[-1])
        return 200, {"dashboard": {**kept["board"], "id": 7, "version": 1}, "meta": {"folderUid": kept["folder"]}}

    def _read_resource(self, found: Any, _: Any, __: Json) -> tuple[int, Json]:
        return 200, self._kept(found[-1])["board"]

    def _kept(self, uid: str) -> Json:
        if uid not in self.boards:
            raise RefusedError(404, message="Dashboard not found")
        return self.boards[uid]

    def _drop(self, found: Any, _: Any, __: Json) -> tuple[int, Json]:
        del self.boards[self._kept(found[-1]) and found[-1]]
        return 200, {"message": "Dashboard deleted"}

    def _values(self, found: Any, query: dict[str, list[str]], _: Json) -> tuple[int, Json]:
        uid, label = found
        self._known(uid)
        parameters = {"match[]": query["match[]"][0], "start": self.now - 86400, "end": self.now}
        return 200, self._prometheus(f"label/{label}/values", parameters)

    def _ask(self, _: Any, __: Any, body: Json) -> tuple[int, Json]:
        """Queries by refId; one that fails has its error in its place, and the whole answer the status of it."""
        start, end = self._moment(body["from"]), self._moment(body["to"])
        results: Json = {}
        for query in body["queries"]:
            self.asked.append(query)
            self._known(query["datasource"]["uid"])
            try:
                results[query["refId"]] = {"status": 200, "frames": self._frames(query, start, end)}
            except RefusedError as refused:
                results[query["refId"]] = {"status": refused.code, "error": refused.said["error"]}
        return max(one["status"] for one in results.values()), {"results": results}

    def _known(self, uid: str) -> None:
        if uid not in self.sources:
            raise RefusedError(404, message="data source not found")

    def _moment(self, said: str) -> float:
        found = re.fullmatch(r"now(?:-(\d+)([smhd]))?", said)
        if found is None:
            return int(said) / 1000
        return self.now - (int(found[1]) * _SPANS[found[2]] if found[1] else 0)

    def _frames(self, query: Json, start: float, end: float) -> list[Json]:
        step = max(query["intervalMs"] / 1000, (end - start) / query["maxDataPoints"])
        own = {"__rate_interval": max(4 * 15.0, step + 15), "__interval": step, "__range": end - start}
        text = re.sub(r"\$\{?(__\w+)\}?", lambda found: f"{own[found[1]]:.0f}s", query["expr"])
        if query["instant"]:
            found = self._prometheus("query", {"query": text, "time": end})
        else:
            found = self._prometheus("query_range", {"query": text, "start": start, "end": end, "step": step})
        data = found["data"]
        if data["resultType"] == "scalar":
            series = [{"metric": {}, "values": [data["result"]]}]
        else:
            series = [{"values": [one["value"]], **one} if "value" in one else one for one in data["result"]]
        return [
            {
                "schema": {
                    "refId": query["refId"],
                    "fields": [{"name": "Time"}, {"labels": one["metric"], "name": "Value"}],
                },
                "data": {"values": [[t * 1000 for t, _ in one["values"]], [float(v) for _, v in one["values"]]]},
            }
            for one in series
        ]

    def _prometheus(self, path: str, parameters: Json) -> Json:
        url = f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            said = json.loads(error.read())
            raise RefusedError(400, error=f"{said['errorType']}: {said['error']}", message="Query error") from None


_NAME = r"([^/]+)"
_RESOURCES = rf"/apis/dashboard\.grafana\.app/v2/namespaces/{_NAME}/dashboards"
_ROUTES: tuple[tuple[str, tuple[str, Callable[..., tuple[int, Any]]]], ...] = (
    ("/apis", ("GET", GrafanaApi._groups)),
    ("/api/org", ("GET", GrafanaApi._org)),
    ("/api/folders", ("POST", GrafanaApi._folder)),
    (f"/api/folders/{_NAME}", ("DELETE", GrafanaApi._drop_folder)),
    ("/api/datasources", ("GET", GrafanaApi._list)),
    ("/api/datasources", ("POST", GrafanaApi._source)),
    (f"/api/datasources/uid/{_NAME}", ("DELETE", GrafanaApi._drop_source)),
    (f"/api/datasources/uid/{_NAME}/resources/api/v1/label/{_NAME}/values", ("GET", GrafanaApi._values)),
    ("/api/dashboards/db", ("POST", GrafanaApi._save)),
    (f"/api/dashboards/uid/{_NAME}", ("GET", GrafanaApi._read)),
    (f"/api/dashboards/uid/{_NAME}", ("DELETE", GrafanaApi._drop)),
    (_RESOURCES, ("POST", GrafanaApi._save_resource)),
    (f"{_RESOURCES}/{_NAME}", ("GET", GrafanaApi._read_resource)),
    (f"{_RESOURCES}/{_NAME}", ("DELETE", GrafanaApi._drop)),
    ("/api/ds/query", ("POST", GrafanaApi._ask)),
)
