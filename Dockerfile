# Three targets. docs/operation.md has the commands; deploy/compose.yaml builds both.
#
#   box      the root of a build or run box (`--box-root image:NAME`): compilers, Python, PyTorch, and the untrusted half of `sandbox`
#   server   grader-server, which starts boxes on the host's engine. Access to the engine's socket is root on the host, so nothing
#            untrusted runs in this container. TMPDIR holds what boxes are given: it has the same path inside and outside the
#            container, and is not the state directory.
#   worker   grader-worker, which starts boxes with bubblewrap in its own container, and Ray, which may place it (deploy/ray/kuberay.yaml)
#
# BASE is Debian 12 or later, or Ubuntu 24.04 or later. For a GPU host it has nvcc, and PyTorch is the build for its CUDA version:
#
#   docker build --build-arg BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04 --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 ...
#
# What changes often is copied last: a change of the sources installs no package again.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS packages
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates g++ python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/grader
ENV PATH=/opt/grader/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# Of a mirror; pip reads these variables itself.
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
WORKDIR /usr/src/grader
COPY constraints.txt pyproject.toml deploy/requirements.py ./
RUN python3 requirements.py box > box.txt \
 && pip install --extra-index-url "$TORCH_INDEX" -c constraints.txt -r box.txt

FROM packages AS box
COPY sandbox /grader/lib/sandbox
COPY grader_extensions/__init__.py /grader/lib/grader_extensions/
COPY grader_extensions/emulated_cuda /grader/lib/grader_extensions/emulated_cuda
COPY grader_extensions/fast_torch_build /grader/lib/grader_extensions/fast_torch_build
COPY grader_extensions/tvm_ffi /grader/lib/grader_extensions/tvm_ffi
COPY grader_extensions/modes/__init__.py /grader/lib/grader_extensions/modes/
COPY grader_extensions/modes/box /grader/lib/grader_extensions/modes/box
# The trusted half of the code does not belong into a box.
RUN rm -rf /grader/lib/sandbox/judge /grader/lib/sandbox/profiles /grader/lib/grader_extensions/*/tests /usr/src/grader \
 && cd /grader/lib \
 && python3 -m grader_extensions.fast_torch_build.precompile
WORKDIR /
USER 65534:65534
CMD ["python3"]

FROM packages AS server
# postgresql-client: pg_dump, for backups of a database on PostgreSQL.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql-client \
 && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
RUN python3 requirements.py > server.txt \
 && pip install --extra-index-url "$TORCH_INDEX" -c constraints.txt -r server.txt
COPY LICENSE README.md ./
COPY grader grader
COPY sandbox sandbox
COPY grader_extensions grader_extensions
RUN pip install --no-deps --no-build-isolation . ./grader_extensions
ENTRYPOINT ["grader-server"]

FROM server AS worker
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap \
 && rm -rf /var/lib/apt/lists/*
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
RUN python3 requirements.py ray > ray.txt && pip install -c constraints.txt -r ray.txt
ENTRYPOINT ["grader-worker"]
