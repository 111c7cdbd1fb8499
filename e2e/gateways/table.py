"""The gateways that are run, and the stages of a run: all that differs between them is here."""

from __future__ import annotations

from dataclasses import dataclass

MODEL = "tiny-llama"


@dataclass(frozen=True, slots=True)
class Gateway:
    """How one gateway is started and asked. In texts ``{api} {admin} {a} {b}`` are ports, ``{dir}`` a folder of its own.

    ``files``: configuration, by name. ``statuses``: whether its page tells how calls were answered; ``upstreams``: whether
    it tells which upstream is fit. ``settle``: seconds in which it notices what happened to an upstream.
    """

    kind: str
    command: tuple[str, ...]
    page: str
    path: str = "/v1/chat/completions"
    model: str = MODEL
    key: str = "none"
    files: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    statuses: bool = True
    upstreams: bool = True
    settle: float = 5.0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """What the upstreams answer (``a``, ``b``), whether B passes health checks, and how many calls come."""

    name: str
    a: int
    b: int
    healthy: bool
    calls: int


STAGES: tuple[Stage, ...] = (
    Stage("light", 200, 200, True, 30),
    Stage("one-upstream-down", 200, 500, False, 20),
    Stage("refused", 429, 429, True, 12),
    Stage("recovered", 200, 200, True, 10),
)

_LITELLM = """
model_list:
  - model_name: tiny-llama
    litellm_params: {{model: openai/tiny-llama, api_base: "http://127.0.0.1:{a}/v1", api_key: none}}
    model_info: {{id: a}}
  - model_name: tiny-llama
    litellm_params: {{model: openai/tiny-llama, api_base: "http://127.0.0.1:{b}/v1", api_key: none}}
    model_info: {{id: b}}
router_settings: {{num_retries: 0, allowed_fails: 2, cooldown_time: 3}}
litellm_settings: {{callbacks: ["prometheus"], require_auth_for_metrics_endpoint: false}}
general_settings: {{master_key: sk-e2e}}
"""

_ENVOY = """
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {api}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: llm
          route_config:
            virtual_hosts:
            - name: llm
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: pool, timeout: 30s}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: pool
    type: STATIC
    connect_timeout: 1s
    health_checks:
    - {{timeout: 1s, interval: 1s, no_traffic_interval: 1s, unhealthy_threshold: 1, healthy_threshold: 1,
       http_health_check: {{path: /health}}}}
    load_assignment:
      cluster_name: pool
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {a}}}}}}}
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {b}}}}}}}
"""

_NGINX = """
daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 128; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    upstream pool {{ server 127.0.0.1:{a}; server 127.0.0.1:{b}; }}
    server {{
        listen 127.0.0.1:{api};
        location / {{ proxy_pass http://pool; proxy_buffering off; }}
    }}
    server {{
        listen 127.0.0.1:{admin};
        location = /stub_status {{ stub_status; }}
    }}
}}
"""

GATEWAYS: tuple[Gateway, ...] = (
    Gateway(
        "litellm",
        ("--config", "{dir}/config.yaml", "--host", "127.0.0.1", "--port", "{api}"),
        "http://127.0.0.1:{api}/metrics",
        key="sk-e2e",
        files=(("config.yaml", _LITELLM),),
        env=(("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("DISABLE_ADMIN_UI", "True")),
    ),
    Gateway(
        "vllm-router",
        (
            *("--host", "127.0.0.1", "--port", "{api}", "--policy", "round_robin"),
            *("--worker-urls", "http://127.0.0.1:{a}", "http://127.0.0.1:{b}"),
            *("--prometheus-host", "127.0.0.1", "--prometheus-port", "{admin}"),
            *("--retry-max-retries", "2", "--cb-failure-threshold", "5", "--cb-timeout-duration-secs", "2"),
            *(
                "--health-check-interval-secs",
                "1",
                "--health-failure-threshold",
                "1",
                "--health-success-threshold",
                "1",
            ),
        ),
        "http://127.0.0.1:{admin}/metrics",
        retries=2,
    ),
    Gateway(
        "envoy",
        ("-c", "{dir}/envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"),
        "http://127.0.0.1:{admin}/stats/prometheus?usedonly",
        files=(("envoy.yaml", _ENVOY),),
        upstreams=False,  # clusters are told, and one fit member keeps a cluster fit
    ),
    Gateway(
        "nginx",
        ("-p", "{dir}", "-c", "{dir}/nginx.conf"),
        "http://127.0.0.1:{admin}/stub_status",
        files=(("nginx.conf", _NGINX),),
        statuses=False,  # stub_status counts requests and connections, and nothing of how they ended
        upstreams=False,
    ),
)
