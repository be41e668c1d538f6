"""Recording of demonstration fights by the reference player, a policy, or a person, in one file format.

The file is a Minari data set (:mod:`soulslab.learn.demonstrations`). It contains the steps of the environment that is
later used for training. A fight in the arena is determined by its seed and the action of each decision, so it can be
replayed in any environment with the same rules, with other rewards, observations and steps.
"""
