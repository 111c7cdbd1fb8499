"""What a load is for each tool: a script with its commands, and the files that they need.

Options: ``vllm bench serve --help`` (the custom dataset takes its output lengths from ``output_tokens`` with
``--custom-output-len -1``), guidellm 0.4 and later (``benchmark run``), aiperf 0.3 and later. Prompts are common words drawn by
chance, about one token each in the tokenizers of today's models; the tools count the true number.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.loadtest.goodput import Promises
from llmvitals.loadtest.spec import SEED, LoadSpec, spread

REQUESTS = 1000
"""Requests in the dataset and in a test at the measured rate: shares of some percent are then told within 1.5 points."""

ROUNDS = 20
"""Requests for each one in flight in the tests at rising levels, 200 at least."""

_COMMON = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were
all her she there would their we him been has when who will no more if out so up what its about than into them can only
other time new some could these two may first then do any like my now over such our man me even most made after also well
"""
WORDS = tuple(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Where:
    """Where the tests go: the server's address, and the model's name ('' where it is not known)."""

    url: str
    model: str


def files(tool: str, spec: LoadSpec, where: Where, promises: Promises) -> Mapping[str, str]:
    """The files for one of :data:`TOOLS` by their names."""
    return {"load.json": _document(spec), **TOOLS[tool](spec, where, promises)}


def _document(spec: LoadSpec) -> str:
    told = {
        "instance": spec.instance,
        "model": spec.model,
        "seconds": spec.seconds,
        "requests_per_second": spec.rate,
        "in_flight": spec.running,
        "prefix_share": spec.prefix,
        **{
            name: {
                "edges": lengths.edges,
                "counts": lengths.counts,
                "mean": lengths.mean,
                "beyond_last_edge": lengths.beyond,
            }
            for name, lengths in (("prompt_tokens", spec.prompts), ("output_tokens", spec.outputs))
        },
        "notes": [str(note) for note in spec.notes],
    }
    return json.dumps(told, indent=2) + "\n"


def _script(spec: LoadSpec, lines: list[str]) -> str:
    head = ["#!/bin/sh", *(f"# {note}" for note in spec.notes), "set -e", ""]
    return "\n".join(head + lines) + "\n"


class _Shell(str):
    """A word of ours that the shell is to work out."""


def _command(*words: str) -> str:
    """One command, an option a line; words from outside are quoted."""
    told = ""
    for word in words:
        said = word if isinstance(word, _Shell) else shlex.quote(word)
        told += f" \\\n  {said}" if word.startswith("--") else f" {said}"
    return told.strip()


_N = _Shell("$n")
_COUNT = _Shell(f"$((n * {ROUNDS} < 200 ? 200 : n * {ROUNDS}))")


def _many(levels: tuple[int, ...]) -> str:
    return " ".join(map(str, levels))


def _rate(spec: LoadSpec) -> str:
    return f"{spec.rate:.3g}" if spec.rate is not None else ""


_NORMAL = "# a normal distribution with the mean and the spread measured; load.json has the lengths themselves"
_RISING = "# at rising levels, for the peak of goodput"


def _as_measured(spec: LoadSpec, *words: str) -> list[str]:
    """The test at the rate that was measured; nothing where none was."""
    return [] if spec.rate is None else ["# as measured", _command(*words), ""]


def _each_level(spec: LoadSpec, *words: str) -> list[str]:
    """The tests at rising levels, for a tool that makes one a run: ``$n`` is the level."""
    return [_RISING, f"for n in {_many(spec.levels)}; do", _command(*words), "done"]


def _vllm(spec: LoadSpec, where: Where, promises: Promises) -> Mapping[str, str]:
    model = where.model or "MODEL"
    shared = (
        *("vllm", "bench", "serve", "--backend", "openai", "--base-url", where.url, "--model", model),
        *("--dataset-name", "custom", "--dataset-path", "lengths.jsonl", "--custom-output-len", "-1"),
        *("--skip-chat-template", "--ignore-eos", "--save-result", "--save-detailed"),
        *("--goodput", f"ttft:{promises.ttft * 1000:g}", f"tpot:{promises.tpot * 1000:g}"),
    )
    measured = ("--request-rate", _rate(spec), "--num-prompts", str(REQUESTS), "--result-filename", "rate.json")
    rising = ("--max-concurrency", _N, "--num-prompts", _COUNT, "--result-filename", _Shell("concurrency-$n.json"))
    lines = [
        "# --model names the tokenizer too; where the server calls it otherwise, add --served-model-name.",
        *_as_measured(spec, *shared, *measured),
        *_each_level(spec, *shared, *rising),
    ]
    return {"lengths.jsonl": _dataset(spec), "run.sh": _script(spec, lines)}


def _dataset(spec: LoadSpec) -> str:
    """A line per request: a prompt of words, the common beginning first, and how many tokens are to come."""
    rng = random.Random(SEED)
    common = rng.choices(WORDS, k=spec.prefix_tokens)
    rows = []
    for prompt, output in spec.requests(REQUESTS):
        shared = common[: max(0, prompt - 1)]
        words = shared + rng.choices(WORDS, k=prompt - len(shared))
        rows.append(json.dumps({"prompt": " ".join(words), "output_tokens": output}))
    return "\n".join(rows) + "\n"


def _guidellm(spec: LoadSpec, where: Where, promises: Promises) -> Mapping[str, str]:
    del promises  # GuideLLM tells no goodput by itself
    prefix = min(spec.prefix_tokens, round(spec.prompts.mean) - 1)
    data: dict[str, int] = {}
    for name, lengths, less in (("prompt", spec.prompts, prefix), ("output", spec.outputs, 0)):
        data[f"{name}_tokens"] = max(1, round(lengths.mean) - less)
        data[f"{name}_tokens_stdev"] = max(1, spread(lengths))
        data[f"{name}_tokens_min"] = 1
        data[f"{name}_tokens_max"] = max(1, max(lengths.draw(REQUESTS, random.Random(SEED))) - less)
    if prefix > 0:
        data |= {"prefix_tokens": prefix, "prefix_count": 1}
    shared = (
        *("guidellm", "benchmark", "run", "--target", where.url, *(("--model", where.model) if where.model else ())),
        *("--data", json.dumps(data), "--max-seconds", "120", "--sample-requests", "1000000"),
    )
    measured = ("--profile", "poisson", "--rate", _rate(spec), "--output-path", "rate.json")
    levels = ",".join(map(str, spec.levels))
    lines = [
        _NORMAL,
        *_as_measured(spec, *shared, *measured),
        _RISING,
        _command(*shared, "--profile", "concurrent", "--rate", levels, "--output-path", "benchmarks.json"),
    ]
    return {"run.sh": _script(spec, lines)}


def _aiperf(spec: LoadSpec, where: Where, promises: Promises) -> Mapping[str, str]:
    prefix = min(spec.prefix_tokens, round(spec.prompts.mean) - 1)
    shared = (
        *("aiperf", "profile", "--model", where.model or "MODEL", "--url", where.url),
        *("--endpoint-type", "completions", "--streaming"),
        *("--isl", str(max(1, round(spec.prompts.mean) - prefix)), "--isl-stddev", str(spread(spec.prompts))),
        *("--osl", str(max(1, round(spec.outputs.mean))), "--osl-stddev", str(spread(spec.outputs))),
        *(("--num-prefix-prompts", "1", "--prefix-prompt-length", str(prefix)) if prefix > 0 else ()),
        *("--extra-inputs", "ignore_eos:true"),
        *("--goodput", f"time_to_first_token:{promises.ttft * 1000:g} inter_token_latency:{promises.tpot * 1000:g}"),
    )
    measured = ("--request-rate", _rate(spec), "--request-count", str(REQUESTS), "--artifact-dir", "rate")
    rising = ("--concurrency", _N, "--request-count", _COUNT, "--artifact-dir", _Shell("concurrency-$n"))
    lines = [_NORMAL, *_as_measured(spec, *shared, *measured), *_each_level(spec, *shared, *rising)]
    return {"run.sh": _script(spec, lines)}


TOOLS: Mapping[str, Callable[[LoadSpec, Where, Promises], Mapping[str, str]]] = {
    "vllm": _vllm,
    "guidellm": _guidellm,
    "aiperf": _aiperf,
}
"""The tools by the names that a command line gives them."""
