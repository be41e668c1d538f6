"""Bosses of Elden Ring and Dark Souls III as environments: `soulslab.envs.live` with the facts of the real games."""
