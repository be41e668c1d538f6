"""soulslab: reinforcement learning on Souls games.

Importing the package registers its environments with Gymnasium and does nothing else::

    import gymnasium
    import soulslab

    env = gymnasium.make("soulslab/Arena-v0", boss="judge")

Without the import, Gymnasium's ``module:id`` form does the same: ``gymnasium.make("soulslab:soulslab/Arena-v0")``.
"""

from soulslab.envs.registration import register_all
from soulslab.version import VERSION

__all__ = ["__version__"]

__version__ = VERSION

register_all()
