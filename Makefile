# `make run` and `make test` need Python 3.11 to 3.13 and make, nothing else: they set up their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint bench setup clean

run: $(VENV)/.installed
	$(BIN)/python -m roofexp kernel=gemm size=256,1024,4096 -m

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check roofexp kernels tests
	$(BIN)/ruff format --check roofexp kernels tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint -s conf roofexp

bench: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/bench -p no:cacheprovider -o python_files='bench_*.py' -s

setup: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV) || { echo "python3 with venv is needed (Debian: apt-get install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache dist build
