"""Rainbow for slow games: off-policy learning that gets as much as it can out of each decision.

The story from top to bottom is in :mod:`soulslab.learn.rainbow.learner`; ``docs/rainbow.md`` has the equations.
"""
