# Needs python3, make and git. Everything else is installed into .venv beside this file; or, where
# the path to it has a space, into a place without one: Inductor cannot link torch from such a path.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
JOBS ?= 2
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)
CACHES := $(if $(findstring $(SPACE),$(HOME)),/var/tmp,$(HOME)/.cache)
ELSEWHERE := $(CACHES)/opscaffold/venv-$(firstword $(shell pwd -P | cksum))
VENV := $(if $(findstring $(SPACE),$(CURDIR)),$(ELSEWHERE),.venv)
RUN := $(VENV)/bin/python -m
# One thread a test process: the processes already fill the cores.
TEST_ENV := OMP_NUM_THREADS=1 OPSCAFFOLD_REQUIRE_TORCH=1

# An environment that was moved, or copied along with the checkout, still points at the old place.
ifneq ($(shell cat $(VENV)/where 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/ready
endif

.PHONY: help venv demo test lint format covering matrix test-pythons documents site build smoke ci clean bench bench-ops

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|'

venv: $(VENV)/ready ## Set up the environment

$(VENV)/ready: pyproject.toml tools/python.sh
	@python="$$(bash tools/python.sh '$(PYTHON)')"; \
	echo "Setting up $(VENV) with $$("$$python" --version) (takes some minutes the first time)"; \
	"$$python" -m venv --clear $(VENV)
	@$(RUN) pip install -qq --disable-pip-version-check --editable '.[dev]'
	@pwd -P > $(VENV)/where
	@touch $(VENV)/ready

demo: $(VENV)/ready ## Generate a package, run its tests; migrate the example project, run its tests
	@$(VENV)/bin/python examples/demo.py

test: $(VENV)/ready ## Run the tests
	@$(TEST_ENV) $(RUN) pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(VENV)/ready ## Lint, check formatting and types
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy

format: $(VENV)/ready ## Format the code and apply safe lint fixes
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

covering: $(VENV)/ready ## Hold the packages of each kind of op to every tool (template check)
	@$(RUN) opscaffold template check --jobs $(JOBS)

matrix: $(VENV)/ready ## Hold the packages of every combination to every tool (long)
	@$(RUN) opscaffold template check --full --jobs $(JOBS)

test-pythons: ## Run the tests that need no torch on the oldest and newest other Python (PYTHONS=all)
	@bash tools/test_pythons.sh $(PYTHONS)

bench: $(VENV)/ready ## Measure speed and memory beside those of other tools (some minutes)
	@$(VENV)/bin/python benchmarks/run.py $(BENCH)

bench-ops: $(VENV)/ready ## Measure calls of generated ops, and count copies in what Inductor makes
	@$(VENV)/bin/python benchmarks/call_overhead.py $(BENCH)

documents: $(VENV)/ready ## Write the parts of the documentation that follow from the code
	@$(VENV)/bin/python tools/documents

site: $(VENV)/ready ## Build the documentation into site/; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --strict

build: $(VENV)/ready ## Build sdist and wheel into dist/
	@rm -rf dist
	@$(RUN) build --outdir dist .
	@ls -l dist

smoke: build ## Install the wheel in a new environment elsewhere and use it
	@bash tools/smoke.sh $(VENV)/bin/python dist/*.whl

ci: ## Run what continuous integration runs
	@bash .ci/run

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) .venv-* dist build site .mypy_cache .pytest_cache .ruff_cache .hypothesis

kill: $(VENV)/ready ## Kill writes of hundreds of files at random moments, and small ones at every step
	@$(VENV)/bin/python tests/fs/killing.py boundaries kill --twice 1
	@$(VENV)/bin/python tests/fs/killing.py stress --kills 200 --files 300

stress: $(VENV)/ready ## Run check and migrate on the standard library and site-packages (hours)
	@$(RUN) pytest -q -m timed tests
	@OPSCAFFOLD_FUZZ=1000 $(RUN) pytest -q tests/robustness/test_fuzzed_inputs.py
	@$(VENV)/bin/python tests/robustness/stress.py --planters ''
	@$(VENV)/bin/python tests/robustness/stress.py --share 0.02
