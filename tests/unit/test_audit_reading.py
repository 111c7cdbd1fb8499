"""What the audit reads: commands, scripts, containers, manifests, pages and logs, and what it refuses in one line."""

import contextlib
import gzip
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.audit import arguments, defaults, flags, reading
from llmvitals.audit.document import document
from llmvitals.audit.judge import audit
from llmvitals.audit.model import AuditError, Severity
from support.setups import MADE, SANE, V0_LOG, pod, v1_log

PAGES = Path(__file__).resolve().parents[1] / "golden" / "vllm" / "pages"
TEXTS = [case.text for case in (*SANE.values(), *MADE.values())]


def one(text):
    (found,) = reading.setups(text, place="given")
    return found


def values(text, version=(0, 11, 0)):
    return dict(arguments.last(arguments.read(one(text).words, version)[0]))


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m/x --max-model-len 8192 --enforce-eager",
        "vllm serve m/x --max_model_len=8192 --enforce_eager\n",
        "vllm serve m/x \\\n   --max-model-len 8192 \\  \n  --enforce-eager # why not\n",
        "vllm serve m/x\n  --max-model-len 8192\n  --enforce-eager\n",
        "# start\nexport LEN=8192\nvllm serve m/x --max-model-len ${LEN} --enforce-eager &\n",
        "/opt/venv/bin/vllm serve m/x --max-model-len ${LEN:-8192} --enforce-eager || exit 1",
        'bash -lc "cd /srv && vllm serve m/x --max-model-len 8192 --enforce-eager"',
        "nohup uv run vllm serve m/x --max-model-len 8192 --enforce-eager > log 2>&1",
        "python -m vllm.entrypoints.openai.api_server --model m/x --max-model-len 8192 --enforce-eager",
        "docker run --rm -it --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model m/x --max-model-len 8192 --enforce-eager",
        "sudo podman run --entrypoint vllm ghcr.io/me/engine:3 serve m/x --max-model-len 8192 --enforce-eager",
        'docker run vllm/vllm-openai bash -c "pip list; vllm serve m/x --max-model-len 8192 --enforce-eager"',
        "model: m/x\nmax_model_len: 8192\nenforce-eager: true\n",
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: [--model, m/x, --max-model-len, '8192', --enforce-eager]",
        "cat <<EOF | kubectl apply -f -\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
        '  - {image: "vllm/vllm-openai", args: ["m/x", "--max-model-len=8192", "--enforce-eager"]}\nEOF\n',
    ],
)
def test_one_meaning_in_many_spellings(text):
    found = values(text)
    assert (found["max-model-len"], found["enforce-eager"]) == ("8192", "true")


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("-tp 4 -dp=2", (0, 11, 0), {"tensor-parallel-size": "4", "data-parallel-size": "2"}),
        ("--no-enable-prefix-caching", (0, 11, 0), {"enable-prefix-caching": "false"}),
        ("--enable-chunked-prefill False --seed 1", (0, 6, 3), {"enable-chunked-prefill": "false", "seed": "1"}),
        ("--disable-prefix-caching", (0, 33, 0), {"enable-prefix-caching": "false"}),
        ("--lora-modules a=/x b=/y --port 1", (0, 11, 0), {"lora-modules": "a=/x\nb=/y", "port": "1"}),
        ("--device-memory-utilization 0.5", (0, 33, 0), {"gpu-memory-utilization": "0.5"}),
        ("--compilation-config.mode 3 --seed 2", (0, 20, 0), {"seed": "2"}),
        ("-O3 --seed 2", (0, 11, 0), {"seed": "2"}),
        ("--max-model-len -1", (0, 20, 0), {"max-model-len": "-1"}),
    ],
)
def test_flags_as_the_release_reads_them(text, version, expected):
    given = arguments.read(text.split(), version)[0]
    assert all(flag.known for flag in given)
    assert dict(arguments.last(given)) == expected


@pytest.mark.parametrize(
    ("text", "number"), [("8192", 8192), ("8k", 8000), ("8K", 8192), ("1.5k", 1500), ("auto", None), ("", None)]
)
def test_whole_numbers_as_vllm_reads_them(text, number):
    assert arguments.whole(text) == number


@pytest.mark.parametrize(
    ("version", "engine", "gpu", "gb", "seats"),
    [
        ("0.6.3", "V0", "H100-80GB", 80, 256),
        ("0.8.0", "V1", "L4-24GB", 24, 1024),
        ("0.8.5", "V1", "L4-24GB", 24, 256),
        ("0.8.5", "V1", "A100-80GB", 80, 1024),
        ("0.11.0", "V1", "A100-80GB", 80, 256),
        ("0.11.0", "V1", "H100-80GB", 80, 1024),
        ("0.11.0", "V1", "", None, None),
    ],
)
def test_seats_by_release_and_gpu(version, engine, gpu, gb, seats):
    """As ``EngineArgs`` of each release decides for its OpenAI server."""
    assert defaults.generation(flags.number(version), "") == engine
    assert defaults.seats(flags.number(version), engine, gpu, gb) == seats


@pytest.mark.parametrize(
    ("name", "version", "default"),
    [
        ("gpu-memory-utilization", "0.11.0", "0.9"),
        ("gpu-memory-utilization", "0.20.0", "0.92"),
        ("gpu-memory-utilization", "0.19.0", ""),  # 0.18 and 0.20 differ, 0.19 was not read
        ("enable-prefix-caching", "0.6.3", "False"),
        ("max-num-seqs", "0.6.3", "256"),
        ("max-loras", "0.9.2", "1"),
        ("block-size", "0.6.3", "16"),
    ],
)
def test_defaults_by_release(name, version, default):
    assert flags.default(name, flags.number(version)) == default


def test_flags_come_and_go():
    assert flags.missing("swap-space", (0, 20, 0))
    assert not flags.missing("swap-space", (0, 16, 0))
    assert not flags.missing("swap-space", (0, 17, 0))  # between one that has it and one that lacks it
    assert flags.missing("max-num-queued-reqs", (0, 11, 0))
    assert not flags.missing("max-num-queued-reqs", (0, 33, 0))
    assert flags.near("tensor_parallel_sise".replace("_", "-"), (0, 11, 0)) == "tensor-parallel-size"
    assert flags.near("quux", (0, 11, 0)) == ""


def test_a_log_says_more_than_the_command():
    found = one(v1_log("'max_num_seqs': 256, 'lora_modules': None", 131072, 148_192).text)
    assert (found.version, found.generation, found.pool_tokens, found.contexts) == ("0.11.0", "V1", 148_192, 1.13)
    assert found.told["max-num-seqs"] == "256"
    assert found.told["max-model-len"] == "131072"
    old = one(V0_LOG % ("False", "False"))
    assert (old.version, old.generation, old.pool_tokens, old.contexts) == ("0.6.3", "V0", 27905 * 16, 54.5)


NEW_LOG = """
(APIServer pid=1) INFO 11-20 10:00:00 [startup.py:24]
\x1b[93m▄▄\x1b[0m \x1b[94m▄█\x1b[0m \x1b[97;1m█     █     █ ▀▄▀ █\x1b[0m  version \x1b[97;1m0.32.0\x1b[0m
(APIServer pid=1) INFO 11-20 10:00:00 [startup.py:96] non-default args: {'model': 'm/x', 'max_num_seqs': 256, 'api_key': '***'}
(EngineCore pid=9) INFO 11-20 10:01:00 [kv_cache_utils.py:2327] GPU KV cache size: 148,192 tokens, Maximum concurrency for \
131,072 tokens per request: 1.13x
"""


def test_the_log_of_newer_releases_is_read():
    found = one(NEW_LOG)
    assert (found.version, found.generation, found.pool_tokens, found.contexts) == ("0.32.0", "V1", 148_192, 1.13)
    assert {f.rule for f in audit(found).findings if f.severity} == {"context-over-pool"}


def test_a_page_tells_pool_and_settings():
    text = (
        'vllm:cache_config_info{block_size="16",cache_dtype="fp8",enable_prefix_caching="False",engine="0",'
        'gpu_memory_utilization="0.9",num_gpu_blocks="20000",num_gpu_blocks_override="None",swap_space="4.0"} 1.0\n'
    )
    found = one(text)
    assert found.pool_tokens == 320_000
    assert found.told["enable-prefix-caching"] == "false"
    assert {f.rule for f in audit(found).findings} == {"prefix-caching-off"}


def test_a_pod_tells_what_is_around_the_engine():
    (found,) = reading.setups(pod("-tp 2", gpus=2, grace=90).text, place="given")
    around = found.around
    assert found.place == "Deployment/llama vllm"
    assert (around.gpus, around.cpu_limit, around.shared_memory, around.cache_kept) == (2, 8.0, True, True)
    assert (around.grace_seconds, around.startup.patience, around.liveness.failures) == (90, 900, 6)
    assert found.version == "0.11.0"


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.prom*")), ids=lambda path: path.name)
def test_no_page_of_vllm_is_a_problem(page):
    raw = page.read_bytes()
    text = (gzip.decompress(raw) if page.suffix == ".gz" else raw).decode(errors="replace")
    try:
        found = reading.setups(text, place=page.name)
    except AuditError:
        return
    for setup in found:
        assert not [f for f in audit(setup).findings if f.severity == Severity.ERROR]


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("", "is empty"),
        ("ls -la", "starts no engine that is known"),
        ("vllm serve 'm/x", "has a quote that does not close"),
        ("kind: Pod\nspec: [", "is not YAML"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "starts no engine"),
        ("x" * 2_000_001, "is too long"),
    ],
)
def test_what_holds_no_engine_is_refused_in_one_line(text, thing):
    with pytest.raises(AuditError, match=thing) as refused:
        reading.setups(text, place="given")
    assert refused.value.remedy
    assert "\n" not in str(refused.value)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_text_breaks_it(data):
    """Texts cut, joined and with lines of others in them: findings, or one clear error."""
    text = data.draw(st.sampled_from(TEXTS))
    other = data.draw(st.sampled_from(TEXTS))
    at = data.draw(st.integers(0, len(text)))
    extra = data.draw(
        st.one_of(st.text(max_size=20), st.sampled_from(["{", "'", "\x00", "--", "-", "=", "$(", "{{ x }}", ": ["]))
    )
    mixed = text[:at] + extra + data.draw(st.sampled_from([text[at:], other, ""]))
    try:
        found = reading.setups(mixed, place="given")
    except AuditError:
        return
    document(audit(one) for one in found)


def test_a_large_script_is_read_in_no_time():
    text = "export A=1\n" * 20_000 + "vllm serve m/x\n"
    assert len(reading.setups(text, place="given")) == 1


def _doubled(line, first="x", times=40):
    return first + "".join(line.format(at=chr(97 + i), after=chr(98 + i)) for i in range(times))


UNFOLDING = {
    "lists": _doubled("{after}: &{after} [*{at}, *{at}, *{at}, *{at}]\n", "kind: Pod\na: &a [x]\n", 20),
    "merged maps": _doubled("{after}: &{after} {{<<: [*{at}, *{at}, *{at}]}}\n", "kind: Pod\na: &a {k: 1}\n", 20),
    "variables": "A0=aaaaaaaaaa\n" + "".join(f"A{i + 1}=$A{i}$A{i}\n" for i in range(40)) + "vllm serve $A40\n",
    "many variables": "A=" + "a" * 1000 + "\nvllm serve " + "$A " * 10_000,
}


@pytest.mark.parametrize("text", UNFOLDING.values(), ids=UNFOLDING)
def test_what_unfolds_without_end_is_refused(text):
    with pytest.raises(AuditError, match=r"unfolds|variables") as refused:
        reading.setups(text, place="given")
    assert refused.value.remedy


def test_an_anchor_that_is_used_twice_is_read():
    text = "x: &gpu {ipc: host, image: vllm/vllm-openai:v0.9.0}\nservices:\n"
    text += "".join(f"  {name}: {{<<: *gpu, command: --model m/{name}}}\n" for name in ("a", "b"))
    assert [one.place for one in reading.setups(text, place="given")] == ["service a", "service b"]


@pytest.mark.parametrize(
    "filling",
    ["\n" * 60_000, " " * 60_000, "\t" * 60_000, "<<A\n" * 20_000, "${a:-" * 12_000, "a" * 60_000, "a " * 60_000],
    ids=["lines", "spaces", "tabs", "documents", "variables", "one word", "words"],
)
def test_no_filling_makes_it_slow(filling):
    began = time.process_time()
    with contextlib.suppress(AuditError):
        reading.setups(f"vllm serve m/x {filling}\n--max-num-seqs 3", place="given")
    assert time.process_time() - began < 3.0, "the page's other readers wait for as long"


def test_a_bare_comment_sign_hides_its_own_line_alone():
    (found,) = reading.setups("vllm serve m/x #\n--max-num-seqs 3\n", place="given")
    assert found.words[-2:] == ("--max-num-seqs", "3")


def test_a_value_that_is_nested_without_end_is_no_finding():
    (found,) = reading.setups(f"vllm serve m/x --speculative-config '{'[' * 100_000}'", place="given")
    assert all("speculative" not in one.title for one in audit(found).findings)
