"""Recorded fights to learn from: Minari data sets, a second replay buffer filled from them, and a warm start.

Whoever fought (a script, a policy, a person), the file is the same: what the environment gave, step by step, and what
was done. It is written by :mod:`soulslab.learn.demonstrations.writing` and read, after checks, as rows of the replay
buffer by :mod:`soulslab.learn.demonstrations.reading`.
"""
