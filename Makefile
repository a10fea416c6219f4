# Everything a developer runs. `make` alone lists it; PYTHON=python3.12 chooses another Python.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input -q install -c constraints.txt
PYTEST = $(BIN)/python -m pytest
SETUP = pyproject.toml setup.py constraints.txt

.NOTPARALLEL:
# Compiled modules are kept: to compile them again takes a tenth of the start of each process.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-fast check format docs bench bench-files bench-kafka bench-latency bench-lake bench-streams fuzz chaos soak constraints clean machine packages

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/run.stamp ## install Penstock into .venv and run examples/quickstart.sql
	@$(BIN)/penstock run examples/quickstart.sql
	@printf '\nThe result is in out/revenue/, made by examples/quickstart.sql. Try next:\n'
	@printf '  . $(BIN)/activate\n'
	@printf '  penstock inspect out/revenue\n'
	@printf '  penstock explain examples/quickstart.sql\n'
	@printf '  penstock run -e "SELECT type, COUNT(*) AS n FROM '\''examples/data/events.jsonl'\'' GROUP BY type"\n'
	@printf '  penstock connectors\n'

test: packages $(VENV)/dev.stamp ## install what the tests need, and run all of them
	@mkdir -p .build
	@# Each of the many processes that tests start has its Spark in half the time.
	$(BIN)/python -m penstock.engine.training
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder --junitxml=.build/junit.xml

test-fast: $(VENV)/dev.stamp ## the tests that need neither Spark nor a server
	$(PYTEST) -m "not spark and not server"

check: $(VENV)/dev.stamp ## style, types, layers, and whether the generated docs are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy scripts/*.py
	$(BIN)/lint-imports
	$(BIN)/python scripts/docs.py --check

format: $(VENV)/dev.stamp ## mend the style where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp ## write docs/reference/ from the code
	$(BIN)/python scripts/docs.py

bench: bench-files bench-kafka bench-latency bench-lake bench-streams ## measure against the same by hand; results in benchmarks/results/

bench-files: $(VENV)/dev.stamp ## files, against PySpark and DuckDB
	$(BIN)/python -m benchmarks.files

bench-kafka: packages $(VENV)/dev.stamp ## Kafka, against PySpark; BENCH=--peers adds Flink SQL and Bytewax
	$(BIN)/python -m benchmarks.kafka $(BENCH)

bench-latency: packages $(VENV)/dev.stamp ## Kafka to Kafka in real time, against Flink SQL
	$(BIN)/python -m benchmarks.latency

bench-lake: packages $(VENV)/dev.stamp ## tables of Delta and Iceberg, against PySpark
	$(BIN)/python -m benchmarks.lake

bench-streams: packages $(VENV)/dev.stamp ## streams without Spark, against confluent-kafka and kcat
	@sh scripts/packages.sh "$(PYTHON)" "kcat -V|kcat"
	$(BIN)/python -m benchmarks.streams

chaos: packages $(VENV)/dev.stamp ## kill streams three times at each stage of a batch, and twenty times by chance
	PENSTOCK_KILLS_AT_EACH_STAGE=3 PENSTOCK_KILLS_BY_CHANCE=20 PENSTOCK_STREAM_KILLS=20 $(PYTEST) -s \
		tests/delivery/test_kills.py tests/delivery/test_lake_kills.py \
		tests/streams/test_kills.py tests/streams/test_file_kills.py

soak: packages $(VENV)/dev.stamp ## an hour of a stream at 20,000 rows a second: memory stays, no batch fails
	$(BIN)/python -m tests.delivery.soaking

fuzz: $(VENV)/dev.stamp ## 100,000 mutated statements and YAML files
	PENSTOCK_FUZZ_EXAMPLES=100000 $(PYTEST) -k fuzz

constraints: | machine ## pin in constraints.txt what pyproject.toml asks for; pins that are there and fit, stay
	"$(PYTHON)" -m venv .build/uv
	.build/uv/bin/python -m pip -q install uv
	.build/uv/bin/uv pip compile -q --universal --python-version 3.10 --no-annotate --extra dev \
		--custom-compile-command "make constraints" pyproject.toml -o constraints.txt

clean: ## remove all that was made here
	rm -rf $(VENV) .build build dist out .penstock *.egg-info .*_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

machine:
	@sh scripts/machine.sh "$(PYTHON)"

packages:
	@sh scripts/packages.sh "$(PYTHON)"

# The environment is made once, and again when a file that says what is in it has changed.
$(VENV)/made.stamp: | machine
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/run.stamp: $(VENV)/made.stamp $(SETUP)
	$(PIP) -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/made.stamp $(SETUP)
	$(PIP) -e '.[dev]'
	@touch $@
