"""What is shown in another language: the catalogue is whole, its places fit, and sentences of the triage are told in it."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("babel") is None:
    pytest.skip("translations are read by babel", allow_module_level=True)

from llmvitals.app.phrases import told
from llmvitals.app.runbook import ENGLISH, LANGUAGES, TURKISH
from llmvitals.app.translation import catalogue, translated
from llmvitals.triage.walk import diagnose_readings
from support.mutants import SETTINGS
from support.stored import read

ROOT = Path(__file__).resolve().parents[2]
OTHERS = [language for language in LANGUAGES if language != ENGLISH]
PLACES = re.compile(r"\{[a-z_]*\}")
SLUGS = re.compile(r"(?<![\w/`'’-])[a-z]+(?:-[a-z]+)+")
ENGLISH_WORDS = re.compile(
    r"(?<![\w/`'’-])(the|is|are|of|to|and|that|for|not|with|at|in|its|was|were|an|it|has|have|than|which|by|from|as|or)"
    r"(?![\w/`'’-])"
)
OF_ADAPTERS = re.compile(r"desteklenmiyor: |eksik: |does not show it")
"""Reasons of adapters are about series of an engine, in its own words, and stay as they are."""


@pytest.mark.skipif(not (ROOT / "tools" / "words.py").is_file(), reason="the tool is only in a checkout")
def test_every_text_has_its_translation_and_no_other_is_kept():
    ran = subprocess.run(
        [sys.executable, "tools/words.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_places_of_its_text(language):
    for text, said in catalogue(language).items():
        assert set(PLACES.findall(said)) <= set(PLACES.findall(text)), text
        if not text.startswith("the page has no {series}: "):  # what a series is about is said in English or not at all
            assert sorted(PLACES.findall(said)) == sorted(PLACES.findall(text)), text


def test_english_is_what_it_is():
    assert translated("Cause found", ENGLISH) == "Cause found"
    assert told("Nothing is wrong: no SLO is broken.", ENGLISH) == "Nothing is wrong: no SLO is broken."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Cause found", "Neden bulundu"),
        ("KV usage 97 %, requests waiting 21", "KV kullanımı 97 %, bekleyen istekler 21"),
        ("requests waiting 21", "bekleyen istekler 21"),
        ("GPU: SMs active, over the window 40 %", "GPU: etkin SM’ler, pencere boyunca 40 %"),
        ("explained by preemption-thrash", "açıklayan: preemption-thrash"),
        (
            "Requests waiting is 3, not >= 5; Prefix caching is on is 1, not <= 0",
            "Bekleyen istekler 3, >= 5 değil; Prefix önbelleği açık 1, <= 0 değil",
        ),
        ("60 s ending 2026-10-29 14:03:22 UTC · 13 pages", "2026-10-29 14:03:22 UTC anında biten 60 s · 13 sayfa"),
        (
            "It shows as well, and follows from preemption-thrash: preemptions per minute 592 /min (> 5 /min).",
            "O da görünüyor ve preemption-thrash nedeninden doğuyor: dakikada preemption 592 /min (> 5 /min).",
        ),
        ("vllm-0", "vllm-0"),
        ("Something nobody has a translation of.", "Something nobody has a translation of."),
    ],
)
def test_a_sentence_is_told_part_by_part(text, said):
    assert told(text, TURKISH) == said


def _sentences():
    """Every sentence of the verdicts on all stored situations, each once."""
    found = set()
    for one in read():
        verdict = diagnose_readings(one.seen.whole, SETTINGS)
        findings = [f for f in (verdict.leading, *verdict.contributing) if f is not None]
        found |= {verdict.sentence, verdict.binding.why}
        found |= {text for f in findings for text in (f.action.text, f.action.effect, f.action.verify, f.note)}
        found |= {check.reason for step in verdict.steps for check in step.checks}
        found |= {one.why for one in verdict.lookalikes} | {spot.remedy for spot in verdict.blind}
        found |= {spot.what for spot in verdict.blind}
    return sorted(found - {""})


def test_what_verdicts_say_is_told_whole_and_keeps_its_numbers():
    sentences = _sentences()
    assert len(sentences) > 500
    for text in sentences:
        said = told(text, TURKISH)
        assert (
            sorted(re.findall(r"\d+(?:[.,]\d+)*", text)) == sorted(re.findall(r"\d+(?:[.,]\d+)*", said))
            or "the page has no" in text
        )
        left = ENGLISH_WORDS.search(SLUGS.sub("", said))
        # a class' name stands in the note of its signal, and stored readings have no notes
        assert left is None or OF_ADAPTERS.search(said) or "Worst off is :" in text, f"{text} -> {said}"
