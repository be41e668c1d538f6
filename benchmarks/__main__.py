"""Run the benchmarks with ``python -m benchmarks``."""

import signal
import sys

from benchmarks.commands import run

# SIGTERM ends a benchmark as Ctrl-C does. By default, it would leave the processes of the benchmark behind.
signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(run(sys.argv[1:]))
