"""The long form of tests, ``pytest --long``, which ``make bench`` runs.

It runs more resets, frames, fights and examples per test, and also the tests marked ``long``, which take several
seconds each, such as end-to-end runs of benchmarks.
"""

from hypothesis import settings

#: ``tests/conftest.py`` chooses the profile of hypothesis by the option, before any test is read.
IS_LONG = settings.get_current_profile_name() == "long"


def examples(n):
    """Return the examples of a test with a number of its own: in the long form as many times more as of all others."""
    return n * settings().max_examples // settings.get_profile("soulslab").max_examples
