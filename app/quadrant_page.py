"""Every replica as a point: how full its KV pool gets, against what its GPUs do meanwhile."""

from __future__ import annotations

import streamlit as st

import fleet_answer
import parts
import picked
import quadrant_parts
from llmvitals.app.ask import Failure
from llmvitals.app.fleet import ask_fleet, ask_trail
from llmvitals.app.quadrant import MOST_LINES, Picture, name_of, picture
from llmvitals.settings import Settings, Source
from llmvitals.triage.replica import Fleet
from words import later, t

TITLE = later("KV usage against compute")
ABOUT = later(
    "Where a replica stands says which resource to look at first. The lines are the limits that the checks decide by. "
    "A full pool is healthy while nobody waits."
)
Scope = tuple[str, str]


@st.cache_data(ttl=2.0, show_spinner=False, max_entries=64)
def poll(source: Source, at: float | None, settings: Settings) -> Fleet | Failure:
    """One answer serves everybody who looks at the same thing within two seconds."""
    return ask_fleet(source, at, settings)


def main() -> None:
    """Lay the page out for the chosen source and moment."""
    st.html(parts.STYLE + quadrant_parts.STYLE)
    sidebar = picked.slots()
    found = picked.opened(sidebar, picked.forget_scope)
    if found is None:
        return
    settings, source, at = found
    every = None if at is not None else settings.exporter.interval_seconds
    st.fragment(panel, run_every=every)(source, at, settings)


def panel(source: Source, at: float | None, settings: Settings) -> None:
    """What is refreshed. The last good answer stays while the source does not answer, and is said to be old."""
    fleet = fleet_answer.latest(poll(source, at, settings), source, at, settings)
    if fleet is not None:
        show(fleet, source, at, settings)


def show(fleet: Fleet, source: Source, at: float | None, settings: Settings) -> None:
    """One answer: the picture, what its quadrants hint at, every replica in words, and those without a place."""
    chosen = st.query_params.get("instance", ""), st.query_params.get("model", "")
    one = next((r for r in fleet.replicas if r.placed and (r.instance, r.model) == chosen), None)
    drawn = picture(fleet, chosen, ask_trail(source, one, at, settings) if one else {})
    fleet_answer.head(t(TITLE), t(ABOUT), fleet, source, at)
    if drawn.points:
        show_points(fleet, drawn, chosen, source)
    if drawn.missing:
        st.html(parts.heading(t("Not in the picture")))
        st.html(quadrant_parts.missing(drawn.missing[:MOST_LINES], source.name))
        more(len(drawn.missing))
    if not fleet.replicas:
        picked.notice("no-replicas", remedy=t("Give the exporter targets, or choose another source."))


def show_points(fleet: Fleet, drawn: Picture, chosen: Scope, source: Source) -> None:
    """The chart, with the choice whose way it shows."""
    st.html(quadrant_parts.legend())
    st.altair_chart(quadrant_parts.draw(drawn, st.context.theme.type), width="stretch", key="quadrants")
    names: dict[Scope, str] = {("", ""): t("none")}
    names |= {(r.instance, r.model): name_of(r) for r in fleet.replicas if r.placed}
    keys = list(names)
    way = st.selectbox(
        t("Way of a replica through the last minutes"),
        keys,
        index=keys.index(chosen) if chosen in names else 0,
        format_func=names.__getitem__,
    )
    if way != (chosen if chosen in names else ("", "")):
        for key, value in zip(("instance", "model"), way, strict=True):
            if value:
                st.query_params[key] = value
            else:
                st.query_params.pop(key, None)
        st.rerun(scope="fragment")
    st.html(quadrant_parts.quadrants(drawn))
    st.html(parts.heading(t("Replica by replica")))
    st.html(quadrant_parts.lines(drawn.lines[:MOST_LINES], source.name))
    more(len(drawn.lines))


def more(rows: int) -> None:
    """What is not in a table that would be too long to read."""
    if rows > MOST_LINES:
        st.caption(t("{count} more; the page Fleet has all of them", count=rows - MOST_LINES))


main()
