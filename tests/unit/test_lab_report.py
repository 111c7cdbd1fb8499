"""The score as a document, as tables, on a page and as a picture."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from llmvitals.errors import SettingsError
from llmvitals.lab.calibration import Bin
from llmvitals.lab.curve import curve
from llmvitals.lab.document import document
from llmvitals.lab.report import CASES, SCORE, markdown, marks, renewed
from llmvitals.lab.score import score
from llmvitals.lab.sheets import sheets
from llmvitals.lab.stats import Share
from support.played import LEVELS, UNSURE, heard, played

FOUND = score(
    [
        played("a", said=heard("a", 0.9), severity="severe", delay=1.0),
        played("a", said=heard("b", 0.7, ("a",)), alone=heard("a"), severity="severe", seed=42),
        played("b", said=UNSURE, severity="mild", shown_by=("gpu",)),
        played("a", "b", said=heard("b"), severity="clear", delay=3.0),
        played(),
        played(mimics="a", said=heard("a")),
        played("a", valid=False, why="the SLO holds", seed=9, number=3, attempt=7, hurt=True),
    ]
)


def test_the_document_is_json_with_plain_numbers_at_the_top():
    found = json.loads(json.dumps(document(FOUND, seconds=1.25, seed=3), allow_nan=False))
    assert (found["seed"], found["seconds"]) == (3, 1.2)
    assert (found["top1"], found["among"], found["wrong_cause"]) == (0.5, 0.75, 0.25)
    assert (found["false_cause"], found["abstained"]) == (0.5, 0.1667)
    assert found["delay_scrapes"] is None  # 1, 3, never, never
    assert found["delay_scrapes_severe"] is None  # 1, never
    assert found["intervals"]["delay_scrapes_severe"] == [None, None]
    assert found["counts"] == {
        **{"played": 7, "valid": 6, "invalid": 1, "fault": 3, "compound": 1, "lookalike": 1, "healthy": 1},
        **{"untold": 0, "by_cause": {"a": 3, "b": 2}, "few": {"a": 3, "b": 2}},
        "top1": {"hits": 2, "n": 4},
        "among": {"hits": 3, "n": 4},
        "wrong_cause": {"hits": 1, "n": 4},
        "false_cause": {"hits": 1, "n": 2},
        "abstained": {"hits": 1, "n": 6},
        "lookalike_named": {"hits": 0, "n": 0},
        "first_right": {"hits": 0, "n": 0},
        "missed": {"hits": 1, "n": 1},
        "known_before": 0,
    }
    assert found["missed"] == 1.0
    assert found["intervals"]["top1"] == [0.15, 0.85]  # Wilson, 2 of 4
    assert found["intervals"]["missed"] == [0.2065, 1.0]  # Wilson, 1 of 1: 1 / (1 + 1.96^2)
    assert found["intervals_by_row"]["false_cause"] == [0.0, 1.0]  # a healthy row, right, and a look-alike, wrong
    a = found["by_cause"]["a"]
    assert (a["n"], a["top1"], a["lookalikes"], a["false_cause"], a["invalid"]) == (2, 0.5, 1, 1.0, 1)
    assert (a["led"], a["led_right"], a["engine_only_top1"]) == (2, 0.5, 1.0)
    assert found["by_telemetry"][LEVELS[0]]["blind"] == {"n": 1, "abstained": 1.0, "wrong_cause": 0.0}
    assert not {"delay_scrapes", "first_right", "known_before"} & found["by_telemetry"][LEVELS[0]].keys()
    assert "lookalike_named" in found["by_telemetry"][LEVELS[0]]
    assert found["by_severity"]["severe"]["n"] == 2
    assert found["confusion"]["a"] == {"a": 1, "b": 1}
    assert [(b["from"], b["n"], b["right"]) for b in found["calibration"]["bins"]] == [
        (0.7, 1, 0.0),
        (0.8, 2, 0.5),
        (0.9, 1, 1.0),
    ]
    assert "wrong" not in found


def test_the_delay_of_severe_ones_stands_beside_that_of_all():
    plays = [
        played("a", said=heard("a"), severity=s, delay=d) for s, d in (("severe", 1.0), ("severe", 2.0), ("mild", 9.0))
    ]
    found = document(score(plays), seconds=0)
    assert (found["delay_scrapes"], found["delay_scrapes_severe"]) == (2.0, 1.5)
    assert document(score([played()]), seconds=0)["delay_scrapes_severe"] is None


def test_failures_say_how_to_play_them_again():
    found = document(FOUND, seconds=0, failures=True)
    assert [(w["scenario"], w["seed"], w["expected"], w["got"]) for w in found["wrong"]] == [
        ("a", 42, "a", "b"),
        ("b", 1, "b", "undetermined"),
        ("like-a", 1, "not a", "a"),
    ]
    assert found["wrong"][0]["contributing"] == ["a"]
    which = {"scenario": "a", "seed": 9, "number": 3, "attempt": 7}
    assert found["invalid"] == [{**which, "why": "the SLO holds"}]
    assert found["silent"] == [{**which, "injected": "a", "got": "healthy", "valid": False}]
    assert found["wrong"][0].items() >= {"number": 0, "attempt": 0}.items()


def test_new_figures_stand_at_the_top_and_in_their_parts():
    plays = [
        played("a", said=heard("a"), severity="severe", delay=1.0, first="a"),
        played("a", said=heard("a"), severity="severe", delay=0.2, first="b", known_before=True),
        played("a", "c", said=heard("a"), severity="mild", delay=5.0, first="x"),
        played(mimics="a", truth=("b",), said=heard("a")),
        played(mimics="a", truth=("b",), said=heard("b")),
    ]
    scored = score(plays)
    found = document(scored, seconds=0, failures=True)
    assert (found["first_right"], found["lookalike_named"], found["missed"]) == (0.3333, 0.5, None)
    assert (found["delay_scrapes"], found["counts"]["known_before"]) == (3.0, 1)
    severe = found["by_severity"]["severe"]
    assert (severe["first_right"], severe["delay_scrapes"], severe["known_before"]) == (0.5, 1.0, 1)
    assert [found["by_cause"][c]["only_in_compounds"] for c in "ac"] == [False, True]
    assert (found["by_cause"]["c"]["n"], found["by_cause"]["c"]["top1"], found["by_cause"]["c"]["among"]) == (1, 1.0, 0)
    assert [w["expected"] for w in found["wrong"]] == ["not a, but b"]
    notes = {sheet.title: sheet.note for sheet in sheets(scored)}
    assert notes["Summary"] == "Left out of every delay: 1 whose right verdict stood before the onset."
    assert notes["By cause"].endswith(" Only in compounds, where either cause is right (among is its own): c.")


def table(title: str) -> dict[str, tuple[str, ...]]:
    (sheet,) = (sheet for sheet in sheets(FOUND) if sheet.title == title)
    assert all(len(row) == len(sheet.head) for row in sheet.rows)
    return {row[0]: row[1:] for row in sheet.rows}


def test_the_summary_shows_what_is_wanted_beside_what_is():
    summary = table("Summary")
    assert summary["top-1 cause"] == ("0.500", "0.150-0.850", "4", "at least 0.95")
    assert summary["top-1 cause, engine page alone, causes it can show"][0] == "1.000"
    assert summary["scrapes from onset to the right verdict, severe"][:3] == ("never", "-", "2")


def test_tables_leave_out_what_nobody_asked():
    assert table("By kind")["healthy"][1] == "-"
    assert table("By cause")["a"][5:] == ("1 of 1", "1 of 2")
    assert table("What was answered")["a"] == ("2", "a 1, b 1")
    assert table("Not counted") == {"a: the SLO holds": ("1",)}
    assert [sheet.title for sheet in sheets(score([played()]))].count("Calibration") == 0


BEGIN, END = marks(SCORE)


def test_the_page_keeps_what_is_written_by_hand():
    text = renewed(f"# x\n{BEGIN}\nold\n{END}\nafter\n", markdown(FOUND, "llmvitals score"), place="p.md")
    assert text.startswith(f"# x\n{BEGIN}\n`llmvitals score`: 7 scenarios played, 6 counted. Causes that fewer than 10")
    assert text.endswith(f"{END}\nafter\n")
    assert "\nold\n" not in text
    assert "| top-1 cause | 0.500 | 0.150-0.850 | 4 | at least 0.95 |" in text
    assert "](img/calibration.svg)" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert renewed(text, markdown(FOUND, "llmvitals score"), place="p.md") == text


def test_each_part_of_the_page_has_its_own_marks():
    begin, end = marks(CASES)
    text = f"{BEGIN}\nold\n{END}\n## Cases\n{begin}\nold\n{end}\n"
    assert renewed(text, "new\n", place="p.md", part=CASES) == f"{BEGIN}\nold\n{END}\n## Cases\n{begin}\nnew\n{end}\n"


def test_a_page_without_marks_is_named():
    with pytest.raises(SettingsError, match=r"p\.md: lacks the marks of the part 'score'"):
        renewed("# x\n", "block", place="p.md")


def test_the_curve_is_a_picture_with_one_mark_per_bin_on_a_diagonal_of_the_stated():
    bins = [Bin(0.5, 0.6, 0.5, Share(30, 60)), Bin(0.9, 1.0, 0.9, Share(2, 10))]
    picture = curve(bins)
    assert picture == curve(bins)
    root = ElementTree.fromstring(picture)
    circles = root.findall("{*}circle")
    assert len(circles) == 2
    half, high = ((float(c.get("cx")), float(c.get("cy"))) for c in circles)
    (diagonal,) = (p.get("d") for p in root.findall("{*}path") if p.get("stroke-dasharray"))
    x0, y0, x1, y1 = map(float, re.findall(r"[\d.]+", diagonal))
    assert half == ((x0 + x1) / 2, (y0 + y1) / 2)  # 0.5 stated, 0.5 right: on the diagonal
    assert high[0] == pytest.approx(x0 + 0.9 * (x1 - x0), abs=0.1)
    assert high[1] == pytest.approx(y0 + 0.2 * (y1 - y0), abs=0.1)
    assert [c.get("class") for c in circles] == ["dot", "bar ground"]
    assert "prefers-color-scheme: dark" in picture
