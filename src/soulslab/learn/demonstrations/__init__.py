"""Recorded episodes as Minari data sets.

The episodes may come from a script, a policy or a person. :mod:`soulslab.learn.demonstrations.writing`
writes the observations, actions and rewards of each step, and :mod:`soulslab.learn.demonstrations.reading`
validates them and returns them as rows of the replay buffer.
"""
