"""The scripts that hold traces against clients: what a log comes to, what pages come to, and that a difference is found."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import os
import random
import secrets
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmvitals.settings import load as load_settings
from llmvitals.slo import promise_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "e2e"
HERE = SCRIPTS / "traces"
MODULES = ("spec", "load", "table", "clients", "pages", "checks", "run")


@pytest.fixture
def script(monkeypatch):
    """Import a script by its name, as it is imported beside its neighbours."""
    for folder in (SCRIPTS, HERE):
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in MODULES:
        sys.modules.pop(name, None)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def table(script):
    return script("table")


@pytest.fixture
def clients(script):
    return script("clients")


@pytest.fixture
def checks(script):
    return script("checks")


# -- loads and settings -----------------------------------------------------------------------------------------------
def test_every_request_of_the_loads_is_traced_and_some_prompts_hold_the_secret(script, table):
    spec, run = script("spec"), script("run")
    classes = {one.name for one in table.PROMISES}
    files = {name: HERE / "loads" / f"{name}.json" for case in table.CASES for name in case.loads}
    assert {file.stem for file in (HERE / "loads").iterdir()} == set(files)
    for file in files.values():
        load = spec.read(file)
        assert all(stream.traced and stream.n == 1 for stream in load.streams)
        assert any(stream.planted == table.SECRET for stream in load.streams)
        assert load.drain_s > 0
    named = run.tenants(files["classes"])
    assert {script("clients").class_of(tenant).name for tenant in named.values()} == classes
    streams = spec.read(files["classes"]).streams
    assert any(s.abort_after_s for s in streams)
    assert any(s.burst > 10 for s in streams)
    assert set(run.tenants(files["one-promise"]).values()) == {""}  # so that one promise holds for all


PORTS = {"exporter": 1, "engine": 2, "gateway": 3, "http": 4, "grpc": 5}


def test_settings_of_every_case_promise_what_the_clients_are_judged_by(table, tmp_path):
    for case in table.CASES:
        file = tmp_path / f"{case.name}.yaml"
        file.write_text(table.settings(case, PORTS))
        found = load_settings(file)
        assert [target.name for target in found.targets] == [table.ENGINE, table.GATEWAY][: 1 + case.gateway]
        assert found.targets[0].gateway == (table.GATEWAY if case.gateway else "")
        assert bool(found.targets[0].spans) is case.named
        assert (found.spans.http, found.spans.grpc) == ("127.0.0.1:4", "127.0.0.1:5")
        for tenant in ("acme", "night-7", "", "somebody"):
            promise = promise_of(found.slo, tenant=tenant)
            mine = next(one for one in table.PROMISES if one.takes(tenant))
            assert (promise.name, dict(promise.thresholds)) == (mine.name, mine.limits)


def test_planted_text_ends_every_chat(script):
    spec = script("spec")
    stream = spec.Stream(name="s", rate=1, words=5, planted="XYZ")
    _, body = spec.Requests(stream, "tiny", random.Random(1)).next()
    assert body["messages"][-1]["content"].split()[-1] == "XYZ"
    _, plain = spec.Requests(spec.Stream(name="s", rate=1, words=5), "tiny", random.Random(1)).next()
    assert plain["messages"][-1]["content"] == body["messages"][-1]["content"][: -len(" XYZ")]


def asked(script, monkeypatch, tmp_path, **more) -> tuple[dict, dict]:
    """One request of a load: its row in the log, and the headers that it went with."""
    monkeypatch.setitem(sys.modules, "aiohttp", SimpleNamespace(ClientError=OSError))
    spec, load = script("spec"), script("load")
    sent: dict = {}

    class Answer:
        status = 429

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            return False

        async def text(self):
            return "full"

    def post(_, *, json, headers):
        sent.update(headers)
        return Answer()

    stream = spec.Stream(name="s", rate=1, **more)
    plan = spec.Load(load="x", expected=spec.Expected(verdict="healthy"), streams=(stream,))
    drive = load.Drive(plan, "http://nowhere", "tiny", tmp_path)
    return asyncio.run(drive._attempt(SimpleNamespace(post=post), stream, "/v1/completions", {})), sent


def test_a_traced_request_says_its_trace_and_keeps_its_headers(script, monkeypatch, tmp_path):
    row, sent = asked(script, monkeypatch, tmp_path, traced=True, headers={"X-Tenant": "acme"})
    version, trace, parent, flags = sent["traceparent"].split("-")
    assert (version, flags, len(trace), len(parent), sent["X-Tenant"]) == ("00", "01", 32, 16, "acme")
    assert row["trace_id"] == trace
    assert int(trace, 16)
    again, _ = asked(script, monkeypatch, tmp_path, traced=True)  # the same seed, another trace
    assert again["trace_id"] != trace
    row, sent = asked(script, monkeypatch, tmp_path)
    assert sent == {}
    assert "trace_id" not in row


# -- what a log comes to ----------------------------------------------------------------------------------------------
def whole(stream: str = "a", *, ttft: float = 0.1, e2e: float = 0.5, made: int = 11, **more) -> dict:
    usage = {"prompt_tokens": 7, "completion_tokens": made}
    row = {"stream": stream, "trace_id": secrets.token_hex(16), "status": 200, "finish": ["length"], "usage": usage}
    return row | {"ttft": ttft, "text_s": ttft, "e2e": e2e} | more


@pytest.mark.parametrize(
    ("row", "how"),
    [
        (whole(), "ok"),
        (whole(finish=[]), "error"),  # an error inside the stream
        (whole(exc="reset"), "error"),
        ({"exc": "no connection"}, "error"),
        ({"status": 502}, "error"),
        ({"status": 429}, "refused"),
        ({"status": 503}, "refused"),
        ({"status": 404}, "client-error"),
        (whole(client_aborted=True, finish=[]), "left"),
        ({"status": 200, "cancelled_at_end": True}, ""),
    ],
)
def test_how_a_request_ended(clients, row, how):
    assert clients.ended(row) == how


def test_a_log_is_counted_by_class_and_near_ones_are_nobodys(clients):
    rows = [
        whole("chat"),
        whole("chat", e2e=1.3),  # sure: 1 s and 0.25 s that a client may see more
        whole("chat", e2e=1.2),  # near
        whole("chat", e2e=0.8, ttft=0.7),  # near: who learns first that it has ended is open
        whole("chat", e2e=0.7, ttft=0.6),
        whole("chat", ttft=2.1, e2e=6.0),  # near, but the whole is late for sure, and 0.39 s per token over 0.3 + 0.025
        {"stream": "chat", "trace_id": "a1", "status": 429},
        {"stream": "chat", "trace_id": "a2", "status": 404},
        whole("night", e2e=1.05, made=1),
        whole("night", e2e=0.7, made=1, ttft=0.7),
        whole("night", client_aborted=True),
        whole("rest", ttft=0.35, e2e=0.35 + 0.011 * 10),  # 0.011 s per token, within 0.025 of 0.012
        whole("rest", ttft=0.34, e2e=0.34, made=1),  # no gateway sees a first token later than its client
        {"stream": "rest", "trace_id": "a3", "status": 200, "cancelled_at_end": True},
    ]
    log = clients.counted(rows, {"chat": "acme", "night": "night-1", "rest": ""})
    chat, night, rest = (log.by_class[name] for name in ("interactive", "batch", "default"))
    assert (chat.yes, chat.no, chat.near, chat.whole) == (2, 3, 2, 6)
    assert chat.own == 3
    assert (chat.missed, chat.nearly) == (Counter(e2e=2, tpot=1, failed=1), Counter(ttft=1, e2e=2))
    assert (night.yes, night.no, night.near) == (1, 0, 1)
    assert (rest.yes, rest.near, rest.nearly) == (1, 1, Counter(tpot=1, ttft=1))
    assert log.ended == Counter(ok=10, refused=1, left=1, **{"client-error": 1})
    assert (log.prompt, log.output, log.open, len(log.traces)) == (70, 80, 1, 14)


def test_a_first_token_is_the_first_that_shows_text(script, clients):
    text_in = script("load").text_in
    assert text_in({"choices": [{"text": "x"}]})
    assert not text_in({"choices": [{"text": ""}]})  # a part of a character
    assert text_in({"choices": [{"delta": {"content": "x"}}]})
    assert not text_in({"choices": [{"delta": {"content": ""}}]})
    assert not text_in({"choices": [{"delta": {"content": None}}]})
    row = whole(ttft=0.1, e2e=0.5, text_s=0.2)
    assert clients.times(row)["ttft"] == 0.2
    assert clients.times(row)["tpot"] == pytest.approx(0.03)
    del row["text_s"]  # it never showed any
    low, high = clients.within(row)["ttft"]
    assert low < 0.1 < 0.5 < high


def test_a_log_is_read_from_its_file(clients, tmp_path):
    with gzip.open(tmp_path / "requests.jsonl.gz", "wt") as lines:
        lines.write(json.dumps(whole("a")) + "\n")
    assert clients.read(tmp_path, {"a": ""}).ended == Counter(ok=1)


def test_the_sampler_keeps_what_is_said(clients):
    sampling = pytest.importorskip("opentelemetry.sdk.trace.sampling")
    for ratio in (0.0, 0.25, 0.5, 1.0):
        sampler = sampling.TraceIdRatioBased(ratio)
        ids = {secrets.token_hex(16) for _ in range(500)}
        kept = sum(sampler.should_sample(None, int(one, 16), "x").decision.is_sampled() for one in ids)
        assert clients.kept(ids, ratio) == kept


# -- what must hold ---------------------------------------------------------------------------------------------------
def page(script, counts: dict[str, float]) -> object:
    return script("pages").parsed("".join(f"{name} {value}\n" for name, value in counts.items()))


def slo(name: str, vantage: str, **labels: str) -> str:
    pairs = {"instance": "chat", "vantage": vantage} | labels
    return name + "{" + ",".join(f'{key}="{text}"' for key, text in pairs.items()) + "}"


def counts(**changed: float) -> dict[str, float]:
    """The exporter's page after the log of :func:`drained`, where all is well."""
    met, missed, ended = "llm_slo_requests_total", "llm_slo_missed_total", "llm_span_requests_total"
    tokens = "llm_span_tokens_total"
    found = {
        slo(met, "gateway", slo_class="interactive", met="yes"): 2,
        slo(met, "gateway", slo_class="interactive", met="no"): 2,
        slo(met, "gateway", slo_class="interactive", met="unknown"): changed.get("unknown", 0),
        slo(missed, "gateway", slo_class="interactive", objective="e2e"): 1,
        slo(missed, "gateway", slo_class="interactive", objective="failed"): changed.get("failed", 1),
        slo(ended, "gateway", slo_class="interactive", ended="ok"): 3,
        slo(ended, "gateway", slo_class="interactive", ended="refused"): 1,
        slo(ended, "gateway", slo_class="interactive", ended="left"): changed.get("left", 1),
        slo(ended, "engine", slo_class="interactive", ended="ok"): changed.get("spans", 3),
        slo("llm_span_frontend_seconds_count", "engine", slo_class="interactive", parent="gateway"): changed.get(
            "front", 3
        ),
    }
    for vantage in ("engine", "gateway"):
        found[slo(tokens, vantage, slo_class="interactive", kind="prompt")] = 21
        found[slo(tokens, vantage, slo_class="interactive", kind="output")] = changed.get("output", 33)
    return found


def drained(script, **changed: float):
    checks, clients = script("checks"), script("clients")
    rows = [whole("c"), whole("c", e2e=1.1), whole("c", e2e=2.0)]
    rows += [{"stream": "c", "trace_id": "a1", "status": 429}, whole("c", client_aborted=True)]
    engine = {
        'vllm:request_success_total{finished_reason="length"}': 10 + changed.get("finished", 3),
        'vllm:request_success_total{finished_reason="abort"}': 1,
    }
    nothing = page(script, {'vllm:request_success_total{finished_reason="length"}': 10})
    before = checks.Pages(page(script, {}), nothing)
    after = checks.Pages(page(script, counts(**changed)), page(script, engine))
    return checks.Drained(before, after, clients.counted(rows, {"c": "acme"}))


def wrong(rows) -> list[str]:
    return [row.what for row in rows if row.right is False]


def test_a_run_in_which_all_is_counted_is_right(script, checks):
    run = drained(script)
    rows = [*checks.at_the_gateway(run), *checks.at_the_engine(run)]
    assert wrong(rows) == []
    told = {row.what: row for row in rows}
    assert told["gateway: class interactive"].expected == "yes 1 to 2, no 2 to 3 of 4 (by their own clocks yes 1)"
    assert told["engine: given up on its page"].found == "1"
    assert "gateway: class batch" not in told  # nobody of it asked


def test_requests_of_a_class_of_which_nobody_asked_are_found(script, checks):
    run = drained(script)
    samples = (
        *run.after.exporter.samples,
        (checks.SLO, {"vantage": "gateway", "slo_class": "batch", "met": "yes"}, 1.0),
    )
    run = replace(run, after=replace(run.after, exporter=replace(run.after.exporter, samples=samples)))
    assert wrong(checks.at_the_gateway(run)) == ["gateway: class batch"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unknown": 1}, {"gateway: class interactive"}),
        ({"failed": 0}, {"gateway: class interactive, missed"}),
        ({"left": 0}, {"gateway: how calls ended"}),
        (
            {"spans": 2},
            {
                "engine: spans, and its page's finished requests",
                "engine: answers that clients got whole",
                "engine: spans by class (tenants inherited)",
            },
        ),
        ({"finished": 4}, {"engine: spans, and its page's finished requests"}),
        ({"front": 2}, {"around the engine: calls with a gateway's span"}),
        ({"output": 34}, {"engine: tokens of whole answers", "gateway: tokens of whole answers"}),
    ],
)
def test_every_difference_is_found(script, checks, changed, said):
    run = drained(script, **changed)
    assert set(wrong([*checks.at_the_gateway(run), *checks.at_the_engine(run)])) == said


@pytest.mark.parametrize(
    ("yes", "no", "right"), [(4, 6, True), (5, 5, True), (3, 7, False), (6, 4, False), (4, 5, False), (5, 6, False)]
)
def test_a_class_may_differ_by_the_near_ones_and_no_further(checks, clients, yes, no, right):
    log = clients.Count(yes=4, no=5, near=1)
    assert checks.by_class("x", log, {"yes": yes, "no": no}).right is right


@pytest.mark.parametrize(
    ("low", "high", "right"), [(0.7, 0.8, True), (0.75, 0.75, True), (0.76, 1, False), (0, 0.74, False)]
)
def test_the_interval_must_hold_the_exact_share(script, checks, low, high, right):
    exact = {slo(checks.SLO, "engine", slo_class="default", met=met): n for met, n in (("yes", 75), ("no", 25))}
    signals = {'llm_goodput_low_ratio{instance="chat"}': low, 'llm_goodput_high_ratio{instance="chat"}': high}
    both = checks.Pages(page(script, exact | signals), page(script, {}))
    (row,) = checks.interval(checks.Drained(both, both, script("clients").Log()))
    assert (row.right, row.expected) == (right, "0.7500")
    gap = {'llm_signal_gap{instance="chat",signal="goodput_low_ratio",gap="censored"}': 1}
    both = checks.Pages(page(script, exact | gap), page(script, {}))
    (row,) = checks.interval(checks.Drained(both, both, script("clients").Log()))
    assert row.right is None
    assert "censored" in row.found


def test_sampling_must_be_said(script, checks, clients):
    log = clients.Log(whole={"0" * 16 + right * 16: {} for right in "781"})
    engine = page(script, {'vllm:request_success_total{finished_reason="length"}': 4})
    told = {
        slo(checks.ENDED, "engine", ended="ok"): 2,
        'llm_span_coverage_ratio{instance="chat"}': 0.5,
        'llm_slo_goodput_ratio{instance="chat"}': 0.9,
        'llm_signal_standing{instance="chat",signal="slo_goodput_ratio",standing="estimate"}': 1,
    }
    before = checks.Pages(page(script, {}), engine)

    def rows(exporter):
        return list(checks.sampled(checks.Drained(before, checks.Pages(page(script, exporter), engine), log)))

    assert wrong(rows(told)) == []
    assert wrong(rows(told | {'llm_span_coverage_ratio{instance="chat"}': 1.0})) == ["coverage is said"]
    exact = {name: n for name, n in told.items() if "standing" not in name}
    assert wrong(rows(exact)) == ["goodput, request by request, is"]
    assert wrong(rows(told | {slo(checks.ENDED, "engine", ended="ok"): 3}))[0].startswith("engine: spans")


def test_what_is_lost_refused_or_open_is_found(script, checks):
    fine = {
        'llmvitals_span_exports_total{result="ok"}': 3,
        'llmvitals_span_exports_total{result="busy"}': 0,
        'llmvitals_spans_dropped_total{reason="ids"}': 0,
        "llmvitals_spans_open": 0,
        "llmvitals_spans_hurried_total": 0,
        'llmvitals_span_senders{join="process"}': 1,
    }

    def rows(exporter):
        both = checks.Pages(page(script, exporter), page(script, {}))
        return wrong(checks.nothing_lost(checks.Drained(both, both, script("clients").Log())))

    assert rows(fine) == []
    for name, said in (
        ('llmvitals_span_exports_total{result="busy"}', "exports taken"),
        ('llmvitals_spans_dropped_total{reason="ids"}', "spans dropped"),
        ("llmvitals_spans_open", "spans open or hurried"),
        ('llmvitals_span_senders{join="none"}', "senders, by how they were found"),
    ):
        assert rows(fine | {name: 1}) == [said]


def test_a_trace_that_nobody_sent_or_with_other_times_is_found(checks, clients):
    row = whole("c", ttft=0.41)
    log = clients.counted([row], {"c": "acme"})

    def line(seconds: float, vantage: str = "gateway") -> str:
        labels = f'le="0.5",vantage="{vantage}"'
        return f'llm_span_ttft_seconds_bucket{{{labels}}} 3 # {{trace_id="{row["trace_id"]}"}} {seconds} 1.5\n'

    def rows(text: str, known: set[str] = log.traces) -> list[bool | None]:
        return [one.right for one in checks.traces(text + 'llm_x_bucket{le="1"} 1\n', known, log)]

    assert rows(line(0.4)) == [True, True]
    assert rows(line(0.4), {"0b"}) == [False, True]
    assert rows(line(0.42)) == [True, False]  # later than its client had it
    assert rows(line(0.1)) == [True, False]
    assert rows(line(0.1, "engine")) == [True]  # another clock
    assert rows("") == [False]  # none at all


def test_a_secret_that_stands_somewhere_is_found(checks, table):
    assert checks.secret({"a": "fine", "b": "fine too"}).right is True
    found = checks.secret({"a": "fine", "b": f"... {table.SECRET} ..."})
    assert (found.right, found.found) == (False, "b")


# -- how it is started ------------------------------------------------------------------------------------------------
def test_make_takes_the_folder_and_the_cases():
    def made(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "-n", "e2e-requests", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert "DIR=folder" in made().stderr
    plain = made("DIR=there").stdout.splitlines()[-1]
    assert plain == "VENV='' .venv-run/bin/python e2e/traces/run.py 'there' "
    some = made("DIR=there", "ONLY=grpc,http", "VENV=/opt/vllm").stdout.splitlines()[-1]
    assert some == "VENV='/opt/vllm' .venv-run/bin/python e2e/traces/run.py 'there' grpc http"


def test_a_case_that_does_not_exist_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", HERE / "run.py", tmp_path, "smoke"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "no such case: smoke. There are grpc, http, sampled" in done.stderr
    assert list(tmp_path.iterdir()) == []


def served(folder: Path, *flags: str, has: bool, **environment: str) -> tuple[int, str, list[str]]:
    """What serve.sh does with an environment that ``has`` OpenTelemetry or not: its status, its words, and what it called."""
    programs = folder / "venv" / "bin"
    programs.mkdir(parents=True)
    (folder / "model").mkdir()
    (folder / "model" / "config.json").touch()
    for name, code in (("pip", 0), ("vllm", 0), ("python", 0 if has else 1)):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\nexit {code}\n')
        program.chmod(0o755)
    environ = {**os.environ, **environment}
    command = [SCRIPTS / "serve.sh", folder, "1", *flags]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    calls = folder / "calls"
    return done.returncode, done.stderr, calls.read_text().splitlines() if calls.exists() else []


FLAG = ("--otlp-traces-endpoint", "http://127.0.0.1:1")


def test_a_server_that_traces_gets_what_it_needs_once(tmp_path):
    code, _, calls = served(tmp_path / "a", *FLAG, has=False)
    assert code == 0
    assert [call.split()[0] for call in calls] == ["python", "pip", "vllm"]
    assert all(
        name in calls[1].split() for name in ("opentelemetry-exporter-otlp", "opentelemetry-semantic-conventions-ai")
    )
    assert calls[2].endswith(" ".join(FLAG))
    _, _, calls = served(tmp_path / "b", *FLAG, has=True)
    assert [call.split()[0] for call in calls] == ["python", "vllm"]
    _, _, calls = served(tmp_path / "c", has=False)
    assert [call.split()[0] for call in calls] == ["vllm"]


def test_an_environment_of_somebody_is_not_changed(tmp_path):
    code, said, calls = served(tmp_path, *FLAG, has=False, VENV=str(tmp_path / "venv"))
    assert code == 1
    assert "lacks what traces need: pip install opentelemetry-sdk" in said
    assert [call.split()[0] for call in calls] == ["python"]


def test_the_page_names_every_script():
    text = (SCRIPTS / "README.md").read_text()
    for path in HERE.glob("*.py"):
        assert f"`traces/{path.name}" in text, path.name
