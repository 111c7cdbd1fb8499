"""What is known of SGLang's releases: which wrote a page, what each can say, and that nothing is left without a reason."""

from __future__ import annotations

import pytest

from llmvitals import schema
from llmvitals.telemetry.engines.sglang import CANNOT, RELEASES
from llmvitals.telemetry.engines.sglang_rows import ROWS
from llmvitals.telemetry.engines.versions import Span, version
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.mapping import How, plain_name
from llmvitals.telemetry.registry import engines


def page_of(release: str) -> str:
    """Every series that a release shows without a flag, one sample each."""
    found = version(release)
    lines = []
    for row in ROWS:
        if row.needs or row.special == "none" or row.source.startswith("label:") or not Span(row.span).holds(found):
            continue
        family = schema.BY_NAME.get(row.family)
        kind = family.kind if family else schema.Kind.COUNTER if row.source.endswith("tokens") else schema.Kind.GAUGE
        labels = (
            'tp_rank="0",' * (found >= (0, 5, 3))
            + 'model_name="m",mode="decode",endpoint="/generate",status_code="200",component="tokenizer"'
        )
        if kind is schema.Kind.HISTOGRAM:
            lines += [f"# TYPE {row.source} histogram", f'{row.source}_bucket{{{labels},le="+Inf"}} 0']
            lines += [f"{row.source}_sum{{{labels}}} 0", f"{row.source}_count{{{labels}}} 0"]
        else:
            name = (
                f"{row.source}_total"
                if kind is schema.Kind.COUNTER and "retracted_reqs" not in row.source
                else row.source
            )
            lines += [f"# TYPE {name} {kind}", f"{name}{{{labels}}} 0"]
    lines += [f"# TYPE {row.source} gauge" for row in ROWS if row.special == "none" and Span(row.span).holds(found)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "release", ["0.3.6", "0.4.4", "0.4.10", "0.5.3", "0.5.7", "0.5.10", "0.5.12", "0.5.18", "0.5.23"]
)
def test_a_page_with_all_that_a_release_shows_is_placed_around_it_and_lacks_nothing(release: str) -> None:
    snapshot = Ingest(instance="i").read(RawPage(1.0, 0.1, 200, page_of(release).encode()))
    (info,) = [s for s in snapshot.samples if s.name == "llm_target_info"]
    told = info.label("version")
    first, _, last = told.removeprefix(">=").partition("-")
    newest = RELEASES[-1] if told.startswith(">=") else version(last or first)
    assert version(first) <= version(release) <= newest, told
    missing = {
        s.label("family") for s in snapshot.samples if s.name == "llm_family_gap" and s.label("gap") == "missing"
    }
    assert not missing


@pytest.mark.parametrize("release", ["0.3.6", "0.5.7", "0.5.23"])
def test_every_family_of_an_engine_has_a_value_or_one_gap(release: str) -> None:
    snapshot = Ingest(instance="i").read(RawPage(1.0, 0.1, 200, page_of(release).encode()))
    given = {f.name for s in snapshot.samples if (f := schema.family_of(s.name)) and f.name != "llm_family_gap"}
    gaps = [s.label("family") for s in snapshot.samples if s.name == "llm_family_gap"]
    own = {f.name for f in schema.FAMILIES if schema.origin_of(f.name) is schema.Origin.ENGINE}
    assert len(gaps) == len(set(gaps))
    assert not given & set(gaps)
    assert own <= given | set(gaps)


def test_a_basic_series_that_is_gone_is_missing_and_not_unsupported() -> None:
    text = page_of("0.5.23")
    kept = "\n".join(line for line in text.splitlines() if "time_to_first_token" not in line) + "\n"
    snapshot = Ingest(instance="i").read(RawPage(1.0, 0.1, 200, kept.encode()))
    gaps = {s.label("family"): s.label("gap") for s in snapshot.samples if s.name == "llm_family_gap"}
    assert gaps["llm_request_ttft_seconds"] == "missing"
    assert gaps["llm_request_inference_seconds"] == "unsupported"


def test_rows_are_of_the_schema_and_of_releases_that_were_read() -> None:
    assert {row.family for row in ROWS if row.family} <= set(schema.BY_NAME)
    for row in ROWS:
        first, _, last = row.span.partition("..")
        assert version(first) in RELEASES, row.source
        assert not last or version(last) in RELEASES, row.source
        assert row.family or row.special, row.source


def test_a_source_that_tells_releases_apart_does_so_under_one_name() -> None:
    spans: dict[str, set[str]] = {}
    for row in ROWS:
        spans.setdefault(plain_name(row.source), set()).add(row.span)
    assert {name: found for name, found in spans.items() if len(found) > 1} == {}


def test_the_matrix_says_how_or_why_not() -> None:
    (found,) = [engine for engine in engines() if engine.kind == "sglang"]
    rows = {row.family: row for row in found.support}
    own = {f.name for f in schema.FAMILIES if schema.origin_of(f.name) is schema.Origin.ENGINE}
    assert set(rows) == own
    assert rows["llm_request_ttft_seconds"].how is How.MAPPED
    assert rows["llm_request_ttft_seconds"].versions == "0.3.6+"
    assert rows["llm_preemptions_total"].versions == "0.4.10+"
    assert rows["llm_prefix_cache_hit_tokens_total"].how is How.DERIVED
    assert rows["llm_request_inference_seconds"].how is How.UNSUPPORTED
    for family, why in CANNOT.items():
        assert rows[family].note == why
