# `make demo` and `make test` need nothing but Python 3.11 or newer and make: each sets up what it needs, once.
# Another interpreter: `make test PYTHON=/path/to/python3.12`.
MAKEFLAGS += --no-print-directory
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH_STAMP := $(VENV)/.torch-installed
TEST_PROCESSES ?= auto

.PHONY: help demo demo-replay test test-torch proof fuzz check format bench studies boards reference clean python

help: ## Say what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found as python3, python3.13, python3.12, python3.11 or python;" \
		"install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version.split()[0]; sys.version_info >= (3, 11) or sys.exit( \
		"Tachograph needs Python 3.11 or newer, and $(PYTHON) is " + v + "; name another: make PYTHON=/path/to/python3.12")'

$(STAMP): pyproject.toml constraints.txt | python
	@echo "Setting up $(VENV) with $$("$(PYTHON)" --version); this takes a minute or two, once." >&2
	@"$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' || \
		{ echo "The installation failed for the reason above; '$(MAKE) $(MAKECMDGOALS)' tries again." >&2; exit 1; }
	@touch $@

demo: $(STAMP) ## Train on two "nodes", put faults into it, and show what Tachograph says of them; KEEP=1 stays up
	@$(BIN)/python examples/run_demo.py $(if $(KEEP),--keep)

demo-replay: $(STAMP) ## Replay a recorded day of a 64-GPU run: what happened to each of its minutes
	@$(BIN)/tachograph replay examples/recorded_run.jsonl

test: $(STAMP) ## Run every test but those on real training
	$(BIN)/pytest -q -n $(TEST_PROCESSES) --ignore tests/proof tests

$(TORCH_STAMP): $(STAMP)
	@echo "Adding PyTorch to $(VENV); it is large, and only test-torch and proof need it." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,torch]'
	@touch $@

test-torch: $(TORCH_STAMP) ## Train with PyTorch on two "nodes", disturb it, and hold the ledger to the test's own account
	$(BIN)/pytest -q --durations 0 --durations-min 5 tests/proof

proof: $(TORCH_STAMP) ## The same with disturbances as long as in earnest, and ten times the faults on the collector
	TACHOGRAPH_PROOF=long $(BIN)/pytest -q -o faulthandler_timeout=3600 --durations 0 --durations-min 5 tests/proof
	TACHOGRAPH_CHAOS=long $(BIN)/pytest -q -o faulthandler_timeout=3600 tests/e2e/test_chaos.py

fuzz: $(STAMP) ## Damage a log of each format 100,000 times and read every one; then new examples for each property
	TACHOGRAPH_PROOF=long $(BIN)/pytest -q -o faulthandler_timeout=0 --durations 0 -k damaged tests/unit/trainers tests/unit/report/test_outages.py
	TACHOGRAPH_EXAMPLES=new $(BIN)/pytest -q -n $(TEST_PROCESSES) -m hypothesis --ignore tests/proof tests

check: $(STAMP) ## Lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## Let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Measure the figures of docs/benchmarks.md, as ratios within one run
	$(BIN)/python bench/run.py

studies: $(STAMP) ## Make the pages and plots of docs/studies anew; STUDY=flat-top makes one
	@for study in docs/studies/study_$(if $(STUDY),$(subst -,_,$(STUDY)),*).py; do $(BIN)/python $$study || exit 1; done

boards: $(STAMP) ## Make Grafana's boards and Prometheus' rules anew from dashboards/tachograph_dashboards
	@$(BIN)/python -m tachograph_dashboards --rules-into dashboards/alerts

reference: $(STAMP) ## Write docs/reference.md anew, from the commands themselves
	$(BIN)/python docs/make_reference.py

clean: ## Remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
