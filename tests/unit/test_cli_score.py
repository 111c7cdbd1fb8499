"""``llmvitals score``: its options, its two forms of output, and what it refuses. What is played is made up here."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llmvitals import cli
from llmvitals.lab.case_file import load
from llmvitals.lab.cases import Grade, cases_table, score_cases
from llmvitals.lab.report import CASES, SCORE, marks
from support import played as lab

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"
BEGIN, END = marks(SCORE)
BLANK = "\n".join(["# by hand", *marks(SCORE), "more by hand", *marks(CASES), "the end", ""])
RIGHT = sum(job.seed % 3 > 0 for job in lab.plan(1))


def run(*words: object) -> Result:
    return CliRunner().invoke(cli.group, ["score", *map(str, words)])


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """The lab's plan and play are those of the tests; what plan was asked lands in the list."""
    asked: list[tuple] = []

    def plan(*given):
        asked.append(given)
        return lab.plan(*given)

    module = types.ModuleType("llmvitals.lab.play")
    module.plan, module.play = plan, lab.play
    monkeypatch.setitem(sys.modules, "llmvitals.lab.play", module)
    return asked


def test_json_has_the_figures_at_the_top():
    ran = run("--json", "--jobs", 1)
    assert ran.exit_code == 0
    found = json.loads(ran.stdout)
    assert found["top1"] == pytest.approx(RIGHT / 40, abs=1e-4)
    assert {"false_cause", "abstained", "delay_scrapes", "by_cause", "calibration", "seconds"} <= found.keys()
    assert found["by_cause"]["a"]["n"] == 20
    assert found["seed"] == 1
    assert ran.stderr == ""


def test_the_options_reach_the_plan_and_the_play(made_up):
    ran = run("--seed", 7, "--causes", "prefill-bound, batch-too-small", "--size", 0.5, "--jobs", 1, "--json")
    assert made_up == [(7, ("prefill-bound", "batch-too-small"), 0.5)]
    assert json.loads(ran.stdout)["by_cause"].keys() == {"prefill-bound", "batch-too-small"}
    assert run("--jobs", 1).exit_code == 0
    assert made_up[1:] == [(1, None, 1.0)]


def test_telemetry_comes_in_its_own_order(monkeypatch):
    heard = []
    monkeypatch.setattr(sys.modules["llmvitals.lab.play"], "play", lambda job, t: heard.append(t) or lab.play(job, t))
    assert run("--telemetry", "gateway,engine", "--jobs", 1).exit_code == 0
    assert set(heard) == {("engine", "gateway")}


def test_the_same_score_on_one_core_and_on_two():
    one, two = (json.loads(run("--json", "--failures", "--jobs", jobs).stdout) for jobs in (1, 2))
    assert {**one, "seconds": 0} == {**two, "seconds": 0}


def test_people_get_tables_and_failures_on_demand():
    plain, long = run("--jobs", 1).stdout, run("--jobs", 1, "--failures").stdout
    assert "top-1 cause" in plain
    assert "By cause" in plain
    assert "1002" not in plain
    _, _, listed = long.partition("\nWrong\n")
    wrong = [tuple(line.split()[:4]) for line in listed.splitlines()[1:] if line]
    assert wrong == [(job.scenario, str(job.seed), "0", "0") for job in lab.plan(1) if job.seed % 3 == 0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--causes", "prefil-bound"), "Did you mean 'prefill-bound'?"),
        (("--causes", " , "), "at least one cause"),
        (("--telemetry", "engine,gpus"), "Did you mean 'gpu'?"),
        (("--telemetry", "gpu,host"), "without 'engine' there is nothing to judge"),
        (("--size", 0), "size"),
        (("--size", 0.01), "No scenario"),
        (("--truth", "t.json"), "belongs to RECORDINGs"),
        (("--cases", "--causes", "prefill-bound"), "leave out"),
        (("--cases", CAPTURES), "leave out"),
        ((CAPTURES, "--causes", "prefill-bound"), "leave them out"),
    ],
)
def test_what_makes_no_sense_is_refused(words, said, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["score", *map(str, words)])
    assert left.value.code == 3
    assert said in capsys.readouterr().err


def test_help_says_that_a_choice_of_causes_leaves_healthy_ones_out():
    assert "without healthy ones" in " ".join(run("--help").stdout.split())


def test_a_job_that_raises_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["llmvitals.lab.play"], "play", lab.play_and_fail)
    with pytest.raises(SystemExit) as left:
        cli.main(["score", "--jobs", "1"])
    assert left.value.code == 3
    assert "scenario 'b', seed 1007" in capsys.readouterr().err


def test_a_report_renews_its_part_of_a_page_and_the_curve(tmp_path):
    page = tmp_path / "accuracy.md"
    page.write_text(BLANK)
    ran = run("--seed", 3, "--jobs", 1, "--report", page)
    assert ran.exit_code == 0
    text = page.read_text()
    assert text.startswith(f"# by hand\n{BEGIN}\n`llmvitals score --seed 3`: 40 scenarios played, 40 counted.")
    assert f"{END}\nmore by hand\n{marks(CASES)[0]}\n" in text
    assert text.endswith(f"{marks(CASES)[1]}\nthe end\n")
    assert cases_table() in text
    assert (tmp_path / "img" / "calibration.svg").read_text().startswith("<svg")
    before = page.read_bytes()
    run("--seed", 3, "--jobs", 1, "--report", page)
    assert page.read_bytes() == before


def test_a_page_that_is_not_there_is_named(tmp_path):
    assert "cannot be renewed" in str(run("--jobs", 1, "--report", tmp_path / "none.md").exception)


def test_the_public_cases_are_counted_beside_the_score(monkeypatch):
    counts = score_cases().counts
    wanted = {
        "right": counts[Grade.RIGHT],
        "abstained_rightly": counts[Grade.ABSTAINED],
        "abstained_though_known": counts[Grade.SILENT],
        "wrong": counts[Grade.WRONG],
    }
    assert json.loads(run("--json", "--jobs", 1).stdout)["cases"] == wanted
    found = json.loads(run("--cases", "--json").stdout)
    assert found["cases"] == wanted
    assert sum(wanted.values()) == found["incidents"]
    assert {one["id"] for one in found["reports"]} == {case.id for case in load()}
    assert "cases" not in json.loads(run(CAPTURES / "healthy", "--jobs", 1, "--json").stdout)


def test_the_cases_alone_are_listed_and_renew_their_part_only(tmp_path, made_up):
    page = tmp_path / "accuracy.md"
    page.write_text(BLANK)
    ran = run("--cases", "--report", page)
    assert all(case.id in ran.stdout for case in load())
    assert page.read_text() == BLANK.replace(f"{marks(CASES)[0]}\n", f"{marks(CASES)[0]}\n{cases_table()}")
    assert not (tmp_path / "img").exists()
    assert made_up == []


def test_causes_with_too_few_plays_are_told():
    assert run("--jobs", 1).stderr == ""
    said = run("--jobs", 1, "--size", 0.25).stderr
    assert said == "fewer than 10 valid plays: a (5), b (5); --size plays more\n"


def test_recordings_are_scored_by_the_same_command():
    found = json.loads(run(CAPTURES / "healthy", CAPTURES / "kv-full", "--jobs", 1, "--json").stdout)
    assert (found["top1"], found["false_cause"], found["counts"]["played"]) == (1.0, 0.0, 2)
    assert found["by_cause"].keys() == {"kv-cache-saturation"}
