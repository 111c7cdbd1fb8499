#!/bin/sh
# Brings the Debian packages that some tests drive for real: Prometheus (rules), Chromium (the app), OpenSSL (certificates),
# a C compiler (the double of the NVIDIA driver's library; g++ alone brings the headers of C without recommended packages),
# kubectl (manifests), VictoriaMetrics (the same data in another store), systemd (the unit).
# Where it may not install, it prints the line to run and which tests are left out; with CI set that is a failure.
set -eu
. "$(dirname "$0")/say.sh"

have() { for name in "$@"; do command -v "$name" >/dev/null 2>&1 && return 0; done; return 1; }

# marker | package | any of these commands shows that it is there (the tests look for the same names)
TABLE='
prometheus|prometheus|promtool
prometheus|prometheus-alertmanager|prometheus-alertmanager alertmanager
browser|chromium|chromium chromium-browser google-chrome
browser|chromium-driver|chromedriver
tls|openssl|openssl
cc|g++|cc gcc clang
kubernetes|kubernetes-client|kubectl
storage|victoria-metrics|victoria-metrics
systemd|systemd|systemd-analyze
'

missing() { # prints column $1 of the rows whose command is not there
    printf '%s\n' "$TABLE" | while IFS='|' read -r marker package commands; do
        [ -n "$marker" ] || continue
        # shellcheck disable=SC2086  # several names on purpose
        have $commands && continue
        [ "$1" = marker ] && echo "$marker" || echo "$package"
    done | sort -u | tr '\n' ' ' | sed 's/ $//'
}

packages=$(missing package)
[ -n "$packages" ] || exit 0

# One by one: Ubuntu has no chromium package that works without snap, and that must not cost Prometheus.
for package in $packages; do apt_install "$package" || true; done

packages=$(missing package)
[ -n "$packages" ] || exit 0
markers=$(missing marker)
if [ -n "${CI:-}" ]; then
    die "CI needs every test, but these packages could not be installed: $packages" "$(apt_line $packages)"
fi
say "left out: the tests marked $(echo "$markers" | sed 's/ / and /'). To run them too, first:"
printf '      %s\n' "$(apt_line $packages)" >&2
