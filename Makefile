# Everything starts here: `make demo` and `make test` build their own environment in .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-long lint format docs wheel clean

BIN := .venv/bin
# uv installs in a tenth of pip's time; pip brings it.
INSTALL := $(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -b constraints.txt
PINS := pyproject.toml constraints.txt
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
# Seconds that `make test` may take on two idle cores, from a fresh clone and a cold cache.
MOST := 480
# Tests of every room that run with types and shapes checked (tests/conftest.py); it costs a quarter.
TYPED := tests/core tests/models tests/monitors tests/families/test_contract.py \
  tests/families/test_exponential.py tests/baselines/test_persistence.py \
  tests/baselines/test_least_squares.py tests/optim/test_ascent.py tests/checks/test_family.py \
  tests/recursion/test_recursion.py tests/learners/test_fleet.py tests/learners/test_compare.py \
  tests/seasonal/test_inputs.py tests/sources/test_read.py tests/cli/test_rows.py \
  tests/report/test_scores.py

# Compiled programs survive between runs, and serve all processes of one run: to read even the
# smallest takes half the time of compiling it. The pinned pyright does not ask for a newer one.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Room for what node has just made: an eighth of pyright's time was clearing it away.
export NODE_OPTIONS ?= --max-semi-space-size=128
# Modules too are compiled once, whatever the environment says: half of what collecting takes.
export PYTHONDONTWRITEBYTECODE :=
export MPLBACKEND ?= Agg
export STARTED := $(shell date +%s)

help:
	@echo "make demo    learn a simulated stream of sensors live, write its report (sets up .venv)"
	@echo "make test    lint, types, import contract, and the tests (sets up .venv at first use)"
	@echo "make test-long  what is left out of make test: soaks, experiments in their quick form"
	@echo "make lint    the checks of make test without the tests"
	@echo "make format  rewrite the sources in the house format"
	@echo "make docs    build the documentation in build/site (strict: a broken link is an error)"
	@echo "make wheel   build the wheel in dist and try it in an environment of its own"
	@echo "make clean   remove .venv, caches and builds"

demo: .venv/.app
	$(BIN)/rmcvi demo

# Two workers, and beside them what needs a process of its own: the checks, the tests that ask for the
# usual compiler, and those that run with types checked. Nothing waits for a last file: a process
# that is left alone has a core to itself. The logs are shown at the end.
test: .venv/.dev
	@mkdir -p .cache; export UNTYPED=1; \
	{ $(MAKE) --no-print-directory lint; ran=$$?; USUAL_COMPILER=1 $(PYTEST) -m usual_compiler \
	  $$(grep -rl --include='test_*.py' mark.usual_compiler tests) && exit $$ran; } \
	  >.cache/lint.log 2>&1 & checks=$$!; \
	env -u UNTYPED $(PYTEST) $(TYPED) -m "not long and not usual_compiler" \
	  >.cache/typed.log 2>&1 & typed=$$!; \
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 25 \
	  -m "not long and not usual_compiler" $(TYPED:%=--ignore=%); failed=$$?; \
	wait $$typed || failed=1; wait $$checks || failed=1; cat .cache/typed.log .cache/lint.log; \
	times >.cache/times; wall=$$(($$(date +%s) - STARTED)); \
	echo "processor time, user and system: $$(tail -1 .cache/times)"; \
	echo "from the first line of make to here: $$((wall / 60)) min $$((wall % 60)) s"; \
	[ $$wall -le $(MOST) ] || echo "That is more than the $(MOST) s it should take."; exit $$failed

test-long: .venv/.dev
	$(PYTEST) -n $(WORKERS) --dist loadfile -m long

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --cache-dir .cache/import_linter
	$(BIN)/pyright

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The theme's maker advertises a successor on every run; the variable silences it.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

# What a user installs: the wheel alone, away from the sources.
wheel: .venv/.build
	rm -rf dist build/wheel
	$(BIN)/python -m build --no-isolation --wheel
	$(BIN)/python -m venv build/wheel
	PIP_DISABLE_PIP_VERSION_CHECK=1 build/wheel/bin/python -m pip install -q -c constraints.txt \
	  "$$(ls dist/*.whl)[app]"
	cd build && wheel/bin/rmcvi --version && wheel/bin/rmcvi reproduce --list && \
	  wheel/bin/rmcvi simulate seasonal --rows 200 --out wheel/stream.csv && \
	  wheel/bin/rmcvi learn wheel/stream.csv --out wheel/stream.run --quiet && \
	  wheel/bin/rmcvi verify wheel/stream.run

clean:
	rm -rf .venv .cache build dist

# PYTHON, or the newest interpreter that really starts (a version manager's shim may not) and can
# make a venv.
.venv/bin/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	      >/dev/null 2>&1; then \
	    echo "setting up .venv with $$("$$python" --version)"; \
	    exec "$$python" -m venv .venv; \
	  fi; \
	done; \
	echo "rmcvi needs Python 3.11 or newer, with its venv module, on the PATH; none was found." >&2; \
	exit 1

.venv/bin/uv: | .venv/bin/python
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt uv

.venv/.app: $(PINS) | .venv/bin/uv
	$(INSTALL) -e '.[serve]'
	@touch $@

# What is imported is compiled once, by all cores, and not by every process of the tests; of what is
# left out little is imported.
SELDOM := /(tests?|fontTools|numba|pip|polars|pygments|setuptools|sklearn|tensorflow_probability)/
.venv/.dev: $(PINS) | .venv/bin/uv
	$(INSTALL) -e '.[dev]'
	$(INSTALL) --no-deps particles
	$(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' .venv/lib src || true
	@touch $@ .venv/.app

.venv/.docs: $(PINS) | .venv/bin/uv
	$(INSTALL) -e '.[docs]'
	@touch $@

.venv/.build: $(PINS) | .venv/bin/uv
	$(INSTALL) hatchling build
	@touch $@
