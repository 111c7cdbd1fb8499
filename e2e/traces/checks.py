"""What must hold after a load: rows of what was expected, what was found, and whether the two are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clients import SLACK_SECONDS, Count, Log, kept, times, within
from pages import Page, exemplars
from table import ENGINE, PROMISES, SECRET

SLO, ENDED = "llm_slo_requests_total", "llm_span_requests_total"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. ``right`` None: nothing to compare, said as it is."""

    what: str
    expected: str
    found: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class Pages:
    """Scrapes at one moment: the exporter's, and the engine's own."""

    exporter: Page
    engine: Page


@dataclass(frozen=True, slots=True)
class Drained:
    """A load that is over. ``before``, ``after``: pages around it; ``log``: its clients'."""

    before: Pages
    after: Pages
    log: Log

    def grew(self, name: str, label: str, **wanted: str) -> dict[str, int]:
        """Growth of the exporter's samples of a name, by a label."""
        now, then = (page.exporter.by(name, label, **wanted) for page in (self.after, self.before))
        return _growth(now, then)

    def finished(self) -> dict[str, int]:
        """Growth of what the engine's own page calls finished, by its reason."""
        name, label = "vllm:request_success_total", "finished_reason"
        now, then = (page.engine.by(name, label) for page in (self.after, self.before))
        return _growth(now, then)


def _growth(now: Counter[str], then: Counter[str]) -> dict[str, int]:
    grown = {key: round(now[key] - then[key]) for key in now}
    return {key: n for key, n in grown.items() if n}


def same(what: str, expected: object, found: object) -> Row:
    """Two things that must be equal."""
    return Row(what, spell(expected), spell(found), expected == found)


def spell(value: object) -> str:
    """``ok 12, left 3`` of counts; else as it prints."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {value[key]}" for key in sorted(value)) or "-"
    return str(value)


# -- at the gateway ---------------------------------------------------------------------------------------------------
def at_the_gateway(run: Drained) -> Iterator[Row]:
    """Goodput by class as the page counts it, and as clients do."""
    for promise in PROMISES:
        log = run.log.by_class.get(promise.name, Count())
        found = run.grew(SLO, "met", vantage="gateway", slo_class=promise.name)
        if promise.name not in run.log.by_class and not found:
            continue  # the load has nobody of it
        yield by_class(promise.name, log, found)
        missed = run.grew("llm_slo_missed_total", "objective", vantage="gateway", slo_class=promise.name)
        yield misses(promise.name, log, missed)
    yield same(
        "gateway: how calls ended",
        {how: n for how, n in run.log.ended.items() if n},
        run.grew(ENDED, "ended", vantage="gateway"),
    )
    yield same("requests of clients still open at the end", 0, run.log.open)


def by_class(name: str, log: Count, found: dict[str, int]) -> Row:
    """A class' counts: together exactly as many as clients count; those that met their promise but for the near ones."""
    total, yes = log.yes + log.no + log.near, found.get("yes", 0)
    right = sum(found.values()) == total and not found.get("unknown") and log.yes <= yes <= log.yes + log.near
    told = f"yes {_span(log.yes, log.near)}, no {_span(log.no, log.near)} of {total}"
    told += f" (by their own clocks yes {log.own})" if log.near else ""
    return Row(f"gateway: class {name}", told, spell(found), right)


def misses(name: str, log: Count, found: dict[str, int]) -> Row:
    """A class' misses by objective, but for the near ones."""
    every = sorted({*log.missed, *log.nearly, *found})
    right = all(log.missed[key] <= found.get(key, 0) <= log.missed[key] + log.nearly[key] for key in every)
    told = ", ".join(
        f"{key} {_span(log.missed[key], log.nearly[key])}" for key in every if key in log.missed | log.nearly
    )
    return Row(f"gateway: class {name}, missed", told or "-", spell(found), right)


def _span(sure: int, near: int) -> str:
    return f"{sure} to {sure + near}" if near else str(sure)


# -- at the engine ----------------------------------------------------------------------------------------------------
def at_the_engine(run: Drained) -> Iterator[Row]:
    """Spans of the engine are its finished requests, by class, and those that its clients got whole."""
    spans, page = run.grew(ENDED, "ended", vantage="engine"), run.finished()
    whole = {key: n for key, n in page.items() if key != "abort"}
    yield same("engine: spans, and its page's finished requests", {"ok": sum(whole.values())}, spans)
    yield Row(
        "engine: given up on its page",
        f"up to {run.log.ended['left']}, no span of one",
        spell(page.get("abort", 0)),
        None,
    )
    yield same("engine: answers that clients got whole", run.log.ended["ok"], sum(spans.values()))
    wanted = {name: count.whole for name, count in run.log.by_class.items() if count.whole}
    yield same("engine: spans by class (tenants inherited)", wanted, run.grew(ENDED, "slo_class", vantage="engine"))
    yield same(
        "around the engine: calls with a gateway's span",
        {"gateway": run.log.ended["ok"]},
        run.grew("llm_span_frontend_seconds_count", "parent"),
    )
    for vantage in ("engine", "gateway"):
        tokens = run.grew("llm_span_tokens_total", "kind", vantage=vantage)
        yield same(f"{vantage}: tokens of whole answers", {"output": run.log.output, "prompt": run.log.prompt}, tokens)


def interval(run: Drained) -> Iterator[Row]:
    """What histograms allow holds what spans count, over everything since the engine's first page."""
    page = run.after.exporter
    met = page.by(SLO, "met", vantage="engine", slo_class=PROMISES[-1].name)
    exact = met["yes"] / (met["yes"] + met["no"])
    low, high = (page.number(f"llm_goodput_{end}_ratio", instance=ENGINE) for end in ("low", "high"))
    what = "engine: exact goodput in the histograms' interval"
    if low is None or high is None:
        gaps = page.by("llm_signal_gap", "gap", instance=ENGINE, signal="goodput_low_ratio")
        yield Row(what, f"{exact:.4f}", f"no interval: {spell(dict(gaps))}", None)
        return
    yield Row(what, f"{exact:.4f}", f"{low:.4f} to {high:.4f}", low - 1e-9 <= exact <= high + 1e-9)


# -- sampled ----------------------------------------------------------------------------------------------------------
def sampled(run: Drained) -> Iterator[Row]:
    """Exactly the traces that the sampler keeps are counted, and the page says that they are not all."""
    yield same(
        "engine: spans, and whole answers whose trace the sampler keeps",
        {"ok": kept(run.log.whole)},
        run.grew(ENDED, "ended", vantage="engine"),
    )
    page = run.after.exporter
    by = run.after.engine.by("vllm:request_success_total", "finished_reason")
    share = page.total(ENDED, vantage="engine") / sum(n for reason, n in by.items() if reason != "abort")
    found = page.number("llm_span_coverage_ratio", instance=ENGINE)
    yield Row("coverage is said", f"{share:.3f}", f"{found}", found is not None and abs(found - share) < 0.005)
    yield standing(run, "estimate")


def covered(run: Drained) -> Iterator[Row]:
    """Every request was told, and the page says so."""
    found = run.after.exporter.number("llm_span_coverage_ratio", instance=ENGINE)
    yield same("coverage is said", 1.0, found)
    yield standing(run, "exact")


def standing(run: Drained, wanted: str) -> Row:
    """What the page says that its goodput is; exact is not said, everything else is."""
    page = run.after.exporter
    found = page.by("llm_signal_standing", "standing", instance=ENGINE, signal="slo_goodput_ratio")
    value = page.number("llm_slo_goodput_ratio", instance=ENGINE)
    told = next(iter(found), "exact") if value is not None else "no number"
    return Row("goodput, request by request, is", wanted, f"{told} ({value})", told == wanted)


# -- whole ------------------------------------------------------------------------------------------------------------
def nothing_lost(run: Drained) -> Iterator[Row]:
    """Every export was taken and every span counts."""
    page = run.after.exporter
    exports = {key: round(n) for key, n in page.by("llmvitals_span_exports_total", "result").items() if n}
    yield Row("exports taken", "ok alone", spell(exports), set(exports) == {"ok"})
    dropped = {key: round(n) for key, n in page.by("llmvitals_spans_dropped_total", "reason").items() if n}
    yield same("spans dropped", {}, dropped)
    left = {name: round(page.total(f"llmvitals_spans_{name}")) for name in ("open", "hurried_total")}
    yield same("spans open or hurried", {"open": 0, "hurried_total": 0}, left)
    senders = {key: round(n) for key, n in page.by("llmvitals_span_senders", "join").items() if n}
    yield Row("senders, by how they were found", "every one", spell(senders), "none" not in senders and bool(senders))


def traces(text: str, known: Iterable[str], log: Log) -> Iterator[Row]:
    """The traces on the OpenMetrics page are those that clients began, with the times that these clients saw."""
    found = exemplars(text)
    ids, families = {one.trace for one in found}, {one.name for one in found}
    strangers = ids - set(known)
    told = f"{len(ids)} on {len(families)} families" + (f", {len(strangers)} that no client sent" if strangers else "")
    yield Row("exemplars' traces are clients'", "all", told, bool(ids) and not strangers)
    apart, right = [], True
    for one in found:
        name = _TIMES.get(one.name)
        if name is not None and one.vantage == "gateway" and one.trace in log.whole:
            row = log.whole[one.trace]
            least, most = within(row)[name]
            right = right and least <= one.seconds <= most
            apart.append(times(row)[name] - one.seconds)
    if apart:
        told = f"{len(apart)}, clients' less theirs {min(apart):.4f} to {max(apart):.4f} s"
        yield Row("exemplars' times at the gateway", f"within {SLACK_SECONDS:g} s of clients'", told, right)


_TIMES = {f"llm_span_{name}_seconds_bucket": name for name in ("ttft", "tpot", "e2e")}


def secret(places: dict[str, str]) -> Row:
    """The text that was planted into prompts is nowhere."""
    found = sorted(name for name, text in places.items() if SECRET in text)
    return Row("places with text of a prompt", f"none of {len(places)}", ", ".join(found) or "none", not found)
