"""soulslab: reinforcement learning on Souls games.

Importing the package registers its environments with Gymnasium and does nothing else::

    import gymnasium
    import soulslab

    env = gymnasium.make("soulslab/Arena-v0", boss="judge")

Without the import, Gymnasium's ``module:id`` form does the same: ``gymnasium.make("soulslab:soulslab/Arena-v0")``.
"""

import sys
from pathlib import PurePath

from soulslab.version import VERSION

__version__ = VERSION

__all__ = ["__version__"]

# The command line registers when a command needs it (`soulslab.cli`): Gymnasium takes longer to import than
# `soulslab --help` may take to answer.
if PurePath(sys.argv[0] if sys.argv else "").stem != "soulslab":
    from soulslab.envs.registration import register_all

    register_all()
