# Each target sets up what it needs first; see scripts/setup.sh. `make help` lists them.
SHELL := /bin/bash
BIN := .venv/bin
BENCHES := policy rollout logprob_memory hf_load rl_utilisation rl_resume rl_buffer data_collect data_feed viewer env_fuzz env_serving env_faults env_soak env_determinism env_browsergym env_browsergym_outcomes

# Compiled programs are kept between runs: a second start does not compile again.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax

.PHONY: help quickstart tables test smoke desktop bench lint clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 14

quickstart: ## train and evaluate the tiny policy, then write runs/quickstart/report.html
	@scripts/setup.sh env
	@$(BIN)/gui-rl quickstart

tables: ## run every table of the papers at tiny scale and write docs/tables/; hours, goes on where it was
	@scripts/setup.sh env
	@$(BIN)/gui-rl run tables

test: ## run the tests, lint and layout checks included; `make smoke` has the tables
	@scripts/setup.sh env,dev
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

smoke: ## run every table of the papers with next to nothing: the whole path in minutes
	@scripts/setup.sh env,dev
	@$(BIN)/pytest -m smoke

desktop: ## run the tests of the LibreOffice desktops, where LibreOffice is installed
	@scripts/setup.sh env,dev
	@$(BIN)/pytest -m desktop

bench: ## measure speed and memory against peers; writes benchmarks/results/
	@scripts/setup.sh env,dev
	@for what in $(BENCHES); do $(BIN)/python -m benchmarks.$$what || exit; done

lint: ## format check, lint, import floors
	@scripts/setup.sh env,dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports

clean: ## remove the virtual environment, caches and build products; runs/ stays
	rm -rf .venv .cache .pytest_cache .ruff_cache .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
