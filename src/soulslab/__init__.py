"""soulslab: reinforcement learning on Souls games.

Importing the package registers its environments with Gymnasium and does nothing else::

    import gymnasium
    import soulslab

    env = gymnasium.make("soulslab/Arena-v0", boss="judge")

`evaluate` measures a policy of any library: see `soulslab.learn.evaluate.evaluate_function`.

Without the import, Gymnasium's ``module:id`` form does the same: ``gymnasium.make("soulslab:soulslab/Arena-v0")``.
"""

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from soulslab.version import VERSION

if TYPE_CHECKING:
    from soulslab.learn.evaluate import evaluate_function as evaluate

__version__ = VERSION

__all__ = ["__version__", "evaluate"]

# The command line registers when a command needs it (`soulslab.cli`): Gymnasium takes longer to import than
# `soulslab --help` may take to answer.
if PurePath(sys.argv[0] if sys.argv else "").stem != "soulslab":
    from soulslab.envs.registration import register_all

    register_all()


def __getattr__(name: str) -> Any:
    """Return `evaluate`, which is imported when it is used: torch takes seconds to import."""
    if name != "evaluate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from soulslab.learn.evaluate import evaluate_function  # noqa: PLC0415 (see above)

    return evaluate_function
