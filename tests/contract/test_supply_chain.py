"""What we install is listed and looked up: the list is valid and the same each time, and a vulnerability that is known fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import llmvitals

ROOT = Path(__file__).resolve().parents[2]
ADVISORY = {
    "id": "GHSA-aaaa-bbbb-cccc",
    "aliases": ["CVE-2026-0001"],
    "summary": "a page of the attacker's choice is run",
    "affected": [
        {
            "package": {"name": "urllib3", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}


@pytest.fixture
def service() -> Iterator[tuple[str, list[str]]]:
    """A database of advisories that knows one, of every urllib3; and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = query["package"]["name"]
            asked.append(f"{name}=={query['version']}")
            body = json.dumps({"vulns": [ADVISORY]} if name == "urllib3" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing is said of requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        server.shutdown()
        thread.join()


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    """Three packages, one of them in two versions."""
    file = tmp_path / "pins.txt"
    file.write_text(
        "# made\nclick==8.1.0\nurllib3==2.0.0\n"
        "numpy==2.4.6 ; python_full_version < '3.12'\nnumpy==2.5.5 ; python_full_version >= '3.12'\n"
    )
    return file


def advisories(pins: Path, url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ADVISORIES_URL": url, "no_proxy": "127.0.0.1", **environment}
    command = [sys.executable, str(ROOT / "tools/advisories.py"), str(pins)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_known_vulnerability_fails_and_is_named_with_its_cure(service: tuple[str, list[str]], pins: Path) -> None:
    done = advisories(pins, service[0])
    assert done.returncode == 1, done.stderr
    assert "VULNERABLE: urllib3 2.0.0: CVE-2026-0001 / GHSA-aaaa-bbbb-cccc (mended by: 99.0)" in done.stdout
    assert "NOT CHECKED" not in done.stdout
    assert sorted(service[1]) == ["click==8.1.0", "numpy==2.4.6", "numpy==2.5.5", "urllib3==2.0.0"]


def test_nothing_known_is_said_with_how_many_were_checked(service: tuple[str, list[str]], tmp_path: Path) -> None:
    file = tmp_path / "pins.txt"
    file.write_text("click==8.1.0\n")
    done = advisories(file, service[0], ADVISORIES_STRICT="1")
    assert (done.returncode, done.stdout) == (0, "packages checked: 1; advisories that hold for us: none\n")


@pytest.mark.parametrize(("strict", "code"), [("", 0), ("1", 3)])
def test_where_nobody_answers_it_says_not_checked_and_not_that_all_is_well(pins: Path, strict: str, code: int) -> None:
    done = advisories(pins, "http://127.0.0.1:9/v1/query", ADVISORIES_STRICT=strict)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("NOT CHECKED for advisories: nothing was. ")
    assert "checked:" not in done.stdout
    assert "none" not in done.stdout


@pytest.mark.parametrize(("until", "code"), [("2999-01-01", 0), ("2020-01-01", 1)])
def test_what_is_accepted_is_accepted_until_its_day(
    service: tuple[str, list[str]], pins: Path, tmp_path: Path, until: str, code: int
) -> None:
    file = tmp_path / "accepted.toml"
    entry = '[[accepted]]\nid = "CVE-2026-0001"\npackage = "urllib3"\nreason = "never called"\nuntil = '
    file.write_text(entry + until + "\n")
    done = advisories(pins, service[0], ADVISORIES_ACCEPTED=str(file))
    assert done.returncode == code, done.stdout + done.stderr
    assert ("accepted until 2020-01-01, which is over" in done.stdout) == bool(code)


def test_the_lists_are_valid_whole_and_the_same_each_time(tmp_path: Path) -> None:
    """The tool holds each against CycloneDX's schema, and fails where it is not so."""
    for folder, names in (("one", ()), ("two", ("exporter",))):
        command = [sys.executable, str(ROOT / "tools/sbom.py"), str(tmp_path / folder), *names]
        subprocess.run(command, check=True, capture_output=True)
    again = (tmp_path / "two" / "llmvitals-exporter.cdx.json").read_bytes()
    assert again == (tmp_path / "one" / "llmvitals-exporter.cdx.json").read_bytes()
    for name in ("image", "exporter"):
        told = json.loads((tmp_path / "one" / f"llmvitals-{name}.cdx.json").read_bytes())
        assert not {"serialNumber"} & set(told)
        assert "timestamp" not in told["metadata"]
        own = told["metadata"]["component"]
        assert (own["name"], own["version"], own["type"]) == ("llmvitals", llmvitals.__version__, "application")
        listed = {f"{part['name']}=={part['version']}" for part in told["components"]}
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        pins = [Requirement(line) for line in lines if not line.startswith("#")]
        image = {"python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux", "os_name": "posix"}
        wanted = {f"{p.name}{p.specifier}" for p in pins if p.marker is None or p.marker.evaluate(image)}
        assert listed == wanted
        assert {p["purl"] for p in told["components"]} >= {f"pkg:pypi/{pin.replace('==', '@')}" for pin in wanted}
