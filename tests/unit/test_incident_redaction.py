"""What must not leave does not, wherever it was planted, and what was taken out changes no number and no verdict."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from llmvitals.app.promql import judge
from llmvitals.incident.aliases import Aliases
from llmvitals.incident.model import About
from llmvitals.incident.package import make
from llmvitals.incident.redaction import Redactor
from llmvitals.settings import Service, Settings, Slo, SloClass
from llmvitals.sources.capture import Judged, RawTarget, raw, read_capture
from llmvitals.sources.recording import Recording, of_capture
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.report import document

FIXTURES = Path(__file__).parents[1] / "fixtures" / "captures"

SECRETS = {
    "hunter2": "http://admin:hunter2@gpu-1:8000/metrics",
    "p@ss/w0rd": "postgres://bob:p@ss/w0rd@db:5432/x",
    "qwertykey": "https://api.example/v1/models?key=qwertykey",
    "AbCdEf123456": "Authorization: Bearer AbCdEf123456",
    "dXNlcjpwYXNz": "authorization=Basic dXNlcjpwYXNz",
    "zzz-token-1": "token: zzz-token-1",
    "s3cr3t-val": "--api-key s3cr3t-val",
    "s3cr3t-two": "vllm serve m --api-key=s3cr3t-two --port 8000",
    "json-secret": '{"api_key": "json-secret"}',
    "sk-proj-abcdefgh1234": "we used sk-proj-abcdefgh1234 there",
    "hf_abcdefghijkl": "HF hf_abcdefghijkl",
    "ghp_abcdefghijklmnop1234": "ghp_abcdefghijklmnop1234",
    "AKIAIOSFODNN7EXAMPLE": "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc": "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "MIIEowIBAAKCAQEA": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "jane.doe@example.com": "ask jane.doe@example.com",
    "correct-horse": "the password is correct-horse",
    "xoxb-1234-abcdefgh": "xoxb-1234-abcdefgh",
    "c00kie-value": "Cookie: session=c00kie-value",
}
"""A secret, and a text in which it stands."""

HARMLESS = (
    "max_num_batched_tokens = 4096",
    "--max-num-batched-tokens=8192 --tokenizer=slow",
    "Prompt tokens: 1200, generated tokens: 33",
    "https://llmvitals.readthedocs.io/runbooks/kv-cache-saturation",
    "basic configuration of the engine",
    "http://gpu-1:8000/metrics answered 503",
    "Set --max-num-seqs to 4.",
    "KV usage 97 % @ 14:02",
)


@pytest.mark.parametrize(("secret", "text"), SECRETS.items())
def test_a_secret_is_taken_out_of_a_text(secret, text):
    cleaned = Redactor().text(text)
    assert secret not in cleaned
    assert "[secret-1]" in cleaned


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text):
    assert Redactor().text(text) == text


def test_one_secret_has_one_number_and_two_have_two():
    redactor = Redactor()
    assert redactor.text("password=aaa1 password=bbb2") == "password=[secret-1] password=[secret-2]"
    assert redactor.text("password=aaa1") == "password=[secret-1]"
    assert redactor.text(redactor.text("token=aaa1")) == redactor.text("token=aaa1")


def test_a_page_keeps_its_numbers_and_its_series():
    page = (
        b"# HELP x_total Asked with token=abcdef12.\n# TYPE x_total counter\n"
        b'x_total{hashed_api_key="88dc28d0f030",model="m"} 3\n'
        b'x_total{hashed_api_key="88dc28d0f031",model="m"} 4 # {trace_id="ab"} 0.1 1.0\n'
        b'y{token_type="prompt",path="a\\"b\\\\c",url="http://u:pw@h/"} 1e-5\n'
        b"z 7\n"
    )
    cleaned = Redactor().page(page).decode().splitlines()
    assert cleaned == [
        "# HELP x_total Asked with token=[secret-1]",
        "# TYPE x_total counter",
        'x_total{hashed_api_key="[secret-2]",model="m"} 3',
        'x_total{hashed_api_key="[secret-3]",model="m"} 4 # {trace_id="ab"} 0.1 1.0',
        'y{token_type="prompt",path="a\\"b\\\\c",url="http://[secret-4]@h/"} 1e-5',
        "z 7",
    ]


def planted() -> Recording:
    """A healthy recording with every secret in every field that can hold a text."""
    (target,) = raw(FIXTURES / "healthy")
    told = [text.replace("\n", "\\n").replace('"', '\\"') for text in SECRETS.values()]
    lines = [f'planted{{i="{i}",about="{text}"}} 1' for i, text in enumerate(told)]
    lines += [f"# {text}" for text in told] + [f"no sample at all {text}" for text in told]
    lines += [f'vllm:cache_config_info{{secret="{text}",api_key="plainkey{i}"}} 1' for i, text in enumerate(told)]
    more = ("\n".join(lines) + "\n").encode()
    pages = [RawPage(p.t, p.took, p.status, (p.body or b"") + more) for p in target.pages]
    whole = " ".join(SECRETS.values())
    failed = RawPage(pages[-1].t - 0.5, None, None, None, f"cannot be reached: {whole}")
    name = "http://admin:hunter2@gpu-1:8000"
    own = RawTarget(name, target.kind, (*pages[:-1], failed, pages[-1]))
    bad = RawTarget(f"bad {whole}", "auto", (RawPage(pages[-1].t, None, None, None, f"no {whole}", f"detail {whole}"),))
    slo = Slo(classes=(SloClass(name=f"class {whole}", models=(f"*{whole}*",)),))
    service = Service(name=f"service {whole}", engines=(name,), model=whole)
    return Recording((own, bad), (service,), Judged(slo=slo))


def files_of(zipped: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(zipped)) as packed:
        return {n: gzip.decompress(packed.read(n)) if n.endswith(".gz") else packed.read(n) for n in packed.namelist()}


@pytest.mark.parametrize("anonymised", [False, True])
def test_no_file_of_the_zip_holds_a_planted_secret(tmp_path, anonymised, ran_recording):
    ran_recording(FIXTURES / "healthy")
    note = "\n".join(SECRETS.values())
    about = About(f"from {note}", 1.0, note, notes=(note,), anonymised=anonymised)
    made = make(planted(), Settings(), about, tmp_path / "r")
    files = files_of(made.zip.read_bytes())
    assert {"report.md", "report.html", "verdict.json", "capture/capture.json"} <= files.keys()
    found = [(name, s) for name, body in files.items() for s in (*SECRETS, "plainkey") if s.encode() in body]
    assert found == []
    assert made.incident.about.secrets >= len(SECRETS)


@pytest.mark.parametrize("name", ["kv-preemption", "healthy", "admission-503", "queue-two-seats"])
@pytest.mark.parametrize("anonymised", [False, True])
def test_redaction_changes_no_verdict(tmp_path, name, anonymised, ran_recording):
    ran_recording(FIXTURES / name)
    (given,) = read_capture(FIXTURES / name)
    before = document(judge((given,), Settings()))
    made = make(of_capture(FIXTURES / name), Settings(), About("x", 1.0, anonymised=anonymised), tmp_path / "r")
    after = json.loads((tmp_path / "r" / "verdict.json").read_text())
    if anonymised:
        assert after["scope"] == {"instance": "instance-1", "model": "model-1"}
        text = json.dumps(after).replace("instance-1", given.name).replace("model-1", before["scope"]["model"])
        after = json.loads(text)
    assert after == json.loads(json.dumps(before))
    replayed = document(judge(read_capture(made.folder), Settings()))
    assert json.loads(json.dumps(replayed)) == json.loads((tmp_path / "r" / "verdict.json").read_text())


def test_names_are_replaced_everywhere_and_alike(tmp_path):
    page = (
        b'vllm:num_requests_running{model_name="acme/Secret-7B",engine="0"} 1\n'
        b'vllm:num_requests_waiting{model_name="acme/Secret-7B",engine="0"} 0\n'
        b'other{pod="chat-6f9-xk2",namespace="acme-prod",hostname="gpu-17.acme.example",note="on gpu-17"} 1\n'
    )
    pages = tuple(RawPage(100.0 + 3 * i, 0.01, 200, page) for i in range(8))
    gpu = RawTarget("gpu-17.acme.example:8000/machine", "llmvitals", (), engine="gpu-17.acme.example:8000")
    recording = Recording((RawTarget("gpu-17.acme.example:8000", "auto", pages), gpu))
    note = "Secret-7B on gpu-17.acme.example:8000 (pod chat-6f9-xk2, 10.1.2.3), see http://wiki.acme.example/x"
    make(recording, Settings(), About("x", 1.0, note, anonymised=True), tmp_path / "r")
    files = files_of((tmp_path / "r" / "incident.zip").read_bytes())
    names = (b"Secret-7B", b"acme", b"gpu-17", b"xk2", b"10.1.2.3")
    assert [(file, name) for file, body in files.items() for name in names if name in body] == []
    index = json.loads(files["capture/capture.json"])
    assert [t["name"] for t in index["targets"]] == ["instance-1", "instance-1/machine"]
    assert index["targets"][1]["engine"] == "instance-1"
    assert b"model-1 on instance-1 (pod pod-1, host-" in files["report.md"]


def test_a_class_of_a_model_is_still_its_class_under_another_name(tmp_path, ran_recording):
    ran_recording(FIXTURES / "healthy")
    slow = SloClass(name="slow", models=("tiny*",), ttft_seconds=0.0001)
    settings = Settings(slo=Slo(classes=(slow,)))
    (given,) = read_capture(FIXTURES / "healthy")
    wanted = judge((given,), settings)[0]
    made = make(of_capture(FIXTURES / "healthy"), settings, About("x", 1.0, anonymised=True), tmp_path / "r")
    assert wanted.hurt
    assert (made.incident.main.outcome, made.incident.main.hurt) == (wanted.outcome, wanted.hurt)
    assert "tiny" not in (tmp_path / "r" / "capture" / "capture.json").read_text()


@pytest.mark.parametrize("between", ["\u2028", "\x85", "\x0c", "\x1e"])
def test_a_character_that_ends_lines_elsewhere_ends_none_of_a_page(between):
    page = f'vllm:num_requests_running{{model_name="m",api_key="first{between}second"}} 1\n'
    assert b"second" not in Redactor().page(page.encode())


def test_a_windows_name_is_one_name(tmp_path):
    page = (
        b'vllm:num_requests_running{model_name="m\\\\new-7b",hostname="CORP\\\\node9"} 1\n'
        b'vllm:num_requests_waiting{model_name="m\\\\new-7b"} 0\n'
    )
    recording = Recording((RawTarget("a:8000", "auto", tuple(RawPage(3.0 * i, 0.01, 200, page) for i in range(8))),))
    make(recording, Settings(), About("x", 1.0, anonymised=True), tmp_path / "r")
    files = files_of((tmp_path / "r" / "incident.zip").read_bytes())
    assert [file for file, body in files.items() for name in (b"node9", b"new-7b") if name in body] == []


def test_a_name_is_known_by_labels_of_somebodys_own_and_however_a_person_writes_it(tmp_path):
    page = (
        b'vllm:num_requests_running{model_name="Zebra-70b"} 1\n'
        b'other{kubernetes_pod_name="pod-q9x",tenant_id="acmecorp",ray_io_cluster="ray-7z"} 1\n'
        b'other{tenant="One"} 1\nother{tenant="one"} 2\n'
    )
    pages = tuple(RawPage(100.0 + 3 * i, 0.01, 200, page) for i in range(8))
    recording = Recording((RawTarget("[fd00:aa::17]:8000", "auto", pages), RawTarget("gpu-17:8000", "auto", pages)))
    note = "ZEBRA-70B on GPU-17 and fd00:aa::17, pod POD-Q9X of AcmeCorp"
    make(recording, Settings(), About("x", 1.0, note, anonymised=True), tmp_path / "r")
    files = files_of((tmp_path / "r" / "incident.zip").read_bytes())
    names = (b"zebra", b"pod-q9x", b"acmecorp", b"ray-7z", b"gpu-17", b"fd00")
    assert [(file, name) for file, body in files.items() for name in names if name in body.lower()] == []
    left = next(body for file, body in files.items() if ".prom" in file).decode()
    one, two = (line.rpartition(" ")[0] for line in left.splitlines() if line.startswith("other{tenant="))
    assert one != two, "series that differ by their case alone stay two"


def test_a_class_of_a_route_is_still_its_class_under_aliases():
    aliases = Aliases([("tenant", "acmecorp")])
    kept = aliases.slo(Slo(classes=(SloClass(name="a", routes=("/v1/*", "acmecorp-*")),)))
    assert kept.classes[0].routes == ("/v1/*", "tenant-1-*")
    assert aliases.label("route", "acmecorp-chat") == "tenant-1-chat"
