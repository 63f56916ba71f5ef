# Everything starts here: `make demo` and `make test` build their own environment in .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-long lint format docs wheel clean

BIN := .venv/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -q -c constraints.txt
PINS := pyproject.toml constraints.txt
WORKERS ?= 2

# Compiled programs survive between runs; the pinned pyright does not ask for a newer one.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export MPLBACKEND ?= Agg
export STARTED := $(shell date +%s)

help:
	@echo "make demo    learn a simulated stream of sensors live, write its report (sets up .venv)"
	@echo "make test    lint, types, import contract, and the tests (sets up .venv at first use)"
	@echo "make lint    the checks of make test without the tests"
	@echo "make format  rewrite the sources in the house format"
	@echo "make docs    build the documentation in build/site (strict: a broken link is an error)"
	@echo "make wheel   build the wheel in dist and try it in an environment of its own"
	@echo "make clean   remove .venv, caches and builds"

demo: .venv/.app
	$(BIN)/rmcvi demo

# The types take a minute of one core, so the checks run beside the first tests and speak last.
test: .venv/.dev
	@mkdir -p .cache; $(MAKE) --no-print-directory lint >.cache/lint.log 2>&1 & checks=$$!; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 25; \
	tests=$$?; wait $$checks; checks=$$?; cat .cache/lint.log; exit $$((tests || checks))

test-long: .venv/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m long

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

.venv/.app: $(PINS) | .venv/bin/python
	$(PIP) hatchling
	$(PIP) --no-build-isolation -e '.[app]'
	@touch $@

.venv/.dev: $(PINS) | .venv/bin/python
	$(PIP) hatchling
	$(PIP) --no-build-isolation -e '.[dev]'
	$(PIP) --no-deps particles
	@touch $@ .venv/.app

.venv/.docs: $(PINS) | .venv/bin/python
	$(PIP) hatchling
	$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@

.venv/.build: $(PINS) | .venv/bin/python
	$(PIP) hatchling build
	@touch $@
