"""What holds for every test."""

import os

from hypothesis import settings

# Before numpy or torch start their thread pools: the suite runs one process per core already.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run, so that red is red for everybody; and no limit in time, as machines differ.
settings.register_profile("soulslab", derandomize=True, deadline=None)
settings.load_profile("soulslab")
