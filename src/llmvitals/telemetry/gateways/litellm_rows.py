"""Rows of LiteLLM's proxy, what its page holds besides, and why families are not given."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.telemetry.mapping import Row, Unused

# What litellm.py derives: rows that need a tenant, a status or a deployment.
ANSWERED, FAILED, TOKENS, WAIT = "answered", "failed", "tokens", "wait"
STATE, SERVED, REFUSED, LIMIT = "state", "served", "refused", "limit"
NEWER = "a release after 1.80"
ALIVE = "alive"  # before the first call its own families are declared only: these show that there is a proxy

ROWS: tuple[Row, ...] = (
    Row(
        "litellm_proxy_total_requests_metric",
        "llm_gateway_requests_total",
        special=ANSWERED,
        late=True,
        note="one without a status is told by how it failed; error where that does not say it (a bad key)",
    ),
    Row("litellm_proxy_failed_requests_metric", "llm_gateway_requests_total", special=FAILED, late=True),
    Row(
        "litellm_input_tokens_metric",
        "llm_gateway_tokens_total",
        special=TOKENS,
        late=True,
        note="prompt and output tokens of calls that succeeded, as the deployments report them",
    ),
    Row("litellm_output_tokens_metric", "llm_gateway_tokens_total", special=TOKENS, late=True),
    Row(
        "litellm_request_queue_time_seconds",
        "llm_gateway_queue_seconds",
        special=WAIT,
        needs=NEWER,
        note="from arrival until the proxy works on it",
    ),
    Row(
        "litellm_llm_api_time_to_first_token_metric",
        "llm_gateway_ttft_seconds",
        add=True,
        late=True,
        note="streams only, from the call to the deployment on: the proxy's own part is not in it",
    ),
    Row(
        "litellm_request_total_latency_metric",
        "llm_gateway_request_seconds",
        add=True,
        late=True,
        note="calls that succeeded",
    ),
    Row("litellm_overhead_latency_metric", "llm_gateway_overhead_seconds", add=True, late=True),
    Row(
        "litellm_llm_api_latency_metric",
        "llm_gateway_upstream_seconds",
        add=True,
        late=True,
        note="all deployments together",
    ),
    Row(
        "litellm_deployment_state",
        "llm_gateway_upstream_up",
        special=STATE,
        late=True,
        note="0 from a failure until the next success",
    ),
    Row(
        "litellm_deployment_success_responses",
        "llm_gateway_upstream_requests_total",
        special=SERVED,
        fixed=(("status", "2xx"),),
        late=True,
    ),
    Row(
        "litellm_deployment_failure_responses",
        "llm_gateway_upstream_requests_total",
        special=REFUSED,
        late=True,
        note="calls that no deployment could take are left out",
    ),
    Row(
        "litellm_cache_hits_metric",
        "llm_gateway_cache_hits_total",
        add=True,
        needs=NEWER,
        note="answers from the response cache, not prefixes; 0 while there is no cache",
    ),
    Row(
        "litellm_global_max_parallel_requests_limit",
        "llm_gateway_concurrency_limit",
        special=LIMIT,
        needs="a global limit of parallel requests",
        note="+Inf: no limit is in force",
    ),
    Row("process_start_time_seconds", special=ALIVE),
    Row("python_info", special=ALIVE),
)

_MONEY = "money spent or left"
_QUOTA = "what is left of a quota"
_SPEND = "its own queue of spend to be written"
_AGAIN = "an older count of the same calls"
UNUSED: tuple[Unused, ...] = (
    Unused(
        "litellm_deployment_latency_per_output_token",
        "of a stream its time to the first token over all its tokens, of other calls their whole time: no time per token",
    ),
    Unused("litellm_requests_metric", _AGAIN),
    Unused("litellm_llm_api_failed_requests_metric", _AGAIN),
    Unused("litellm_total_tokens_metric", "input and output tokens, which are taken"),
    Unused("litellm_deployment_total_requests", "successes and failures, which are taken"),
    Unused("litellm_deployment_cooled_down", "when a deployment was left out; its state says it"),
    Unused("litellm_deployment_*_fallbacks", "calls handed to another model group"),
    Unused("litellm_deployment_rpm_limit", "a deployment's configured quota"),
    Unused("litellm_deployment_tpm_limit", "a deployment's configured quota"),
    Unused("litellm_input_cached_tokens_metric", "the engines' own pages say it"),
    Unused("litellm_input_cache_creation_tokens_metric", "providers' prompt caches"),
    Unused("litellm_provider_cache_*", "providers' prompt caches"),
    Unused("litellm_input_audio_tokens_metric", "a part of the input tokens"),
    Unused("litellm_output_audio_tokens_metric", "a part of the output tokens"),
    Unused("litellm_output_reasoning_tokens_metric", "a part of the output tokens"),
    Unused("litellm_cache_misses_metric", "calls that the response cache could not answer"),
    Unused("litellm_cached_tokens_metric", "tokens of answers from the response cache"),
    Unused("litellm_overhead_with_guardrails_latency_metric", "the overhead, guardrails included"),
    Unused("litellm_in_flight_requests", "every HTTP request, the scrape of this page among them"),
    Unused("litellm_spend_metric", _MONEY),
    Unused("litellm_mcp_tool_call_spend_metric", _MONEY),
    Unused("litellm_*_budget_metric", _MONEY),
    Unused("litellm_*_budget_remaining_hours_metric", _MONEY),
    Unused("litellm_remaining_requests", "what a provider says is left of its rate limit"),
    Unused("litellm_remaining_tokens", "what a provider says is left of its rate limit"),
    Unused("litellm_remaining_requests_metric", "what a provider says is left of its rate limit"),
    Unused("litellm_remaining_tokens_metric", "what a provider says is left of its rate limit"),
    Unused("litellm_remaining_api_key_*_for_model", f"{_QUOTA}; 2**63 where there is none"),
    Unused("litellm_*_rate_limit_allowed_metric", _QUOTA),
    Unused("litellm_*_rate_limit_used_metric", _QUOTA),
    Unused("litellm_team_members_metric", "members of a team"),
    Unused("litellm_callback_logging_failures_metric", "its own logging"),
    Unused("litellm_guardrail_*", "its guardrails"),
    Unused("litellm_mcp_tool_calls", "tools that it calls itself"),
    Unused("litellm_check_batch_cost_*", "batch jobs"),
    Unused("litellm_managed_*", "batch jobs and files"),
    Unused("litellm_images_generated_metric", "images made"),
    Unused("litellm_video_duration_seconds_metric", "videos made"),
    Unused("litellm_pod_lock_manager_size", _SPEND),
    Unused("litellm_in_memory_*_queue_size", _SPEND),
    Unused("litellm_redis_*", "its own Redis"),
    Unused("litellm_postgres_*", "its database"),
    Unused("litellm_self_*", "its own services"),
    Unused("litellm_not_a_premium_user_metric", "a notice about its licence"),
)

CANNOT: Mapping[str, str] = {
    "llm_gateway_calls_total": "calls are counted when they have been answered",
    "llm_gateway_retries_total": "it does not count the calls that it tries again",
    "llm_gateway_tpot_seconds": "its time per output token is, of a stream, the time to the first over the number of all",
    "llm_gateway_breaker_open": "a deployment that is left out for a while shows as not up",
    "llm_gateway_queue_waiting": "it shows no queue; calls wait inside its event loop",
    "llm_gateway_queue_limit": "it shows no queue; calls wait inside its event loop",
    "llm_gateway_queue_dropped_total": "what it refuses is among the answers (429)",
    "llm_gateway_connect_errors_total": "a deployment that could not be reached is one failure among others",
    "llm_gateway_disconnects_total": "clients that leave are not counted",
    "llm_gateway_calls_running": "its count of open requests holds every HTTP request, the scrape itself too",
    "llm_gateway_tenant_weight": "it knows limits of teams and keys, not weights",
}
