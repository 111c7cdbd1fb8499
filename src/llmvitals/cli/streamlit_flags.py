"""What Streamlit is told at its start: where to listen, whom to take for its own page, and which of its doors stay shut."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.app.choices import is_loopback

HOSTS_VARIABLE = "STREAMLIT_SERVER_ALLOWED_HOSTS"
"""Streamlit's own variable (names with spaces between), for a proxy on this machine that hands on the name it was asked by."""

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

_ALWAYS = (
    "--server.headless=true",
    "--browser.gatherUsageStats=false",
    # An interface for programs, and for agents over MCP: off by default, and off whatever a variable or a config.toml says.
    "--server.enableAgentApi=false",
    "--server.enableStaticServing=false",
    # Pages that may steer the app from a frame around it. The default are Streamlit's own hosts, where anybody may have a page.
    "--client.allowedOrigins=https://nobody.invalid",
)


def streamlit_flags(
    port: int, address: str, environment: Mapping[str, str], *, origin_host: str | None = None
) -> list[str]:
    """The options of ``streamlit run``.

    On loopback only the machine's own names are answered (and ``origin_host``, where people sign in): a page whose name is made to
    point at 127.0.0.1 could otherwise steer the app from a browser on this machine. Elsewhere a proxy's name cannot be known.
    """
    hosts = [*LOCAL_NAMES, address, *([origin_host] if origin_host else [])] if is_loopback(address) else []
    taken = [] if environment.get(HOSTS_VARIABLE) else list(dict.fromkeys(hosts))
    return [
        f"--server.port={port}",
        f"--server.address={address}",
        *_ALWAYS,
        *(f"--server.allowedHosts={host}" for host in taken),
    ]
