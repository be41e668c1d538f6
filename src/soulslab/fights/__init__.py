"""Recording of demonstration fights by the reference player, a policy, or a person, in one file format.

A fight in the arena is determined by its seed and the action of each decision, so it can be replayed in any environment
with the same rules, with other rewards, observations and steps.
"""
