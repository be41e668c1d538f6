"""Rainbow for slow games: off-policy learning that makes many updates for each game decision.

:mod:`soulslab.learn.rainbow.q_learner` describes one update; ``docs/rainbow.md`` has the equations.
"""
