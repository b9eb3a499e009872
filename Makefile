# Every target does its own set-up: a virtual environment in .venv, made from pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.PHONY: setup demo test test-long lint bench sched-deps sched-experiment clean

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@# Bytecode and parsed data are kept even where the environment says otherwise: every later start is quicker.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m compileall -q src
	PYTHONDONTWRITEBYTECODE= $(BIN)/asmevo targets > /dev/null
	PYTHONDONTWRITEBYTECODE= $(BIN)/asmevo check --explain all > /dev/null
	@touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check src tests examples benchmarks tools experiments
	$(BIN)/ruff format --check --quiet src tests examples benchmarks tools experiments
	$(BIN)/mypy
	$(BIN)/mypy benchmarks/candidates.py benchmarks/check.py benchmarks/lowering.py benchmarks/prover.py benchmarks/timing.py
	$(BIN)/lint-imports

test: $(READY) lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not long' tests

test-long: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests

bench: $(READY)
	$(BIN)/python benchmarks/candidates.py

# Scheduling inside the compiler (`asmevo sched`, experiments/) needs a stock LLVM 22 as programs.
sched-deps:
	@command -v llc-22 >/dev/null && command -v clang-22 >/dev/null \
		|| { echo "llc-22 and clang-22 are needed: apt install llvm-22 clang-22 (https://apt.llvm.org)"; exit 2; }

# Every table of docs/scheduling_experiment.md, anew.
sched-experiment: $(READY) sched-deps
	$(BIN)/python experiments/launches.py
	$(BIN)/python experiments/experiment.py --again
	$(BIN)/python experiments/document.py

clean:
	rm -rf $(VENV) demo build dist
