"""What only some gateways have: a semantic cache, and a choice between a small and a large model."""

from __future__ import annotations

from llmvitals.instrument.call import current
from llmvitals.instrument.store import Store


class SemanticCache:
    """A cache that answers from answers to similar prompts; ``checked``: some of them are held against the model's own."""

    def __init__(self, store: Store, *, checked: bool) -> None:
        self._store = store
        store.claim("llm_gateway_semantic_cache_hits_total")
        if checked:
            store.claim("llm_gateway_semantic_cache_checked_total")
            store.claim("llm_gateway_semantic_cache_wrong_total")

    def hit(self) -> None:
        """The current call is answered by it."""
        self._store.add("llm_gateway_semantic_cache_hits_total")
        call = current()
        if call is not None:
            call.cached = True

    def checked(self, *, fits: bool) -> None:
        """One of its answers was held against the model's own."""
        self._store.add("llm_gateway_semantic_cache_checked_total")
        self._store.add("llm_gateway_semantic_cache_wrong_total", 0 if fits else 1)


class SmallModel:
    """Where calls are spread over a small and a large model by difficulty."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.claim("llm_gateway_small_model_calls_total")

    def sent(self) -> None:
        """A call was sent to the small one."""
        self._store.add("llm_gateway_small_model_calls_total")
