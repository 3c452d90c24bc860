# `make demo` and `make test` include all set-up.
.DEFAULT_GOAL := help
READY := .venv/.ready
# Without stored byte code each process compiles all its imports, which takes more than a second.
unexport PYTHONDONTWRITEBYTECODE

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml scripts/setup
	@scripts/setup

demo: $(READY)  ## start the service, score 300 completions with eight graders, stop
	@.venv/bin/python -m examples.demo $(DEMO)

test: $(READY)  ## run every test that this machine can run; TESTS="tests/storage -k spool" selects some
	@scripts/dockerd run scripts/tests $(TESTS)

chaos: $(READY)  ## score 100,000 completions during 200 random kills; CHAOS="--seed 7" repeats a run's choices
	@.venv/bin/python -m tests.chaos $(CHAOS)

scale: $(READY)  ## score one batch of a million completions: memory, files and processes before and after
	@.venv/bin/python -m tests.chaos.scale $(SCALE)

soak: $(READY)  ## ten minutes beside a hostile project: others keep at least half of their speed; SOAK="--seconds 60"
	@.venv/bin/python -m tests.chaos.soak $(SOAK)

train: $(READY)  ## train a tiny model by TRL with a service's rewards; installs torch; TRAIN="1.16.0" uses one version
	@.venv/bin/python -m tests.training $(TRAIN)

clients: $(READY)  ## run promptfoo, weave and Langfuse's SDK against a service; installs 2 GB
	@.venv/bin/python -m tests.clients $(CLIENTS)

lint: $(READY)  ## run ruff and mypy, and check the direction of imports
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo --no-cache

bench: $(READY)  ## measure the speed against bare Python in the same run: table and plots in benchmarks/results
	@scripts/dockerd run .venv/bin/python -m benchmarks

bench-quick: $(READY)  ## the same in two minutes
	@scripts/dockerd run .venv/bin/python -m benchmarks --quick

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	@scripts/lock

clean:  ## remove the virtual environment and the caches of tools
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help demo test chaos scale soak train clients lint bench bench-quick lock clean
