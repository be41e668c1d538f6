"""Boss duels in a running game: one environment over a session, a profile and a scenario.

`soulslab.envs.live.env.DuelEnv` is what every real Souls game uses; ``soulslab/ArenaLive-v0`` is the built-in fight,
played in its window through memory, keys and pictures.
"""
