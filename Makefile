# Targets are few and stable; `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP_QUIET := --quiet --disable-pip-version-check
HARNESSES := $(patsubst harnesses/%/harness.sh,%,$(wildcard harnesses/*/harness.sh))
HARNESS ?= $(HARNESSES)
# Tests that run at the same time.
WORKERS ?= 2
# For tests of `export atif`. Its own pins need Python 3.12 and a newer cryptography than mitmproxy 11 allows; the
# validator alone needs pydantic. So the package goes without them into a folder of its own, and is no dependency.
HARBOR := harbor==0.26.0

.DEFAULT_GOAL := help
.PHONY: help setup lint format test audit harnesses e2e bench faults fuzz demo schemas wheel clean $(HARNESSES:%=harness-%)

help: ## list the targets
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-22s %s\n", $$1, $$2}'

setup: $(BIN)/.ready ## create .venv with the package and all that its tests need

$(BIN)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("roller-capture needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_QUIET) --upgrade pip
	$(BIN)/python -m pip install $(PIP_QUIET) --editable '.[dev]'
	$(BIN)/python -m pip install $(PIP_QUIET) --no-deps --ignore-requires-python --upgrade --target $(VENV)/harbor '$(HARBOR)'
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
	$(BIN)/python -m pytest -m "not e2e" -n $(WORKERS)

audit: setup ## known vulnerabilities of our dependencies but those of scripts/audit_exceptions.toml (pip-audit); NOT RUN where its database cannot be had
	$(BIN)/python scripts/audit_dependencies.py || [ $$? -eq 3 ]

harnesses: ## install all harnesses (HARNESS=NAME: one) in their pinned versions; what cannot be had is no failure
	for name in $(HARNESS); do scripts/install_harness.sh $$name || [ $$? -eq 3 ] || exit 1; done

e2e: setup harnesses ## the real harnesses against a scripted provider (HARNESS=NAME: one); NOT RUN is what cannot be had
	ROLLER_E2E_HARNESSES="$(HARNESS)" $(BIN)/python -m pytest -m e2e -n $(WORKERS) --dist loadscope -rs --durations=15 tests/e2e/test_acceptance.py $(foreach name,$(HARNESS),$(wildcard tests/e2e/test_$(subst -,_,$(name))*.py))

bench: setup ## speed against the floors of docs/performance.md (on a quiet machine); writes the tables there
	$(BIN)/python -m benchmarks --markdown docs/performance.md

faults: setup ## kill, fill, cut and garble: what survives? (SEED=N repeats; docs/faults.md)
	$(BIN)/python -m faults $(if $(SEED),--seed $(SEED))

fuzz: setup ## 100,000 mutations of all that is read (SEED=N repeats, COUNT=N)
	$(BIN)/python -m fuzz $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

demo: setup ## record, finalize and validate a scripted agent with one subagent
	$(BIN)/roller-capture demo demo-attempt

schemas: setup ## write schemas/ from the models
	$(BIN)/python -m roller_capture.schemas

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

harness-NAME: ## install the pinned versions of a harness into a cache, linked from .harnesses/
	@echo "make $(HARNESSES:%=harness-%)"

$(HARNESSES:%=harness-%): harness-%:
	scripts/install_harness.sh $*

clean: ## remove what the targets made, but not the harness cache
	rm -rf $(VENV) dist build demo-attempt .pytest_cache .mypy_cache .ruff_cache .hypothesis
