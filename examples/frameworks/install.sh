#!/bin/bash
# Makes a virtual environment for each framework, with its adapter: install.sh DIRECTORY [NAME ...]
# harbor needs Python 3.12. nemo-gym 0.7.0 asks for Python 3.13.14; 3.13.0 is enough for what the adapter uses.
set -euo pipefail
directory=$1
shift
names=${*:-inspect verifiers openenv nemo_gym harbor}
here=$(cd "$(dirname "$0")" && pwd)
declare -A package=([inspect]="inspect-ai==0.3.285 openai" [verifiers]="verifiers==0.4.0 uv" [openenv]="openenv==0.10.0"
    [nemo_gym]="nemo-gym==0.7.0 --ignore-requires-python" [harbor]="harbor==0.25.0 uv")
declare -A python=([nemo_gym]="${PYTHON313:-python3.13}")
mkdir -p "$directory"
for name in $names; do
    venv=$directory/$name
    [ -e "$venv/.ready" ] && continue
    echo "$name: ${package[$name]}"
    "${python[$name]:-${PYTHON312:-python3.12}}" -m venv --clear "$venv"
    "$venv/bin/pip" install -q ${package[$name]}
    # Not from a registry, where `grader` is another project, and neither is there.
    "$venv/bin/pip" install -q -c <(grep -E '^(grpcio|grpcio-status|protobuf|googleapis-common-protos)==' "$here/../../constraints.txt") "$here/../.."
    adapter=$([ "$name" = nemo_gym ] || echo "$here/$name") # that of NeMo Gym is no package
    "$venv/bin/pip" install -q --no-deps "$here/scoring" $adapter
    touch "$venv/.ready"
done
