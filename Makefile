# Every target makes its own virtual environment where there is none, so a fresh machine with
# Python 3.11 needs nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long lint bench clean

demo: $(VENV)/installed
	$(BIN)/hushtable demo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -n 2

test-long: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -n 2 -m long

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) demo-release .pytest_cache .mypy_cache .ruff_cache
