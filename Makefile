# Everything runs in .venv, which the first target that needs it makes from the lock files.
# Needs GNU make and Python >= 3.11 with venv and pip. Another interpreter: PYTHON=python3.12 make demo

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# One BLAS thread per process: several processes share the machine's cores.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many processes: each would compile all of our modules anew.
unexport PYTHONDONTWRITEBYTECODE

PROTO_DIR   := proto/wire/v1
PROTO_FILES := $(sort $(wildcard $(PROTO_DIR)/*.proto))
SOURCES     := analyses analyst audit bench cli coordinator demo deploy device docs dp entropy examples ledger moiety mpc page party proto questions results service tests transport verify
PYTEST      := $(BIN)/pytest
# A file's tests share services, so a process takes whole files; their order is that of tests/conftest.py.
QUICK       := --dist loadscope --no-loadscope-reorder -m "not slow and not compose"
# Compiled once: without a cache each process of tests, and each service that one starts, compiles all kernels, 16 s, and
# each process of tests rewrites the asserts of all tests. Services of tests load kernels as those of an image do, without
# the compiler: 1.4 s of a processor each.
KERNELS     := $(wildcard mpc/bulk_hash.py mpc/*/*kernels.py mpc/*/*/*kernels.py analyses/*/*kernels.py analyses/*/*/*kernels.py party/tables/sources/sql/copy_kernels.py)
COMPILED    := build/compiled.stamp

.DEFAULT_GOAL := help
.PHONY: help demo test test-services test-others quick test-slow test-shaken coverage mutation check site vectors bench bench-analyses bench-audit compose-test proto lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/demo.stamp ## Run a whole federation on this machine and plot what it found
	$(BIN)/moiety demo pca

# For two cores: four processes whose tests wait for each other's messages, and two whose tests compute meanwhile. Each
# process imports and collects all tests of its part: 8 s and 12 s of a processor.
test: $(COMPILED) ## Run the quick tests
	@$(MAKE) --no-print-directory --jobs 2 --keep-going test-services test-others

test-services: $(COMPILED)
	@mkdir -p build
	@LD_LIBRARY_PATH=$(CURDIR)/build/kernels $(PYTEST) -n 4 $(QUICK) tests/services >build/test-services.log 2>&1; status=$$?; cat build/test-services.log; exit $$status

test-others: $(COMPILED)
	nice $(PYTEST) -n 2 $(QUICK) --ignore tests/services

quick: $(COMPILED) ## Run the quick tests of the rooms that changed and of those above them: SINCE=HEAD for what is not committed
	@tests=$$(PYTHONPATH=. $(BIN)/python tests/support/changed_tests.py $(SINCE)); \
	    if [ -z "$$tests" ]; then echo "nothing has changed"; else $(PYTEST) -n 2 $(QUICK) $$tests; fi

test-slow: $(COMPILED) ## Run the tests that take minutes (statistics of the noise, utility)
	$(PYTEST) -n 4 --dist worksteal -m "slow and not compose"

test-shaken: $(COMPILED) ## Run the quick tests of services with tasks that are delayed at random, to find races
	MOIETY_SHAKEN_TASKS=1 $(PYTEST) -n 6 --dist worksteal -m "not slow and not compose" tests/services tests/security

coverage: $(COMPILED) ## Run the quick tests and say which lines and branches none of them takes
	mkdir -p .coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 4 $(QUICK); status=$$?; \
	    $(BIN)/coverage combine --quiet && $(BIN)/coverage html --quiet && $(BIN)/coverage report; exit $$status

mutation: $(VENV)/dev.stamp ## Say which changes no test notices: SAMPLE=250 SEED=1, or all of MODULE=ledger/budget.py
	$(BIN)/python tests/mutation/mutate.py $(if $(MODULE),--module $(MODULE),--sample $(or $(SAMPLE),250) --seed $(or $(SEED),1))

check: $(VENV)/dev.stamp ## Check format, lint, types and the site
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(MAKE) --no-print-directory site

site: $(VENV)/dev.stamp ## Build the documentation as a site, build/site/index.html, or say which link leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "the site: build/site/index.html"

vectors: $(VENV)/dev.stamp ## Write the test vectors; review the differences
	$(BIN)/python tests/vectors/generate.py
	PYTHONPATH=tests/support $(BIN)/python tests/vectors/secagg/generate.py

bench: $(VENV)/dev.stamp ## Measure and write docs/benchmarks.md; nothing is asserted
	$(BIN)/python -m bench

bench-analyses: $(VENV)/dev.stamp ## Measure the analyses on real data; writes the numbers of the pages in docs/analyses
	$(BIN)/python -m bench.analyses

bench-audit: $(VENV)/dev.stamp ## Measure the power of all audits; writes the table of docs/audit.md
	$(BIN)/python -m bench.privacy.audit

compose-test: $(VENV)/dev.stamp ## Build the image, start the federation in containers, crash one party (needs Docker)
	$(PYTEST) -m compose -s tests/compose

proto: $(VENV)/dev.stamp ## Generate the Python code of proto/wire/v1/*.proto
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=proto --pyi_out=proto --grpc_python_out=proto $(PROTO_FILES)

lock: $(VENV)/dev.stamp ## Compile requirements/*.lock from pyproject.toml
	BIN=$(BIN) sh requirements/compile

clean: ## Remove the virtual environment, caches and outputs
	rm -rf $(VENV) .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The virtual environment. A stamp is older than its lock file exactly when something has to be installed.

$(VENV)/created.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "moiety needs Python 3.11 or later; '$(PYTHON)' is missing or older. Try: PYTHON=python3.12 make ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "'$(PYTHON)' has no venv module (on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# Installs the package itself too, editable: its dependencies are those of the lock file.
$(VENV)/demo.stamp: requirements/demo.lock pyproject.toml $(VENV)/created.stamp
	@echo "installing into $(VENV): a minute or two, once" >&2
	$(BIN)/python -m pip install --quiet --requirement requirements/demo.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

$(VENV)/dev.stamp: requirements/dev.lock $(VENV)/demo.stamp
	$(BIN)/python -m pip install --quiet --requirement requirements/dev.lock
	touch $@

$(COMPILED): $(VENV)/dev.stamp mpc/machine_code.py $(KERNELS)
	@mkdir -p build
	@$(BIN)/python -m compileall -q $(filter-out bench deploy docs examples tests,$(SOURCES))
	@find tests -name 'test_*.py' -o -name conftest.py | xargs -n 100 -P 2 $(BIN)/python tests/support/rewritten_asserts.py
	@if command -v ld >/dev/null; then $(BIN)/python deploy/image/compile-kernels build/kernels --least >/dev/null; fi & \
	    libraries=$$!; echo $(subst /,.,$(basename $(KERNELS))) | xargs -n 1 -P 2 $(BIN)/python -c 'import importlib, sys; importlib.import_module(sys.argv[1])'; \
	    status=$$?; wait $$libraries || status=1; exit $$status
	@touch $@
