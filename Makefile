# Everything a newcomer needs: `make analyze` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUNDLE ?= fixtures/xid79-slurm/bundle
OUT ?= out
# behind a proxy with its own certificate authority, trust what the system trusts
export UV_SYSTEM_CERTS = 1
export UV_NATIVE_TLS = 1

.PHONY: analyze test control-plane lint types bench casebook schema dashboard wheel clean

analyze: $(VENV)/.ready ## analyse a bundled incident: report in the terminal, HTML page in $(OUT)
	@mkdir -p $(OUT)
	@$(BIN)/aiops analyze $(BUNDLE) --html $(OUT)/incident.html; code=$$?; \
	  echo; echo "HTML page: $(OUT)/incident.html"; \
	  [ $$code -eq 0 ] || [ $$code -eq 10 ] || [ $$code -eq 11 ]

test: $(VENV)/.ready ## run the tests; those of real servers skip where a program is missing
	$(BIN)/pytest -n 2 --dist loadgroup

control-plane: $(VENV)/.ready ## build the programs of the Kubernetes tests once (minutes; needs Go)
	nice $(BIN)/python tests/services/kubernetes/programs.py

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/aiops catalog lint

types: $(VENV)/.ready
	$(BIN)/mypy

bench: $(VENV)/.ready ## the benchmarks at smoke size; see benchmarks/ for the full ones
	$(BIN)/python benchmarks/scan.py --smoke
	$(BIN)/python benchmarks/metrics.py --smoke
	$(BIN)/python benchmarks/analyze.py --smoke

JOINED := --min class_top1=0.92 --min class_top3=0.97 --min family_top1=0.95 --min node=0.95 --min gpu=0.95 --min rank=0.95 \
  --min hardware=0.97 --min requeue=0.93 --min actions=0.93 --min safe=1.0 --min completed=1.0
SCORE := $(PYTHON) ../shared/tools/score_casebook.py --cases ../shared/casebook --jobs 2 \
  --cmd '$(CURDIR)/$(BIN)/aiops analyze {bundle} --format json'

casebook: $(VENV)/.ready ## score the shared casebook, where it is
	$(SCORE) --cases-glob '[hr]*' $(JOINED)
	$(SCORE) --cases-glob 'r*' --min class_top1=0.93 --min rank=0.90
	$(SCORE) --cases-glob 'j*' $(JOINED)

schema: $(VENV)/.ready ## regenerate docs/report.schema.json
	$(BIN)/aiops schema > docs/report.schema.json

dashboard: $(VENV)/.ready
	$(BIN)/aiops dashboard

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check uv==0.13.9
	$(BIN)/uv pip sync --quiet --require-hashes requirements.lock --python $(BIN)/python
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python -e .
	@touch $@

wheel: $(VENV)/.ready ## build dist/aiops-*.whl
	$(BIN)/python -m hatchling build -t wheel

clean:
	rm -rf $(VENV) $(OUT) build dist
