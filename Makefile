# make demo       sets up .venv and runs the main job on bundled data; results in demo/
# make test       sets up .venv, lints, type-checks, checks import contracts, runs the tests; says at its end how long that took
# make test-slow  the statistical tests that take minutes, but those that have passed with the same code (.slow_passed)
# make test-bounds  kernels and sampler with bounds checks in compiled code
# make test-numba   how kernels are compiled, with the oldest and the newest supported Numba
# make test-arviz   the tree for ArviZ with every plot of arviz-plots, in an environment of its own
# make docs       the site, into docs/_build/html; the first build runs all examples for some minutes, later builds only changed ones; says how long it took
# make readme     the table of README.md; ten minutes
# make wheel      a wheel and an sdist, into dist/, as PyPI wants them
# make test-wheel the wheel in an environment of its own, outside the checkout
# make bench      the benchmarks, as ratios within one run
# make figures    all tables and pictures of README and docs, in place; 30 hours of CPU, continues a figure where it stopped.
#                 Some of them: .venv/bin/python -m benchmarks.figures NAME ...; names by --list, without anything made
# make paper      those of the paper's experiments alone, into docs/paper.md; an hour and more
# make link       the cost of the link on the paper's scenarios, and its picture, into docs/link-evidence.md; half an hour

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# One BLAS thread: the matrices are small and the chains and test workers already use the cores.
export OPENBLAS_NUM_THREADS = 1
export OMP_NUM_THREADS = 1
unexport PYTHONDONTWRITEBYTECODE
test: export DUALVIEW_COMPILE_PROCESSES = 1
test: BEGAN := $(shell date +%s)

.PHONY: demo docs readme wheel test-wheel test warm-features+pooled warm-table+agreement test-slow test-bounds test-numba test-arviz bench figures paper link lint format clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dualview needs Python 3.11 or later; got " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[test]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/dualview demo --out demo

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The tests of a file run on one worker, so that its fits and its compilation are shared. What many files share is compiled first,
# beside the linters: else the workers would compile it side by side.
test: $(VENV)/ready
	$(MAKE) -j 3 warm-table+agreement warm-features+pooled lint
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile --durations=15 --durations-min=5; status=$$?; took=$$(($$(date +%s) - $(BEGAN))); \
	echo "make test: $$((took / 60)) min $$((took % 60)) s"; exit $$status

warm-table+agreement warm-features+pooled: $(VENV)/ready
	$(BIN)/python tests/warm_up.py $(subst +, ,$(@:warm-%=%))

test-slow: $(VENV)/ready
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "slow or paper" --resume=.slow_passed

# Numba's cache does not distinguish code with checks from code without, so this code has its own cache.
test-bounds: $(VENV)/ready
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.bounds_cache $(BIN)/pytest -n $(WORKERS) tests/numerics tests/views tests/behaviors tests/partitions tests/engines tests/chains

# Each Numba has its own environment, with the packages that a fit needs. The last two are TESTED of numerics/compiling.py; the first
# is the oldest that is supported, which does without.
NUMBAS ?= 0.61 0.63 0.68
NUMBA_TESTS := tests/numerics/test_compiling.py tests/numerics/test_standalone.py tests/numerics/test_dispatch.py tests/numerics/test_other_peoples_code.py

$(VENV)-numba-%/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-numba-$*
	$(VENV)-numba-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable . 'numba==$*.*' pytest hypothesis
	touch $@

.PRECIOUS: $(VENV)-numba-%/ready

test-numba-%: $(VENV)-numba-%/ready
	NUMBA_CACHE_DIR=$(abspath $(VENV)-numba-$*/cache) $(VENV)-numba-$*/bin/pytest -m "slow or not slow" $(NUMBA_TESTS)
	DUALVIEW_COMPILE_PARTS=0 NUMBA_CACHE_DIR=$(abspath $(VENV)-numba-$*/cache) $(VENV)-numba-$*/bin/pytest $(NUMBA_TESTS)

test-numba: $(NUMBAS:%=test-numba-%)

# The last arviz-plots for Python 3.11 needs a matplotlib before 3.11, which the other tests are not held to.
$(VENV)-arviz/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-arviz
	$(VENV)-arviz/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[plots]' arviz-plots 'matplotlib<3.11' pytest hypothesis
	touch $@

test-arviz: $(VENV)-arviz/ready
	$(VENV)-arviz/bin/pytest tests/posterior/test_arviz_tree.py

# Warnings are errors, those of examples too. Needs no network. Results of examples are kept in docs/gallery, docs/tutorial and docs/_build.
docs: $(VENV)/ready
	$(BIN)/python -m sphinx --fail-on-warning --quiet --jobs auto docs docs/_build/html

readme: $(VENV)/ready
	$(BIN)/python -m benchmarks.figures forum

wheel: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

test-wheel: $(VENV)/ready
	$(BIN)/pytest -m slow tests/test_release.py

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks.partitions
	$(BIN)/python -m benchmarks

figures: $(VENV)/ready
	$(BIN)/python -m benchmarks.figures

paper: $(VENV)/ready
	$(BIN)/python -m benchmarks.figures paper

link: $(VENV)/ready
	$(BIN)/python -m benchmarks.figures link grid

clean:
	rm -rf .figures $(VENV) $(VENV)-numba-* $(VENV)-arviz demo dist docs/_build docs/gallery docs/tutorial docs/reference/api docs/reference/command-line.md .bounds_cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests benchmarks reproduction -name __pycache__ -type d -exec rm -rf {} +
