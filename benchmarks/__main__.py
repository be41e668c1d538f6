"""Run the benchmarks with ``python -m benchmarks``."""

import sys

from benchmarks.commands import run

sys.exit(run(sys.argv[1:]))
