"""Recording fights to learn from: a script's, a policy's, or a person's, all into the same kind of file.

The file is a Minari data set (:mod:`soulslab.learn.demonstrations`). What is recorded are the steps of exactly the
environment that will be trained on, whoever fought: a fight in the arena is its seed and what was done in each
decision, so that it can be fought again in any environment of the same rules, whatever its rewards, observations and
steps are.
"""
