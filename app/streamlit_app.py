"""The app's entry: pages and what they share. Start it with ``llmvitals app``."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

import sign_in
import words
from words import later, t

# A file of our own: Streamlit loads the icon of a page from another host when it is named like ":material/...:".
ICON = Path(__file__).with_name("icon.svg")

# In their order: file, title, and the path in the address ('' for the first).
PAGES: tuple[tuple[str, str, str], ...] = (
    ("triage_page.py", later("Triage"), ""),
    ("fleet_page.py", later("Fleet"), "fleet"),
    ("quadrant_page.py", later("KV usage against compute"), "replicas"),
    ("capacity_page.py", later("Capacity"), "capacity"),
    ("audit_page.py", later("Audit"), "audit"),
    ("loadtests_page.py", later("Load tests"), "loadtests"),
    ("runbooks_page.py", later("Runbooks"), "runbooks"),
    ("matrix_page.py", later("What each source can say"), "sources"),
)

pages = [st.Page(file, title=t(title), url_path=path or None, default=not path) for file, title, path in PAGES]
page = st.navigation(pages)
st.set_page_config(page_title=f"{page.title} - llmvitals", page_icon=str(ICON), layout="wide")
words.choose()
if sign_in.let_in(page, pages):
    page.run()
