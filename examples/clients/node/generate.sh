#!/bin/sh
# Generates gen/ from the .proto files.  PYTHON: one with grpcio-tools and googleapis-common-protos (the checkout's, after `make setup-dev`).
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-../../../.venv/bin/python}
common=$("$python" -c 'import google.rpc, pathlib; print(pathlib.Path(next(iter(google.rpc.__path__))).parents[1])')
mkdir -p gen
exec "$python" -m grpc_tools.protoc --plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es --es_out=gen --es_opt=target=js,import_extension=js \
    -I ../../../proto -I "$common" ../../../proto/grader/v1/*.proto "$common/google/api/annotations.proto" "$common/google/api/http.proto" \
    "$common/google/rpc/status.proto" "$common/google/rpc/error_details.proto"
