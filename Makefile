# The commands of README.md. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help install demo test lint fast schemas lock observe k8s-check secure-check release-check compose-check

help:  ## List the targets.
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

install: $(VENV)/.installed  ## Install into .venv, as locked.

$(VENV)/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

demo: install  ## Start everything here, send six bundles through it, count what came out.
	$(BIN)/python -m deploy.demo

lint: install  ## Formatter, linter, strict types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fast: install  ## Unit tests only.
	$(BIN)/pytest -q tests/unit tests/simulation

test: lint  ## Lint, types, unit and integration tests, on real servers.
	$(BIN)/pytest

observe: install  ## Dashboards, rules and the status page on a real Prometheus and browser.
	$(BIN)/python -m tests.observe

k8s-check: install  ## Kubernetes manifests: rendered offline, validated, held against the settings.
	$(BIN)/python -m tests.k8s

secure-check: install  ## A worker with TLS, SASL and ACLs on Apache Kafka, and TLS on S3.
	$(BIN)/python -m tests.secure

release-check: install  ## Build wheel, sdist and bill of materials; install them on every Python here.
	$(BIN)/python -m deploy.release.check

# requirements-runtime.lock is what the image installs: the same versions, without development.
COMPILE = $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
  --output-file - pyproject.toml
CLEAN = sed '/^\# WARNING/d; /^\# Consider/d; /^bundle-extractor/d'

lock: $(VENV)/.installed  ## Resolve the dependencies anew into the lock files.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	$(COMPILE) --extra dev --upgrade | $(CLEAN) > requirements.lock.new
	mv requirements.lock.new requirements.lock
	$(COMPILE) --extra extractor --extra aws --extra google --extra otel \
	  --build-deps-for wheel \
	  --constraint requirements.lock | $(CLEAN) > requirements-runtime.lock.new
	mv requirements-runtime.lock.new requirements-runtime.lock

compose-check: install  ## docker-compose.yml on a Docker engine: three workers, one is killed.
	$(BIN)/python -m tests.compose

schemas: install  ## Write anew what is generated: schemas, table of settings, Kubernetes' alert rules.
	$(BIN)/python -m schemas.export
	$(BIN)/python -m deploy.release.settings_table
	$(BIN)/python -m deploy.k8s
