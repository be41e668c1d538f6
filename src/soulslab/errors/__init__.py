"""Errors of soulslab, all a `SoulslabError`. The message says what is wrong, where, and what to do.

The parameters of a constructor are also fields, for programs; ``problem`` only where a class says so.
"""

from soulslab.errors.bridge import *  # noqa: F403
from soulslab.errors.general import *  # noqa: F403
