#!/usr/bin/env bash
# Makes the virtual environment.  Usage: tools/setup.sh run|dev VENV [pip's further words]
# Installs nothing outside VENV: what the system lacks it names, with the command that installs it, and stops.
# Without an NVIDIA driver it takes PyTorch's CPU build, unless pip's further words say where packages come from.
set -euo pipefail

kind=$1 venv=$2
shift 2
cpu_index=https://download.pytorch.org/whl/cpu
readonly SIZE_GB=3

log() { printf '[setup] %s\n' "$*"; }

# Say what is missing, in a sentence, and stop.  Usage: need MISSING APT-PACKAGES DNF-PACKAGES
need() {
    local as_root="" remedy="with your system's package manager (on Debian the packages are: $2)"
    [ "$(id -u)" = 0 ] || as_root="sudo "
    if command -v apt-get >/dev/null; then
        remedy="with: ${as_root}apt-get update && ${as_root}apt-get install -y --no-install-recommends $2"
    elif command -v dnf >/dev/null; then
        remedy="with: ${as_root}dnf install -y $3"
    fi
    log "missing: $1; run the same command again after you have installed that $remedy" >&2
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
    local interpreter=$1 missing="" apt="" dnf="" name
    command -v g++ >/dev/null || { missing=", g++, which builds kernels" apt=" g++" dnf=" gcc-c++"; }
    if [ -z "$interpreter" ]; then
        need "Python 3.11 or later$missing" "python3 python3-venv python3-dev$apt" "python3.12 python3.12-devel$dnf"
    fi
    name=$("$interpreter" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    if ! "$interpreter" -c 'import ensurepip, venv' 2>/dev/null; then
        missing+=", $name's module ensurepip, which makes virtual environments"
        apt+=" $name-venv" dnf+=" $name"
    fi
    if ! "$interpreter" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; then
        missing+=", $name's headers, with which torch extensions are built"
        apt+=" $name-dev" dnf+=" $name-devel"
    fi
    [ -z "$apt" ] || need "${missing#, }" "${apt# }" "${dnf# }"
}

# Whether this machine has an NVIDIA driver.
has_driver() { [ -e /proc/driver/nvidia/version ] || [ -e /dev/nvidiactl ] || command -v nvidia-smi >/dev/null; }

# Whether these words for pip name an index, a directory of packages or a build of torch.
names_a_source() {
    local word
    for word in "$@"; do
        case $word in -i* | -f* | -r* | --index-url* | --extra-index-url* | --find-links* | --no-index | --requirement* | torch*) return 0 ;; esac
    done
    return 1
}

# Whether PyTorch's CPU index answers soon and has the version $1. pip asks, so that its proxy, certificate and PIP_NO_INDEX hold,
# but it asks no other index: those are replaced by this one, and the directory of packages by one that holds none.
has_cpu_build() {
    local versions
    versions=$(PIP_EXTRA_INDEX_URL=$cpu_index PIP_FIND_LINKS=$venv/bin timeout 20 "$venv/bin/python" -m pip index versions torch \
        --index-url "$cpu_index" --timeout 5 --retries 0 --disable-pip-version-check 2>/dev/null) || return 1
    [[ $versions == *"$1"* ]]
}

# Set uv to its command, with the sources that pip is configured for, or to nothing: where pip does not offer it, or has a proxy of its own.
find_uv() {
    local name value word
    uv=()
    "$venv/bin/python" -m pip install --quiet --only-binary :all: --timeout 10 --retries 1 --disable-pip-version-check -c constraints.txt \
        "$@" uv >>"$pip_log" 2>&1 || return 0
    uv=("$venv/bin/python" -m uv pip install --python "$venv/bin/python" --index-strategy unsafe-best-match --no-progress)
    while IFS== read -r name value; do
        value=${value//\\n/ }
        case ${name##*.} in
        index-url | extra-index-url | find-links | constraint) for word in ${value//\'/}; do uv+=("--${name##*.}" "$word"); done ;;
        no-index | proxy | client-cert) uv=() && return ;;
        esac
    done < <("$venv/bin/python" -m pip config list)
}

# Install the packages named by these words for pip, with the versions of constraints.txt: with uv in a fifth of the time, with pip where
# that fails. Both write to the log; a terminal gets one line.
install() {
    local progress=(cat) pip=("$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off)
    [ ! -t 1 ] || progress=(awk '/^ *(Collecting|Downloaded) / { printf "\r[setup] %d packages", ++count > "/dev/stderr" } { print } END { if (count) print "" > "/dev/stderr" }')
    if [ ${#uv[@]} -gt 0 ] && "${uv[@]}" -c constraints.txt "$@" 2>&1 | "${progress[@]}" >>"$pip_log"; then return; fi
    "${pip[@]}" -c constraints.txt "$@" 2>&1 | "${progress[@]}" >>"$pip_log"
}

# Say why pip failed, and what to do.
explain() {
    if grep -q "No space left" "$pip_log"; then
        log "the disk is full; free $SIZE_GB GB where $venv lies, then run the same command again"
    elif grep -qE "name resolution|Name or service not known|unreachable|Connection (refused|timed out|to .* timed out)|ProxyError" "$pip_log"; then
        log "no answer from the package index; check the network, or name a mirror: make setup PIP_ARGS='--index-url URL'. The log: $pip_log"
    else
        log "pip failed: $(grep -iE "^ *error|No module" "$pip_log" | grep -v subprocess-exited | tail -n 1 | sed "s,^ *,,");" \
            "the rest is in $pip_log; if pip itself is broken, rm -rf $venv and run the same command again"
    fi
}

# Install PyTorch's CPU build where there is no NVIDIA driver. Only torch comes from its index; what it depends on does not.
install_cpu_torch() {
    local version
    version=$(sed -n 's/^torch==//p' constraints.txt)
    if has_driver || names_a_source "$@"; then return; fi
    # A build that is installed already stays.
    if [ "$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])' 2>/dev/null)" = "$version" ]; then
        return
    fi
    if has_cpu_build "$version"; then
        log "no NVIDIA driver: installing PyTorch's CPU build from $cpu_index"
        install --no-deps --extra-index-url "$cpu_index" "$@" torch || log "that failed; installing PyTorch's default build"
    else
        log "no NVIDIA driver, but $cpu_index does not offer torch $version: installing PyTorch's default build"
    fi
}

free_kb=$(df -Pk "$(dirname "$venv")" | awk 'END { print $4 }')
if [ ! -e "$venv/.ready-run" ] && [ "$free_kb" -lt $((SIZE_GB * 1000000)) ]; then
    log "only $((free_kb / 1000)) MB are free where $venv lies; free $SIZE_GB GB there, then run the same command again" >&2
    exit 1
fi
if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    require "$venv/bin/python"
else
    interpreter=$(python)
    require "$interpreter"
    log "making $venv with $("$interpreter" --version)"
    "$interpreter" -m venv --clear "$venv"
fi

extras="[all]"
[ "$kind" = run ] || extras="[all,$kind]"
pip_log=$venv/setup.log
: >"$pip_log"
log "installing what grader$extras needs into $venv: at first about a minute and $SIZE_GB GB; pip's log: $pip_log"
started=$SECONDS
[ "$(id -u)" != 0 ] || export PIP_ROOT_USER_ACTION=ignore
find_uv "$@"
install_cpu_torch "$@"
if ! install "$@" -e ".$extras" -e ./grader_extensions; then
    explain >&2
    exit 1
fi
# uv leaves the bytecode out, and boxes can't write it. Headers compile on the other core.
{
    "$venv/bin/python" -m compileall -q -x /tests/ grader sandbox grader_extensions || true
    PYTHONDONTWRITEBYTECODE="" "$venv/bin/python" -c "import torch.utils.cpp_extension, triton.runtime.interpreter, numba.cuda, pydantic, sqlalchemy"
} >>"$pip_log" 2>&1 &
"$venv/bin/python" -m grader_extensions.fast_torch_build.precompile || true
wait
touch "$venv/.ready-$kind"
[ "$kind" = run ] || touch "$venv/.ready-run"
log "ready after $((SECONDS - started)) s"
