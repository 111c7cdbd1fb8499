"""The app's entry: pages and what they share. Start it with ``llmvitals app``."""

from __future__ import annotations

import streamlit as st

st.set_page_config(page_title="llmvitals", page_icon=":material/monitor_heart:", layout="wide")
st.navigation([st.Page("triage_page.py", title="Triage", icon=":material/monitor_heart:")]).run()
