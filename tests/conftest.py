"""Configuration of all tests."""

import os
import signal

import pytest
from hypothesis import settings

# Before numpy or torch start their thread pools: the suite runs one process per core already.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in each run, so that failures are reproducible; no time limit, because machines differ.
settings.register_profile("soulslab", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("long", settings.get_profile("soulslab"), max_examples=2000)


def pytest_addoption(parser):
    """Add the option ``--long``."""
    help_text = "run the tests marked long, and more resets, frames, fights and examples in others (make bench)"
    parser.addoption("--long", action="store_true", help=help_text)


def pytest_configure(config):
    """Set the number of hypothesis examples before tests are collected, and enable Ctrl-C.

    A shell starts a background program with SIGINT and SIGQUIT ignored, and processes of the tests would inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGQUIT"):
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    settings.load_profile("long" if config.getoption("long") else "soulslab")


def pytest_collection_modifyitems(config, items):
    """Deselect tests of the long form without ``--long``, and run the tests with Wine first.

    The tests with Wine run one at a time. At the end of a run, the other processes would have to wait for them.
    """
    if not config.getoption("long"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    items.sort(key=lambda item: "windows" not in getattr(item, "fixturenames", ()))


@pytest.fixture(autouse=True)
def keep_logging_as_it_is(monkeypatch):
    """Prevent commands in this process from configuring logging for all later tests."""
    monkeypatch.setattr("soulslab.log.configure", lambda _: None)
