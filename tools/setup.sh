#!/usr/bin/env bash
# Makes the virtual environment.  Usage: tools/setup.sh run|dev VENV [pip's further words]
# Installs nothing outside VENV: what the system lacks it names, with the command that installs it, and stops.
set -euo pipefail

kind=$1 venv=$2
shift 2

log() { printf '[setup] %s\n' "$*"; }

# Say what is missing and stop.  Usage: need APT-PACKAGES DNF-PACKAGES
need() {
    local as_root=""
    [ "$(id -u)" = 0 ] || as_root="sudo "
    if command -v apt-get >/dev/null; then
        log "install it with: ${as_root}apt-get update && ${as_root}apt-get install -y --no-install-recommends $1" >&2
    elif command -v dnf >/dev/null; then
        log "install it with: ${as_root}dnf install -y $2" >&2
    else
        log "install it with your system's package manager (on Debian the packages are: $1)" >&2
    fi
    log "then run the same command again" >&2
    exit 1
}

# Whether $1 is a Python that can be used: some of these names are shims for versions that are not there.
usable() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Print the Python to use: the first that can make an environment, else the first that is new enough.
python() {
    local candidate first=""
    for candidate in ${GRADER_PYTHON:-python3 python3.13 python3.12 python3.11}; do
        usable "$candidate" || continue
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        first=${first:-$candidate}
    done
    echo "$first"
}

# Name everything that the system lacks at once.
require() {
    local interpreter=$1 apt="" dnf="" name
    command -v g++ >/dev/null || { log "g++ is missing: kernels are built with it" >&2; apt+=" g++" dnf+=" gcc-c++"; }
    if [ -z "$interpreter" ]; then
        log "Python 3.11 or later is missing" >&2
        need "python3 python3-venv python3-dev$apt" "python3.12 python3.12-devel$dnf"
    fi
    name=$("$interpreter" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    if ! "$interpreter" -c 'import ensurepip, venv' 2>/dev/null; then
        log "$name can't make a virtual environment: its module ensurepip is missing" >&2
        apt+=" $name-venv" dnf+=" $name"
    fi
    if ! "$interpreter" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; then
        log "$name's headers are missing: kernels that are torch extensions are built with them" >&2
        apt+=" $name-dev" dnf+=" $name-devel"
    fi
    [ -z "$apt" ] || need "${apt# }" "${dnf# }"
}

if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    require "$venv/bin/python"
else
    interpreter=$(python)
    require "$interpreter"
    log "making $venv with $("$interpreter" --version)"
    "$interpreter" -m venv --clear "$venv"
fi

extras=""
[ "$kind" = run ] || extras="[$kind]"
log "installing what grader$extras needs into $venv; the first time this fetches PyTorch and takes some minutes"
started=$SECONDS
install=("$venv/bin/python" -m pip install --disable-pip-version-check -c constraints.txt "$@" -e ".$extras")
[ "$(id -u)" != 0 ] || export PIP_ROOT_USER_ACTION=ignore
if [ -t 1 ]; then
    "${install[@]}"
else
    "${install[@]}" | { grep --line-buffered -E '^(Collecting|Installing|Successfully)' || true; }
fi
touch "$venv/.ready-$kind"
[ "$kind" = run ] || touch "$venv/.ready-run"
log "ready after $((SECONDS - started)) s"
