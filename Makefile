# Every target makes its own virtual environment where there is none, so a fresh machine with
# Python 3.11 needs nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
TOOLS := .venv-tools

.PHONY: demo test test-all test-costs test-long test-oldest test-mutants coverage audit lint docs \
  notebooks bench wheel sbom release-check lock clean

demo: $(VENV)/installed
	$(BIN)/hushtable demo

# Some tests wait for processes that they start, so there is one worker more than the two cores that
# the suite is made for. Compiled files are kept, since tests start many processes.
test test-all test-costs test-long test-oldest coverage: export PYTHONDONTWRITEBYTECODE :=
PYTEST := -m pytest -q -n 3 --dist loadgroup

# The fast suite: tests of at most half a CPU second (tests/slow_tests.json lists the others).
test: $(VENV)/installed-dev
	$(BIN)/python $(PYTEST) --fast

test-all: $(VENV)/installed-dev
	@command -v java > /dev/null || echo "No Java, so the tests on Spark are skipped: apt install \
	openjdk-17-jre-headless (or any Java 17 or 21 on PATH) to run them."
	$(BIN)/python $(PYTEST)

# Measure all tests and list the slow ones in tests/slow_tests.json.
test-costs: $(VENV)/installed-dev
	$(BIN)/python $(PYTEST) --record-costs

test-long: $(VENV)/installed-dev
	$(BIN)/python $(PYTEST) -m long

# Wrong lines that the tests must detect (benchmarks/mutants.toml).
test-mutants: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.mutants

# Lines and branches that the fast suite runs, by package.
coverage: $(VENV)/installed-dev
	$(BIN)/python $(PYTEST) --fast --cov --cov-report=json:coverage.json
	$(BIN)/python tests/coverage_by_package.py coverage.json

# The oldest version of each library that pyproject.toml allows, and no newer one.
test-oldest: $(OLDEST)/installed
	$(OLDEST)/bin/python $(PYTEST)

# Known vulnerabilities of the installed libraries; needs the network.
audit: $(VENV)/installed-dev
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python docs/check_prose.py

# The documentation site, in site/.
docs: $(VENV)/installed-dev
	$(BIN)/python docs/site.py

# The notebooks, from the scripts that they are pairs of.
notebooks: $(VENV)/installed-dev
	$(BIN)/jupytext --quiet --update --to ipynb examples/notebooks/*.py

# The same to the last byte wherever a commit is built.
wheel: $(VENV)/bin/python
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --no-deps \
	  --wheel-dir dist .

# What the publisher's install consists of, as CycloneDX, by a tool that is not among it.
sbom: $(VENV)/installed
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet cyclonedx-bom
	$(TOOLS)/bin/cyclonedx-py environment --short-PURLs --output-reproducible \
	  --pyproject pyproject.toml --output-file sbom.json $(BIN)/python

# Two builds of wheel and sdist with the same bytes, tried in an empty environment; in dist/.
release-check:
	PYTHON=$(PYTHON) .ci/release-check

# The versions and hashes of everything that tests need; no address is written into the file.
lock:
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet uv
	$(TOOLS)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	  --output-file requirements-dev.txt pyproject.toml

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[publish]'
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

$(OLDEST)/installed: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m venv --clear $(OLDEST)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python \
	  --resolution lowest-direct --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(TOOLS) demo-release dist sbom.json site coverage.json .coverage .pytest_cache .mypy_cache .ruff_cache
