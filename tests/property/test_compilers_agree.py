"""The evaluator against a real Prometheus that holds the same samples: the same number, or no number on both sides."""

from __future__ import annotations

import math
import os
from collections import Counter

import pytest
from worlds import Case, cases

from llmvitals.series import Series
from llmvitals.signals.algebra import Binary, Expr
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.promql import to_promql
from support.prometheus import PrometheusServer, load_blocks, openmetrics

pytestmark = pytest.mark.prometheus

SEED = int(os.environ.get("LLMVITALS_SEED", "20260731"))
WORLDS, PER_WORLD = 60, 15
TOLERANCE = 1e-9
"""Sums over series are made in another order than in Prometheus, and a difference of two of them magnifies that."""


def _nodes(expr: Expr) -> list[Expr]:
    return [expr, *_nodes(expr.left), *_nodes(expr.right)] if isinstance(expr, Binary) else [expr]


def _asked(server: PrometheusServer, case: Case) -> float | None:
    span = f"{case.world.end - case.world.start}ms"
    text = to_promql(case.expr, window=span, by=case.by, selector=f'instance="{case.world.instance}"')
    found = [
        value
        for labels, value in server.query(text, at=case.world.end / 1000)
        if case.model is None or not labels or labels["model"] == case.model
    ]
    assert len(found) <= 1, text
    return found[0] if found and not math.isnan(found[0]) else None


def _same(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return ours == theirs or math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def test_compilers_agree_with_prometheus(tmp_path) -> None:
    worlds, asked = cases(SEED, WORLDS, PER_WORLD)
    points: dict[Series, list[tuple[int, float]]] = {}
    for world in worlds:
        points |= world.points
    load_blocks(openmetrics(points), tmp_path / "prom" / "data")
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    with PrometheusServer(tmp_path / "prom") as server:
        for case in asked:
            reading, theirs = evaluate(case.expr, case.world.window(case.model)), _asked(server, case)
            seen["value" if theirs is not None else "none"] += 1
            seen.update({type(node).__name__ for node in _nodes(case.expr)} if theirs is not None else ())
            seen[reading.gap.kind if reading.gap else reading.standing] += 1
            if not _same(reading.value, theirs):
                wrong.append(f"{case.world.instance}/{case.model}: {reading} != {theirs} for {case.expr}")
    assert not wrong, f"seed {SEED}, {len(wrong)} of {len(asked)} differ:\n" + "\n".join(wrong[:10])
    assert len(asked) >= 500
    assert seen["value"] >= len(asked) // 3, seen
    assert min(seen[kind] for kind in ("none", "no-traffic", "missing", "too-short", "lower bound")) >= 5, seen
    assert min(seen[node] for node in ("Increase", "Rate", "Quantile", "FractionBelow", "OverTime", "Slope")) >= 10, (
        seen
    )
