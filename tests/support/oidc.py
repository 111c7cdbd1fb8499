"""A small OpenID provider on loopback: the authorization code flow with PKCE, discovery, keys, signed ID tokens, the end of a
session.

``person`` is who is signed in there; ``amiss`` names what it gets wrong: ``nonce``, ``state``, ``signature``, ``audience``,
``expired``, ``issuer``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, PASSWORD = "llmvitals", "provider-s3cret"
ALICE = {"sub": "1", "name": "Alice On Call", "email": "alice@example.org", "email_verified": True, "groups": ["sre"]}


class Provider:
    """Serves on a free port; ``asked`` lists method and path of each request, ``granted`` what was given for each code."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self.person: dict[str, Any] = dict(ALICE)
        self.amiss = ""
        self.age = 0.0
        self.asked: list[tuple[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._key, self._other = (RSAKey.generate_key(2048, {"kid": "k1"}) for _ in range(2))
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                owner.asked.append((self.command, parts.path))
                body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
                status, headers, answer = owner._answer(parts.path, dict(parse_qsl(parts.query)), body, self.headers)
                self.send_response(status)
                for name, value in {"content-length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET  # noqa: N815 - the name is the base class's

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def metadata_url(self) -> str:
        """What a client is given."""
        return f"{self.url}/.well-known/openid-configuration"

    def _answer(self, path: str, query: dict[str, str], body: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
        if path == "/.well-known/openid-configuration":
            return _json(self._metadata())
        if path == "/jwks":
            return _json(KeySet([self._key]).as_dict(private=False))
        if path == "/authorize":
            return self._authorize(query)
        if path == "/token":
            return self._token({key: values[0] for key, values in parse_qs(body).items()}, headers)
        if path == "/logout":
            return 302, {"location": query.get("post_logout_redirect_uri", "/")}, b""
        return 404, {}, b""

    def _metadata(self) -> dict[str, object]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "end_session_endpoint": f"{self.url}/logout",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def _authorize(self, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Whoever is signed in agrees at once."""
        good = query.get("client_id") == CLIENT and query.get("redirect_uri") == self.redirect_uri
        good = good and query.get("response_type") == "code" and "openid" in query.get("scope", "").split()
        if not good or query.get("code_challenge_method") != "S256" or not query.get("nonce"):
            return 400, {}, b"not a request of the client"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        state = "forged" if self.amiss == "state" else query["state"]
        return 302, {"location": f"{self.redirect_uri}?{urlencode({'code': code, 'state': state})}"}, b""

    def _token(self, form: dict[str, str], headers: Any) -> tuple[int, dict[str, str], bytes]:
        given = headers.get("authorization", "").removeprefix("Basic ")
        user, _, password = base64.b64decode(given).decode().partition(":")
        asked = self._codes.pop(form.get("code", ""), None)
        if (unquote(user), unquote(password)) != (CLIENT, PASSWORD):
            return _json({"error": "invalid_client"}, 401)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        fits = asked is not None and challenge.decode().rstrip("=") == asked["code_challenge"]
        if asked is None or not fits or form.get("redirect_uri") != self.redirect_uri:
            return _json({"error": "invalid_grant"}, 400)
        now = int(time.time())
        issued = now - int(self.age)
        claims: dict[str, Any] = {
            "iss": "http://elsewhere" if self.amiss == "issuer" else self.url,
            "aud": "another" if self.amiss == "audience" else CLIENT,
            "nonce": "forged" if self.amiss == "nonce" else asked["nonce"],
            "iat": issued,
            "exp": now - 600 if self.amiss == "expired" else now + 300,
            **self.person,
        }
        key = self._other if self.amiss == "signature" else self._key
        token = jwt.encode({"alg": "RS256", "kid": "k1"}, claims, key)
        return _json(
            {"access_token": secrets.token_urlsafe(8), "token_type": "Bearer", "expires_in": 300, "id_token": token}
        )


def _json(document: object, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/json"}, json.dumps(document).encode()


def secrets_toml(provider: Provider, *, cookie_secret: str = "c" * 40, section: str = "auth") -> str:
    """The file that lets Streamlit sign people in there."""
    lines = [
        "[auth]",
        f'redirect_uri = "{provider.redirect_uri}"',
        f'cookie_secret = "{cookie_secret}"',
        *([] if section == "auth" else [f"[{section}]"]),
        f'client_id = "{CLIENT}"',
        f'client_secret = "{PASSWORD}"',
        f'server_metadata_url = "{provider.metadata_url}"',
    ]
    return "\n".join(lines) + "\n"
