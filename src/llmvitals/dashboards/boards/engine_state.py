"""The row of the engine's board on its processes: whether each serves, sleeps or has work."""

from __future__ import annotations

from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    ORANGE,
    SELECTOR,
    VERMILLION,
    Kind,
    Panel,
    Query,
    Row,
)

STATES = Panel(
    Kind.TIMELINE,
    "State of each replica",
    "none",
    (
        Query(
            "",
            GREY,
            promql=" or ".join(
                (
                    f"min by (instance) (llm_target_up{{{INSTANCE}}} == 0)",
                    f"max by (instance) (llm_host_ready{{{INSTANCE}}} == 0) + 3",
                    f"max by (instance) (llm_engine_asleep{{{SELECTOR}}} == 1) + 1",
                    f"min by (instance) (llm_target_up{{{INSTANCE}}})",
                )
            ),
            by=("instance",),
            names=(
                (1, "answers", GREEN),
                (0, "does not answer", VERMILLION),
                (2, "asleep", GREY),
                (3, "answers, its pod is not ready", ORANGE),
            ),
        ),
    ),
    "One line per replica. Does not answer: its page cannot be read. Not ready: it answers, and a probe or a rollout keeps"
    " traffic away (needs the exporter on its node). Asleep: vLLM's sleep mode, its weights are off the GPU. A replica that is"
    " being loaded does not answer yet.",
    "no target of this selection: is the exporter scraped?",
    symptoms=("target-gone",),
    causes=("not-serving", "rollout-and-probes"),
    width=12,
    moved=("chat",),
)

BUSY = Panel(
    Kind.TIMELINE,
    "Running, waiting, idle",
    "none",
    (
        Query(
            "",
            GREY,
            promql="(<requests_running> > bool 0) + 2 * (<requests_waiting> > bool 0)",
            names=(
                (0, "idle", GREY),
                (1, "runs", BLUE),
                (2, "requests wait and nothing runs", VERMILLION),
                (3, "runs, requests wait", ORANGE),
            ),
        ),
    ),
    "Whether each engine has work. How much of a line is blue or orange is the share of time in which it is busy; that is the"
    " engine, not the GPU, which may still be under-used. Waiting while nothing runs, for more than a moment: what waits is"
    " held back, or the engine stands still.",
    "this engine does not say what runs and waits, or the target is down",
    causes=("not-serving", "batch-too-small"),
    width=12,
    moved=("chat", "idle"),
)
STATE = Row("Replicas: who serves", (STATES, BUSY))
