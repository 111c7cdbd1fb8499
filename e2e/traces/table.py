"""What is run: the cases, their loads, and what each class of requests was promised. All that differs between cases is here."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

ENGINE, GATEWAY = "chat", "chat-gateway"
"""Names of the targets."""

SECRET = "SECRET-OF-THE-PROMPT"
"""What the loads plant into prompts: it must be found nowhere."""

RATIO = 0.5
"""The share of the traces that the sampled case keeps."""


@dataclass(frozen=True, slots=True)
class Promised:
    """A class: the tenants that it takes (patterns), and its thresholds in seconds by objective."""

    name: str
    tenants: tuple[str, ...]
    limits: dict[str, float]

    def takes(self, tenant: str) -> bool:
        """Whether a tenant's requests are of this class; a class without patterns takes all."""
        return not self.tenants or any(fnmatchcase(tenant, pattern) for pattern in self.tenants)


PROMISES: tuple[Promised, ...] = (
    Promised("interactive", ("acme",), {"ttft": 2.0, "tpot": 0.3, "e2e": 1.0}),
    Promised("batch", ("night-*",), {"ttft": 20.0, "tpot": 2.0, "e2e": 1.0}),
    Promised("default", (), {"ttft": 0.35, "tpot": 0.012}),
)
"""The first that takes a request is its class. Thresholds of the first two lie between the crowds of their loads, since what a
client times differs from what its gateway does. Those of the rest lie in the crowd and between the edges of the engine's
histograms, where these help least.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One start of a vLLM. ``endpoint``: where its traces go, ``{grpc}`` and ``{http}`` are the receiver's ports; ``env``: of the
    server; ``gateway``: whether one stands in front; ``named``: whether the settings say by which attributes senders are known.
    """

    name: str
    endpoint: str
    env: tuple[tuple[str, str], ...]
    loads: tuple[str, ...]
    gateway: bool = True
    named: bool = False
    sampled: bool = False


_GRPC = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
_HTTP = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")

CASES: tuple[Case, ...] = (
    Case("grpc", "http://127.0.0.1:{grpc}", (_GRPC,), ("one-promise", "classes")),
    Case("http", "http://127.0.0.1:{http}/v1/traces", (_HTTP,), ("one-promise", "classes"), named=True),
    Case(
        "sampled",
        "http://127.0.0.1:{grpc}",
        (_GRPC, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", str(RATIO))),
        ("one-promise",),
        gateway=False,
        sampled=True,
    ),
)

SETTINGS = """
targets:
  - {{name: {engine_name}, url: "http://127.0.0.1:{engine}"{behind}{engine_spans}}}
{gateway_target}
exporter:
  listen: "127.0.0.1:{exporter}"
  interval_seconds: 3
  window_seconds: 300
spans:
  http: "127.0.0.1:{http}"
  grpc: "127.0.0.1:{grpc}"
  join_seconds: 5
slo:
{slo}
"""


def settings(case: Case, ports: dict[str, int]) -> str:
    """The exporter's settings for a case."""
    told = {name: f", spans: {{service.name: {name}}}" if case.named else "" for name in (ENGINE, GATEWAY)}
    front = f'  - {{name: {GATEWAY}, url: "http://127.0.0.1:{ports["gateway"]}", kind: gateway{told[GATEWAY]}}}'
    *classes, rest = PROMISES
    lines = [f"  {key}_seconds: {seconds}" for key, seconds in rest.limits.items()]
    lines += ["  classes:"] if classes else []
    for one in classes:
        limits = ", ".join(f"{key}_seconds: {seconds}" for key, seconds in one.limits.items())
        patterns = ", ".join(f'"{pattern}"' for pattern in one.tenants)
        lines.append(f"    - {{name: {one.name}, tenants: [{patterns}], {limits}}}")
    return SETTINGS.format(
        **ports,
        engine_name=ENGINE,
        behind=f", gateway: {GATEWAY}" if case.gateway else "",
        engine_spans=told[ENGINE],
        gateway_target=front if case.gateway else "",
        slo="\n".join(lines),
    )
