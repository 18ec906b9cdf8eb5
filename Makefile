# The commands of README.md. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help install demo test lint fast schemas lock observe k8s-check secure-check release-check

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

lock: $(VENV)/.installed  ## Resolve the dependencies anew into requirements.lock.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --upgrade --output-file - pyproject.toml \
	  | sed '/^# WARNING/d; /^# Consider/d; /^bundle-extractor/d' > requirements.lock.new
	mv requirements.lock.new requirements.lock

schemas: install  ## Write anew what is generated: schemas, table of settings, Kubernetes' alert rules.
	$(BIN)/python -m schemas.export
	$(BIN)/python -m deploy.release.settings_table
	$(BIN)/python -m deploy.k8s
