# Every command a person needs.  `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
# `make gpu PYTHON=python3` takes that Python as it is and fetches nothing: for hosts where the packages were carried in.
PYTHON :=
# Further words for pip, such as `--index-url URL`. With one that names a source of packages, setup does not choose PyTorch's build.
PIP_ARGS ?=
PYTEST_WORKERS ?= 2
PYTEST_DIST ?= loadfile
PYTEST_ARGS ?=
# Paths of tests; without them `make test` runs all folders.
TESTS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
GPU_ARGS ?=
ATTACK_ARGS ?=
EXAMPLES_ARGS ?=
# The directory with the kernels of the documents that this project was made from.
SEEDS ?=
SEEDS_ARGS ?=
CONTAINMENT_ARGS ?=
# What `make check` leaves to the tests of the folders that were changed, and to CI.
UNCHECKED := builds conformance containment server
FAST := not slow and not docker and not bubblewrap and not gpu and not timing

export PYTHONUNBUFFERED := 1
# Whatever the caller says: here hundreds of processes start, each a third sooner with its modules' bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-all test-core test-alone test-parallel check lint examples seeds formats public attack containment frameworks gpu docs picture size editor screenshots bench-build bench-latency proto clean setup setup-dev headers hooks

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Set up, then grade the six kernels of the triangular matmul story and check each verdict
	@$(BIN)/grader-cli demo $(DEMO_ARGS)

# pytest ends with 5 where it has no tests: TESTS may leave one of the two runs without.
PYTEST = $(BIN)/python -m pytest --durations=20 --durations-min=5 $(PYTEST_ARGS)

test: ## Set up, then run the tests (of the slow ones a part, another one with each commit; those that need Docker or bubblewrap skip where it is absent)
	@$(MAKE) --no-print-directory --keep-going test-alone test-parallel

test-all: ## Run every test except those of `make gpu`: what `make test` leaves out, too
	@$(MAKE) --no-print-directory --keep-going test-alone test-parallel PYTEST_ARGS="--all-cases $(PYTEST_ARGS)"

# Of hard links: nothing is written into it, and what is installed twice takes no space.
test-core: setup-dev ## Run the core's tests in a copy of the environment that has no extension
	@rm -rf build/core kernel_grader_extensions.egg-info && mkdir -p build && cp -al $(VENV) build/core && rm -rf build/core/lib/python*/site-packages/*kernel_grader_extensions*
	@$(MAKE) --no-print-directory --keep-going test-alone test-parallel VENV=build/core TESTS="$(or $(TESTS),tests)"

# Collects only the files that have such a test.
test-alone: setup-dev
	@files=$$(grep -rlE '^(@|pytestmark .*)pytest[.]mark[.]timing' --include='test_*.py' $(or $(TESTS),tests grader_extensions)); \
	[ -z "$$files" ] || $(PYTEST) $$files -n 0 -m 'timing and not gpu' || [ $$? = 5 ]

test-parallel: setup-dev
	@$(PYTEST) $(TESTS) -n $(PYTEST_WORKERS) --dist $(PYTEST_DIST) -m 'not gpu and not timing' || [ $$? = 5 ]

check: lint ## Lint, types, architecture and fast tests, without the folders whose tests start servers or compile kernels; about two minutes
	$(BIN)/python -m pytest -q -n $(PYTEST_WORKERS) --dist $(PYTEST_DIST) -m '$(FAST)' -k 'not postgresql' $(UNCHECKED:%=--ignore=tests/%) --ignore=grader_extensions/web --ignore=grader_extensions/fleet

lint: setup-dev ## Run `make check` without its tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/buf lint
	$(BIN)/python tools/generate_proto.py --check
	$(BIN)/python -m tools.size --check
	$(BIN)/python .githooks/commit-msg

size: setup-dev ## Count lines, modules, words and pronoun names by folder, next to the ceilings of ceilings.toml
	@$(BIN)/python -m tools.size

editor: ## Bundle the editor of the submit page into static/editor.js, from pinned versions; needs Node.js and npm
	@cd grader_extensions/web/editor && npm ci --ignore-scripts && npm run build

screenshots: setup-dev ## Write pictures of every page at 1280 and 390 pixels, light and dark, to docs/images, and run axe-core on each; needs chromium
	@$(BIN)/python -m grader_extensions.web.tests.screenshots docs/images

bench-build: setup-dev ## Time builds: ours, the plain compiler's and cpp_extension's; 45 minutes (BENCH_ARGS=--quick: six)
	@$(BIN)/python -m tools.bench_build $(BENCH_ARGS)

bench-latency: setup-dev ## From Submit to verdict: p50 and p95 of each step, of a warm server (BENCH_ARGS='--isolations bubblewrap --rounds 3')
	@$(BIN)/python -m tools.bench_latency $(BENCH_ARGS)

attack: setup-dev ## Attack the grader with every kernel of tests/exploits, ask that those of tests/honest pass, and print the table (ATTACK_ARGS='--only attacks'); the same files on a GPU: make gpu GPU_ARGS='-k "test_exploits or test_honest_set"'
	@$(BIN)/python -m tools.attack $(ATTACK_ARGS)

containment: setup-dev ## Run the containment suite twice in a row and name all that it left on this machine (CONTAINMENT_ARGS='--isolation docker')
	@$(BIN)/python -m tools.containment $(CONTAINMENT_ARGS)

# Where the frameworks' virtual environments are made; six gigabytes.
FRAMEWORKS_DIR ?= build/frameworks
frameworks: setup-dev ## Install verifiers, OpenEnv, NeMo Gym, Inspect and Harbor with their adapters, and run 20 problems in each; half an hour (FRAMEWORKS='inspect harbor' for some)
	@examples/frameworks/install.sh $(FRAMEWORKS_DIR) $(FRAMEWORKS)
	@GRADER_FRAMEWORKS_DIR=$(FRAMEWORKS_DIR) $(BIN)/python -m pytest -s tests/frameworks -n 0 -m frameworks

gpu: $(if $(PYTHON),,setup-dev) ## On a GPU host: run the GPU tests, and write their tables to build/gpu (GPU_ARGS='-k "test_tril_matmul or test_same" --gpu-isolation docker'; GPU_ARGS=--help lists the options)
	@$(or $(PYTHON),$(BIN)/python) -m pytest tests/gpu -m gpu -q --all-cases -o addopts=-ra --gpu-report build/gpu $(GPU_ARGS)

examples: setup-dev ## Grade every file of kernels_examples/ on the emulated device and compare with its first line; on a GPU it is `make gpu GPU_ARGS='-k test_examples'`
	@$(BIN)/python -m pytest tests/gpu/test_examples.py -q --all-cases --gpu-device emulated $(EXAMPLES_ARGS)

seeds: setup-dev ## Grade the kernels of the documents that this project was made from, as they are (SEEDS=DIR; SEEDS_ARGS='--only 002,003'; SEEDS_ARGS=--help lists the options)
	@$(BIN)/python -m tools.verdicts tools/manifests/seeds.toml $(SEEDS) $(SEEDS_ARGS)

formats: setup-dev ## Import, check and submit fixtures of every problem format, and print the counts and the verdicts (FORMATS_ARGS=--help lists the options)
	@$(BIN)/python -m tools.verdicts tools/manifests/formats.toml . $(FORMATS_ARGS)

public: setup-dev ## Import and grade public repositories that lie in a directory, unchanged (PUBLIC=DIR; PUBLIC_ARGS=--help lists the options)
	@$(BIN)/python -m tools.verdicts tools/manifests/public.toml $(PUBLIC) $(PUBLIC_ARGS)

# One directory a version: those that are there stay, and the site's menu lists them.
docs: setup-dev ## Build docs/ as a site with search, build/docs/VERSION; a dead link fails. To read it: python3 -m http.server --directory build/docs
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	$(BIN)/zensical build --strict --clean && mkdir -p build/docs && rm -rf build/docs/$$version && mv build/site build/docs/$$version
	@cd build/docs && ls -d [0-9]*/ | sort -rV | sed 's,\(.*\)/,{"version": "\1"\, "title": "\1"\, "aliases": []},' | paste -sd, | sed 's/.*/[&]/' >versions.json

picture: setup-dev ## Draw README's picture of a terminal again
	@$(BIN)/python -m tools.reference --picture

proto: setup-dev ## Generate grader/v1 and grader/fleet/v1 from proto/
	$(BIN)/python tools/generate_proto.py

setup: $(VENV)/.ready-run headers ## Make the virtual environment that runs the grader

setup-dev: $(VENV)/.ready-dev headers hooks ## Make the virtual environment that also tests it

# Only in a checkout of this project, and never over a setting of its owner.
hooks:
	@if [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$(CURDIR)" ] && ! git config core.hooksPath >/dev/null; then \
	    git config core.hooksPath .githooks || true; fi

# Looks by itself whether there is anything to do. Compiled once, in the environment that boxes see read-only.
headers: | $(VENV)/.ready-run
	@$(BIN)/python -m grader_extensions.fast_torch_build.precompile || true

$(VENV)/.ready-%: pyproject.toml grader_extensions/pyproject.toml constraints.txt tools/setup.sh
	@tools/setup.sh $* $(VENV) $(PIP_ARGS)

clean: ## Remove what the other commands made, but for commits
	rm -rf $(VENV) build dist grader_extensions/build grader_extensions/*.egg-info .state .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
