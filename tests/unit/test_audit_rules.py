"""The audit's table of rules: each mistake gives exactly its finding, and sane set-ups give none."""

import re
from pathlib import Path

import pytest

from llmvitals.app.runbook import languages
from llmvitals.audit import defaults, flags, reading
from llmvitals.audit.document import document
from llmvitals.audit.hardware import hardware
from llmvitals.audit.judge import audit, version_of
from llmvitals.audit.model import Severity, Traffic
from llmvitals.audit.rules import RULES, mistakes
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.model import Limit
from support.setups import MADE, SANE, pod

BY_ID = {rule.id: rule for rule in RULES}


def reports(case):
    there = hardware(case.config, gpu=case.gpu, gpus=case.gpus)
    version = version_of(case.version) if case.version else None
    found = reading.setups(case.text, place="given")
    return [audit(one, version=version, hardware=there, traffic=Traffic(**case.traffic)) for one in found]


def grave(case):
    return {f.rule for report in reports(case) for f in report.findings if f.severity > Severity.NOTE}


@pytest.mark.parametrize("name", SANE)
def test_a_sane_set_up_is_not_warned_of(name):
    assert len(reports(SANE[name])) == 1
    assert grave(SANE[name]) == set()


@pytest.mark.parametrize("rule", MADE)
def test_a_mistake_gives_its_finding_and_no_other_warning(rule):
    found = [f for report in reports(MADE[rule]) for f in report.findings]
    assert rule in {f.rule for f in found}
    expected = {rule} if BY_ID[rule].severity > Severity.NOTE else set()
    assert grave(MADE[rule]) == expected
    for finding in found:
        said = [finding.said(words) for words in (finding.title, finding.why, finding.fix)]
        assert said[0].strip()
        assert "None" not in " ".join(said)
        assert not re.search(r"\{[a-z_]+\}", " ".join(said))


def test_every_rule_has_its_mistake():
    assert set(MADE) == set(BY_ID)
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_causes_have_runbooks_and_sources_are_named(rule):
    assert not rule.cause or languages(rule.cause)
    assert rule.source
    assert rule.why.endswith((".", "}"))


@pytest.mark.parametrize(
    ("rule", "number"),
    [
        ("share-high", "leaves 2% of the GPU"),
        ("block-waste", "Blocks of 32 tokens leave 21% of the pool empty"),  # 16 of 78
        ("context-over-pool", "256 seats, but the pool holds 1.1 requests"),
        ("seats-over-pool", "128 seats are 2.6 times"),  # 200,000 / 4,000 = 50
        ("gpus-missing", "takes 4 GPUs and has 2"),
        ("killed-at-start", "60 s after its start"),
        ("too-few-cores", "4 CPU cores for an engine of 4 GPUs"),
    ],
)
def test_the_number_comes_from_what_was_given(rule, number):
    found = next(f for report in reports(MADE[rule]) for f in report.findings if f.rule == rule)
    assert number in found.said(found.title)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("unknown-flag", "--enable-prefix-caching"),
        ("context-unused", "--max-model-len 4096"),
        ("seats-over-pool", "--max-num-seqs 50"),
        ("prefix-caching-off", "--enable-prefix-caching"),
        ("adapter-slots", "--max-loras 3"),
        ("heads-not-divisible", "--tensor-parallel-size 2"),
        ("swap-alone", "--preemption-mode swap"),
        ("queue-below-seats", "--max-num-queued-reqs 320"),
        ("unread-variable", "VLLM_LOGGING_LEVEL"),
    ],
)
def test_the_line_to_write_is_computed(rule, line):
    found = next(f for report in reports(MADE[rule]) for f in report.findings if f.rule == rule)
    assert found.said(found.fix) == line


@pytest.mark.parametrize("rule", [rule for rule in MADE if MADE[rule].text.startswith("vllm serve")])
def test_what_is_written_instead_mends_it(rule):
    """The line added at the end of the command, which counts, takes the finding away."""
    case = MADE[rule]
    found = next(f for report in reports(case) for f in report.findings if f.rule == rule)
    line = found.said(found.fix)
    if not line.startswith("--") or "<" in line or rule in ("unknown-flag", "removed-flag", "removed-flag-newest"):
        pytest.skip("nothing to add")
    mended = type(case)(f"{case.text} {line}", case.version, case.gpu, case.gpus, case.config, case.traffic)
    assert rule not in {f.rule for report in reports(mended) for f in report.findings} - {"repeated-flag"}


@pytest.mark.parametrize(
    ("words", "gpus", "rule", "line"),
    [
        ("--tensor-parallel-size 4", 3, "gpus-missing", "--tensor-parallel-size 2"),
        ("-tp 4 --pipeline-parallel-size 2", 4, "gpus-missing", "--tensor-parallel-size 2"),
        ("--pipeline-parallel-size 4", 2, "gpus-missing", ""),  # no tensor parallelism makes four stages fit
        ("--tensor-parallel-size 2", 6, "gpus-unused", "--tensor-parallel-size 4"),
        ("--tensor-parallel-size 2", 3, "gpus-unused", ""),  # nothing between 2 and 4 splits heads
    ],
)
def test_a_number_of_gpus_that_heads_split_over_is_written(words, gpus, rule, line):
    found = next(f for report in reports(pod(words, gpus=gpus, cpu="16")) for f in report.findings if f.rule == rule)
    assert found.said(found.fix) == line


def test_the_limits_of_long_contexts_are_those_of_the_triage():
    check = next(one for one in CHECKS if one.cause == "context-imbalance")
    limits = {limit.signal: limit.bound for group in check.when for limit in group if isinstance(limit, Limit)}
    assert limits["contexts_in_pool"] == mistakes.FEW_CONTEXTS
    assert limits["context_slack_ratio"] == mistakes.SLACK


def test_secrets_are_never_repeated():
    texts = [
        "vllm serve m/x --api-key sk-hidden --hf-token hf_hidden --api-key sk-hidden2",
        "HF_TOKEN=hf_hidden VLLM_API_KEY=sk-hidden vllm serve m/x --api-keyy=sk-hidden",
        "docker run -e HF_TOKEN=hf_hidden vllm/vllm-openai --model m/x --api_key sk-hidden",
        SANE["a healthy start"].text.replace("sk-log", "sk-hidden"),
        SANE["a healthy start of V0"].text.replace("sk-old", "sk-hidden"),
    ]
    for text in texts:
        told = str(document(audit(one) for one in reading.setups(text, place="given")))
        assert "hidden" not in told


def test_the_page_of_documentation_has_every_rule():
    page = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text()
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, flags=re.MULTILINE)) == set(BY_ID)


def test_a_release_that_is_none_is_refused():
    for text in ("newest", "0.1", "0.2.7"):
        with pytest.raises(Exception, match=r"is no release that is known.*0\.4\.2 to"):
            version_of(text)
    assert version_of("v0.6.3.post1") == (0, 6, 3)
    assert flags.newest() > (0, 30, 0)


@pytest.mark.parametrize(
    ("gpu", "gb", "usual"),
    [("A100-80GB", 80, (256, 2048)), ("H100-80GB", 80, (1024, 8192)), ("L40S-48GB", 48, (256, 2048))],
)
def test_what_an_engine_takes_by_itself_is_the_newest_releases(gpu, gb, usual):
    """EngineArgs.get_batch_defaults: more from 70 GiB on, but not on an A100."""
    assert defaults.usual(gpu, gb) == usual
    alone = {"chunked": True, "context": None}
    release = flags.newest(), defaults.V1, gpu, gb
    assert usual == (defaults.seats(*release), defaults.step_tokens(*release, **alone))
