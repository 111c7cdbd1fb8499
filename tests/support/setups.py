"""Set-ups for the audit: sane ones as people publish them, and one for each mistake."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class Case:
    """An input, and what a person says beside it."""

    text: str
    version: str = ""
    gpu: str = ""
    gpus: int | None = None
    config: dict | None = None
    traffic: dict = field(default_factory=dict)


def serve(flags: str, version: str = "0.11.0", env: str = "", **more) -> Case:
    """A ``vllm serve`` line."""
    return Case(f"{env} vllm serve meta-llama/Llama-3.1-8B-Instruct {flags}".strip(), version, **more)


def pod(
    flags: str = "--max-model-len 8192",
    *,
    image: str = "vllm/vllm-openai:v0.11.0",
    gpus: int = 1,
    cpu: str = "8",
    probes: str = "startup liveness readiness",
    grace: int | None = 120,
    shm: bool = True,
    cache: bool = True,
    liveness: str = "{httpGet: {path: /health, port: 8000}, periodSeconds: 10, failureThreshold: 6}",
    startup: str = "{httpGet: {path: /health, port: 8000}, periodSeconds: 10, failureThreshold: 90}",
    resource: str = "nvidia.com/gpu",
    more: str = "",
) -> Case:
    """A Deployment that does everything right, but for what is said."""
    texts = {"startup": startup, "liveness": liveness, "readiness": "{httpGet: {path: /health, port: 8000}}"}
    lines = [f"{name}Probe: {text}" for name, text in texts.items() if name in probes.split()]
    volumes = [("weights", "/root/.cache/huggingface", "persistentVolumeClaim: {claimName: weights}")] if cache else []
    volumes += [("shm", "/dev/shm", "emptyDir: {medium: Memory, sizeLimit: 8Gi}")] if shm else []
    listed = ", ".join(f"{{name: {name}, {what}}}" for name, _, what in volumes)
    mounts = ", ".join(f"{{name: {name}, mountPath: {where}}}" for name, where, _ in volumes)
    head = f"""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: llama, namespace: serving}}
        spec:
          replicas: 2
          template:
            spec:
              {"" if grace is None else f"terminationGracePeriodSeconds: {grace}"}
              volumes: [{listed}]
              containers:
              - name: vllm
                image: {image}
                args: [meta-llama/Llama-3.1-8B-Instruct, {", ".join(f'"{word}"' for word in flags.split())}]
                env: [{{name: HF_TOKEN, valueFrom: {{secretKeyRef: {{name: hf, key: token}}}}}}]
                resources: {{limits: {{{resource}: {gpus}, cpu: "{cpu}", memory: 64Gi}}}}
                volumeMounts: [{mounts}]
        """
    return Case("\n".join([dedent(head).rstrip(), *(f"        {line}" for line in lines)]) + more)


V1_LOG = """
(APIServer pid=1) INFO 11-02 09:14:01 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=1) INFO 11-02 09:14:01 [utils.py:233] non-default args: {'model_tag': 'm/x', 'api_key': ['sk-log'], %s}
(EngineCore_DP0 pid=80) INFO 11-02 09:14:12 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m/x', \
speculative_config=None, tokenizer='m/x', tokenizer_mode=auto, dtype=torch.bfloat16, max_seq_len=%d, \
tensor_parallel_size=1, enforce_eager=False, kv_cache_dtype=auto, enable_prefix_caching=%s, chunked_prefill_enabled=True
(EngineCore_DP0 pid=80) INFO 11-02 09:14:40 [kv_cache_utils.py:1087] GPU KV cache size: %s tokens
(EngineCore_DP0 pid=80) INFO 11-02 09:14:40 [kv_cache_utils.py:1091] Maximum concurrency for %s tokens per request: %.2fx
"""


def v1_log(args: str = "'max_num_seqs': 64", context: int = 8192, pool: int = 446_480, caching: bool = True) -> Case:
    """The log of a start of 0.11."""
    return Case(V1_LOG % (args, context, caching, f"{pool:,}", f"{context:,}", pool / context))


V0_LOG = """
INFO 10-20 08:01:00 api_server.py:528] vLLM API server version 0.6.3
INFO 10-20 08:01:00 api_server.py:529] args: Namespace(host=None, port=8000, api_key='sk-old', model='m/x', max_model_len=8192, \
max_num_seqs=64, swap_space=4, enable_prefix_caching=%s, disable_log_requests=True, gpu_memory_utilization=0.9, lora_modules=None)
INFO 10-20 08:01:05 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='m/x', speculative_config=None, \
tokenizer='m/x', tokenizer_mode=auto, max_seq_len=8192, tensor_parallel_size=1, enforce_eager=False, kv_cache_dtype=auto, \
num_scheduler_steps=1, chunked_prefill_enabled=False, enable_prefix_caching=%s
INFO 10-20 08:01:30 gpu_executor.py:122] # GPU blocks: 27905, # CPU blocks: 2048
INFO 10-20 08:01:30 gpu_executor.py:126] Maximum concurrency for 8192 tokens per request: 54.50x
"""

SANE: dict[str, Case] = {
    "the shortest line": Case("vllm serve Qwen/Qwen3-8B"),
    "a tuned line of 0.11": serve("--max-model-len 8192 --max-num-seqs 128 --max-num-batched-tokens 8192 -tp 2"),
    "a line of 0.6 that knows its engine": serve(
        "--max-model-len 8192 --enable-prefix-caching --enable-chunked-prefill --disable-log-requests", "0.6.3"
    ),
    "tools and reasoning": serve(
        "--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3 --max-model-len 32k", "0.10.2"
    ),
    "the module, FP8, a script": Case(
        "#!/bin/bash\nset -euo pipefail\nexport VLLM_LOGGING_LEVEL=INFO\nMODEL=${MODEL:-Qwen/Qwen3-32B}\n"
        "exec python3 -m vllm.entrypoints.openai.api_server --model $MODEL --served-model-name qwen \\\n"
        "  --kv-cache-dtype fp8 --gpu-memory-utilization 0.92 \\\n  --max-num-seqs 64 --host 0.0.0.0 --port 8000\n",
        "0.11.0",
    ),
    "docker": Case(
        "docker run -d --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface -p 8000:8000 --ipc=host "
        "--env HF_TOKEN=hf_abc vllm/vllm-openai:v0.9.2 --model mistralai/Mistral-7B-Instruct-v0.3 -tp 2"
    ),
    "compose": Case(
        "services:\n  vllm:\n    image: vllm/vllm-openai:v0.10.2\n    ipc: host\n    shm_size: 16g\n"
        "    volumes: ['~/.cache/huggingface:/root/.cache/huggingface']\n"
        "    environment: {VLLM_WORKER_MULTIPROC_METHOD: spawn}\n"
        "    command: --model Qwen/Qwen3-8B --max-model-len 16384 --tensor-parallel-size 2\n"
        "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}}}\n"
    ),
    "a careful deployment": pod("--max-model-len 8192 --tensor-parallel-size 2", gpus=2),
    "data parallel over a node": serve("--data-parallel-size 4 --api-server-count 4 --enable-expert-parallel", gpus=4),
    "drafts and adapters": serve(
        '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}\' '
        "--enable-lora --max-loras 4 --lora-modules a=/l/a b=/l/b"
    ),
    "a bounded queue": serve("--max-num-seqs 128 --max-num-queued-reqs 256", "0.33.0"),
    "embeddings": serve("--runner pooling --no-enable-prefix-caching --no-enable-chunked-prefill"),
    "a healthy start": v1_log(),
    "a healthy start of V0": Case(V0_LOG % ("True", "True")),
    "a config file": Case("model: Qwen/Qwen3-8B\nmax-model-len: 8192\ntensor-parallel-size: 2\n", "0.11.0"),
    "known hardware": serve("--max-model-len 8192 --max-num-seqs 128", gpu="H100-80GB", config=LLAMA_8B),
}
"""As people publish them; none may be warned of."""

_HPA = """
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llama}
spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}
"""
_INGRESS = """
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: llama
  annotations: {%s}
spec: {ingressClassName: nginx}
"""
_LONG = '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 10}\''
_FULL = {"gpu": "H100-80GB", "config": LLAMA_8B}

MADE: dict[str, Case] = {
    "unknown-flag": serve("--enable-prefx-caching"),
    "removed-flag": serve("--swap-space 8 --enable-prefix-caching", "0.20.0"),
    "removed-flag-newest": Case("vllm serve m/x --num-scheduler-steps 8"),
    "early-flag": serve("--max-num-queued-reqs 500"),
    "wrong-number": serve("--max-model-len 8,192"),
    "wrong-choice": serve("--block-size 24 --enable-prefix-caching", "0.6.3"),
    "share-out-of-range": serve("--gpu-memory-utilization 90"),
    "step-below-context": serve("--max-model-len 8192 --max-num-batched-tokens 4096 --enable-prefix-caching", "0.6.3"),
    "step-below-seats": serve("--max-num-batched-tokens 128 --max-num-seqs 256"),
    "heads-not-divisible": serve("-tp 3 --max-model-len 8192", config=LLAMA_8B, gpu="H100-80GB"),
    "gpus-missing": pod("--tensor-parallel-size 4", gpus=2),
    "repeated-flag": serve("--max-num-seqs 64 --max-num-seqs 128"),
    "deprecated-flag": serve("--disable-log-requests"),
    "left-open": serve("--max-model-len $CONTEXT $EXTRA"),
    "block-small": serve("--block-size 8"),
    "block-waste": serve("--block-size 32", traffic={"prompt_tokens": 60, "output_tokens": 18}),
    "block-large": serve("--block-size 128"),
    "swap-without-effect": serve("--swap-space 32"),
    "swap-alone": serve("--swap-space 32 --enable-prefix-caching", "0.6.3"),
    "recompute-long-prompts": serve(
        "--enable-prefix-caching", "0.6.3", traffic={"prompt_tokens": 8000, "output_tokens": 300}
    ),
    "swap-short-prompts": serve(
        "--enable-prefix-caching --preemption-mode swap", "0.6.3", traffic={"prompt_tokens": 90, "output_tokens": 300}
    ),
    "offload-long-prompts": serve("", "0.20.0", traffic={"prompt_tokens": 8000}),
    "prefix-caching-off": serve("--no-enable-prefix-caching"),
    "prefix-caching-off-by-default": serve("", "0.6.3"),
    "pool-below-one-context": serve("--max-num-seqs 8", gpu="L4-24GB", config=LLAMA_8B),
    "context-over-pool": v1_log("'max_num_seqs': 256", 131072, 148_192),
    "context-over-pool-alone": Case(
        'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",gpu_memory_utilization="0.9",'
        'kv_cache_max_concurrency="2.5",kv_cache_size_tokens="81920",num_gpu_blocks="5120"} 1.0'
    ),
    "context-unused": serve("--max-model-len 32768", traffic={"longest_tokens": 4096}),
    "seats-over-pool": v1_log("'max_num_seqs': 128", 8192, 200_000),
    "seats-few": v1_log("'max_num_seqs': 8", 4096, 446_480),
    "pool-unknown": serve(""),
    "chunked-prefill-off": serve("--no-enable-chunked-prefill"),
    "chunked-prefill-off-by-default": serve("--enable-prefix-caching --max-model-len 8192", "0.6.3"),
    "step-large": serve("--max-num-batched-tokens 65536"),
    "step-small": serve("--max-num-batched-tokens 512 --max-num-seqs 64"),
    "tokenizer-slow": serve("--tokenizer-mode slow"),
    "front-end-in-engine": serve("", env="VLLM_ENABLE_V1_MULTIPROCESSING=0"),
    "too-few-cores": pod("--max-model-len 8192 -tp 4", gpus=4, cpu="4"),
    "one-front-for-many-ranks": serve("--data-parallel-size 8 --api-server-count 1"),
    "share-high": serve("--gpu-memory-utilization 0.98"),
    "share-low": serve("--gpu-memory-utilization 0.4"),
    "eager": serve("--enforce-eager"),
    "weights-in-host-memory": serve("--cpu-offload-gb 10"),
    "blocks-overridden": serve("--num-gpu-blocks-override 512"),
    "no-statistics": serve("--disable-log-stats"),
    "queue-below-seats": serve("--max-num-seqs 256 --max-num-queued-reqs 100", "0.33.0"),
    "queue-without-end": serve("", "0.33.0", traffic={"users_wait": True}),
    "queue-without-end-so-far": serve("", "0.33.0"),
    "output-without-end": serve("--max-model-len 131072"),
    "adapter-slots": serve("--enable-lora --lora-modules a=/l/a b=/l/b c=/l/c"),
    "many-drafts": serve(_LONG),
    "gpus-unused": pod("--tensor-parallel-size 2", gpus=8, cpu="16"),
    "tensor-parallel-wide": serve("-tp 16"),
    "replicas-instead": serve("-tp 2 --max-model-len 8192", **_FULL),
    "plain-all-reduce": serve("-tp 2 --disable-custom-all-reduce"),
    "falls-back-to-v0": serve("--num-scheduler-steps 8 --enable-prefix-caching", "0.9.2"),
    "many-steps-at-once": serve("--num-scheduler-steps 8 --enable-prefix-caching", "0.6.3"),
    "requests-logged": serve("--enable-log-requests"),
    "slow-by-variable": serve("", env="CUDA_LAUNCH_BLOCKING=1"),
    "peers-apart": serve("-tp 4", env="NCCL_P2P_DISABLE=1"),
    "unread-variable": serve("", env="VLLM_LOGING_LEVEL=INFO"),
    "variable-gone": serve("", "0.20.0", env="VLLM_USE_V1=1"),
    "old-engine": serve("--enable-prefix-caching", "0.9.2", env="VLLM_USE_V1=0"),
    "key-in-sight": serve("--api-key sk-1234"),
    "no-shared-memory": pod("-tp 2", gpus=2, shm=False),
    "killed-at-start": pod(probes="liveness readiness"),
    "startup-short": pod(startup="{httpGet: {path: /health, port: 8000}, periodSeconds: 5, failureThreshold: 6}"),
    "liveness-asks-for-tokens": pod(
        liveness="{exec: {command: [curl, -f, 'localhost:8000/v1/completions']}, periodSeconds: 30}"
    ),
    "liveness-short-tempered": pod(
        liveness="{httpGet: {path: /health, port: 8000}, periodSeconds: 5, failureThreshold: 2}"
    ),
    "no-readiness": pod(probes="startup liveness"),
    "grace-short": pod(grace=10),
    "streams-cut-at-rollout": pod(image="vllm/vllm-openai:v0.20.0"),
    "weights-fetched-each-time": pod(cache=False),
    "weights-fetched-each-time-here": Case("docker run --gpus all --ipc=host vllm/vllm-openai:v0.11.0 --model m/x"),
    "slice-of-a-gpu": pod(resource="nvidia.com/mig-3g.40gb"),
    "scaled-on-the-wrong-number": pod(more=_HPA),
    "streams-cut-by-proxy": pod(more=_INGRESS % 'nginx.ingress.kubernetes.io/proxy-body-size: "8m"'),
    "stream-buffered": pod(
        more=_INGRESS
        % 'nginx.ingress.kubernetes.io/proxy-read-timeout: "600", nginx.ingress.kubernetes.io/proxy-buffering: "on"'
    ),
    "image-without-a-release": Case("docker run --gpus all --ipc=host -v c:/root vllm/vllm-openai --model m/x"),
    "sglang-no-radix-cache": Case("python -m sglang.launch_server --model-path m/x --disable-radix-cache"),
    "sglang-slow-tokenizer": Case("python -m sglang.launch_server --model-path m/x --tokenizer-mode slow"),
    "tgi-no-prefix-caching": Case(
        "docker run -e PREFIX_CACHING=0 ghcr.io/huggingface/text-generation-inference:3.0 --model-id m/x"
    ),
    "llamacpp-no-prompt-cache": Case("llama-server -m m.gguf --no-cache-prompt"),
}
"""By the rule that must hold, and of errors and warnings no other."""
MADE["seats-over-pool"] = Case(MADE["seats-over-pool"].text, traffic={"prompt_tokens": 3500, "output_tokens": 500})
