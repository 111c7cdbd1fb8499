"""``llmvitals audit``: exit codes for CI, JSON, files, stdin and a command after ``--``; a source's engines."""

import json

import pytest
from click.testing import CliRunner

from llmvitals import cli
from llmvitals.audit import live
from llmvitals.audit.judge import audit
from llmvitals.audit.model import AuditError
from llmvitals.audit.told import of_samples
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Source
from support.answers import Answer, Answers
from support.setups import LLAMA_8B, MADE, SANE

BAD = ("vllm", "serve", "m/x", "--gpu-memory-utilization", "0.99")
OUR_PAGE = """\
llm_kv_block_tokens{instance="a:8000",model="m",engine="vllm"} 16
llm_kv_capacity_tokens{instance="a:8000",model="m",engine="vllm"} 100000
llm_max_model_tokens{instance="a:8000",model="m",engine="vllm"} 8192
llm_prefix_caching_enabled{instance="a:8000",model="m",engine="vllm"} 0
llm_kv_block_tokens{instance="b:8000",model="m",engine="vllm"} 16
llm_prefix_caching_enabled{instance="b:8000",model="m",engine="vllm"} 1
llm_prefix_caching_enabled{instance="c:8000",model="m",engine="sglang"} 0
"""


def run(*words, stdin=None):
    return CliRunner().invoke(cli.group, ["audit", *map(str, words)], input=stdin)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--", *BAD), 1),
        (("--fail-on", "error", "--", *BAD), 0),
        (("--fail-on", "none", "--", *BAD), 0),
        (("--", "vllm", "serve", "m/x"), 0),
        (("--fail-on", "note", "--", "vllm", "serve", "m/x"), 1),
        (("--fail-on", "error", "--", "vllm", "serve", "m/x", "--blok-size", "16"), 1),
    ],
)
def test_the_exit_code_is_for_ci(words, code):
    assert run(*words).exit_code == code


def test_json_says_the_same_as_the_text():
    found = json.loads(run("--json", "--", *BAD).stdout)
    assert found["worst"] == "warning"
    (setup,) = found["setups"]
    assert setup["version_assumed"] is True
    share = next(f for f in setup["findings"] if f["rule"] == "share-high")
    assert share["write"] == "--gpu-memory-utilization 0.95"
    assert share["runbook"] == "runbooks/vram-headroom.md"
    said = run("--", *BAD).stdout
    assert share["title"] in said
    assert share["write"] in said


def test_files_stdin_and_several_at_once(tmp_path):
    script, manifest = tmp_path / "start.sh", tmp_path / "pod.yaml"
    script.write_text("vllm serve m/x --enforce-eager\n")
    manifest.write_text(SANE["a careful deployment"].text)
    found = json.loads(run(script, manifest, "--json").stdout)
    assert [one["place"] for one in found["setups"]] == [str(script), "Deployment/llama vllm"]
    assert run("-", stdin=MADE["eager"].text).exit_code == 1
    assert run(stdin=MADE["eager"].text).exit_code == 1


def test_a_model_and_a_gpu_give_the_pool(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA_8B))
    words = (
        "--json",
        "--model-config",
        config,
        "--gpu",
        "A100-40GB",
        "--vllm-version",
        "0.11.0",
        "--",
        "vllm",
        "serve",
        "m/x",
    )
    (setup,) = json.loads(run(*words).stdout)["setups"]
    found = {f["rule"]: f["title"] for f in setup["findings"]}
    assert found["context-over-pool"].startswith("256 seats, but the pool holds 1.")
    assert "an estimate" in found["context-over-pool"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/no/such/file",), "cannot be read"),
        (("--vllm-version", "soon", "--", *BAD), "is no release that is known"),
        (("--model-config", "/no/such/config", "--", *BAD), "cannot be read"),
        (("--", "ls", "-la"), "starts no engine that is known"),
    ],
)
def test_bad_input_is_one_error(words, said):
    result = run(*words)
    assert isinstance(result.exception, LlmvitalsError)
    assert said in str(result.exception)


def test_other_engines_are_told_apart():
    found = run("--", "trtllm-serve", "m/x")
    assert "TensorRT-LLM" in found.stdout
    assert "not audited" in found.stdout
    assert found.exit_code == 0


def rules_of(found):
    return {one.place: {f.rule for f in audit(one).findings} for one in found}


def test_the_engines_of_an_exporter_are_audited():
    with Answers({"/metrics": Answer(OUR_PAGE.encode())}) as exporter:
        found = live.setups(Source(name="prod", url=exporter.url))
    assert rules_of(found) == {"a:8000 m": {"prefix-caching-off"}, "b:8000 m": set()}


def test_the_engines_of_a_prometheus_are_audited():
    labels = {"exported_instance": "a:8000", "instance": "exporter:9464", "model": "m", "engine": "vllm"}
    result = [{"metric": {"__name__": "llm_prefix_caching_enabled", **labels}, "value": [1.0, "0"]}]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    with Answers({"/api/v1/query": Answer(json.dumps(answer).encode())}) as server:
        found = live.setups(Source(name="prod", url=server.url, kind="prometheus"), at=1.0)
    assert rules_of(found) == {"a:8000 m": {"prefix-caching-off"}}
    assert "llm_prefix_caching_enabled" in server.asked[0].body


@pytest.mark.parametrize(
    ("page", "said"), [(Answer(b"llm_target_up 1\n"), "tells of no engine"), (Answer(b"", 503), "answered 503")]
)
def test_an_exporter_that_tells_nothing_says_so(page, said):
    with Answers({"/metrics": page}) as exporter, pytest.raises(AuditError, match=said):
        live.setups(Source(name="prod", url=exporter.url))


@pytest.mark.parametrize(("told", "release"), [("0.7-0.7.3", "0.7.3"), (">=0.32", ""), ("0.11.0", "0.11.0"), ("", "")])
def test_a_page_that_says_its_releases_is_audited_by_the_newest_of_them(told, release):
    samples = (
        ("llm_kv_block_tokens", {"instance": "a", "model": "m", "engine": "vllm"}, 16.0),
        ("llm_target_info", {"instance": "a", "engine": "vllm", "version": told}, 1.0),
        ("llm_target_info", {"instance": "b", "engine": "vllm", "version": "0.4.2"}, 1.0),
    )
    (setup,) = of_samples(samples, place="prod")
    assert setup.version == release
