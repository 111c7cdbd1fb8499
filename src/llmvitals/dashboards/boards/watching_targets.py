"""Whether each target can be seen: what its page gives, what it lacks and why, and which checks that leaves undecided."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import WATCHED, labels_alone
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    RANGE,
    SELECTOR,
    VERMILLION,
    Kind,
    Leads,
    Panel,
    Query,
    Row,
    cell,
    each,
    of_target,
    q,
)

_BY = ("instance",)
_UP = of_target("llm_target_up")
_UNDECIDED = (
    f'sum by (instance, model) (max by (instance, model, cause) (llm_triage_check_state{{state="unknown",{SELECTOR}}}))'
)
"""Each check once, however many exporters tell of it."""


def _worst(signal: str) -> str:
    """A signal's largest number over the models of a target."""
    return f"max by (instance) (<{signal}>)"


def _of_the_time(series: str, by: tuple[str, ...]) -> str:
    """The share of the chosen time that a series of a target was there, of the time that the target was told of."""
    there = f"max by ({', '.join(by)}) (count_over_time({series}{RANGE}))"
    return f"clamp_max({there} / on (instance) group_left () ({WATCHED} > 0), 1)"


SEEN = Panel(
    Kind.TABLE,
    "Can we see it at all? Target by target",
    "none",
    (
        cell("answers", "none", promql=_UP, by=_BY, names=((1, "yes", GREEN), (0, "no", VERMILLION))),
        cell("HTTP status", "none", promql=of_target("llm_target_status"), by=_BY),
        cell("answered in", "s", promql=of_target("llm_target_answer_seconds"), by=_BY),
        cell("failed scrapes", "percentunit", promql=_worst("failed_scrape_ratio"), by=_BY),
        cell("basic families missing", "none", promql=_worst("core_families_missing"), by=_BY),
        cell(
            "families missing",
            "none",
            promql="count by (instance) "
            f'(count by (instance, family) (llm_family_gap{{gap="missing",{INSTANCE}}})) or {_UP} * 0',
            by=_BY,
        ),
        cell("checks without input", "none", promql=f"max by (instance) ({_UNDECIDED})", by=_BY),
        cell("servers behind it", "none", promql=_worst("processes_behind"), by=_BY),
        cell("told of, times", "none", promql=of_target("llm_target_up", agg="count"), by=_BY),
    ),
    "Each target: whether its page can be read, how it answers, the share of failed scrapes, what of the page is"
    " missing although this engine and version show it, how many checks that leaves undecided, how many servers take"
    " turns behind the address, and how many exporters tell of it (1 is right). A row that is clean here can be"
    " trusted on every other board.",
    NO_EXPORTER,
    causes=("telemetry-broken", "not-serving"),
    symptoms=("target-gone", "half-blind"),
    moved=("idle",),
    worst="failed scrapes",
    width=24,
    leads=Leads.APP,
)

ANSWERS = Panel(
    Kind.TIMELINE,
    "Does each target answer?",
    "none",
    (Query("", GREY, promql=_UP, by=_BY, names=((1, "a readable page", GREEN), (0, "none", VERMILLION))),),
    "One line for each target: whether it gave a page that can be read. While it gives none, everything else that is"
    " shown of it is old, and no check on it decides anything.",
    NO_EXPORTER,
    causes=("not-serving", "telemetry-broken"),
    symptoms=("target-gone",),
    moved=("idle",),
)

SCRAPES = Panel(
    Kind.LINES,
    "Scrapes of each target: failed, and time taken",
    "percentunit",
    (
        q("failed_scrape_ratio", "failed", VERMILLION),
        each("llm_target_answer_seconds", "answered in", ORANGE, dashed=True, unit="s"),
    ),
    "Share of the exporter's own scrapes of a target that failed in its window, and how long the page took to come"
    " (right axis). A page that takes longer and longer is an API process that is late for everybody: look at the"
    " engine before the network.",
    NO_EXPORTER,
    causes=("telemetry-broken", "not-serving"),
)

_SPOKEN = ("engine", "version")
SPOKEN = Panel(
    Kind.TABLE,
    "Which engine, which generation of names",
    "none",
    (labels_alone("spoken", of_target("llm_target_info", *_SPOKEN), (*_BY, *_SPOKEN)),),
    "What each page was understood as: the engine, and the range of versions whose names it uses. Two ranges in one"
    " pool: a rollout is half done, or a replica was left behind. A target that is missing here could not be told:"
    " name its kind in the settings.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    moved=("idle", "hardware-error"),
)

LACKS = Panel(
    Kind.TABLE,
    "Families that should be there and are not",
    "none",
    (
        cell(
            "of the time",
            "percentunit",
            promql=_of_the_time(f'llm_family_gap{{gap!="unsupported",{INSTANCE}}}', (*_BY, "family", "gap", "reason")),
            by=(*_BY, "family", "gap", "reason"),
        ),
    ),
    "What this engine and version show as a rule and this page does not, with the reason as far as it is known, and"
    " for how much of the chosen time. Checks that need it are undecided, never green. Usual reasons: a filter of"
    " metrics on the way, an old list of fields of a GPU exporter, a flag of the engine. Gap no-traffic: it comes with"
    " the first of its kind.",
    "nothing that these engines and versions show is missing",
    symptoms=("half-blind",),
    moved=("page-filtered",),
    worst="of the time",
    width=16,
    leads=Leads.APP,
)

CANNOT = Panel(
    Kind.TABLE,
    "What an engine or its version cannot say",
    "none",
    (
        cell(
            "of the time",
            "percentunit",
            promql=_of_the_time(f'llm_family_gap{{gap="unsupported",{INSTANCE}}}', (*_BY, "family", "reason")),
            by=(*_BY, "family", "reason"),
        ),
    ),
    "Families that this engine in this version has not, that need a flag, or that nothing joined to it shows, each"
    " with its reason. Nothing is broken: panels that need them are empty, and checks go by other numbers where"
    " there are any.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    moved=("idle", "hardware-error"),
    width=12,
)

UNDECIDED = Panel(
    Kind.LINES,
    "Checks without input",
    "none",
    (Query("", PURPLE, promql=_UNDECIDED),),
    "How many checks of each scope lack a number that they need: they are neither firing nor clear. It rises when a"
    " family goes away, and when there is too little traffic or time to say. The table beside names the numbers.",
    NO_EXPORTER,
    causes=("telemetry-broken",),
    moved=("idle",),
)

WITHOUT = Panel(
    Kind.TABLE,
    "Which checks are undecided",
    "none",
    (
        cell(
            "of the time",
            "percentunit",
            promql="max by (instance, model, cause) "
            f'(avg_over_time(llm_triage_check_state{{state="unknown",{SELECTOR}}}{RANGE})) > 0',
            by=(*_BY, "model", "cause"),
        ),
    ),
    "The causes whose checks could not be decided, and for how much of the chosen time. While one is undecided for"
    " want of a family, no later cause leads: the verdict stays undetermined and says why.",
    "every check that applies is decided, or the exporter is not scraped",
    symptoms=("half-blind",),
    moved=("page-filtered",),
    worst="of the time",
    leads=Leads.APP,
)

NUMBERS = Panel(
    Kind.TABLE,
    "Numbers that are missing, and why",
    "none",
    (
        cell(
            "of the time",
            "percentunit",
            promql=_of_the_time(f"llm_signal_gap{{{SELECTOR}}}", (*_BY, "model", "signal", "gap")),
            by=(*_BY, "model", "signal", "gap"),
        ),
    ),
    "Signals without a number, by the kind of gap: unsupported (this engine cannot say), missing (it should and does"
    " not), no-traffic (nothing happened that could be measured), too-short, stale, censored (only finished requests"
    " are counted while a queue stands). A gap is never drawn as 0.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    moved=("idle", "hardware-error"),
    worst="of the time",
    width=12,
)

STANDING = Panel(
    Kind.BARS,
    "Numbers that are estimates or bounds",
    "none",
    (
        Query(
            "",
            BLUE,
            promql=f"count by (standing) (count by (signal, standing) (llm_signal_standing{{{SELECTOR}}}))",
            by=("standing",),
        ),
    ),
    "How many signals of the chosen scopes are estimates, lower or upper bounds rather than exact. The gauge itself"
    " looks the same, so that its line does not break; its standing is told beside it, and in every verdict.",
    "every number is exact, or the exporter is not scraped",
    symptoms=("half-blind",),
    moved=("hardware-error", "idle"),
)

CONTRADICTIONS = Panel(
    Kind.LINES,
    "Signs that a page does not tell the truth",
    "none",
    (
        q("contradiction", "answers unknown to the engine", VERMILLION),
        q("processes_behind", "servers behind the address", ORANGE, dashed=True),
        q("stalled_seconds", "nothing moves for", PURPLE, dashed=True, unit="s"),
    ),
    "Answers that the engine's own counters know nothing of, servers that take turns behind one address (1 is"
    " right), and for how long nothing has moved although work is there (right axis). Each makes the other numbers"
    " of the page wrong without making it unreadable.",
    NO_EXPORTER,
    causes=("telemetry-broken",),
    moved=("engine-stalled", "only-errors"),
)

ROW = Row("Can we see at all?", (SEEN, ANSWERS, SCRAPES, SPOKEN, LACKS, UNDECIDED, WITHOUT, CONTRADICTIONS))

DETAIL = Row("What cannot be said, and why", (CANNOT, NUMBERS, STANDING), collapsed=True)
