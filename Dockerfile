# box:    the root of a build or run box (`box_root = image:NAME`): a compiler, Python, torch, and the box's half of `sandbox`.
# server: grader-server beside an engine on the host, as in deploy/compose.yaml. What it hands to boxes lies in TMPDIR, which must have the
#         same path inside and outside, and not be the state directory:
#         docker run -v /var/run/docker.sock:/var/run/docker.sock -v /var/lib/grader:/var/lib/grader
#             -v /var/cache/grader-boxes:/var/cache/grader-boxes -e TMPDIR=/var/cache/grader-boxes ...
#         Whoever holds the engine's socket is root on the host: nothing untrusted runs in this container.

FROM python:3.11-slim-bookworm AS box
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /usr/share/grader/constraints.txt
# For a GPU: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130, and a base image with nvcc.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c /usr/share/grader/constraints.txt \
    torch numpy ninja tree-sitter tree-sitter-cuda
COPY sandbox /grader/lib/sandbox
# The trusted half has no business in a box.
RUN rm -rf /grader/lib/sandbox/judge /grader/lib/sandbox/profiles \
 && cd /grader/lib && python3 -m sandbox.box.precompile
USER 65534:65534
CMD ["python3"]

FROM box AS server
USER 0:0
# For `grader-server backup` of a ledger on PostgreSQL.
RUN apt-get update \
 && apt-get install -y --no-install-recommends postgresql-client \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/grader
COPY pyproject.toml README.md ./
COPY grader grader
COPY sandbox sandbox
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c /usr/share/grader/constraints.txt .
ENTRYPOINT ["grader-server"]
