"""Every series that an engine is known to expose is either taken or listed as known and unused, with a reason."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.mapping import Adapter, plain_name
from llmvitals.telemetry.registry import ADAPTERS, EVERYWHERE, claims

SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))
LISTED = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp server",
    "dynamo": "dynamo",
    "mooncake": "mooncake master",
}
LEAST = {"vllm": 150, "sglang": 150, "llamacpp": 14, "dynamo": 20, "mooncake": 9}
PAGES = ("vllm", "sglang", "dynamo", "mooncake")
KINDS = {adapter.kind: adapter for adapter in ADAPTERS}

SOME = {
    "vllm": (
        "vllm:num_requests_running",
        "vllm:iteration_tokens_total",
        "vllm:kv_offload_tiering_read_bytes_total",
        "lmcache:num_hit_tokens_total",
        "dynamo_component_kvstats_total_blocks",
        "ray_serve_num_http_requests_total",
        "http_request_duration_highr_seconds",
        "process_virtual_memory_bytes",
    ),
    "sglang": ("sglang:gen_throughput", "sglang:dp_attention_steps_total", "sglang:prefetched_tokens_total"),
}


def known(adapter: Adapter, name: str) -> bool:
    """Whether a series' name is a row's or stands in one of the lists of unused ones."""
    plain = plain_name(name)
    taken = {plain_name(row.source) for row in adapter.rows}
    unused = [entry.name for entry in (*adapter.unused, *EVERYWHERE)]
    return plain in taken or any(fnmatchcase(text, entry) for entry in unused for text in (plain, name))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SOME.items() for name in names])
def test_known_names_are_known(kind: str, name: str) -> None:
    assert known(KINDS[kind], name)


@pytest.mark.parametrize(("kind", "name"), [("vllm", "vllm:brand_new_seconds"), ("vllm", "ray_vllm_brand_new_seconds")])
def test_a_new_name_is_not_known(kind: str, name: str) -> None:
    assert not known(KINDS[kind], name)


@pytest.mark.parametrize("kind", sorted(LISTED))
def test_reasons_are_there_and_no_name_is_listed_twice(kind: str) -> None:
    unused = KINDS[kind].unused
    assert all(len(entry.why) >= 10 for entry in unused)
    names = [entry.name for entry in unused]
    assert len(names) == len(set(names))


def spelled(name: str) -> list[str]:
    """The names that one entry of the list stands for: braces and slashes are written out, an open end is left out."""
    found: list[str] = []
    for part in name.split(" / "):
        head, brace, rest = part.partition("{")
        inner, _, tail = rest.partition("}")
        found += [f"{head}{text}{tail}" for text in inner.split(",") if text != "..."] if brace else [part]
    return [text for text in found if not text.endswith("*")]


@pytest.mark.parametrize("kind", sorted(LISTED))
def test_every_name_of_the_list_by_release_is_known(kind: str) -> None:
    path = SHARED / "reference" / "engines.yaml"
    if not path.exists():
        pytest.skip("no list of names: set LLMVITALS_SHARED")
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))["engines"]
    (engine,) = [entry for entry in listed if entry["engine"] == LISTED[kind]]
    names = [name for metric in engine["metrics"] for name in spelled(metric["name"])]
    assert len(names) >= LEAST[kind]
    worker = KINDS["dynamo-worker"]  # the list has both of Dynamo's pages in one
    assert [
        name for name in names if not known(KINDS[kind], name) and not (kind == "dynamo" and known(worker, name))
    ] == []


def stored() -> list[Path]:
    folder = SHARED / "reference" / "pages"
    return sorted(page for kind in PAGES for page in (folder / kind).glob("*.prom"))


@pytest.mark.parametrize(
    "page", stored() or [None], ids=lambda page: f"{page.parent.name}-{page.stem}" if page else "none"
)
def test_nothing_on_a_stored_page_is_unknown(page: Path | None) -> None:
    if page is None:
        pytest.skip("no stored pages: set LLMVITALS_SHARED")
    body = page.read_bytes()
    adapter = claims(body, "auto")
    assert adapter is not None
    Ingest(instance="i").read(RawPage(1.0, 0.01, 200, body))
    names = {line.split("{")[0].split()[0] for line in body.decode().splitlines() if line and not line.startswith("#")}
    assert sorted(name for name in names if not known(adapter, _own(adapter, name))) == []


def _own(adapter: Adapter, name: str) -> str:
    return next((own + name.removeprefix(s) for own, s in adapter.prefixes if name.startswith(s)), name)
