"""From a URL to canonical snapshots: fetch, parse, map."""

from llmvitals.telemetry.ingest.ingest import KINDS, Ingest
from llmvitals.telemetry.ingest.page import Limits, RawPage

__all__ = ["KINDS", "Ingest", "Limits", "RawPage"]
