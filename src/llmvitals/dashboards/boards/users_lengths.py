"""The row of lengths: whole requests beside what makes them long, prompts and answers."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import asked, quantile
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    NOT_SHOWN,
    ORANGE,
    PURPLE,
    SKY,
    Kind,
    Panel,
    Row,
    heat,
    q,
)

_PROMPT, _ANSWER = "llm_request_prompt_tokens", "llm_request_generation_tokens"

WHOLE = Panel(
    Kind.LINES,
    "Whole request",
    "s",
    (
        q("e2e_p50_seconds", "p50", SKY),
        q("e2e_p95_seconds", "p95", BLUE),
        q("e2e_mean_seconds", "mean", GREY, dashed=True),
    ),
    "Arrival to last token of finished requests. It follows the length of the answers: judge the server by"
    " the first token and the pace, and use this to explain a client's timeout.",
    NOT_SHOWN,
    causes=("unbounded-output",),
    moved=("chat",),
)

ANSWERS = Panel(
    Kind.LINES,
    "Length of answers",
    "suffix: tok",
    (
        quantile(0.5, _ANSWER, "p50", SKY),
        quantile(0.95, _ANSWER, "p95", BLUE),
        q("generation_mean_tokens", "mean", GREY, dashed=True),
        q("generation_p90_tokens", "p90, at most", PURPLE, dashed=True),
    ),
    "Tokens that a finished sequence was generated with. When whole requests take longer and this grew with them, the server is"
    " as fast as before. 'p90, at most' is what a server's own max_tokens could be set to without cutting off more than one in"
    " ten.",
    NOT_SHOWN,
    causes=("unbounded-output",),
    moved=("chat",),
)

PROMPTS = Panel(
    Kind.LINES,
    "Length of prompts",
    "suffix: tok",
    (
        quantile(0.5, _PROMPT, "p50", SKY),
        quantile(0.95, _PROMPT, "p95", BLUE),
        q("prompt_mean_tokens", "mean", GREY, dashed=True),
        asked(
            "generated per 1 of prompt",
            ORANGE,
            "<generation_tokens_rate> / (<prompt_tokens_rate> > 0)",
            dashed=True,
            unit="none",
        ),
    ),
    "Prompt tokens of finished requests. First tokens that come later while this grew: longer prompts, not a slower engine. p95 far"
    " above p50: few long prompts that others may have to wait for. Right axis: tokens out for each token in; near 0 the work is"
    " prefill, above 1 it is decode.",
    NOT_SHOWN,
    causes=("prefill-bound", "head-of-line-blocking"),
    moved=("chat", "documents"),
)


def _lie(title: str, family: str, unit: str, what: str, *causes: str) -> Panel:
    return Panel(Kind.HEATMAP, title, unit, (heat(family, unit),), what, NOT_SHOWN, causes=causes, moved=("chat",))


LENGTHS = Row(
    "Lengths: what whole requests, prompts and answers are like",
    (
        WHOLE,
        ANSWERS,
        PROMPTS,
        _lie(
            "Where whole requests lie",
            "llm_request_e2e_seconds",
            "s",
            "Finished requests of the window by how long they took from arrival to last token, over everything selected. Its shape"
            " is that of the lengths of answers beside it; where it is not, the server changed.",
            "unbounded-output",
        ),
        _lie(
            "Where lengths of answers lie",
            _ANSWER,
            "suffix: tok",
            "Finished sequences of the window by the tokens that they were generated with, over everything selected. A band at the"
            " very top that comes and stays: answers that run until something cuts them off.",
            "unbounded-output",
        ),
        _lie(
            "Where lengths of prompts lie",
            _PROMPT,
            "suffix: tok",
            "Finished requests of the window by the tokens of their prompts, over everything selected. Two bands far apart: short"
            " requests share the engine with long ones, and may have to wait for them.",
            "prefill-bound",
            "head-of-line-blocking",
        ),
    ),
)
