# Everything goes through scripts/bootstrap.py, which sets up .venv when it has to. `make test ARGS="-k config"` passes on.
PYTHON ?= python3
ARGS ?=

.PHONY: demo test check docs bench setup pin clean

demo test check docs bench setup pin:
	@$(PYTHON) scripts/bootstrap.py $@ -- $(ARGS)

clean:
	rm -rf .venv .bootstrap.lock build dist site bench-results src/*.egg-info src/soulslab/siphon/clock/*.so
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
