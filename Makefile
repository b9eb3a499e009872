# Every target does its own set-up: a virtual environment in .venv, made from pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.PHONY: setup demo test test-long lint bench clean

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m compileall -q src
	@touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check src tests examples benchmarks tools
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(READY) lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not long' tests

test-long: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests

bench: $(READY)
	$(BIN)/python benchmarks/candidates.py

clean:
	rm -rf $(VENV) demo build dist
