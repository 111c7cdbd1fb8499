"""The app's server as the command starts it: which of Streamlit's doors are shut, and who is taken for the app's own page."""

import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from llmvitals.cli.streamlit_flags import HOSTS_VARIABLE, streamlit_flags
from support.waiting import free_port, wait_for


def healthy(url):
    try:
        return urlopen(f"{url}/_stcore/health", timeout=5).status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A started app, in an environment and a folder that would open what is to stay shut."""
    place, port = tmp_path_factory.mktemp("doors"), free_port()
    (place / ".streamlit").mkdir()
    (place / ".streamlit/config.toml").write_text("[server]\nenableAgentApi = true\n")
    environment = {"HOME": str(place), "PATH": "/usr/bin:/bin", "STREAMLIT_SERVER_ENABLE_AGENT_API": "true"}
    command = [sys.executable, "-m", "llmvitals", "app", "--port", str(port)]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: healthy(f"http://127.0.0.1:{port}"), "the app's start", 60)
        yield port
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("path", ["interact", "mcp"])
def test_no_program_drives_the_app_whatever_variables_and_files_say(app, path):
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"http://127.0.0.1:{app}/_stcore/agent/{path}", data=body, headers=headers), timeout=20)
    assert b"not_available" in refused.value.read()


def test_a_page_whose_name_was_made_to_point_here_does_not_steer_the_app(app):
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": b64encode(bytes(16)).decode()}
    came = {}
    for name in ("127.0.0.1", "localhost", "rebound.example"):
        own = {"Host": f"{name}:{app}", "Origin": f"http://{name}:{app}"}
        with closing(HTTPConnection("127.0.0.1", app, timeout=20)) as line:
            line.request("GET", "/_stcore/stream", headers={**upgrade, **key, **own})
            came[name] = line.getresponse().status
    assert came == {"127.0.0.1": 101, "localhost": 101, "rebound.example": 403}


def test_no_page_elsewhere_is_told_that_it_may_steer_from_a_frame(app):
    with urlopen(f"http://127.0.0.1:{app}/_stcore/host-config", timeout=20) as answer:
        assert b"streamlit" not in answer.read()


def test_names_are_kept_to_on_loopback_alone_and_a_proxys_may_be_told():
    def names(address, environment=None, **more):
        flags = streamlit_flags(8501, address, environment or {}, **more)
        return [flag.split("=")[1] for flag in flags if flag.startswith("--server.allowedHosts=")]

    assert names("127.0.0.1") == ["localhost", "127.0.0.1", "::1"]
    assert names("127.8.9.1")[-1] == "127.8.9.1"
    assert names("127.0.0.1", origin_host="triage.example.org")[-1] == "triage.example.org"
    assert names("0.0.0.0") == []
    assert names("127.0.0.1", {HOSTS_VARIABLE: "triage.example.org"}) == []
