"""The board of one service: few panels, in the order in which they are read, each row with a way on."""

import pytest

from llmvitals.dashboards import grafana
from llmvitals.dashboards.boards import BOARDS, service
from llmvitals.dashboards.boards.users import ERRORS
from llmvitals.settings import Settings
from support.boards import panels_of
from support.made_servers import gauge, numbers
from support.prometheus import prometheus_of

ROWS = service.BOARD.rows
DATA = grafana.drawn(service.BOARD, Settings())
BY_TITLE = {panel["title"]: panel for panel in panels_of(DATA)}
BOARD_OF = {board.uid: board for board in BOARDS}
LED_ON = [row for row in ROWS if row.board]


def test_verdict_causes_and_the_two_separations_come_before_everything_else():
    top, *below = ROWS
    assert [panel.title for panel in top.panels] == [
        "Verdict",
        "Leading cause and its confidence",
        "Can the numbers be trusted?",
        "Causes over time",
        "Where the time goes: queue, prefill, decode, front end",
        "What binds: KV cache next to GPU compute",
    ]
    assert [row.title.partition(":")[0] for row in below if not row.collapsed] == [
        "User experience",
        "Queue and admission",
        "Engine and hardware",
        "Engine and hardware",
    ]
    assert [row.title for row in below if row.collapsed] == ["Alerts"]


def test_every_row_below_the_top_leads_on_to_a_board_of_its_own():
    assert [row.board for row in ROWS if row.title] == [row.board for row in LED_ON]
    assert len({row.board for row in LED_ON}) == len(LED_ON)
    assert {row.board for row in LED_ON} <= BOARD_OF.keys() - {service.BOARD.uid}


@pytest.mark.parametrize("row", LED_ON, ids=lambda row: row.title)
def test_what_a_row_shows_stands_on_the_board_that_it_leads_to(row):
    there = {panel for other in BOARD_OF[row.board].rows for panel in other.panels}
    assert set(row.panels) - there <= {ERRORS}, "which stands there layer by layer"


@pytest.mark.parametrize("row", LED_ON, ids=lambda row: row.title)
def test_the_way_on_keeps_what_is_chosen_and_the_time(row):
    for panel in row.panels:
        *_, last = BY_TITLE[panel.title]["links"]
        assert last["title"] == f"More: {row.title}"
        assert last["url"] == f"/d/{row.board}?${{__all_variables}}&${{__url_time_range}}"
        assert not last["targetBlank"], "the same tab: it is the same incident"


def test_a_row_without_such_a_board_leads_nowhere_on():
    for panel in ROWS[0].panels:
        assert not [link for link in BY_TITLE[panel.title]["links"] if link["url"].startswith("/d/")]


@pytest.mark.prometheus
@pytest.mark.parametrize(("labels", "told"), [({"instance": "a"}, 0.0), ({"exported_instance": "a"}, 1.0)])
def test_servers_that_prometheus_took_for_one_are_told(tmp_path, labels, told):
    scraped = {"instance": "10.0.0.9:9464", **labels}
    with prometheus_of(tmp_path, gauge("llm_target_up", 1.0, **scraped)) as server:
        assert numbers(server, "service", "Can the numbers be trusted?")["servers"] == {(): told}
