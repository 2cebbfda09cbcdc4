# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test terminal check fuzz format schema clean

help:
	@echo "make demo    set up, run the main job on the bundled example, say what to look at"
	@echo "make test    set up, run all tests on every core"
	@echo "make check   lint, types, import rules, schema drift"
	@echo "make fuzz    feed the checkpoint readers damaged files for some minutes"
	@echo "make format  let ruff format the tree"
	@echo "make schema  write the JSON Schemas anew"
	@echo "make clean   remove the environment and what the demo wrote"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed") if sys.version_info < (3, 10) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(READY)
	$(BIN)/assay extract --model-path examples/resnet.py::load_model --inputs-path examples/resnet.py::get_inputs --dir out/demo
	$(BIN)/assay analyze examples/resnet.py::load_model --inputs examples/resnet.py::get_inputs --inference --dir out/demo
	@echo
	@echo "The unique modules and operations are in out/demo/unique_modules.json and out/demo/pytorch_ops.json,"
	@echo "the whole analysis in out/demo/comprehensive_model_analysis.txt and out/demo/analysis.assay.json."
	@echo "Look around in it:    $(BIN)/assay explore out/demo/analysis.assay.json"
	@echo "Or your own model:    $(BIN)/assay analyze path/to/file.py::function"

# The explorer is also tested in a real terminal; where there is no tmux and no way to get it, that test says so.
terminal:
	@command -v tmux >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  timeout 120 apt-get install -y -qq tmux >/dev/null 2>&1; } || \
	  echo "tmux is not here and could not be installed: the test in a real terminal is skipped"

test: $(READY) terminal
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -q

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_docs.py

fuzz: $(READY)
	ASSAY_FUZZ_EXAMPLES=5000 $(BIN)/python -m pytest -n auto -q tests/checkpoint/test_checkpoint_fuzz.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(READY)
	$(BIN)/python tools/check_docs.py --write

clean:
	rm -rf $(VENV) out build dist
