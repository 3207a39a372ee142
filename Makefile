# Targets are few and stable; `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP_QUIET := --quiet --disable-pip-version-check
HARNESS ?=

.DEFAULT_GOAL := help
.PHONY: help setup lint format test e2e bench demo schemas wheel harness-claude-code clean

help: ## list the targets
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-22s %s\n", $$1, $$2}'

setup: $(BIN)/.ready ## create .venv with the package and all that its tests need

$(BIN)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("roller-capture needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_QUIET) --upgrade pip
	$(BIN)/python -m pip install $(PIP_QUIET) --editable '.[dev]'
	@touch $@

lint: setup ## ruff, mypy --strict, and are the schema files those of the models?
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m roller_capture.schemas --check

format: setup ## write the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup ## all tests that need no real harness
	$(BIN)/python -m pytest -m "not e2e" -n 2

e2e: setup ## the real harnesses against a scripted provider; one that cannot be had is reported as NOT RUN
	scripts/install_harness.sh claude-code || [ $$? -eq 3 ]
	$(BIN)/python -m pytest -m e2e tests/e2e -rs

bench: setup ## speed against the floors of docs/performance.md (on a quiet machine); writes the tables there
	$(BIN)/python -m benchmarks --markdown docs/performance.md

demo: setup ## record, finalize and validate a scripted agent with one subagent
	$(BIN)/roller-capture demo demo-attempt

schemas: setup ## write schemas/ from the models
	$(BIN)/python -m roller_capture.schemas

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

harness-claude-code: ## install the pinned Claude Code versions into a cache, linked from .harnesses/
	scripts/install_harness.sh claude-code

clean: ## remove what the targets made, but not the harness cache
	rm -rf $(VENV) dist build demo-attempt .pytest_cache .mypy_cache .ruff_cache .hypothesis
