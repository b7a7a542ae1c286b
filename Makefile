# Two commands do everything on a fresh machine with Python 3.11+, make and a C compiler:
#   make check   runs gpuemu-lsp over kernels/
#   make test    passes all tests
# Each makes its own .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: check test editors editors-tools lint types imports format clean

check: $(STAMP)
	$(BIN)/gpuemu-lsp --check kernels

test: $(STAMP) lint types imports
	$(BIN)/pytest -n 2 --ignore=tests/editors
	$(BIN)/pytest tests/editors

# Editors that tests/editors drives and that pip does not bring are installed first.
editors: editors-tools
	$(BIN)/pytest tests/editors

editors-tools: $(STAMP)
	tests/editors/install_emacs.sh
	PYTHON=$(BIN)/python tests/editors/install_vscode.sh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .editors editors/vscode/node_modules editors/vscode/dist build dist .mypy_cache .ruff_cache .pytest_cache
