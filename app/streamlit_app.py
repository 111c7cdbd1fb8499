"""The app's entry: pages and what they share. Start it with ``llmvitals app``."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

# A file of our own: Streamlit loads the icon of a page from another host when it is named like ":material/...:".
ICON = Path(__file__).with_name("icon.svg")

page = st.navigation(
    [
        st.Page("triage_page.py", title="Triage", default=True),
        st.Page("quadrant_page.py", title="KV usage against compute", url_path="replicas"),
        st.Page("runbooks_page.py", title="Runbooks", url_path="runbooks"),
        st.Page("matrix_page.py", title="What each source can say", url_path="sources"),
    ]
)
st.set_page_config(page_title=f"{page.title} - llmvitals", page_icon=str(ICON), layout="wide")
page.run()
