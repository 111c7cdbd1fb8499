"""A few well-known mistakes of other engines."""

from __future__ import annotations

from llmvitals.audit.model import Rule
from llmvitals.audit.rules.common import WARNING, holds

_OFF = frozenset({"0", "false", "off", "no"})
_SHARED = (
    "What requests share at their beginning (a system prompt, a conversation so far) is computed for each of them."
)
RULES: tuple[Rule, ...] = (
    Rule(
        "sglang-no-radix-cache",
        WARNING,
        "prefix-caching-off",
        "Prefix caching is off (--disable-radix-cache)",
        _SHARED,
        "",
        lambda s: holds("disable-radix-cache" in s.values),
        "SGLang's server arguments; batching mistakes, mistake 3",
        engine="sglang",
    ),
    Rule(
        "sglang-slow-tokenizer",
        WARNING,
        "api-server-bound",
        "The slow tokenizer is chosen",
        "It is written in Python and holds up the process in front.",
        "--tokenizer-mode auto",
        lambda s: holds(s.values.get("tokenizer-mode") == "slow"),
        "SGLang's server arguments; batching mistakes, mistake 5",
        engine="sglang",
    ),
    Rule(
        "tgi-no-prefix-caching",
        WARNING,
        "prefix-caching-off",
        "Prefix caching is off (PREFIX_CACHING)",
        _SHARED,
        "PREFIX_CACHING=1",
        lambda s: holds(s.setup.env.get("PREFIX_CACHING", "").lower() in _OFF),
        "TGI's launcher; batching mistakes, mistake 3",
        engine="tgi",
    ),
    Rule(
        "llamacpp-no-prompt-cache",
        WARNING,
        "prefix-caching-off",
        "The prompt cache is off (--no-cache-prompt)",
        _SHARED,
        "--cache-prompt",
        lambda s: holds("no-cache-prompt" in s.values),
        "llama-server's README; batching mistakes, mistake 3",
        engine="llamacpp",
    ),
)
