"""Recordings that say what they are: where the truth comes from, and how a recording is judged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from llmvitals.errors import CaptureError
from llmvitals.lab import stored
from llmvitals.lab.parallel import LabError
from llmvitals.lab.result import Kind
from llmvitals.lab.score import answer, score
from support.recordings import EXPECTED, MENTIONED

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
OUTCOMES = {"healthy", "no-traffic", "undetermined"}  # shedding stands for the cause of its runbook


@pytest.fixture
def copy(tmp_path):
    def made(name: str, **truth: object) -> Path:
        folder = tmp_path / name
        shutil.copytree(CAPTURES / name, folder)
        (folder / "about.json").unlink()
        if truth:
            (folder / "truth.json").write_text(json.dumps(truth))
        return folder

    return made


def test_labelled_recordings_are_scored_by_their_labels():
    found = score([stored.play(one) for one in stored.recordings([CAPTURES])])
    causes = sum(EXPECTED[path.name][0] not in OUTCOMES for path in CAPTURES.iterdir())
    assert (found.whole.top1.hits, found.whole.top1.n) == (causes, causes)
    assert found.whole.false_cause.hits == 0
    assert found.whole.n == len(list(CAPTURES.iterdir()))
    assert found.invalid == ()


def test_a_recording_says_its_own_truth(copy):
    folder = copy("kv-full", causes=["kv-cache-saturation", "prefill-bound"], severity="severe")
    (recording,) = stored.recordings([folder])
    found = stored.play(recording)
    assert (found.scenario, found.kind, found.severity) == ("kv-full", Kind.COMPOUND, "severe")
    assert found.verdicts[0][0] == "engine"
    assert found.engine == "vllm"
    assert found.interval == 6.0  # every second page of a recording with one each 3 s


def test_a_server_that_refuses_load_is_named_by_the_cause_that_shedding_stands_for():
    (one,) = stored.recordings([CAPTURES / "admission-503"])
    found = stored.play(one)
    assert found.causes == ("overloaded-and-shedding",)
    assert (found.verdicts[0][1].outcome, found.verdicts[0][1].leading) == ("shedding", "overloaded-and-shedding")
    assert found.delay is not None


def test_a_look_alike_and_a_wrong_truth_are_told_apart_from_a_right_one(copy):
    alike = stored.play(*stored.recordings([copy("kv-full", mimics="kv-cache-saturation")]))
    assert alike.kind is Kind.LOOKALIKE
    wrong = stored.play(*stored.recordings([copy("kv-preemption", causes=["prefill-bound"])]))
    assert wrong.delay is None
    found = score([alike, wrong])
    assert (found.whole.false_cause.hits, found.whole.top1.hits, len(found.wrong)) == (1, 0, 2)


def test_the_delay_counts_pages_from_the_onset(copy):
    folder = copy("kv-full", causes=["kv-cache-saturation"])
    (recording,) = stored.recordings([folder])
    from_the_start = stored.play(recording).delay
    # Five pages and 20 s are the least that a verdict needs: the fifth page is the fourth after the first.
    assert from_the_start is not None
    assert from_the_start >= 4
    scrapes = json.loads((folder / "capture.json").read_text())["targets"][0]["scrapes"]
    onset = sorted(scrape["t"] for scrape in scrapes)[2]
    (folder / "truth.json").write_text(json.dumps({"causes": ["kv-cache-saturation"], "onset": onset}))
    assert stored.play(*stored.recordings([folder])).delay == from_the_start - 2


def test_a_file_of_truths_goes_by_the_name_of_the_folder_and_before_others(copy, tmp_path):
    folder = copy("healthy", causes=["prefill-bound"])
    truths = tmp_path / "truths.json"
    truths.write_text(json.dumps({"healthy": {}, "elsewhere": {"causes": ["prefill-bound"]}}))
    (one,) = stored.recordings([folder], truths)
    assert stored.play(one).kind is Kind.HEALTHY


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        ('{"causes": ["prefil-bound"]}', "Did you mean 'prefill-bound'"),
        ('{"mimics": "prefil-bound"}', "Did you mean 'prefill-bound'"),
        ('{"cause": "prefill-bound"}', "cause"),
        ("{", "is not a truth"),
    ],
)
def test_a_truth_that_says_nothing_is_refused(copy, truth, said):
    folder = copy("healthy")
    (folder / "truth.json").write_text(truth)
    with pytest.raises(LabError, match=said):
        stored.recordings([folder])


def test_without_a_truth_there_is_no_score(copy, tmp_path):
    with pytest.raises(LabError, match=r"does not say what it is.*truth\.json"):
        stored.recordings([copy("healthy")])
    with pytest.raises(LabError, match="cannot be read"):
        stored.recordings([tmp_path], tmp_path / "none.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match="holds no recording"):
        stored.recordings([tmp_path / "empty"])


def test_a_file_of_truths_scores_recordings_that_carry_none(shared, tmp_path):
    truths = tmp_path / "truths.json"
    causes = {name: [v for v in verdicts if v not in OUTCOMES] for name, verdicts in EXPECTED.items()}
    truths.write_text(json.dumps({name: {"causes": some} for name, some in causes.items() if name in SOME}))
    folders = [shared / "captures" / name for name in SOME]
    found = [stored.play(one) for one in stored.recordings(folders, truths)]
    assert [answer(one.verdicts[0][1]) for one in found] == [EXPECTED[name][0] for name in SOME]
    assert MENTIONED["queue-two-seats"] in found[1].verdicts[0][1].contributing


SOME = ("idle", "queue-two-seats", "very-light")
