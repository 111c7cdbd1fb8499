"""``llmvitals triage`` and ``capture`` as a person runs them, over recordings and real loopback servers."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from llmvitals.sources.capture import raw, read_capture
from support.answers import Answer, Answers, Asked
from support.command import argv, llmvitals
from support.hostile import Hostile, vllm_page
from support.prometheus import PrometheusServer, load_blocks, openmetrics, points_of

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
FAST = ("--for", "1.2s", "--interval", "200ms")
MACHINE = "/machine"  # what a recording calls the page of what was seen beside an engine on this host

FINDING = {
    "type": "object",
    "required": ["cause", "confidence", "evidence", "action", "runbook"],
    "properties": {
        "cause": {"type": "string"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "evidence": {
            "type": "array",
            "items": {"type": "object", "required": ["signal", "value", "unit", "limit", "holds", "gap"]},
        },
        "action": {"type": "object", "required": ["text", "setting", "value"]},
        "runbook": {"type": "string"},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["verdict", "leading", "contributing", "steps", "blind", "window", "scope", "binding", "targets"],
    "properties": {
        "verdict": {"enum": ["cause", "shedding", "healthy", "no-traffic", "undetermined"]},
        "leading": {"oneOf": [{"type": "null"}, FINDING]},
        "contributing": {"type": "array", "items": FINDING},
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["step", "checks"],
                "properties": {
                    "checks": {
                        "type": "array",
                        "items": {"type": "object", "required": ["cause", "state", "evidence", "reason"]},
                    }
                },
            },
        },
        "blind": {"type": "array", "items": {"type": "object", "required": ["what", "why", "series"]}},
        "binding": {
            "type": "object",
            "required": ["resource", "evidence", "why"],
            "properties": {"resource": {"enum": ["kv", "compute", "bandwidth", "seats", "nothing", "unknown"]}},
        },
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["name", "verdict", "leading"]},
        },
    },
}


def engine(asked: Asked) -> Answer:
    """A vLLM whose counters grow with time."""
    return Answer(vllm_page(tokens=time.monotonic() * 100))


@pytest.mark.parametrize(
    ("name", "code", "verdict", "leading"),
    [
        ("healthy", 0, "healthy", None),
        ("admission-503", 0, "shedding", None),
        ("kv-preemption", 1, "cause", "preemption-thrash"),
    ],
)
def test_a_recording_gives_its_verdict_as_json_and_as_exit_code(name, code, verdict, leading, ran_recording):
    ran_recording(CAPTURES / name)
    ran = llmvitals("triage", "--json", CAPTURES / name)
    jsonschema.validate(ran.json, SCHEMA)
    assert (ran.code, ran.json["verdict"], (ran.json["leading"] or {}).get("cause")) == (code, verdict, leading)
    assert ran.err == ""


def test_the_report_for_people_is_plain_when_piped():
    ran = llmvitals("triage", CAPTURES / "kv-preemption")
    assert ran.code == 1
    assert "\x1b" not in ran.out
    assert "preemption-thrash" in ran.out.splitlines()[0]
    assert "--max-num-seqs" in ran.out
    assert not any(line != line.rstrip() for line in ran.out.splitlines())
    assert ran.err == ""


def test_several_targets_are_told_worst_first():
    ran = llmvitals("triage", "--json", CAPTURES / "healthy", CAPTURES / "kv-preemption", CAPTURES / "admission-503")
    assert [one["verdict"] for one in ran.json["targets"]] == ["cause", "shedding", "healthy"]
    assert ran.json["leading"]["cause"] == "preemption-thrash"
    assert ran.code == 1


@pytest.mark.parametrize(("engine", "said"), [({}, True), ({"engine": "one"}, False)])
def test_a_gpu_page_beside_several_engines_is_left_out_aloud(tmp_path, engine, said):
    (tmp_path / "engine.prom").write_bytes(vllm_page())
    (tmp_path / "gpu.prom").write_text('DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 0.5\n')
    targets = [
        {"name": name, "kind": kind, "scrapes": [{"t": 1000.0, "file": file, "status": 200}], **more}
        for name, kind, file, more in (
            ("one", "vllm", "engine.prom", {}),
            ("two", "vllm", "engine.prom", {}),
            ("gpus", "dcgm", "gpu.prom", engine),
        )
    ]
    (tmp_path / "capture.json").write_text(json.dumps({"format": 1, "targets": targets}))
    ran = llmvitals("triage", "--json", tmp_path)
    assert {one["name"] for one in ran.json["targets"]} == {"one", "two"}
    assert ran.err.startswith("gpus: shows GPUs, but not which engine") is said
    assert len(ran.err.splitlines()) == int(said)


def test_one_page_alone_settles_nothing(tmp_path):
    page = tmp_path / "page.prom"
    page.write_bytes(vllm_page())
    ran = llmvitals("triage", "--json", page)
    assert (ran.code, ran.json["verdict"], ran.json["scope"]["instance"]) == (2, "undetermined", "page.prom")


def test_promises_given_on_the_command_line_count(tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("slo: {ttft_seconds: 600, tpot_seconds: 600}\n")
    strict = llmvitals("triage", "--json", CAPTURES / "kv-full")
    loose = llmvitals("triage", "--json", "--settings", settings, CAPTURES / "kv-full")
    again = llmvitals(
        "triage", "--json", "--settings", settings, "--slo-ttft", "2s", "--slo-tpot", "50ms", CAPTURES / "kv-full"
    )
    assert strict.json["leading"]["cause"] == again.json["leading"]["cause"] == "kv-cache-saturation"
    assert loose.json["verdict"] != "cause"


def test_live_servers_are_watched_side_by_side():
    with Answers({"/metrics": engine}) as one, Answers({"/metrics": engine}) as two:
        ran = llmvitals("triage", "--json", *FAST, one.url, two.url.removeprefix("http://"))
    jsonschema.validate(ran.json, SCHEMA)
    assert ran.code == 2  # 1.2 s are no window
    pages = {target["name"]: target["detail"]["window"]["pages"] for target in ran.json["targets"]}
    # A first look, then 0 s, 0.2 s ... 1.2 s; a busy machine may miss a turn, and then asks no more often for it.
    assert pages == {server.url.removeprefix("http://"): len(server.asked) - 1 for server in (one, two)}
    assert all(4 <= count <= 7 for count in pages.values())
    assert ran.err == ""  # no terminal, no bar


def test_a_target_that_is_down_does_not_hide_the_others():
    with Answers({"/metrics": engine}) as alive, Answers({}) as dead:
        down = dead.url
        dead.__exit__()
        ran = llmvitals("triage", "--json", *FAST, alive.url, down)
        dead._server.server_close()
    assert {one["name"] for one in ran.json["targets"]} == {u.removeprefix("http://") for u in (alive.url, down)}


def test_targets_come_from_the_settings_by_name_or_all(tmp_path):
    settings = tmp_path / "settings.yaml"
    with Answers({"/m": engine}) as one, Answers({"/metrics": engine}) as two:
        settings.write_text(f"targets: [{{url: '{one.url}/m', name: chat}}, {{url: '{two.url}', name: code}}]\n")
        both = llmvitals("triage", "--json", "--settings", settings, *FAST)
        named = llmvitals("triage", "--json", "--settings", settings, *FAST, "code")
    assert {one["name"] for one in both.json["targets"]} == {"chat", "code"}
    assert [one["name"] for one in named.json["targets"]] == ["code"]


def test_an_exporter_is_asked_for_its_verdict_instead_of_being_watched():
    told = llmvitals("triage", "--json", CAPTURES / "kv-preemption", CAPTURES / "healthy")
    page = Answer(b'llm_triage_verdict{verdict="cause"} 1\n')
    with Answers({"/metrics": page, "/triage": Answer(told.out.encode())}) as server:
        ran = llmvitals("triage", "--json", server.url)
    assert (ran.code, ran.json["leading"]) == (1, told.json["leading"])
    assert [one["verdict"] for one in ran.json["targets"]] == ["cause", "healthy"]


@pytest.mark.prometheus
def test_a_prometheus_gives_the_verdict_of_the_recording(tmp_path):
    (seen,) = read_capture(CAPTURES / "kv-preemption")
    load_blocks(openmetrics(points_of(seen.snapshots)), tmp_path / "p" / "data")
    end, length = seen.snapshots[-1].t, seen.snapshots[-1].t - seen.snapshots[0].t
    with PrometheusServer(tmp_path / "p") as server:
        ran = llmvitals(
            "triage", "--json", "--prometheus", server.url, "--selector", '{instance="vllm-0"}',
            "--at", f"{end:.3f}", "--for", f"{length + 1:.3f}s",
        )  # fmt: skip
    direct = llmvitals("triage", "--json", CAPTURES / "kv-preemption")
    assert ran.code == 1, ran.err
    assert ran.json["leading"] == direct.json["leading"]


def test_a_recording_of_live_servers_is_triaged_later(tmp_path):
    folder = tmp_path / "c"
    with Answers({"/metrics": engine}) as one, Answers({"/metrics": engine}) as two:
        ran = llmvitals("capture", one.url, two.url, "--for", "600ms", "--interval", "200ms", "-o", folder)
    assert (ran.code, ran.err) == (0, "")
    every = raw(folder)
    kept = [len(target.pages) for target in every if not target.name.endswith(MACHINE)]
    assert kept == [len(one.asked) - 1, len(two.asked) - 1]
    assert all(2 <= count <= 4 for count in kept)
    assert f"{sum(len(target.pages) for target in every)} pages" in ran.out
    assert llmvitals("triage", "--json", folder).json["window"]["pages"] in kept


def test_ctrl_c_keeps_what_was_recorded(tmp_path):
    folder = tmp_path / "c"
    with Answers({"/metrics": engine}) as server:
        command = argv("capture", server.url, "--for", "1h", "--interval", "100ms", "-o", folder)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 30
        while len(list(folder.glob("*.prom.gz"))) < 3:
            assert time.monotonic() < until, process.poll()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Stopped early" in err
    every = raw(folder)
    (target,) = (one for one in every if not one.name.endswith(MACHINE))
    assert len(target.pages) >= 2
    files = len(list(folder.glob("*.prom.gz")))
    assert sum(len(one.pages) for one in every) == files >= 3
    assert f"{files} pages" in out


def test_ctrl_c_ends_a_triage_at_once_without_a_traceback():
    with Answers({"/metrics": engine}) as server:
        process = subprocess.Popen(
            argv("triage", server.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 30
        while len(server.asked) < 2:
            assert time.monotonic() < until, process.poll()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, "", "")


def test_on_a_terminal_a_bar_shows_the_way_and_stdout_stays_json(tmp_path):
    own, other = pty.openpty()
    with Answers({"/metrics": engine}) as server, (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(argv("triage", "--json", *FAST, server.url), stdout=out, stderr=other)
        os.close(other)
        shown = b""
        try:
            while chunk := os.read(own, 65536):
                shown += chunk
        except OSError:  # Linux reports the end of a pseudo-terminal as an error
            pass
        process.wait(timeout=30)
    os.close(own)
    assert json.loads((tmp_path / "out").read_text())["verdict"] == "undetermined"
    assert b"watching for 1.2 s" in shown
    assert b"/7 pages" in shown


def test_a_reader_that_leaves_early_is_no_error():
    first = subprocess.Popen(
        argv("triage", "--json", CAPTURES / "healthy"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert first.stdout is not None
    first.stdout.close()
    _, err = first.communicate(timeout=30)
    assert b"Traceback" not in err
    assert b"Exception" not in err


def test_a_triage_loads_neither_the_app_nor_the_boards_nor_the_server():
    code = (
        "import sys; from llmvitals.cli import main\n"
        "try: main(['triage', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "heavy = {'streamlit', 'grafanalib', 'uvicorn', 'starlette', 'opentelemetry', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(CAPTURES / "healthy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"


def test_hostile_answers_end_in_time_and_in_one_line():
    with Hostile() as server:
        for path in ("/drip", "/reset", "/html", "/500"):
            began = time.monotonic()
            ran = llmvitals("triage", server.url(path))
            assert ran.code == 3
            assert len(ran.err.splitlines()) == 1
            assert time.monotonic() - began < 15
