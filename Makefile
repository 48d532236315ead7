# Everything happens in .venv; the second `make setup` has nothing to do.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Without compiled modules each process compiles what it imports: 2 s of a CPU for `twinlog run`, 5 for a task of Airflow.
unexport PYTHONDONTWRITEBYTECODE

UV_VERSION := 0.13.9
CYCLONEDX_VERSION := 7.5.0
BIN := .venv/bin
READY := .venv/.ready
DEV := .venv/.ready-dev
JAVA := .venv/.java-home
CLASSES := .venv/.classes
LIBRARY := include/twinlog/batches/plain/_library
KERNEL := $(LIBRARY)/.built
NEEDS_MACHINERY := integration or spark or airflow or browser or mm2 or chaos

# Each process has clusters of its own; files begin in the order of tests/conftest.py.
PYTEST = $(BIN)/pytest --dist loadfile --no-loadscope-reorder

# What went wrong by the clock is tried once more, and named in the summary; a wrong answer never is.
SECOND_TRY := --reruns 1 --only-rerun '^(TransientError|ClusterUnreachable|TimeoutError|TimeoutExpired): '

# Spark, Kafka and every command below run on the Java that `make setup` found or installed.
WITH_JAVA = JAVA_HOME="$$(cat $(JAVA))"
# Java programs that live for minutes: compiling them well costs them more than it saves (a broker's start 8 CPU-s instead of 5).
ON_MACHINERY = $(WITH_JAVA) JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1
# Sixteen gigabytes of memory are enough for it; without, the disk is part of what is measured.
LOGS_IN_MEMORY = $(if $(wildcard /dev/shm),--logs /dev/shm)
PERFORMANCE = --out docs/performance

.PHONY: bench bench-full chaos docs help setup ready demo test test-all test-unit test-rest machinery lint format lock clean reference release

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV) ready $(CLASSES) ## Make .venv with all that is locked, developers' tools too, and find or install a Java; then .venv/bin/twinlog is ready

ready: $(READY) $(KERNEL) $(JAVA)

demo: ready ## Replicate between two real Kafka clusters on this machine through Airflow and Spark, and show the result
	$(WITH_JAVA) $(BIN)/twinlog machine demo

test: lint machinery ## Check style and types, run the unit tests, and what README promises on real machinery, in nine minutes
	$(ON_MACHINERY) $(PYTEST) -n 4 $(SECOND_TRY) -m "promise or not ($(NEEDS_MACHINERY))" --durations=15 --durations-min=10

test-all: test ## Run every test there is, in an hour
	$(MAKE) --no-print-directory test-rest

test-unit: $(DEV) $(KERNEL) ## Run the tests that need no broker, Java or Airflow
	$(PYTEST) -n 2 -m "not ($(NEEDS_MACHINERY))"

test-rest: machinery ## Run what `make test` leaves out: brokers, Spark, Airflow, MM2 and a browser, in all their states
	$(ON_MACHINERY) $(PYTEST) -n 2 $(SECOND_TRY) -m "($(NEEDS_MACHINERY)) and not promise" --durations=40 --durations-min=10

machinery: setup
	.ci/browser
	.ci/prometheus
	.ci/kerberos

chaos: setup ## Hurt brokers, networks, drivers and Spark jobs for TWINLOG_CHAOS_MINUTES (30), and compare every record
	TWINLOG_FUZZ_EXAMPLES=5000 $(BIN)/pytest --hypothesis-profile=thorough tests/batches tests/audit tests/logs tests/protocol/test_legacy.py
	$(WITH_JAVA) TWINLOG_LONG=1 TWINLOG_KILLS=20 TWINLOG_SPARK_KILLS=20 TWINLOG_CHAOS_MINUTES=$${TWINLOG_CHAOS_MINUTES:-30} \
		$(BIN)/pytest -s --timeout 0 tests/chaos

lint: $(DEV) ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV) ## Rewrite the code as `make lint` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: $(DEV) ## Write docs/cli.md, docs/json/* and the tables of docs/configuration.md, json.md, ledger.md, metrics.md and runbooks from what the code declares
	$(BIN)/python docs/configuration_tables.py
	$(BIN)/python docs/command_pages.py
	$(BIN)/python docs/metrics_tables.py
	$(BIN)/python docs/runbook_tables.py
	$(BIN)/python docs/shape_tables.py

docs: $(DEV) ## Write the pages as a site into site/, which works from that folder; a lost link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: setup ## Measure twinlog beside MirrorMaker 2 on this machine, in under five minutes
	$(WITH_JAVA) $(BIN)/python -m bench

bench-full: setup ## Measure everything, several times over, into docs/performance
	$(WITH_JAVA) $(BIN)/python -m bench --full $(LOGS_IN_MEMORY) $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.transforms $(LOGS_IN_MEMORY) $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.latency $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.catch_up $(LOGS_IN_MEMORY) $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.idle --follow $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.idle $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.cold $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.cycle $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.spark_task $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.hold $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.failover $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.year $(PERFORMANCE)
	$(WITH_JAVA) $(BIN)/python -m bench.audit all $(PERFORMANCE)

# The bill names what `pip install 'twinlog[airflow]'` brings, at the versions that are tested, with their hashes, and who
# requires whom; developers' tools are not in it.
release: $(DEV) ## Write wheel, sdist, bill of materials (CycloneDX) and checksums into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --extra airflow --constraints requirements.lock pyproject.toml \
		| $(BIN)/python .ci/bill $(BIN)/uv tool run --from cyclonedx-bom==$(CYCLONEDX_VERSION) cyclonedx-py requirements - \
			--pyproject pyproject.toml --output-reproducible > dist/sbom.cdx.json
	cd dist && sha256sum * > SHA256SUMS

# What is locked stays as it is, as far as pyproject.toml lets it; without the locks everything is chosen anew.
# Locks of this form name no package index, unlike uv.lock.
LOCK = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header pyproject.toml
lock: $(DEV) ## Write requirements-dev.lock, with all there is, and requirements.lock, with what twinlog runs with, from pyproject.toml
	$(LOCK) --all-extras --output-file requirements-dev.lock > /dev/null
	$(LOCK) --constraints requirements-dev.lock --output-file requirements.lock > /dev/null \
		--extra airflow --extra msk --extra postgres --extra build

clean: ## Remove .venv and everything that tools leave behind; the cache of Kafka's jars stays
	rm -rf .venv $(LIBRARY) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || "$$(.ci/python)" -m venv .venv
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	command -v cc > /dev/null || awk '/^[^ ]/ {zig = /^ziglang==/} zig' requirements-dev.lock \
		| $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r -
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

$(DEV): requirements-dev.lock $(READY)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-dev.lock
	touch $@

# The install has compiled the kernel; this does it again when it was changed.
$(KERNEL): include/twinlog/batches/plain/kernel.c hatch_build.py $(READY)
	$(BIN)/python hatch_build.py
	touch $@

# Looked up again whenever the recorded Java has gone.
$(JAVA): $(READY) $(if $(wildcard $(JAVA)),$(if $(wildcard $(shell cat $(JAVA))/bin/java),,force-java))
	.ci/jdk > $@.new
	mv $@.new $@

# Half a minute once, and every Spark starts in half the CPU time.  A Java that cannot do it is no reason to stop.
$(CLASSES): $(READY) $(JAVA)
	$(WITH_JAVA) $(BIN)/twinlog machine spark cds --output json > $@ || echo "Spark will start as slowly as without" | tee $@

.PHONY: force-java
force-java:
