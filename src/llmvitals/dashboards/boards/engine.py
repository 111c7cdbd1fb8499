"""The board of the engine: KV cache, seats, preemption, prefixes, steps, drafts, adapters, and KV that moves."""

from __future__ import annotations

from llmvitals.dashboards.boards.engine_cache import CACHE, CACHE_MORE, OTHER_CACHES
from llmvitals.dashboards.boards.engine_features import ADAPTERS, DRAFTS, ESTIMATED, MOVEMENT
from llmvitals.dashboards.boards.engine_kv import BLOCKS, KV, LEGACY
from llmvitals.dashboards.boards.engine_state import STATE
from llmvitals.dashboards.boards.engine_steps import MORE, WORK
from llmvitals.dashboards.boards.hardware import PLACED, UNPLACED
from llmvitals.dashboards.model import Board, Row

PICTURE = Row("", (PLACED, UNPLACED))

BOARD = Board(
    uid="llmvitals-engine",
    file="dashboards/engine.json",
    title="LLM engine",
    description="What the engine does with its memory and its steps: KV, seats, preemption, prefixes, steps, drafts, adapters.",
    rows=(
        PICTURE,
        KV,
        WORK,
        CACHE,
        STATE,
        MORE,
        CACHE_MORE,
        DRAFTS,
        ADAPTERS,
        MOVEMENT,
        BLOCKS,
        ESTIMATED,
        OTHER_CACHES,
        LEGACY,
    ),
)
