"""The ways in which a target misbehaves, by name: what may be told of each. One row per behaviour.

``path`` is one of :mod:`support.hostile`; ``up``: the values that ``llm_target_up`` takes; ``why``: what the reason must hold where
the target is down; ``gap``: the family that must have one where it is up; ``verdicts``: those that are right for what it shows.
"""

from __future__ import annotations

from dataclasses import dataclass

DOWN = frozenset({0.0})
UP = frozenset({1.0})
EITHER = DOWN | UP

UNKNOWN = frozenset({"undetermined"})
LOST = "undetermined: no page could be read"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """See the module. ``path`` empty: nobody listens. ``told``: what the table says came of it."""

    name: str
    path: str
    why: str = ""
    up: frozenset[float] = DOWN
    verdicts: frozenset[str] = UNKNOWN
    causes: frozenset[str] = frozenset()
    gap: str = ""  # the family that the page must have a gap of
    told: str = ""

    def explains(self, text: str) -> bool:
        """Whether the text says why it is down. A page without end meets the limit of its size or of time first."""
        return self.why in text or (self.why == LARGE and TIME in text)

    @property
    def outcome(self) -> str:
        """One line for the table."""
        limit = {TIME: f"{TIME} the time limit", LARGE: f"{LARGE} what is read"}
        return self.told or f"down: {limit.get(self.why, self.why).rstrip(' (')}"


def _down(name: str, path: str, why: str) -> Behaviour:
    return Behaviour(name, path, why)


def _up(name: str, path: str, told: str, gap: str = "", **more: frozenset[str]) -> Behaviour:
    return Behaviour(name, path, up=UP, told=told, gap=gap, **more)  # type: ignore[arg-type]


RUNNING = "llm_requests_running"
TTFT = "llm_request_ttft_seconds"
TIME = "did not finish its answer within"
CUT = "closed the connection without a whole answer"
LARGE = "the page is larger than"
LONG = "its headers are longer than what is read"
OTHER = "answers in something that is not HTTP/1"

BEHAVIOURS: tuple[Behaviour, ...] = (
    # no answer
    _down("nobody listens", "", "refused the connection"),
    _down("takes the connection and says nothing", "/hang", TIME),
    _down("resets the connection", "/reset", CUT),
    _down("resets it in the middle of the page", "/reset-midway", CUT),
    # slow
    _down("drips its headers", "/drip-headers", TIME),
    _down("drips its page", "/drip", TIME),
    _down("says 100 Continue without end", "/continue", TIME),
    # large
    _down("a page without end", "/endless", LARGE),
    _down("a line without end", "/one-line", LARGE),
    _down("a page of 100 MiB", "/huge", LARGE),
    _down("a gzip bomb of 100 MiB", "/bomb", LARGE),
    _down("100,000 series", "/series", "the page has more than 50000 samples"),
    _up("a series with 100,000 labels", "/labels", "read, without that series"),
    # no HTTP, or bad HTTP
    _down("a header of 1 MiB", "/header", LONG),
    _down("a thousand headers", "/headers", LONG),
    _down("HTTP/0.9", "/http-0.9", OTHER),
    _down("TLS on a plain port", "/tls", OTHER),
    _down("a content-length that is too long", "/long", CUT),
    _up("a content-length that ends within a number", "/short", "read up to the last whole line"),
    _up("a negative content-length", "/negative-length", "read to the end of the connection"),
    _down("chunks whose size is no number", "/chunks", CUT),
    _down("a chunk that says 1 TiB", "/chunk-over", CUT),
    # other answers
    _down("HTML", "/html", "answered with HTML, not metrics"),
    _down("JSON", "/json", "answered with JSON, not metrics"),
    _down("a picture", "/picture", "there is no metric on it"),
    _up("a page that calls itself a picture", "/wrong-type", "read: what it is decides"),
    _down("an encoding nobody asked for", "/encoding", "in an encoding that was not asked for"),
    _down("gzip that is cut short", "/truncated-gzip", "the compressed page is damaged or cut short"),
    _down("500", "/500", "answered 500"),
    _down("503 with Retry-After: 3600", "/503", "answered 503"),
    _down("401", "/401", "answered 401"),
    _down("204", "/204", "answered 204"),
    _down("nothing", "/empty", "the page is empty"),
    # redirects
    _down("redirects to itself", "/loop", "redirects"),
    _down("redirects to another host", "/redirect", "redirects to another host ("),
    _down(
        "redirects to a metadata address",
        "/to-metadata",
        "redirects to another host (169.254.169.254), which is not followed",
    ),
    _down("redirects to a file", "/to-a-file", "redirects to another host ("),
    # a page with faults
    _up("NaN", "/nan", "a gap; never healthy, never no traffic", RUNNING),
    _up("+Inf and -Inf", "/infinite", "a gap", RUNNING),
    _up("negative numbers", "/negative", "a gap", RUNNING),
    _up("words for numbers", "/no-number", "a gap", RUNNING),
    _up("every series twice", "/twice", "read once"),
    _up("half a histogram", "/half-histogram", "a gap instead of the half; what is whole is read", TTFT),
    _up("a page that ends within a number", "/cut", "read up to the last whole line"),
    Behaviour(
        "labels that are no UTF-8",
        "/utf-8",
        up=UP,
        verdicts=frozenset({"undetermined", "cause"}),
        causes=frozenset({"telemetry-broken"}),
        told="read; the broken name is a model of its own whose numbers cannot be trusted",
    ),
)

CHANGES: tuple[Behaviour, ...] = (
    _up("timestamps of 1970 and 2100 by turns", "/stamped", "read: the moment of the scrape counts"),
    Behaviour(
        "a clock that jumps between 1970 and 2100 (Date, process_start_time_seconds)",
        "/clock",
        up=UP,
        verdicts=frozenset({"undetermined", "cause"}),
        causes=frozenset({"telemetry-broken"}),
        told="read; as two servers behind one address its numbers cannot be trusted",
    ),
    Behaviour(
        "every other page is missing",
        "/vanishing",
        up=EITHER,
        verdicts=frozenset({"undetermined", "cause"}),
        causes=frozenset({"telemetry-broken"}),
        told="up and down by turns; its numbers cannot be trusted",
    ),
    Behaviour(
        "a vLLM that becomes 0.6, 0.8, 0.10 and 0.6 again",
        "/upgrade",
        up=UP,
        verdicts=frozenset({"undetermined", "no-traffic", "cause"}),
        causes=frozenset({"rollout-and-probes"}),
        told="read in each release's names; the restarts are told, no rate across them",
    ),
    _up(
        "a vLLM that becomes an SGLang and back",
        "/kinds",
        "read as what it is at each scrape",
        # both are well; pages of one kind in a row may suffice to say so
        verdicts=frozenset({"undetermined", "healthy"}),
    ),
    _up("another model", "/renamed", "a scope of its own"),
    _up("another model with every page", "/models", "a scope each; those before go with the window"),
    Behaviour(
        "counters that start again",
        "/restarted",
        up=UP,
        verdicts=frozenset({"undetermined", "cause"}),
        causes=frozenset({"rollout-and-probes"}),
        told="a restart; no negative rate",
    ),
)
