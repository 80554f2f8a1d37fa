# Every command of GEMM Lab. Each sets up what it needs first, so each works from a fresh clone.

PYTHON ?= python3
VENV_PYTHON := .venv/bin/python

# A Python that was named is the one that .venv gets; otherwise a finished .venv stays as it is.
EXACT := $(if $(filter file,$(origin PYTHON)),,--exact-python)

# Jupyter's settings for this checkout; a user's own in ~/.jupyter win. Kernels come from .venv.
JUPYTER := JUPYTER_CONFIG_PATH=requirements/jupyter JUPYTER_PREFER_ENV_PATH=1 $(VENV_PYTHON) -m
# A process on each core, with one thread in it: more threads would only get in each other's way.
PYTEST := OMP_NUM_THREADS=1 $(VENV_PYTHON) -m pytest --quiet --numprocesses logical --maxprocesses 8 --dist loadfile
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 300
HARDWARE := tests/test_against_hardware.py
PTXSIM := ptxsim/tests
BUILT := tests/site
# Takes minutes, and a copy of the checkout with a .venv of its own.
SHOWN := tests/readme

# Only what .venv holds counts.
unexport PYTHONPATH PYTHONHOME
# Tests and notebooks start some 200 processes: without bytecode, each spends seconds to import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lab test test-thorough test-unit test-ptxsim test-hardware test-notebooks test-dsl test-all test-readme lint notebooks readme compiled site setup-site test-site lock clean

help:
	@echo 'make lab         set up, then open JupyterLab on the notebooks (ARGS="--port 9000": more for Jupyter)'
	@echo 'make test        set up, then check the code and most notebooks: ruff, mypy, pytest, nbval'
	@echo 'make test-ptxsim the tests of the simulator alone'
	@echo 'make test-dsl    kernels of Triton, Numba and CuTe DSL in the simulator: 2 GB, Python 3.11 or newer'
	@echo 'make test-all    make test, slow tests and notebooks, the site, the commands that README shows'
	@echo 'make notebooks   run all notebooks in the simulator and write their outputs into them'
	@echo 'make readme      write the generated parts of pages, the pictures and the thumbnails'
	@echo 'make compiled    compile the rungs with the settings that ship, for sliders and machines without NVRTC'
	@echo 'make site        the series as a static site, to be read without installing: build/site/index.html'
	@echo 'make test-site   build the site, then check it in Chromium'
	@echo 'make lock        pin the versions of the packages of pyproject.toml, in requirements/*.txt'
	@echo 'make clean       remove everything that these commands made, .venv included'
	@echo
	@echo 'Another Python: make lab PYTHON=python3.12'

setup:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo 'gemmlab: There is no $(PYTHON) here: install Python 3.10 or newer, or name one, for example make lab PYTHON=python3.12.' >&2; exit 1; }
	@$(PYTHON) requirements/install.py $(EXACT) $(WITH)

lab: setup
	@echo 'Starting JupyterLab on notebooks/; Ctrl-C twice stops it.'
	@$(JUPYTER) jupyterlab --log-level=WARN $(ARGS)

test: lint
	$(PYTEST) $(NBVAL) --part quick --ignore $(BUILT) notebooks tests $(PTXSIM)

# The files that `make test` leaves out, for they take long: see conftest.py.
test-thorough: setup
	$(PYTEST) $(NBVAL) --part thorough --ignore $(BUILT) notebooks tests $(PTXSIM)

# All of both in three parts, for machines side by side.
test-unit: lint
	$(PYTEST) --ignore $(HARDWARE) --ignore $(BUILT) --ignore $(SHOWN) tests $(PTXSIM)
test-ptxsim: setup
	$(PYTEST) $(PTXSIM)
test-hardware: setup
	$(PYTEST) $(HARDWARE)
test-notebooks: setup
	$(PYTEST) $(NBVAL) notebooks

# One after the other, also with make -j: each takes all cores.
test-all:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-thorough
	@$(MAKE) --no-print-directory test-dsl
	@$(MAKE) --no-print-directory test-site

# Compilers of 1 GB, in an environment of their own.
test-dsl:
	$(PYTHON) -m venv .venv-dsl
	.venv-dsl/bin/python -m pip install --quiet --requirement requirements/dsl.txt
	.venv-dsl/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable ptxsim
	TRITON_DEFAULT_FP_FUSION=1 .venv-dsl/bin/python -m pytest --quiet -c ptxsim/pyproject.toml ptxsim/tests/test_dsl.py

test-readme: setup
	$(PYTEST) --numprocesses 0 $(SHOWN)

lint: setup
	$(VENV_PYTHON) -m ruff check --quiet .
	$(VENV_PYTHON) -m ruff format --check --quiet .
	$(VENV_PYTHON) -m mypy --no-error-summary
	$(VENV_PYTHON) -m mypy --config-file ptxsim/pyproject.toml --no-error-summary
	$(VENV_PYTHON) -m tools.size

notebooks: setup
	@GEMMLAB_DEVICE=simulator $(JUPYTER) nbconvert --to notebook --execute --inplace notebooks/*.ipynb

readme: setup
	@GEMMLAB_DEVICE=simulator $(VENV_PYTHON) -m tools.readme

compiled: setup
	@$(VENV_PYTHON) -m gemmlab compile

# Sphinx and the like, which nothing else needs.
setup-site:
	@$(MAKE) --no-print-directory setup WITH=--site

site: setup-site
	@mkdir -p build/compiled
	@PTXSIM_COMPILED=$(CURDIR)/build/compiled $(VENV_PYTHON) -m tools.site

test-site: site
	$(PYTEST) $(BUILT)

# uv is the one tool outside the lock: only this command needs it.
lock: setup
	@$(VENV_PYTHON) -m pip install --quiet uv==0.13.8
	@$(VENV_PYTHON) -m tools.lock

clean:
	rm -rf .venv .venv-dsl build .pytest_cache .ruff_cache .mypy_cache .hypothesis ptxsim/.pytest_cache ptxsim/.hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
