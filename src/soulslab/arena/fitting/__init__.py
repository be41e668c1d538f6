"""The fit of a boss: from recorded fights to a boss file, with an interval for each number.

``recorded_fight`` defines the recordings, ``attacks`` finds the boss's attacks and the player's hits in them, the other
modules estimate one kind of number each, and ``fit`` puts the boss together. No module reads the boss file of the
recorded boss. The player is known: its animations, its radius and its damage are those of ``knight.toml``.
"""
