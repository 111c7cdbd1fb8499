"""The systemd unit as systemd itself reads and rates it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.tools import needed

pytestmark = pytest.mark.systemd
UNIT = Path(__file__).resolve().parents[2] / "exporters" / "llmvitals.service"
PROGRAM = "/opt/llmvitals/bin/llmvitals"

OPEN = {
    "SystemCallFilter_resources": "it raises its own limit on open files",
    "RootDirectoryOrRootImage": "it reads /proc, /sys and the driver's library where they are",
    "AmbientCapabilities": "who listens on an engine's port, and its open files",
    "CapabilityBoundingSet_CAP_DAC_FOWNER_IPC_OWNER": "the same: files of processes that are not its own",
    "CapabilityBoundingSet_CAP_SYS_PTRACE": "the same",
    "ProtectProc": "it looks for other processes",
    "ProcSubset": "it reads /proc/net, /proc/stat and /proc/meminfo",
    "PrivateUsers": "its capabilities would count for nothing",
    "PrivateDevices": "the GPUs' devices",
    "DeviceAllow": "the GPUs' devices, and no other",
    "MemoryDenyWriteExecute": "ctypes, by which the driver is asked",
    "RestrictAddressFamilies_AF_INET_INET6": "it asks engines and is asked",
    "RestrictAddressFamilies_AF_NETLINK": "this machine's addresses",
    "RestrictAddressFamilies_AF_UNIX": "the kubelet's and the driver's sockets",
    "PrivateNetwork": "engines on this machine's loopback",
    "IPAddressDeny": "where engines are is not known here; the unit has the lines to fill in",
}
"""What it leaves open, by systemd's own names, and why."""

WORST = 25
"""Tenths: what these add up to in systemd's rating (2.3 in release 252), and a little for other releases' weights. Anything that is
open besides is told by the table above. The next class, "medium", begins at 5.
"""


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([needed("systemd-analyze"), *words], capture_output=True, text=True, check=False)


def test_systemd_has_nothing_to_say_against_it(tmp_path):
    """With a program that is there: systemd looks for it."""
    there = tmp_path / UNIT.name
    there.write_text(UNIT.read_text(encoding="utf-8").replace(PROGRAM, str(Path(sys.executable))), encoding="utf-8")
    done = analyzed("verify", "--man=no", str(there))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_mistake_would_be_told(tmp_path):
    there = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8").replace(PROGRAM, str(Path(sys.executable)))
    there.write_text(text.replace("LockPersonality=", "LockPersonalty="), encoding="utf-8")
    assert "LockPersonalty" in analyzed("verify", "--man=no", str(there)).stderr


def test_nothing_is_open_without_a_reason():
    rows = json.loads(analyzed("security", "--offline=true", "--json=short", str(UNIT)).stdout)
    found = {row["json_field"] for row in rows if row["exposure"] not in (None, "0.0")}
    assert found == set(OPEN)


def test_its_exposure_is_what_these_add_up_to():
    done = analyzed("security", "--offline=true", f"--threshold={WORST}", str(UNIT))
    assert done.returncode == 0, done.stdout[-300:]
    (score,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert 0 < float(score) <= WORST / 10
