"""A Kubernetes API server that knows one thing: lists of pods. Its pods, tokens and tempers are the test's to set."""

from __future__ import annotations

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from support.tls import Pair


def container(name: str = "engine", *, ports: tuple[tuple[str, int], ...] = (("http", 8000),), **more: Any) -> dict:
    """A container of a pod's spec."""
    return {
        "name": name,
        "image": "engine:1",
        "ports": [{"name": n, "containerPort": p, "protocol": "TCP"} if n else {"containerPort": p} for n, p in ports],
        **more,
    }


def status(name: str = "engine", *, restarts: int = 0, started: str = "2026-03-01T10:00:00Z", **more: Any) -> dict:
    """A container's status while it runs."""
    return {
        "name": name,
        "containerID": f"containerd://{name.encode().hex():0>64}",
        "image": "engine:1",
        "ready": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": started}},
        "lastState": {},
        **more,
    }


def ended(reason: str, code: int, at: str = "2026-03-01T09:59:00Z") -> dict:
    """A ``lastState`` of a container that ended."""
    return {"terminated": {"reason": reason, "exitCode": code, "finishedAt": at, "startedAt": "2026-03-01T09:00:00Z"}}


def pod(
    name: str = "chat-0",
    *,
    namespace: str = "serving",
    node: str = "n1",
    uid: str = "",
    ip: str = "10.0.0.7",
    phase: str = "Running",
    ready: bool = True,
    containers: tuple[dict, ...] = (),
    statuses: tuple[dict, ...] = (),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str] | None = ("ReplicaSet", "chat-5f"),
    leaving: bool = False,
) -> dict:
    """A pod as the API server writes it, with parts that nobody here reads."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{namespace}-{name}",
        "creationTimestamp": "2026-03-01T08:59:00Z",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
    }
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Node", "name": "other", "controller": False},
            {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True},
        ]
    if leaving:
        metadata["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": list(containers) or [container()], "restartPolicy": "Always"},
        "status": {
            "phase": phase,
            "podIP": ip,
            "qosClass": "Burstable",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T08:59:00Z"},
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastTransitionTime": "2026-03-01T10:01:00Z",
                },
            ],
            "containerStatuses": list(statuses) or [status()],
        },
    }


class ApiServer:
    """Answers lists of ``pods`` with field and label selectors and pages.

    ``tokens``: those it accepts, None for anybody. ``refuse``: statuses for the next calls, each with its headers. ``raw``: a
    body sent in place of a list. ``hang``: seconds before it answers at all; ``drip``: seconds between bytes. ``gone``: how
    many calls for a further page it answers with 410. ``page_cap``: the most pods it puts into one page.
    """

    def __init__(self, pair: Pair | None = None) -> None:
        self.pods: list[dict] = []
        self.tokens: set[str] | None = None
        self.may_list: set[str] | None = None  # namespaces; None: all of the cluster
        self.refuse: list[tuple[int, dict[str, str]]] = []
        self.raw: bytes | None = None
        self.hang = 0.0
        self.drip = 0.0
        self.gone = 0
        self.page_cap = 10**6
        self.heeds_fields = True
        self.asked: list[dict[str, str]] = []
        self.methods: list[str] = []
        self.presented: list[str] = []
        self.over = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                try:
                    owner._answer(self)
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    self.close_connection = True

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  # the library's names; told like any other call

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client that refuses the certificate is no error of a test
        self.scheme = "http"
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert, pair.key)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.scheme = "https"
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        split = urlsplit(request.path)
        asked = {k: v[0] for k, v in parse_qs(split.query, keep_blank_values=True).items()} | {"path": split.path}
        self.asked.append(asked)
        self.methods.append(request.command)
        token = request.headers.get("Authorization", "")
        self.presented.append(token)
        if self.hang:
            self.over.wait(self.hang)
        if self.refuse:
            code, headers = self.refuse.pop(0)
            self._send(request, code, _told(code, "the test said so"), headers)
            return
        if self.tokens is not None and token.removeprefix("Bearer ") not in self.tokens:
            self._send(request, 401, _told(401, "Unauthorized"))
            return
        namespace = split.path.split("/")[4] if split.path.startswith("/api/v1/namespaces/") else ""
        if split.path not in ("/api/v1/pods", f"/api/v1/namespaces/{namespace}/pods"):
            self._send(request, 404, _told(404, "the server could not find the requested resource"))
            return
        if self.may_list is not None and namespace not in self.may_list:
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            self._send(request, 403, _told(403, f'pods is forbidden: User "sa" cannot list resource "pods" {where}'))
            return
        if asked.get("continue") and "resourceVersion" in asked:
            self._send(request, 400, _told(400, "specifying resource version is not allowed when using continue"))
            return
        if asked.get("continue") and self.gone > 0:
            self.gone -= 1
            self._send(request, 410, _told(410, "The provided continue parameter is too old"))
            return
        self._send(request, 200, self.raw if self.raw is not None else self._list(asked, namespace))

    def _list(self, asked: dict[str, str], namespace: str) -> bytes:
        chosen = [p for p in self.pods if not namespace or p["metadata"]["namespace"] == namespace]
        field = asked.get("fieldSelector", "")
        if field and self.heeds_fields:
            key, _, value = field.partition("=")
            assert key == "spec.nodeName"
            chosen = [p for p in chosen if p["spec"]["nodeName"] == value]
        for term in filter(None, asked.get("labelSelector", "").split(",")):
            key, _, value = term.partition("=")
            chosen = [p for p in chosen if p["metadata"].get("labels", {}).get(key) == value]
        start = int(asked.get("continue", "0"))
        end = start + min(int(asked.get("limit", "500")), self.page_cap)
        further = {"continue": str(end), "remainingItemCount": len(chosen) - end} if end < len(chosen) else {}
        return json.dumps(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "815", **further},
                "items": chosen[start:end] or None,
            }
        ).encode()

    def _send(self, request: BaseHTTPRequestHandler, code: int, body: bytes, headers: dict[str, str] | None = None):
        request.send_response(code)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.end_headers()
        if not self.drip:
            request.wfile.write(body)
            return
        until = time.monotonic() + 10
        for byte in body:
            if self.over.wait(self.drip) or time.monotonic() > until:
                return
            request.wfile.write(bytes([byte]))


def _told(code: int, message: str) -> bytes:
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    ).encode()
