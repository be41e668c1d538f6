"""The long form of tests, ``pytest --long``, which ``make bench`` runs.

It runs more resets, frames, fights and examples per test, and also the tests marked ``long``, which take several
seconds each, such as end-to-end runs of benchmarks.
"""

from hypothesis import settings

#: ``tests/conftest.py`` loads the hypothesis profile of the option before tests are collected.
IS_LONG = settings.get_current_profile_name() == "long"


def examples(n, in_long_form=None):
    """Return the number of examples of a test: n, or in the long form the other number, by default 40 n."""
    return (in_long_form or 40 * n) if IS_LONG else n
