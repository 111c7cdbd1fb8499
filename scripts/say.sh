# Sourced by the scripts here: how they speak, and the only place that runs apt-get.

say() { printf '==> %s\n' "$*" >&2; }

die() { # what is wrong, then one line per remedy
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

as_root() { # "" for root, "sudo -n" where sudo asks no password, else failure
    if [ "$(id -u)" = 0 ]; then
        echo ""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo "sudo -n"
    else
        return 1
    fi
}

apt_line() { echo "sudo apt-get install -y --no-install-recommends $*"; }

apt_install() { # installs the packages, when this user may; 1 when not
    command -v apt-get >/dev/null 2>&1 || return 1
    root=$(as_root) || return 1
    say "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    # Package lists are old or empty on a fresh machine; a stale mirror must not stop an install that would work.
    $root apt-get -qq update >&2 || true
    $root apt-get -qq install -y --no-install-recommends "$@" >&2
}
