"""soulslab: reinforcement learning on Souls games.

Importing the package registers its environments with Gymnasium and does nothing else::

    import gymnasium
    import soulslab

    env = gymnasium.make("soulslab/Arena-v0", boss="judge")

`evaluate` evaluates a policy of any library; see `soulslab.learn.evaluate.evaluate_function`.

Without the import, use Gymnasium's ``module:id`` form: ``gymnasium.make("soulslab:soulslab/Arena-v0")``.
"""

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from soulslab.version import VERSION

if TYPE_CHECKING:
    from soulslab.learn.evaluate import evaluate_function as evaluate

__version__ = VERSION

__all__ = ["__version__", "evaluate"]

# The command line registers environments only when a command needs them (`soulslab.cli`), because importing Gymnasium
# takes longer than `soulslab --help` may take.
if PurePath(sys.argv[0] if sys.argv else "").stem != "soulslab":
    from soulslab.envs.registration import register_all

    register_all()


def __getattr__(name: str) -> Any:
    """Import `evaluate` when it is used, because importing torch takes seconds."""
    if name != "evaluate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from soulslab.learn.evaluate import evaluate_function  # noqa: PLC0415 (see above)

    return evaluate_function
