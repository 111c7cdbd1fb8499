"""The report from stored verdicts: every section says what the verdict says, and nothing from outside becomes markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from llmvitals.errors import CaptureError, PageError
from llmvitals.incident import wording
from llmvitals.incident.html import html
from llmvitals.incident.markdown import escaped, markdown
from llmvitals.incident.model import About, Incident, incident
from llmvitals.incident.package import make
from llmvitals.incident.sections import report
from llmvitals.incident.svg import draw
from llmvitals.series import Snapshot, series
from llmvitals.settings import Settings, Slo, Thresholds
from llmvitals.sources import Observed
from llmvitals.sources.capture import INDEX, Judged, RawTarget, read_capture
from llmvitals.sources.recording import Recording, of_capture, of_observed
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.course import Course
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Blind, Change, ClassShare, LookAlike
from llmvitals.triage.view import cause_title
from support.hostile import vllm_page

FIXTURES = Path(__file__).parents[1] / "fixtures" / "captures"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "](javascript:alert(1)) [x](javascript:alert(1))",
    "![x](http://evil.example/pixel.png)",
    "a | b | c\n| --- |\n# head",
    "**bold** `code` ~~gone~~ $x$ <!-- -->",
    "&lt;b&gt; \u202egnp.exe \x1b[31m",
    "1. list\n- item\n> quote",
)


class Page(HTMLParser):
    """What a browser would make of a page: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def thrash() -> Incident:
    return incident(of_capture(FIXTURES / "kv-preemption"), Settings(), About("a recording", 1_800_000_000.0, "seen"))


def told(found: Incident) -> tuple[str, str]:
    whole = report(found)
    return markdown(whole), html(whole)


def test_the_report_says_what_the_verdict_says(thrash, ran_recording):
    ran_recording(FIXTURES / "kv-preemption")
    verdict = thrash.main
    assert verdict.leading is not None
    for text in (told(thrash)[0].replace("\\", ""), Page(told(thrash)[1]).text):
        assert "Preemption thrash" in text
        assert f"confidence {with_unit(verdict.leading.confidence, 'ratio')}" in text
        assert f"--max-num-seqs {verdict.leading.action.value:g}" in text
        for evidence in verdict.leading.evidence:
            assert evidence.title in text
        for check in (c for step in verdict.steps for c in step.checks):
            assert cause_title(check.cause) in text
        for spot in verdict.blind:
            assert spot.what in " ".join(text.replace("&lt;", "<").replace("&gt;", ">").split())
        assert "seen" in text
        assert "slo.ttft_seconds" in text
        assert "vllm:cache_config_info block_size" in text


def test_each_further_part_of_a_verdict_has_its_section(thrash):
    one = thrash.main.leading.evidence[0]
    verdict = replace(
        thrash.main,
        changes=(Change("kv_usage_ratio", "KV usage", 0.9, 0.5, "ratio", "<", "healthy"),),
        lookalikes=(LookAlike("unbounded-queue", "The queue does not grow.", one),),
        classes=(ClassShare("chat", 120.0, 0.9, 0.95, None, 0.99, 10.0, "gateway", "exact"),),
        blind=(Blind("GPU clocks", "nobody joined GPUs", "llm_gpu_*", "Start DCGM."),),
        contributing=(replace(thrash.main.leading, cause="unbounded-queue"),),
    )
    found = replace(thrash, main=verdict, verdicts=(verdict, replace(verdict, scope={"instance": "other"})))
    text = Page(told(found)[1]).text
    for said in ("90 %", "< 50 %", "Healthy", "The queue does not grow.", "chat", "120", "Start DCGM.", "Also holds"):
        assert said in text
    assert "other" in text


def test_since_when_a_check_fires_and_whether_its_alert_would_be_told(thrash):
    end = thrash.main.window["end"]
    states = {"preemption-thrash": ((end - 600, "clear"), (end - 300, "firing"))}
    course = Course(end - 600, end, 60.0, states, ((end - 600, "healthy"), (end - 290, "cause")), ())
    text = Page(told(replace(thrash, lines=replace(thrash.lines, course=course)))[1]).text
    assert "Preemption thrash began to fire" in text
    assert "verdict: Cause found" in text
    assert "LLMPreemptionThrash" in text
    assert "yes, it holds since" in text
    late = {"preemption-thrash": ((end - 600, "clear"), (end - 30, "firing"))}
    text = Page(told(replace(thrash, lines=replace(thrash.lines, course=replace(course, states=late))))[1]).text
    assert "not yet, it holds since" in text


def moved() -> Observed:
    """A target that goes down, comes back as another process with another version and a larger pool."""

    def page(t: float, up: float, start: float, version: str, blocks: float) -> Snapshot:
        own = {series("llm_target_up", instance="a"): up}
        if up:
            own |= {
                series("llm_process_start_time_seconds", instance="a", model="m"): start,
                series("llm_target_info", instance="a", version=version): 1.0,
                series("llm_kv_blocks", instance="a", model="m", engine="vllm", rank="0"): blocks,
            }
        return Snapshot(t, own)

    pages = [page(100.0 + 5 * i, 1.0, 50.0, "0.9", 1000.0) for i in range(6)]
    pages += [
        page(130.0, 0.0, 0.0, "", 0.0),
        page(135.0, 1.0, 132.0, "0.10", 2000.0),
        page(140.0, 1.0, 132.4, "0.10", 2000.0),
    ]
    return Observed("a", "vllm", tuple(pages))


def test_the_timeline_has_restarts_and_what_changed():
    found = incident(of_observed((moved(),)), Settings(), About("x", 1.0))
    assert [(event.t, event.key) for event in found.events] == [
        (130.0, "down"),
        (135.0, "up"),
        (135.0, "restarted"),
        (135.0, "version"),
        (135.0, "configured"),
    ]
    text = Page(told(found)[1]).text
    assert "a: another version: 0.9 became 0.10" in text
    assert "llm_kv_blocks changed: 1,000 became 2,000" in text
    assert "1970-01-01 00:02:10" in text


def test_a_setting_on_the_engines_own_page_that_changed_is_told():
    def page(seqs: int) -> bytes:
        return vllm_page() + b'vllm:cache_config_info{block_size="16",gpu_memory_utilization="%d"} 1.0\n' % seqs

    pages = tuple(RawPage(100.0 + 5 * i, 0.01, 200, page(80 if i < 4 else 90)) for i in range(8))
    found = incident(Recording((RawTarget("a", "auto", pages),)), Settings(), About("x", 1.0))
    assert [(e.t, dict(e.values)["what"]) for e in found.events] == [(120.0, "gpu_memory_utilization")]
    assert ("a", "vllm:cache_config_info gpu_memory_utilization", "90") in found.shown


def test_promises_and_thresholds_that_were_used_are_told_with_what_is_usual():
    settings = Settings(slo=Slo(ttft_seconds=7.5), thresholds=Thresholds(min_pages=3))
    text = Page(told(incident(of_capture(FIXTURES / "healthy"), settings, About("x", 1.0)))[1]).text
    assert re.search(r"slo\.ttft_seconds\s*7\.5\s*set; the default is 2", text)
    assert re.search(r"thresholds\.min_pages\s*3\s*set; the default is 5", text)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_from_outside_becomes_markup(thrash, name):
    verdict = replace(
        thrash.main,
        scope={"instance": name, "model": name},
        sentence=name,
        blind=(Blind(name, name, name, name),),
        lookalikes=(LookAlike("unbounded-queue", name, None),),
        classes=(ClassShare(name, 1.0, 1.0, None, None, 0.9, 0.0, name, "exact"),),
    )
    about = replace(thrash.about, note=name, origin=name, notes=(name,))
    found = replace(thrash, main=verdict, verdicts=(verdict, verdict), about=about, shown=((name, name, name),))
    plain_md, plain_html = told(thrash)
    md, page = told(found)
    usual, shown = Page(plain_html), Page(page)
    assert {tag for tag, _ in shown.tags} <= {tag for tag, _ in usual.tags} | {"blockquote", "br"}
    assert not [a for _, attributes in shown.tags for a in attributes if a.startswith("on") or a in ("src", "href")]
    assert "".join(name.split()) in "".join(shown.text.split())
    for flavour in ("commonmark", "gfm-like"):
        made = Page(MarkdownIt(flavour, {"html": True, "linkify": False}).render(md)).tags
        allowed = Page(MarkdownIt(flavour, {"html": True, "linkify": False}).render(plain_md)).tags
        assert {tag for tag, _ in made} <= {tag for tag, _ in allowed} | {"blockquote", "br"}
        assert all(a["src"].startswith("charts/") for tag, a in made if tag == "img")
        assert not [a for tag, a in made if tag == "a"]
    rows = [line for line in md.splitlines() if line.startswith("| ") and "slo.ttft" not in line]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {3, 4, 5, 9}


def test_the_html_loads_nothing_and_runs_nothing(thrash):
    page = told(thrash)[1]
    tags = Page(page).tags
    assert not {"script", "link", "iframe", "img", "object", "embed", "form"} & {tag for tag, _ in tags}
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    policy = next(a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")


def test_a_chart_alone_is_a_picture_by_itself(thrash):
    for figure in report(thrash).figures:
        if figure.chart.points:
            drawn = ET.fromstring(draw(figure.chart, figure.alt, alone=True))
            assert drawn.attrib["aria-label"] == figure.alt
            assert "prefers-color-scheme" in "".join(drawn.itertext())


def test_a_line_lies_where_its_numbers_are(thrash):
    chart = next(f.chart for f in report(thrash).figures if f.chart.moves and f.chart.bound is not None)
    flat = replace(chart, points=((0.0, chart.low), (1.0, chart.high), (2.0, None), (3.0, chart.low)))
    svg = draw(flat, "x")
    (path,) = re.findall(r'c-line" d="M([^"]+)"', svg)  # the gap stays one: what is left behind it is a point
    (x0, y0), (x1, y1) = (map(float, point.split()) for point in path.split("L"))
    assert x0 < x1
    assert y0 > y1
    assert len(re.findall("<circle", svg)) == 1


def test_texts_are_escaped_without_being_lost():
    assert escaped("max_num_seqs = 4") == "max_num_seqs = 4"
    assert escaped("a|b") == "a\\|b"
    assert escaped("# x") == "\\# x"
    assert escaped("1. x") == "1\\. x"
    assert escaped("1.5 x") == "1.5 x"


def test_every_text_has_its_places_in_every_language():
    places = {key: set(re.findall(r"\{(\w+)\}", text)) for key, text in wording.ENGLISH.items()}
    for language, texts in wording.LANGUAGES.items():
        assert {key: set(re.findall(r"\{(\w+)\}", text)) for key, text in texts.items()} == places, language
        assert {k: t.count("|") for k, t in texts.items()} == {k: t.count("|") for k, t in wording.ENGLISH.items()}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(CaptureError, match="already holds something"):
        make(of_capture(FIXTURES / "healthy"), Settings(), About("x", 1.0), tmp_path)


def test_a_scope_that_is_not_there_is_one_line():
    with pytest.raises(PageError, match="holds nothing of nobody"):
        incident(of_capture(FIXTURES / "healthy"), Settings(), About("x", 1.0, scope=("nobody", "")))


def test_only_the_moments_that_were_judged_are_judged_again(tmp_path):
    (given,) = read_capture(FIXTURES / "kv-preemption")
    middle = given.snapshots[7].t
    own = replace(given, snapshots=given.snapshots[:8])
    recording = replace(of_observed((given,)), judged=Judged(start=given.snapshots[0].t, end=middle))
    made = make(recording, Settings(), About("x", 1.0), tmp_path / "r")
    assert made.incident.main.window["end"] == middle
    assert made.incident.main.window["pages"] == len(own.snapshots)
    assert read_capture(tmp_path / "r")[0].snapshots[-1].t == middle
    assert read_capture(tmp_path / "r" / "capture" / INDEX)[0].snapshots[-1].t == middle


def test_the_same_recording_gives_the_same_bytes(tmp_path):
    about = About("x", 1.0)
    one, two = (make(of_capture(FIXTURES / "healthy"), Settings(), about, tmp_path / n) for n in "ab")
    assert one.zip.read_bytes() == two.zip.read_bytes()
