"""From a URL to canonical snapshots: fetch, parse, map."""

from llmvitals.telemetry.ingest.fetch import Fetcher, page_url
from llmvitals.telemetry.ingest.ingest import KINDS, Ingest
from llmvitals.telemetry.ingest.page import Limits, RawPage

__all__ = ["KINDS", "Fetcher", "Ingest", "Limits", "RawPage", "page_url"]
