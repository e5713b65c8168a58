# Two commands: `make run` gives a first result, `make test` checks everything. Both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test check format lock clean

run: $(READY)
	$(BIN)/rwf run regression-1d --quick --resume

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The lock holds every package with its hashes, the build back end too: the install is the same everywhere,
# needs the network once, and nothing after that. --no-deps: there is nothing left to resolve, and older pips (23.2)
# look past the lock for a package that is asked for with extras, and stop when it has a newer release.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rwf needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:
	uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header \
	  --no-annotate --extra test --group build pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV)
