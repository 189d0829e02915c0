# Targets a newcomer needs. uv is used where it is present, else venv and pip.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint types check bench clean

demo: $(STAMP)            ## play the scripted conversation on the sample knowledge base
	$(BIN)/ix demo

test: $(STAMP)            ## the whole test suite
	$(BIN)/python -m pytest

lint: $(STAMP)            ## format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)           ## strict type checking
	$(BIN)/mypy

check: lint types test    ## what a change must pass

bench: $(STAMP)           ## timings, printed
	$(BIN)/python -m benchmarks.gate
	$(BIN)/python -m benchmarks.turn

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "ix needs Python 3.11 or newer; run: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@if command -v uv >/dev/null 2>&1; then \
		uv venv --allow-existing --python $(PYTHON) $(VENV) && uv pip install --python $(BIN)/python -e '.[dev]'; \
	else \
		$(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip \
		&& $(BIN)/python -m pip install --quiet -e '.[dev]'; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
