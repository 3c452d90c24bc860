# Two commands do all the set-up: `make demo` and `make test`.
.DEFAULT_GOAL := help
READY := .venv/.ready
# Where byte code is not kept, each process compiles again all that it imports, for a second and more.
unexport PYTHONDONTWRITEBYTECODE

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml scripts/setup
	@scripts/setup

demo: $(READY)  ## start the service, score 1,200 completions with eight graders, stop
	@.venv/bin/python -m examples.demo $(DEMO)

test: $(READY)  ## every test that this machine can run; TESTS="tests/storage -k spool" chooses among them
	@scripts/dockerd run scripts/tests $(TESTS)

chaos: $(READY)  ## 200 random kills while 100,000 completions are scored; CHAOS="--seed 7" repeats a run's choices
	@.venv/bin/python -m tests.chaos $(CHAOS)

scale: $(READY)  ## one batch of a million completions: memory, files and processes before and after
	@.venv/bin/python -m tests.chaos.scale $(SCALE)

soak: $(READY)  ## ten minutes beside a hostile project: others' work goes on, as fast as half; SOAK="--seconds 60"
	@.venv/bin/python -m tests.chaos.soak $(SOAK)

train: $(READY)  ## a tiny model trained by TRL with rewards of a service; installs torch; TRAIN="1.16.0" takes one version
	@.venv/bin/python -m tests.training $(TRAIN)

clients: $(READY)  ## promptfoo and weave themselves against a service; installs 2 GB
	@.venv/bin/python -m tests.clients $(CLIENTS)

lint: $(READY)  ## ruff, mypy, and the direction of imports
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo --no-cache

bench: $(READY)  ## how fast, against bare Python in the same run: table and plots in benchmarks/results
	@scripts/dockerd run .venv/bin/python -m benchmarks

bench-quick: $(READY)  ## the same in two minutes
	@scripts/dockerd run .venv/bin/python -m benchmarks --quick

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	@scripts/lock

clean:  ## remove the virtual environment and what tools left
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help demo test chaos scale soak train clients lint bench bench-quick lock clean
