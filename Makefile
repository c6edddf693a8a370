# Needs python3, make and git. Everything else is installed into .venv beside this file.
# Paths are written relative and without spaces, so that the checkout's own path may hold some.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
JOBS ?= 2
RUN := .venv/bin/python -m
# One thread a test process: the processes already fill the cores.
TEST_ENV := OMP_NUM_THREADS=1 OPSCAFFOLD_REQUIRE_TORCH=1

# An environment that was moved, or copied along with the checkout, still points at the old place.
ifneq ($(shell cat .venv/where 2>/dev/null),$(CURDIR))
.PHONY: .venv/ready
endif

.PHONY: help venv demo test lint format matrix test-pythons build smoke ci clean

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|'

venv: .venv/ready ## Set up .venv

.venv/ready: pyproject.toml tools/python.sh
	@python="$$(bash tools/python.sh '$(PYTHON)')"; \
	echo "Setting up .venv with $$("$$python" --version) (takes some minutes the first time)"; \
	"$$python" -m venv --clear .venv
	@$(RUN) pip install -qq --disable-pip-version-check --editable '.[dev]'
	@pwd -P > .venv/where
	@touch .venv/ready

demo: .venv/ready ## Generate a package, run its tests; migrate the example project, run its tests
	@.venv/bin/python examples/demo.py

test: .venv/ready ## Run the tests
	@$(TEST_ENV) $(RUN) pytest -q -n $(JOBS) -m "not matrix"

lint: .venv/ready ## Lint, check formatting and types
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy

format: .venv/ready ## Format the code and apply safe lint fixes
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

matrix: .venv/ready ## Run the full matrix of generated packages (long)
	@$(TEST_ENV) $(RUN) pytest -q -n $(JOBS) -m matrix

test-pythons: ## Run the tests that need no torch on every other Python found
	@bash tools/test_pythons.sh

build: .venv/ready ## Build sdist and wheel into dist/
	@rm -rf dist
	@$(RUN) build --outdir dist .
	@ls -l dist

smoke: build ## Install the wheel in a new environment elsewhere and use it
	@bash tools/smoke.sh .venv/bin/python dist/*.whl

ci: ## Run what continuous integration runs
	@bash .ci/run

clean: ## Remove everything that the other targets made
	rm -rf .venv .venv-* dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
