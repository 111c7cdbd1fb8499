"""The support matrix as it is shown: worked out, and laid out by its page in Streamlit's own test harness."""

import re
import sys

import pytest
from streamlit.testing.v1 import AppTest

from llmvitals.app import matrix
from llmvitals.cli import matrix as printed
from llmvitals.data import folder
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.telemetry.mapping import EngineMap, How, Support
from llmvitals.telemetry.registry import engines

ENGINE = EngineMap(
    "acme",
    "Acme (beta)",
    "1-2",
    (
        Support("llm_request_ttft_seconds", How.MAPPED, "acme_ttft", "1+"),
        Support("llm_requests_running", How.UNSUPPORTED, note="nobody counts them"),
        Support("llm_requests_waiting", How.DERIVED, "acme_jobs", "", "jobs less those that run"),
        Support("llm_kv_usage_ratio", How.UNSUPPORTED, note="<b>no</b> pool"),
    ),
)
GATEWAY = EngineMap(
    "door",
    "Door",
    "3",
    (
        Support("llm_gateway_calls_total", How.MAPPED, "door_calls", "3+"),
        Support("llm_gateway_upstream_seconds", How.UNSUPPORTED, note="not timed"),
    ),
    Origin.GATEWAY,
)
KNOWN = (ENGINE, GATEWAY)


def test_each_group_is_asked_for_what_makes_sense_for_it():
    first, second = matrix.overviews(KNOWN)
    assert first.head == ("Engine", "Versions", "User experience", "Queue and admission", "Inside the engine")
    assert first.rows == (("acme", ("Acme (beta)", "1-2", "1 of 1", "1 of 2", "0 of 1")),)
    assert second.head == ("Gateway", "Versions", "User experience", "Queue and upstreams")
    assert second.rows == (("door", ("Door", "3", "0 of 0", "1 of 2")),)


def test_no_source_and_no_family_falls_between_the_groups():
    known = engines()
    assert sum(len(table.rows) for table in matrix.overviews(known)) == len(known)
    for engine in known:
        shown = [line.family for part in matrix.one(engine) for line in part.lines]
        assert sorted(shown) == sorted(f.name for f in FAMILIES if origin_of(f.name) is engine.origin)
        assert all(line.note for part in matrix.one(engine) for line in part.lines if not line.source)


def test_one_source_says_how_from_what_and_why_not():
    user, queue, inside = matrix.one(ENGINE)
    assert [part.title for part in (user, queue, inside)] == [
        "User experience: 1 of 1",
        "Queue and admission: 1 of 2",
        "Inside the engine: 0 of 1",
    ]
    assert (user.lines[0].how.word, user.lines[0].source, user.lines[0].versions) == ("mapped", "acme_ttft", "1+")
    assert [(line.how.word, line.note) for line in queue.lines] == [
        ("not available", "nobody counts them"),
        ("derived", "jobs less those that run"),
    ]


@pytest.mark.parametrize(
    ("words", "families"),
    [
        ("", 4),
        ("  ", 4),
        ("requests", 2),
        ("REQUESTS wait", 1),
        ("waiting llm_requests", 1),
        ("acme_jobs", 1),
        ("nobody", 0),
    ],
)
def test_the_filter_wants_every_word_in_the_name_or_the_series(words, families):
    assert sum(len(part.lines) for part in matrix.one(ENGINE, words)) == families
    side = matrix.side(KNOWN, matrix.GROUPS[0], words)
    assert sum(len(rows) for _, rows in side.parts) == families


def test_a_filter_leaves_the_counts_alone():
    (queue,) = matrix.one(ENGINE, "waiting")
    assert queue.title == "Queue and admission: 1 of 2"


def test_side_by_side_each_source_of_the_group_has_a_cell():
    other = EngineMap("zed", "Zed", "9", tuple(Support(s.family, How.UNSUPPORTED, note="mute") for s in ENGINE.support))
    side = matrix.side((other, *KNOWN), matrix.GROUPS[0])
    assert side.sources == (("zed", "Zed"), ("acme", "Acme"))
    _, rows = side.parts[0]
    assert [(cell.how.word, cell.said) for cell in rows[0][2]] == [("no", "mute"), ("mapped", "acme_ttft")]
    assert matrix.side((GATEWAY,), matrix.GROUPS[0]).parts == ()


def test_what_is_not_available_is_never_shown_as_good():
    assert matrix.HOW[How.UNSUPPORTED].tone == matrix.NO.tone == "quiet"
    assert len({(badge.word, badge.icon, badge.tone) for badge in matrix.HOW.values()}) == len(How)
    assert len({badge.icon for badge in matrix.HOW.values()}) == len(How)


@pytest.mark.parametrize(
    ("named", "kind", "view"),
    [("", "", "overview"), ("", "vllm", "source"), ("gateway", "vllm", "gateway"), ("nonsense", "", "overview")],
)
def test_a_link_opens_a_view(named, kind, view):
    assert matrix.view(named, kind) == view


def test_the_short_matrix_in_markdown_has_a_table_for_each_group():
    tables = printed.summary(engines()).split("\n\n")
    assert [table.splitlines()[0].split(" | ")[0] for table in tables] == ["| Engine", "| Gateway", "| GPU page"]
    assert all(len({line.count(" | ") for line in table.splitlines()}) == 1 for table in tables)
    assert sum(len(table.splitlines()) - 2 for table in tables) == len(engines())


def test_the_terminal_gives_each_further_group_heads_of_its_own():
    rows = printed.rows(KNOWN)
    assert printed.head()[:3] == ("Engine", "Kind", "Versions")
    assert rows[0][:3] == ("Acme (beta)", "acme", "1-2")
    assert rows[1] == ()
    name, kind, *others = (re.sub(r"\[/?bold\]", "", cell) for cell in rows[2])
    assert (name, *others) == matrix.heads(matrix.GROUPS[1])
    assert kind == "Kind"
    assert rows[3][:2] == ("Door", "door")


def test_page_and_command_line_say_the_same():
    said = {d["kind"]: {f["family"]: (f["source"], f["note"]) for f in d["families"]} for d in printed.document(KNOWN)}
    lines = [line for part in matrix.one(ENGINE) for line in part.lines]
    assert {line.family: (line.source, line.note) for line in lines} == said["acme"]


@pytest.fixture
def page(monkeypatch):
    """Run the page on an address; gives the run and all HTML that it wrote."""
    monkeypatch.syspath_prepend(str(folder("app")))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # Streamlit puts the page in its place

    def run(**query):
        app = AppTest.from_file(str(folder("app") / "matrix_page.py"), default_timeout=30)
        for key, value in query.items():
            app.query_params[key] = value
        app.run()
        assert not app.exception
        return app, html(app)

    yield run
    for name in ("parts", "matrix_parts"):
        sys.modules.pop(name, None)


def html(app):
    """Everything that the page wrote, without its style sheets."""
    return re.sub(r"<style>.*?</style>", "", "\n".join(block.proto.body for block in app.get("html")), flags=re.DOTALL)


def test_the_page_starts_with_all_sources(page):
    _, shown = page()
    assert [shown.count(f'data-group="{group}"') for group in ("engine", "gateway", "gpu")] == [1, 1, 1]
    for engine in engines():
        assert f'<a href="?kind={engine.kind}">{engine.title}</a>' in shown
    assert "data-family" not in shown


def test_a_kind_in_the_address_opens_that_source(page):
    app, shown = page(kind="ollama")
    assert app.selectbox(key="kind").value == "ollama"
    (ollama,) = (engine for engine in engines() if engine.kind == "ollama")
    assert re.findall(r'data-family="(\w+)"', shown) == [
        line.family for part in matrix.one(ollama) for line in part.lines
    ]
    assert "not available" in shown


def test_an_unknown_kind_is_said_and_another_can_be_chosen(page):
    app, shown = page(kind="<i>x")
    assert "There is no kind of source &#x27;&lt;i&gt;x&#x27;" in shown
    assert "data-family" not in shown
    app.selectbox(key="kind").select("sglang").run()
    assert not app.exception
    assert 'data-family="llm_requests_waiting"' in html(app)
    assert app.query_params["kind"] == "sglang"


def test_the_filter_is_kept_in_the_address_while_sources_change(page):
    app, shown = page(kind="vllm", family="requests swapped")
    assert app.text_input(key="family").value == "requests swapped"
    assert re.findall(r'data-family="(\w+)"', shown) == ["llm_requests_swapped"]
    app.selectbox(key="kind").select("sglang").run()
    assert app.query_params["family"] == "requests swapped"
    app.text_input(key="family").set_value("no such thing").run()
    assert "No family or series here holds &#x27;no such thing&#x27;" in html(app)
    app.text_input(key="family").set_value("").run()
    assert "family" not in app.query_params
    assert html(app).count("data-family") > 50


@pytest.mark.parametrize("group", ["engine", "gateway", "gpu"])
def test_side_by_side_has_a_word_in_every_cell(page, group):
    _, shown = page(view=group)
    members = [engine for engine in engines() if engine.origin.value == group]
    assert shown.count("data-family") == len(members[0].support)
    cells = re.findall(r'<td title="[^"]*">(.*?)</td>', shown)
    assert len(cells) == len(members) * len(members[0].support)
    assert all(re.search(r"</i>(mapped|derived|no)</span>", cell) for cell in cells)


def test_words_of_an_adapter_are_never_markup(page, monkeypatch):
    monkeypatch.setattr("llmvitals.telemetry.registry.engines", lambda: KNOWN)
    for query in ({"kind": "acme"}, {"view": "engine"}):
        _, shown = page(**query)
        assert "<b>no</b>" not in shown
        assert "&lt;b&gt;no&lt;/b&gt; pool" in shown


def test_the_triage_stays_the_first_page_and_loads_nothing_of_the_matrix():
    entry = (folder("app") / "streamlit_app.py").read_text(encoding="utf-8")
    pages = re.findall(r'\("(\w+)_page\.py", later\("[^"]+"\), "(\w*)"\)', entry)
    assert pages[0] == ("triage", "")
    assert pages[-1] == ("matrix", "sources")
    assert all(path for _, path in pages[1:])
    assert "import matrix" not in (folder("app") / "triage_page.py").read_text(encoding="utf-8")
