# `make demo` and `make test` set up everything they need on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST := .venv-oldest
OLDEST_READY := $(OLDEST)/.ready
OLDEST_TESTS := tests/recorder tests/sources tests/analysis tests/api tests/forward_stats tests/inspection tests/models \
  tests/cli/test_cli_lists.py tests/cli/test_cli_devices.py \
  --ignore=tests/sources/test_sources_transformers.py --ignore=tests/sources/test_sources_multimodal.py \
  --ignore-glob="*/test_capture_model*"

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest terminal browser web check fuzz format schema clean

help:
	@echo "make demo         measure this machine, analyse the bundled ResNet-50 and print where the results are"
	@echo "make test         run all tests on all cores"
	@echo "make test-oldest  run the core tests on the oldest supported torch (downloads gigabytes once)"
	@echo "make check        run linters, type checks, import rules and checks of the docs"
	@echo "make fuzz         feed damaged files to the readers and extreme arguments to operators for a few minutes"
	@echo "make format       format the code with ruff"
	@echo "make web          build the page of the report from web/ (needs Node.js)"
	@echo "make schema       regenerate the JSON Schemas in docs/schema"
	@echo "make clean        delete .venv, .venv-oldest, out, build and dist"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is required") if sys.version_info < (3, 10) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(READY)
	$(BIN)/assay machine --quick --if-missing
	$(BIN)/assay extract --model-path examples/resnet.py::load_model --inputs-path examples/resnet.py::get_inputs --dir out/demo --force
	$(BIN)/assay analyze examples/resnet.py::load_model --inputs examples/resnet.py::get_inputs --inference --dir out/demo --force
	@echo
	@echo "Unique modules and ops:  out/demo/unique_modules.json, out/demo/pytorch_ops.json"
	@echo "As text, as a document:  out/demo/comprehensive_model_analysis.txt, out/demo/analysis.assay.json"
	@echo "In the terminal:         $(BIN)/assay explore out/demo/analysis.assay.json"
	@echo "Analyse your own model:  $(BIN)/assay analyze path/to/file.py::function"
	@echo "The report:              out/demo/report.html (open it in a browser)"

# One test runs the explorer in a real terminal, which needs tmux; without tmux, it is skipped.
terminal:
	@command -v tmux >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  timeout 120 apt-get install -y -qq tmux >/dev/null 2>&1; } || \
	  echo "tmux is missing and could not be installed: skipping the test in a real terminal"

# The report is tested in a real browser; without chromium, these tests are skipped.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  timeout 300 apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; } || \
	  echo "chromium is missing and could not be installed: skipping the tests in a real browser"

test: $(READY) terminal browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -q --durations=10

# Torch 2.4 has wheels for Python 3.10 to 3.12. Left out, because they fail there: inferred inputs of the multimodal
# models of transformers 4, and layers of compiled and replicated models in traces.
$(OLDEST_READY): pyproject.toml constraints-oldest.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
	  -e ".[hf]" hypothesis jsonschema pytest pytest-xdist
	touch $@

test-oldest: $(OLDEST_READY)
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n auto -q $(OLDEST_TESTS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_docs.py

fuzz: $(READY)
	$(BIN)/python tools/fuzz.py --inputs 500000
	ASSAY_FUZZ_EXAMPLES=5000 $(BIN)/python -m pytest -n auto -q tests/sources/torchscript/test_operators.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The built page is committed, so that nobody else needs Node.js; a test compares it with its sources.
web:
	cd web && npm ci --no-audit --no-fund && npm test && npm run build

schema: $(READY)
	$(BIN)/python tools/check_docs.py --write

clean:
	rm -rf $(VENV) $(OLDEST) out build dist
