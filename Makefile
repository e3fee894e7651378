# Everything a clone needs: Python >= 3.11 and make. Each target creates its own environment in $(VENV).
#
#   make test       linters, type checkers and the whole test suite
#   make format     lays out all Python files as ruff does; `make test` fails if that changes any
#   make check      judges every example: compiled, differentiated, compared with the oracles
#   make golden BASE=main  says whether this checkout generates the same code as another commit, byte for byte
#   make bench      one quick run of the benchmarks, at this commit; BENCH_COMMITS=HEAD~10..HEAD measures ten commits
#   make dashboard  publishes the results that are kept, under asv_bench/.asv/html, and measures nothing
#   make docs       the site of all pages, under site/; a warning fails it
#   make matrix     every row of ci/matrix.toml whose machine this is
#
# PYTHON (the interpreter to build with) and VENV (where the environment lives) may be set. PEERS=1 makes `bench`
# measure other systems too.

PYTHON ?= python3
VENV ?= .venv

BIN := $(abspath $(VENV))/bin
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench
DOCS := $(VENV)/.installed-docs
ASV := $(BIN)/asv
ASV_CONFIG := $(if $(PEERS),asv.peers.conf.json,asv.conf.json)
BENCH_ARGS ?= --quick
BENCH_COMMITS ?= HEAD^!
BENCH_MACHINE ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test lint format check golden bench dashboard docs matrix clean

help:
	@sed -n '/^#   /s/^#   //p' Makefile

# Linters and suite run at the same time, and each runs even if the other complains, so that one run shows everything;
# either fails the target. A test that hangs fails after ten minutes, with what each thread was doing. Tests that stand
# together run in one process, which makes what they share once; a process that is done takes some from another. Of
# bytecode: hundreds of processes import the package, and would compile it again each time.
test: $(DEV)
	@status=0; said=$$(mktemp); \
	BIN=$(BIN) ci/check.sh >$$said 2>&1 & linters=$$!; \
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n auto --dist worksteal --timeout 600 --timeout-method thread || status=1; \
	wait $$linters || status=1; cat $$said; rm -f $$said; \
	exit $$status

lint: $(DEV)
	BIN=$(BIN) ci/check.sh

format: $(DEV)
	$(BIN)/ruff format .

check: $(DEV)
	$(BIN)/stackgrad check $(filter-out %/common.py,$(wildcard examples/*.py))

# What is compared is the working tree, edits that are not committed included. HEAD compares another commit instead,
# GOLDEN_ARGS="--only 'ad/*'" a part.
golden: $(DEV)
	$(if $(BASE),,$(error name the commit to compare with: make golden BASE=main))
	BIN=$(BIN) ci/golden.sh $(BASE) $(HEAD) $(if $(GOLDEN_ARGS),-- $(GOLDEN_ARGS))

# What is measured is the commit that is checked out, or those of BENCH_COMMITS, a range of git, each built into an
# environment of its own: edits that are not committed are left out. BENCH_ARGS are for asv (`make bench
# BENCH_ARGS="--bench Launch"`); without --quick, results are medians. Numbers are added to asv_bench/results, under the
# name BENCH_MACHINE (default: cpu-N-cores), never that of the host. A range goes on where it was interrupted; one commit
# is measured anew.
bench: $(BENCH)
	machine=$$($(BIN)/python ci/bench_machine.py $(BENCH_MACHINE)) && cd asv_bench && \
	$(ASV) run --config $(ASV_CONFIG) --machine "$$machine" --launch-method forkserver --show-stderr \
	    $(if $(filter-out HEAD^!,$(BENCH_COMMITS)),--skip-existing-successful) $(BENCH_ARGS) '$(BENCH_COMMITS)'

# Results of commits that this clone lacks are left out. The pages load scripts from public servers; OFFLINE=1 gets these
# from npm instead and writes them beside the pages.
dashboard: $(BENCH)
	@test -f asv_bench/results/benchmarks.json || { echo "asv_bench/results is empty; cure: make bench" >&2; exit 1; }
	cd asv_bench && $(ASV) publish --config $(ASV_CONFIG) HEAD
	$(if $(OFFLINE),$(BIN)/python ci/offline_dashboard.py asv_bench/.asv/html)
	@echo "serve it: cd asv_bench && $(ASV) preview"

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html, or serve it: $(BIN)/mkdocs serve"

matrix: $(DEV)
	$(BIN)/python ci/run_matrix.py

clean:
	rm -rf $(VENV) .links .matrix .mypy_cache .ruff_cache .pytest_cache build dist site *.egg-info

# A stamp is newer than pyproject.toml when everything that it asks for is installed.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed, $(PYTHON) is " + sys.version.split()[0] + "; cure: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(DEV): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(BENCH): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

$(DOCS): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@
