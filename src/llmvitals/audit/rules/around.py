"""The container around the engine: probes, shared memory, volumes, autoscaling, ingress."""

from __future__ import annotations

from llmvitals.audit import flags
from llmvitals.audit.model import Rule, Values
from llmvitals.audit.podspec import NGINX_READ_SECONDS
from llmvitals.audit.rules.common import NO, NOTE, WARNING, holds, open_words
from llmvitals.audit.subject import Subject

START_SECONDS = 300
"""Seconds that a start must be given at least: weights from a disk, compilation and CUDA graphs take minutes."""
LEAST_START_SECONDS = 120
STALL_SECONDS = 30
"""Seconds of an API process that does not answer, before it may be ended: Kubernetes' own 3 failures of 10 s."""
DEFAULT_GRACE = 30
_SHM = {
    "docker": "--ipc=host",
    "compose": "ipc: host",
    "pod": "volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}], mounted at /dev/shm",
}
_INFERENCE = ("completions", "/v1/embeddings", "/generate", "health_generate", "/v1/responses", "/v1/messages")


def _shm(s: Subject) -> tuple[Values, ...]:
    wrong = s.around.shared_memory is False and s.tensor_parallel > 1
    return holds(
        wrong, parallel=s.tensor_parallel, line=_SHM.get(s.around.kind, "").replace("{{", "{").replace("}}", "}")
    )


def _killed_at_start(s: Subject) -> tuple[Values, ...]:
    probe = s.around.liveness
    if probe is None or s.around.startup is not None:
        return NO
    return holds(probe.patience < START_SECONDS, seconds=probe.patience, failures=START_SECONDS * 3 // 10)


def _start_short(s: Subject) -> tuple[Values, ...]:
    probe = s.around.startup
    need = -(-START_SECONDS // probe.period) if probe and probe.period > 0 else 0
    return holds(
        probe is not None and probe.patience < LEAST_START_SECONDS, seconds=probe.patience if probe else 0, need=need
    )


def _asks_engine(s: Subject) -> tuple[Values, ...]:
    probe = s.around.liveness
    asked = f"{probe.path} {probe.words}" if probe else ""
    return holds(any(path in asked for path in _INFERENCE), asked=(probe.path or "a command") if probe else "")


def _short_tempered(s: Subject) -> tuple[Values, ...]:
    probe = s.around.liveness
    seconds = probe.period * probe.failures if probe else 0
    need = -(-STALL_SECONDS // probe.period) if probe and probe.period > 0 else 0
    return holds(probe is not None and seconds < STALL_SECONDS, seconds=seconds, need=need)


def _not_asked(s: Subject) -> tuple[Values, ...]:
    """A node that only computes (``--headless``) has nothing that could be asked."""
    return holds(s.around.kind == "pod" and s.around.readiness is None and not s.has("headless"))


def _drains(s: Subject) -> float:
    return (s.real("shutdown-timeout") or 0.0) if s.has("shutdown-timeout") else 0.0


def _grace_short(s: Subject) -> tuple[Values, ...]:
    if s.around.kind != "pod":
        return NO
    grace = s.around.grace_seconds if s.around.grace_seconds is not None else DEFAULT_GRACE
    said = s.around.grace_seconds is not None and grace < DEFAULT_GRACE
    need = max(DEFAULT_GRACE, _drains(s) + 10)
    return holds(said or grace < _drains(s), grace=grace, need=f"{need:.0f}")


def _cut_off(s: Subject) -> tuple[Values, ...]:
    can = flags.row("shutdown-timeout", s.version) is not None
    return holds(s.around.kind == "pod" and can and not _drains(s) and not _grace_short(s))


def _model(s: Subject) -> str:
    return s.values.get("model") or next(iter(s.read[1]), "")


def _fetched(s: Subject) -> bool:
    model = _model(s)
    local = model.startswith(("/", ".", "s3:", "gs:")) or open_words(model)
    return s.around.cache_kept is False and not local and bool(model)


_LIVE = "backpressure article, bottleneck 19"
RULES: tuple[Rule, ...] = (
    Rule(
        "no-shared-memory",
        WARNING,
        "not-serving",
        "{parallel} GPUs exchange through 64 MiB of shared memory",
        "Workers of one engine talk through /dev/shm, and a container's own is too small: they end or hang at the start.",
        "{line}",
        _shm,
        "vLLM's documentation, Docker and Kubernetes",
    ),
    Rule(
        "killed-at-start",
        WARNING,
        "rollout-and-probes",
        "The liveness probe ends the container {seconds} s after its start",
        "Loading weights and capturing graphs takes minutes. A startup probe waits for that; liveness begins after it.",
        "startupProbe: {{httpGet: {{path: /health, port: 8000}}, periodSeconds: 10, failureThreshold: {failures}}}",
        _killed_at_start,
        _LIVE,
    ),
    Rule(
        "startup-short",
        WARNING,
        "rollout-and-probes",
        "The startup probe gives up after {seconds} s",
        "Loading weights, compiling and capturing graphs takes minutes.",
        "startupProbe.failureThreshold: {need}",
        _start_short,
        _LIVE,
    ),
    Rule(
        "liveness-asks-for-tokens",
        WARNING,
        "rollout-and-probes",
        "The liveness probe asks the model ({asked})",
        "It waits in the queue like everybody else: under load healthy pods are ended, and the others get their load.",
        "livenessProbe.httpGet.path: /health",
        _asks_engine,
        _LIVE,
    ),
    Rule(
        "liveness-short-tempered",
        WARNING,
        "rollout-and-probes",
        "The liveness probe ends a container that is busy for {seconds} s",
        "The API process may stall so long with long prompts; ending it ends every stream.",
        "livenessProbe.failureThreshold: {need}",
        _short_tempered,
        _LIVE,
    ),
    Rule(
        "no-readiness",
        WARNING,
        "rollout-and-probes",
        "There is no readiness probe",
        "The pod gets requests while it still loads the model, and they fail.",
        "readinessProbe: {{httpGet: {{path: /health, port: 8000}}, periodSeconds: 5}}",
        _not_asked,
        _LIVE,
    ),
    Rule(
        "grace-short",
        WARNING,
        "rollout-and-probes",
        "A pod that ends gets {grace} s",
        "Streams that last longer are cut at each rollout.",
        "terminationGracePeriodSeconds: {need}",
        _grace_short,
        _LIVE,
    ),
    Rule(
        "streams-cut-at-rollout",
        NOTE,
        "rollout-and-probes",
        "Running requests are cut when the pod ends",
        "vLLM stops at once unless it is told to finish them; the pod's grace period must be longer than that.",
        "--shutdown-timeout 60, with terminationGracePeriodSeconds: 70",
        _cut_off,
        _LIVE,
    ),
    Rule(
        "weights-fetched-each-time",
        WARNING,
        "cold-start",
        "Each new pod downloads the weights",
        "No volume outlives the pod, so that a surge is over before a new replica serves.",
        "a persistent volume, mounted at /root/.cache/huggingface",
        lambda s: holds(s.around.kind == "pod" and _fetched(s)),
        "backpressure article, bottleneck 18",
    ),
    Rule(
        "weights-fetched-each-time-here",
        NOTE,
        "cold-start",
        "Each new container downloads the weights",
        "No volume outlives the container.",
        "-v ~/.cache/huggingface:/root/.cache/huggingface",
        lambda s: holds(s.around.kind in ("docker", "compose") and _fetched(s)),
        "backpressure article, bottleneck 18",
    ),
    Rule(
        "slice-of-a-gpu",
        WARNING,
        "hardware-event",
        "The engine gets a slice of a GPU ({slice})",
        "Decoding is bound by memory bandwidth, and a slice has only its part of it.",
        "nvidia.com/gpu: 1",
        lambda s: holds(bool(s.around.mig), slice=s.around.mig),
        "backpressure article, bottleneck 20",
    ),
    Rule(
        "scaled-on-the-wrong-number",
        WARNING,
        "cold-start",
        "Replicas are scaled on {resource}",
        "It says nothing of the queue: an engine core is busy all the time. Scale on waiting requests, their wait or first tokens.",
        "metrics: [{{type: Pods, pods: {{metric: {{name: vllm:num_requests_waiting}}, ...}}}}]",
        lambda s: holds(bool(s.around.scaled_on), resource=s.around.scaled_on),
        "backpressure article, bottleneck 18",
    ),
    Rule(
        "streams-cut-by-proxy",
        WARNING,
        "connection-exhaustion",
        "The ingress cuts what is silent for {seconds} s",
        "A queue, a long prompt or an answer without streaming is silent for longer.",
        'nginx.ingress.kubernetes.io/proxy-read-timeout: "600"',
        lambda s: holds(
            0 < (s.around.proxy_read_seconds or 0) <= NGINX_READ_SECONDS,
            seconds=f"{s.around.proxy_read_seconds or 0:.0f}",
        ),
        "backpressure article, bottleneck 15",
    ),
    Rule(
        "stream-buffered",
        WARNING,
        "ghost-compute",
        "The ingress buffers answers",
        "Tokens come in lumps, and a client that left is noticed late.",
        'nginx.ingress.kubernetes.io/proxy-buffering: "off"',
        lambda s: holds(s.around.proxy_buffering),
        "backpressure article, bottleneck 11",
    ),
    Rule(
        "image-without-a-release",
        NOTE,
        "rollout-and-probes",
        "The image names no release ({image})",
        "The next restart may bring another engine, with other defaults.",
        "",
        lambda s: (
            holds(
                s.around.image.partition("@")[0].endswith(":latest") or ":" not in s.around.image.rpartition("/")[2],
                image=s.around.image,
            )
            if s.around.image and "@" not in s.around.image and not open_words(s.around.image)
            else NO
        ),
        _LIVE,
    ),
)
