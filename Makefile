# `make` alone lists what it can do. What it makes goes into .venv and the tools' caches; `make clean` removes it.
# EXTRA, PYTHON and TORCH_CPU_INDEX are read by .ci/setup.py, from here or from the environment.

BIN := .venv/bin

.PHONY: help setup test check check-cuda-names format demo bench-batch bench-overhead bench-cpu bench-view test-kills clean FORCE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'EXTRA=cpu|cuda         which vLLM (default: cuda where an NVIDIA device is seen)'
	@echo 'PYTHON=python3.12      which Python carries .venv (default: the first of 3.11 to 3.14 on PATH)'
	@echo 'TORCH_CPU_INDEX=URL    the second place to look for the CPU build of torch'

setup: .venv/.installed ## make .venv and install speccli into it; at once if nothing changed

# Any Python may run the script: it looks for the one that carries .venv. Whether there is anything to do, it decides by
# content, since times are all new after a checkout. 127 is a python3 that is on PATH but cannot start.
.venv/.installed: FORCE
	@for python in python3 "$(PYTHON)" python3.11 python3.12 python3.13 python3.14; do \
	  command -v "$$python" >/dev/null || continue; \
	  "$$python" .ci/setup.py; code=$$?; [ $$code -eq 127 ] || exit $$code; \
	done; \
	echo 'setup: error: no python3 on PATH that starts' >&2; \
	echo 'hint: install Python 3.11 to 3.14, or name one: make PYTHON=/path/to/python3.11' >&2; exit 3

define STATIC_CHECKS
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy speccli tests training .ci/setup.py .ci/cuda_names.py
	$(BIN)/lint-imports
	$(BIN)/cog --check --diff --check-fail-msg='make format brings it up to date' README.md
endef

test: .venv/.installed ## the whole gate: set-up, static checks, every test (real engines on the CPU included)
	$(STATIC_CHECKS)
	$(BIN)/pytest -m 'not gpu'

check: .venv/.installed ## the fast part of the gate, without real engines
	$(STATIC_CHECKS)
	$(BIN)/pytest -m 'not gpu and not engine'

check-cuda-names: .venv/.installed ## whether the CUDA vLLM has all that speccli uses (downloads its wheel, 330 MB)
	$(BIN)/python .ci/cuda_names.py

format: .venv/.installed ## format the code and bring the README's generated parts up to date
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	$(BIN)/cog -r README.md

demo: .venv/.installed ## a chat turn and a small batch with speculative decoding, and the turn again without, on this machine
	$(BIN)/speccli demo

bench-overhead: .venv/.installed ## what speccli costs beside vLLM itself
	$(BIN)/python tests/bench/overhead.py

bench-batch: .venv/.installed ## speccli batch beside LLM.chat and vllm run-batch, and its own cost (about 15 minutes)
	$(BIN)/python tests/bench/batch.py

bench-cpu: .venv/.installed ## tokens/s of each CPU setting (about 15 minutes)
	$(BIN)/python tests/bench/cpu_settings.py

bench-view: .venv/.installed ## tokens/s of an answer with the full view, against plain text to a file
	$(BIN)/python tests/bench/view.py

test-kills: .venv/.installed ## kill -9 at 20 random moments of a real batch, resumed each time (about 30 minutes)
	$(BIN)/python tests/bench/kill_resume.py

clean: ## remove .venv and all else that make made
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
