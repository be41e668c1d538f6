"""Actor and learner in two processes that share memory, so that a game in real time never waits for learning.

From the ground up: :mod:`.block` is one file of shared memory, :mod:`.ring` a queue in it, :mod:`.weights` what is
published in it; :mod:`.ends` makes of them the two ends of a channel (:mod:`soulslab.learn.rainbow.channel`);
:mod:`.process` starts the actor and keeps it alive, :mod:`.actor` is its program. ``docs/actor_learner.md`` tells
what survives what.
"""
