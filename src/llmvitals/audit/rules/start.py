"""Flags that a release does not know, and values with which it does not start."""

from __future__ import annotations

from llmvitals.audit import arguments, flags
from llmvitals.audit.arguments import FALSE, TRUE, Given
from llmvitals.audit.model import Rule, Values
from llmvitals.audit.renamed import INSTEAD, Instead
from llmvitals.audit.rules.common import ERROR, NO, NOTE, WARNING, holds, open_words, power_of_two
from llmvitals.audit.subject import Subject

_ALWAYS = frozenset({"help", "version", "h"})
WHOLE = (
    *("max-model-len", "max-num-seqs", "max-num-batched-tokens", "block-size", "tensor-parallel-size"),
    *("pipeline-parallel-size", "data-parallel-size", "max-num-queued-reqs", "max-loras", "api-server-count"),
    "num-gpu-blocks-override",
)
REAL = ("gpu-memory-utilization", "swap-space", "cpu-offload-gb", "kv-offloading-size")
CHOSEN = ("block-size", "kv-cache-dtype", "tokenizer-mode")
"""Flags whose allowed values are held against what was given; others take what plugins bring."""
SEE_NOTES = "Leave it out, or see the release notes for what took its place."
SEE_NOTES_LATER = "See the release notes for what takes its place."
_AUTO = frozenset({"-1", "auto", "none", ""})


def _strange(s: Subject) -> list[Given]:
    return [g for g in s.given if not g.known and g.name.lstrip("-") not in _ALWAYS and not open_words(g.spelled)]


def _unknown(s: Subject) -> tuple[Values, ...]:
    found = []
    for given in _strange(s):
        if not flags.ever(given.name):
            near = flags.near(given.name.lstrip("-"), s.version)
            found.append({"flag": given.spelled, "release": s.release, "near": f"--{near}" if near else ""})
    return tuple(found)


def _gone(s: Subject) -> tuple[Values, ...]:
    found = []
    for given in _strange(s):
        rows = flags.ever(given.name)
        if rows and rows[-1].last < s.version:
            instead = INSTEAD.get(given.name, Instead("", SEE_NOTES))
            values = {"flag": given.spelled, "release": s.release, "last": flags.spell(rows[-1].last)}
            found.append({**values, "line": instead.line, "instead": instead.why})
    return tuple(found)


def _early(s: Subject) -> tuple[Values, ...]:
    return tuple(
        {"flag": g.spelled, "release": s.release, "first": flags.spell(flags.ever(g.name)[0].first)}
        for g in _strange(s)
        if flags.ever(g.name) and flags.ever(g.name)[0].first > s.version
    )


def _deprecated(s: Subject) -> tuple[Values, ...]:
    found = []
    for given in s.given:
        row = flags.row(given.name, s.version)
        if given.known and row and row.deprecated:
            instead = INSTEAD.get(given.name, Instead("", SEE_NOTES_LATER))
            found.append({"flag": given.spelled, "release": s.release, "line": instead.line, "instead": instead.why})
    return tuple(found)


def _repeated(s: Subject) -> tuple[Values, ...]:
    seen: dict[str, str] = {}
    found: list[Values] = []
    for given in s.given:
        row = flags.row(given.name, s.version)
        if not given.known or row is None or row.takes == "list" or "." in given.spelled or "+" in given.spelled:
            continue
        if given.name in seen and seen[given.name] != given.value and not secret(given.name):
            line = {TRUE: f"--{given.name}", FALSE: f"--no-{given.name}"}.get(
                given.value, f"--{given.name} {given.value}"
            )
            found.append({"flag": f"--{given.name}", "first": seen[given.name], "last": given.value, "line": line})
        seen[given.name] = given.value
    return tuple(found)


def secret(name: str) -> bool:
    """Whether a flag's or a variable's value is nobody's business."""
    lowered = name.lower().replace("_", "-")
    parts = lowered.split("-")
    return lowered.endswith(("api-key", "access-key", "secret")) or parts[-1] in ("token", "password", "key", "secret")


def _no_number(s: Subject) -> tuple[Values, ...]:
    found: list[Values] = []
    for name, read in [(n, arguments.whole) for n in WHOLE] + [(n, arguments.real) for n in REAL]:
        text = s.values.get(name, "")
        if text.lower() not in _AUTO and not open_words(text) and read(text) is None:
            found.append(
                {"flag": f"--{name}", "value": text[:40], "plain": "".join(c for c in text if c.isdigit() or c == ".")}
            )
    return tuple(found)


def _no_choice(s: Subject) -> tuple[Values, ...]:
    found: list[Values] = []
    for name in CHOSEN:
        row, text = flags.row(name, s.version), s.values.get(name, "")
        if (
            row
            and row.choices
            and text
            and not open_words(text)
            and name not in s.setup.told
            and text not in row.choices
        ):
            known = ", ".join(c for c in row.choices if c != "None")
            found.append({"flag": f"--{name}", "value": text[:40], "release": s.release, "choices": known})
    return tuple(found)


def _step_below_context(s: Subject) -> tuple[Values, ...]:
    given = s.has("max-num-batched-tokens") and not s.chunked and s.chunked is not None
    if not given or s.step_tokens is None or s.context is None or s.step_tokens >= s.context:
        return NO
    return holds(True, tokens=s.step_tokens, context=s.context)


def _step_below_seats(s: Subject) -> tuple[Values, ...]:
    if s.step_tokens is None or s.seats is None or not s.has("max-num-batched-tokens"):
        return NO
    return holds(s.step_tokens < s.seats and s.has("max-num-seqs"), tokens=s.step_tokens, seats=s.seats)


def _share(s: Subject) -> tuple[Values, ...]:
    share = s.real("gpu-memory-utilization")
    return holds(share is not None and not 0 < share <= 1, share=f"{share:g}" if share is not None else "")


def _heads(s: Subject) -> tuple[Values, ...]:
    heads, parallel = s.hardware.model.heads if s.hardware.model else 0, s.tensor_parallel
    fits = max((n for n in range(1, parallel) if heads and heads % n == 0), default=1)
    return holds(bool(heads and heads % parallel), heads=heads, parallel=parallel, fits=fits)


def _too_few(s: Subject) -> tuple[Values, ...]:
    have = s.gpus_there
    room = (have or 0) // max(1, s.gpus_needed // s.tensor_parallel)
    line = f"--tensor-parallel-size {power_of_two(room)}" if room else ""
    return holds(have is not None and not spread(s) and s.gpus_needed > have, have=have, need=s.gpus_needed, line=line)


def spread(s: Subject) -> bool:
    """Whether one command is only a part of the engine: more nodes share it."""
    alone = ("headless", "nnodes", "data-parallel-size-local", "data-parallel-rank", "data-parallel-start-rank")
    return (
        any(map(s.has, alone))
        or s.text("distributed-executor-backend") == "ray"
        or s.text("data-parallel-backend") == "ray"
    )


def _left_open(s: Subject) -> tuple[Values, ...]:
    loose = [word for word in s.read[1] if open_words(word)]
    words = loose + [f"--{g.name} {g.value}" for g in s.given if open_words(g.value) and not secret(g.name)]
    return holds(bool(words), words=", ".join(words)[:200])


_READ = "the release's own source (EngineArgs and its parser)"
RULES: tuple[Rule, ...] = (
    Rule(
        "unknown-flag",
        ERROR,
        "",
        "vLLM {release} has no {flag}",
        "The server ends at its start: unrecognized arguments. No release from 0.4.2 on that was read has this flag.",
        "{near}",
        _unknown,
        _READ,
    ),
    Rule(
        "removed-flag",
        ERROR,
        "",
        "vLLM {release} no longer has {flag}",
        "The server ends at its start: unrecognized arguments. Last seen in {last}. {instead}",
        "{line}",
        lambda s: NO if s.assumed else _gone(s),
        _READ,
    ),
    Rule(
        "removed-flag-newest",
        WARNING,
        "",
        "The newest vLLM no longer has {flag}",
        "Last seen in {last}; which release this is for was not told. {instead}",
        "{line}",
        lambda s: _gone(s) if s.assumed else NO,
        _READ,
    ),
    Rule(
        "early-flag",
        ERROR,
        "",
        "vLLM {release} does not have {flag} yet",
        "The server ends at its start: unrecognized arguments. First seen in {first}.",
        "",
        _early,
        _READ,
    ),
    Rule(
        "wrong-number",
        ERROR,
        "",
        "{flag} {value} is no number",
        "The server ends at its start: invalid value.",
        "{flag} {plain}",
        _no_number,
        _READ,
    ),
    Rule(
        "wrong-choice",
        ERROR,
        "",
        "vLLM {release} does not take {flag} {value}",
        "The server ends at its start: invalid choice. It takes {choices}.",
        "",
        _no_choice,
        _READ,
    ),
    Rule(
        "share-out-of-range",
        ERROR,
        "vram-headroom",
        "--gpu-memory-utilization {share} is no share of the GPU's memory",
        "It must lie above 0 and at most at 1; the server does not start.",
        "--gpu-memory-utilization 0.9",
        _share,
        _READ,
    ),
    Rule(
        "step-below-context",
        ERROR,
        "context-imbalance",
        "A step of {tokens} tokens cannot hold a prompt of {context}",
        "Prefill is not chunked, so the server does not start: max_num_batched_tokens must be at least max_model_len.",
        "--enable-chunked-prefill",
        _step_below_context,
        "SchedulerConfig, verify_max_model_len; batching mistakes, mistake 4",
    ),
    Rule(
        "step-below-seats",
        ERROR,
        "context-imbalance",
        "A step of {tokens} tokens cannot serve {seats} requests",
        "Each running request takes a token of each step, so the server does not start.",
        "--max-num-batched-tokens {seats}",
        _step_below_seats,
        "SchedulerConfig, verify_max_model_len; batching mistakes, mistake 4",
    ),
    Rule(
        "heads-not-divisible",
        ERROR,
        "interconnect-bound",
        "{heads} attention heads cannot be split over {parallel} GPUs",
        "Tensor parallelism gives each GPU whole heads; the server does not start.",
        "--tensor-parallel-size {fits}",
        _heads,
        "ModelConfig.verify_with_parallel_config",
    ),
    Rule(
        "gpus-missing",
        ERROR,
        "not-serving",
        "The command takes {need} GPUs and has {have}",
        "Tensor x pipeline x data parallelism is the number of GPUs that the engine looks for; it does not start with fewer.",
        "{line}",
        _too_few,
        "ParallelConfig",
    ),
    Rule(
        "repeated-flag",
        WARNING,
        "",
        "{flag} is given twice: {first}, then {last}",
        "The last one counts.",
        "{line}",
        _repeated,
        "argparse",
    ),
    Rule(
        "deprecated-flag",
        NOTE,
        "",
        "vLLM {release} calls {flag} deprecated",
        "It still works, and a later release will not start with it. {instead}",
        "{line}",
        _deprecated,
        _READ,
    ),
    Rule(
        "left-open",
        NOTE,
        "",
        "What these hold is not known here: {words}",
        "They are filled in elsewhere. Give them as VARIABLE=value before the command to have them audited.",
        "",
        _left_open,
        "what was given",
    ),
)
