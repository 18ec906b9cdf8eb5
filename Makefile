# The commands of README.md. `make help` lists them.
PYTHON ?= $(or $(shell python3 -m deploy.quicker_python),python3)
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

# A skip must not look like success: where Kafka has to be there, so many integration tests have to
# have run.
MIN_INTEGRATION_TESTS ?= $(if $(filter 1,$(REQUIRE_REAL_KAFKA)),210)

# Much of the time is waited for. Each process has servers of its own, and keeps a file's tests together.
TWO_AT_A_TIME = --numprocesses=2 --dist=loadfile

test: lint  ## Lint, types, unit and integration tests, on real servers.
	MIN_INTEGRATION_TESTS=$(MIN_INTEGRATION_TESTS) $(BIN)/pytest $(TWO_AT_A_TIME)

observe: install  ## Dashboards, rules and the status page on a real Prometheus and browser.
	$(BIN)/python -m tests.observe

k8s-check: install  ## Kubernetes manifests: rendered offline, validated, held against the settings.
	$(BIN)/python -m tests.k8s

secure-check: install  ## A worker with TLS, SASL and ACLs on Apache Kafka, and TLS on S3.
	$(BIN)/python -m tests.secure

release-check: install  ## Build wheel, sdist and bill of materials; install them on every Python here.
	$(BIN)/python -m deploy.release.check

# requirements-runtime.lock is what the image installs: the same versions, without development.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --no-header pyproject.toml

lock: $(VENV)/.installed  ## Resolve the dependencies anew into the lock files.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --extra dev --upgrade --output-file requirements.lock
	echo setuptools | $(COMPILE) - --extra extractor --extra aws --extra google --extra otel \
	  --constraint requirements.lock --output-file requirements-runtime.lock

compose-check: install  ## docker-compose.yml on a Docker engine: three workers, one is killed.
	$(BIN)/python -m tests.compose

schemas: install  ## Write anew what is generated: schemas, table of settings, Kubernetes' alert rules.
	$(BIN)/python -m schemas.export
	$(BIN)/python -m deploy.release.settings_table
	$(BIN)/python -m deploy.k8s
