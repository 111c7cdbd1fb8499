"""Panels as images: what a board shows of a PromQL endpoint, drawn for documents and reports. Never a screenshot of Grafana.

``results`` holds the values that come in, ``ask`` says what is asked for them, ``curves`` what of them is drawn, and ``units`` how
a number is read. ``picture`` and what it calls need matplotlib (the extra ``pictures``). All of it is pure: the same panel,
results and settings give the same bytes.
"""
