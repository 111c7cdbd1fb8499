"""Pages of LiteLLM and of four routers, made by running them: nothing on them is unknown, and what their clients did is read.

Each sequence had 30 calls under light load, 30 with one of two upstreams failing 40 % of them, 20 with that one down, 12 while both
answered 429, and 10 when all was well again. A LiteLLM had 16, 12, 8, and 4 for an unknown model, 4 with a bad key and 6 more.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from support.gateway_pages import adapter, canonical, shared_pages, unknown

FOLDERS = {
    "litellm": "litellm",
    "vllm-router": "vllm-router",
    "sglang-router": "sglang-router",
    "smg": "smg",
    "production-stack": "production-stack-router",
}
GOLDEN = Path(__file__).parents[1] / "golden"
CALLS = {
    "fresh": 0,
    "light": 30,
    "upstream-mixed-500": 60,
    "one-upstream-down": 80,
    "upstream-429": 92,
    "recovered": 102,
}
LITELLM = {"fresh": 0, "light": 16, "one-upstream-500": 28, "upstream-429": 36, "recovered-and-bad-key": 50}
DOWN = {"vllm-router", "sglang-router", "smg"}
_STATUS = re.compile(r'llm_gateway_requests_total\{.*status="([^"]*)"')


def by_status(text: str, kind: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample, value in canonical(text, kind).items():
        told = _STATUS.match(sample)
        if told:
            found[told[1]] = found.get(told[1], 0.0) + value
    return found


def up(text: str, upstream: str) -> float:
    samples = canonical(text)
    return next(v for s, v in samples.items() if s.startswith("llm_gateway_upstream_up{") and f'"{upstream}"' in s)


def pages(kind: str) -> dict[str, str]:
    """The real pages of a kind by their stage."""
    return {
        page.stem.removeprefix("run-"): page.read_text()
        for page in shared_pages(FOLDERS[kind])
        if page.suffix == ".prom"
    }


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_nothing_on_a_page_of_ours_is_unknown(kind):
    for page in sorted((GOLDEN / kind / "pages").iterdir()):
        assert unknown(page.read_text(), kind) == set(), page.name


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_a_name_that_is_new_is_unknown(kind):
    new = adapter(kind).claims[0].decode().split("_")[0] + "_brand_new_total"
    assert unknown(f"# TYPE {new} counter\n{new} 1\n", kind) == {new.removesuffix("_total")}


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_reasons_are_sentences_and_no_name_stands_twice(kind):
    unused = adapter(kind).unused
    assert [entry for entry in unused if len(entry.why) < 10] == []
    assert len({entry.name for entry in unused}) == len(unused)


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_nothing_on_a_real_page_is_unknown(kind):
    for stage, text in pages(kind).items():
        assert unknown(text, kind) == set(), stage


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_a_real_page_is_told_from_all_others(kind):
    for stage, text in pages(kind).items():
        assert f'llm_target_info{{engine="{kind}"' in "\n".join(canonical(text)), stage


@pytest.mark.parametrize("kind", sorted(set(FOLDERS) - {"litellm"}))
def test_each_call_of_the_clients_has_a_status(kind):
    for stage, text in pages(kind).items():
        assert sum(by_status(text, kind).values()) == CALLS[stage], stage


@pytest.mark.parametrize("kind", sorted(set(FOLDERS) - {"litellm"}))
def test_light_load_was_all_served(kind):
    assert set(by_status(pages(kind)["light"], kind)) <= {"200", "2xx", "ok", "answered"}


def test_a_litellms_calls_have_the_clients_statuses():
    found = {stage: by_status(text, "litellm") for stage, text in pages("litellm").items()}
    assert {stage: sum(by.values()) for stage, by in found.items()} == LITELLM
    assert found["upstream-429"] == {"200": 28, "429": 8}
    assert found["recovered-and-bad-key"] == {"200": 34, "429": 8, "400": 4, "error": 4}


@pytest.mark.parametrize("kind", sorted(DOWN))
def test_a_worker_that_is_down_is_told_and_so_is_its_return(kind):
    told = pages(kind)
    assert [up(told["one-upstream-down"], f"127.0.0.1:{port}") for port in (9101, 9102)] == [1, 0]
    assert [up(told["recovered"], f"127.0.0.1:{port}") for port in (9101, 9102)] == [1, 1]


def test_a_litellms_deployment_is_up_again_after_its_first_success():
    told = pages("litellm")
    stages = ("light", "one-upstream-500", "upstream-429", "recovered-and-bad-key")
    assert [up(told[stage], "dep-b") for stage in stages] == [1, 0, 0, 1]
    assert [up(told[stage], "dep-a") for stage in stages] == [1, 1, 0, 1]


@pytest.mark.parametrize("kind", sorted(FOLDERS))
def test_counters_only_rise_from_stage_to_stage(kind):
    told = pages(kind)
    stages = [canonical(told[stage]) for stage in (LITELLM if kind == "litellm" else CALLS)]
    for before, now in pairwise(stages):
        fell = [s for s, v in before.items() if "_total{" in s and now.get(s, 0.0) < v]
        assert fell == []
