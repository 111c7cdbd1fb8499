"""Where a board leads: to the other boards, the triage app and the runbooks, with what is chosen and the time range."""

from __future__ import annotations

from collections.abc import Iterable

from llmvitals.dashboards.boards.alerting import RUNBOOKS
from llmvitals.dashboards.model import PLACE, Leads, Panel, Row
from llmvitals.dashboards.promql import kept
from llmvitals.dashboards.shapes import Json, core
from llmvitals.settings import Settings

TAG = "llmvitals"
"""What all boards are tagged with: the link to the others finds them by it."""

SERVICE = "llmvitals-serving"
"""The identity of the board of one service."""

TARGET = (*PLACE, "model", "instance")
"""The labels by which a target is chosen: variables of every board, and parameters of the app."""

_TIMES = "from=${__from}&to=${__to}"
_CHOSEN = "&".join(f"${{{name}:queryparam}}" for name in TARGET)


def others(title: str, tag: str) -> core.DashboardLink:
    """The link from a board to all boards of its tag."""
    return core.DashboardLink(
        type="dashboards", title=title, tags=[tag], asDropdown=True, keepTime=True, includeVars=True
    )


def app_url(settings: Settings) -> str:
    """Where the app runs, without what is asked of it."""
    return settings.alerts.app_url.partition("?")[0].rstrip("/") or "http://localhost:8501"


def _app(settings: Settings, *asked: str) -> str:
    """The app's address with what is asked of it; a source that the settings name for all links comes first."""
    own = settings.alerts.app_url.partition("?")[2]
    return "${app_url}/?" + "&".join(filter(None, (own, *asked)))


def app(settings: Settings) -> core.DashboardLink:
    """The link from a panel to the app, with all that is chosen."""
    uri = _app(settings, _CHOSEN, _TIMES)
    return core.DashboardLink(type="link", title="Triage app", uri=uri, targetBlank=True, keepTime=False)


def home(settings: Settings) -> core.DashboardLink:
    """The link from a board to the app: Grafana itself adds what is chosen."""
    uri = _app(settings).removesuffix("/?")
    return core.DashboardLink(
        type="link", title="Triage app", uri=uri, targetBlank=True, keepTime=True, includeVars=True
    )


def runbooks(panel: Panel) -> list[core.DashboardLink]:
    """The links from a panel to its runbooks."""
    return [
        core.DashboardLink(
            type="link", title=f"Runbook: {slug}", uri=f"${{runbook_url}}/{slug}.md", targetBlank=True, keepTime=False
        )
        for slug in (*panel.symptoms, *panel.causes)
    ]


def more(row: Row) -> list[core.DashboardLink]:
    """The link from a panel to the board that has more of its row, with all that is chosen; none where there is no such board."""
    if not row.board:
        return []
    url = f"/d/{row.board}?${{__all_variables}}&${{__url_time_range}}"
    return [core.DashboardLink(type="link", title=f"More: {row.title}", uri=url, targetBlank=False, keepTime=False)]


def common(panel: Panel) -> tuple[str, ...]:
    """The labels that every value of a panel has."""
    found = [kept(query.by) for query in panel.queries]
    return tuple(name for name in found[0] if all(name in one for one in found)) if found else ()


def of_value(leads: Leads, labels: Iterable[str], settings: Settings, holder: str = "__field.labels") -> list[Json]:
    """The links of a value whose series has ``labels``. ``holder``: what knows them; of a table's row, ``__data.fields``."""
    there = [name for name in TARGET if name in set(labels)]
    if leads is Leads.APP:
        chosen = "&".join(f"{name}=${{{holder}.{name}}}" for name in there)
        return [{"title": "Triage app", "url": _app(settings, chosen, _TIMES), "targetBlank": True}]
    if leads is Leads.SERVICE:
        chosen = "&".join(f"var-{name}=${{{holder}.{name}}}" for name in there)
        url = f"/d/{SERVICE}?${{datasource:queryparam}}&{chosen}&${{__url_time_range}}"
        return [{"title": "This service", "url": url, "targetBlank": False}]
    if leads in (Leads.RUNBOOK, Leads.ALERT):
        return [{"title": "Runbook", "url": f"${{runbook_url}}/${{{holder}.cause}}.md", "targetBlank": True}]
    return []


def of_alerts(panel: Panel) -> Iterable[Json]:
    """A click on a value that stands for an alert opens that alert's runbook."""
    for slug, names in RUNBOOKS if panel.leads is Leads.ALERT else ():
        link = {"title": f"Runbook: {slug}", "url": f"${{runbook_url}}/{slug}.md", "targetBlank": True}
        yield {
            "matcher": {"id": "byRegexp", "options": f"^({'|'.join(names)}) .*"},
            "properties": [{"id": "links", "value": [link]}],
        }
