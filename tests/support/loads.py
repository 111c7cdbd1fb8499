"""The load of a recording as a simulated deployment: its server's flags, and the requests that its clients sent.

What clients sent at moments of their own is sent at those moments; what waited for an answer waits for the simulated one.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from llmvitals.simulator.config import EngineConfig, Speculation
from llmvitals.simulator.roofline import CPU_TINY
from llmvitals.simulator.setup import Faults, Front, Setup
from llmvitals.simulator.workload import Sent, Stream, Workload

# The recorded servers' defaults on a CPU: blocks of 128 tokens, a pool of 1 GiB at 512 bytes a token.
DEFAULTS = EngineConfig(
    model="tiny-llama", block_tokens=128, blocks=16_383, max_num_batched_tokens=2048, machine=CPU_TINY
)

# CPU seconds of the recorded API processes: the regression over an idle recording and the five that CPU_TINY was fitted to.
FRONT = Front(
    request_seconds=0.0009,
    output_token_seconds=0.00012,
    step_seconds=0.00097,
    page_seconds=0.021,
    prompt_token_seconds=0.0,
)

FLAGS: tuple[tuple[str, Callable[[EngineConfig, int], EngineConfig]], ...] = (
    ("max-num-seqs", lambda e, n: replace(e, max_num_seqs=n)),
    ("max-model-len", lambda e, n: replace(e, max_model_len=n)),
    ("num-gpu-blocks-override", lambda e, n: replace(e, blocks=n - 1)),  # one is vLLM's null block
    ("max-loras", lambda e, n: replace(e, max_loras=n)),
    # vLLM 0.32 counts those that run as well; the simulator counts those beside them
    ("max-num-queued-reqs", lambda e, n: replace(e, max_queued=n - e.max_num_seqs)),
)


@dataclass(frozen=True, slots=True)
class Given:
    """What a recording's own words say beyond flags and requests: what broke, and what a request was made of.

    ``prefix_tokens``: length of the shared beginnings. ``uptime``: seconds that the process had run for.
    """

    engine: Mapping[str, Any] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    processes: int = 1
    prefix_tokens: int = 0
    schema_seconds: float = 0.0
    uptime: float = 600.0


_STALLED = 19.0  # seconds until the first answers of the old engine: clients saw 15.8 to 18.9 s
_COMPILED = 1.9  # the same for the first drafts of an n-gram proposer

GIVEN: Mapping[str, Given] = {
    "prefix-hit": Given(prefix_tokens=1100),
    "prefix-miss-id-first": Given(prefix_tokens=1100),
    "prefix-evicted": Given(prefix_tokens=560),
    "schema-same": Given(schema_seconds=0.04),  # a schema of 24 properties compiled in about 40 ms
    "two-api-servers": Given(processes=2),
    "vllm-0.11-light": Given(
        engine={"block_tokens": 16, "blocks": 131_071},
        faults=Faults(first_step_seconds=_STALLED),
        prefix_tokens=560,
        uptime=34.0,
    ),
    "ngram-drafts": Given(
        # every draft of the dummy model was right; looking n-grams up costs next to nothing
        engine={"speculation": Speculation(4, 1.0, 0.0)},
        faults=Faults(first_step_seconds=_COMPILED),
    ),
    "engine-died": Given(
        engine={"block_tokens": 16, "blocks": 131_071},
        faults=Faults(stalls=((0.0, math.inf),), failing=((0.1, math.inf),), dies_at=3.9),
        prefix_tokens=560,
        uptime=40.0,
    ),
}

LEFT_OUT: Mapping[str, str] = {"data-parallel-2": "two engines behind one page: the simulator has one"}


def setup_of(folder: Path) -> tuple[float, Setup]:
    """(unix moment at which the load began, the deployment)."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    with gzip.open(folder / "requests.jsonl.gz", "rt") as log:
        rows = [row for line in log if "exc" not in (row := json.loads(line))]
    given = GIVEN.get(folder.name, Given())
    engine = _engine(about["server_flags"], given)
    streams = []
    for number, described in enumerate(about["streams"]):
        sent = sorted((r for r in rows if r["stream"] == described["name"]), key=lambda r: r["t"])
        if sent:
            streams.append(_stream(described, sent, given, engine, about["duration_s"], number))
    front = replace(FRONT, processes=given.processes)
    workload = Workload(tuple(streams))
    return about["start_unix"], Setup(engine, workload, front, faults=given.faults, uptime=given.uptime)


def _engine(flags: str, given: Given) -> EngineConfig:
    engine = replace(DEFAULTS, **given.engine)
    for name, change in FLAGS:
        if found := re.search(rf"--{name} (\d+)", flags):
            engine = change(engine, int(found[1]))
    return engine


def _stream(
    described: Mapping[str, Any],
    rows: list[dict[str, Any]],
    given: Given,
    engine: EngineConfig,
    end: float,
    number: int,
) -> Stream:
    prefixes = int(described.get("n_prefixes", 1))
    known = [row["usage"]["prompt_tokens"] for row in rows if (row.get("usage") or {}).get("prompt_tokens")]
    usual = described.get("prompt_tokens") or (round(fmean(known)) if known else 0)
    usual = round(fmean(usual)) if isinstance(usual, list) else usual
    adapter = number if str(described.get("model", "")).startswith("ad") else -1
    sent = []
    for place, row in enumerate(rows, start=1):
        one = _sent(row, usual, place % prefixes, adapter, engine)
        sent.extend([one] * int(row.get("n") or 1))
    clients = int(described.get("concurrency", 0))
    start = float(described.get("start_s", 0.0))
    return Stream(
        described["name"],
        start=start if clients else 0.0,
        end=end,
        clients=clients,
        ramp=clients * float(described.get("stagger_s", 0.0)),
        think=float(described.get("think_s", 0.0)),
        backoff=0.0,
        ignore_eos=described.get("ignore_eos", True),
        prefix_tokens=given.prefix_tokens if described.get("shared_prefix_words") else 0,
        prefixes=prefixes,
        id_first=bool(described.get("vary_at_start")),
        schemas=1 if described.get("schema") else 0,
        schema_seconds=given.schema_seconds,
        replay=tuple(sent),
    )


def _sent(row: Mapping[str, Any], usual: int, prefix: int, adapter: int, engine: EngineConfig) -> Sent:
    """One line of the clients' log. Refused with 4xx: a prompt that is too long, whatever the real reason was."""
    usage = row.get("usage") or {}
    prompt = usage.get("prompt_tokens") or row.get("prompt_len") or usual
    if 400 <= (row.get("status") or 0) < 500:
        prompt = engine.max_model_len
    said = usage.get("completion_tokens", 0) // int(row.get("n") or 1)
    return Sent(
        at=row["t"],
        prompt=prompt,
        output=said or row.get("max_tokens") or engine.max_model_len,
        max_tokens=row.get("max_tokens"),
        prefix=prefix,
        adapter=adapter,
        leaves=row["e2e"] if row.get("client_aborted") else math.inf,
    )
