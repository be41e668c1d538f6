"""Tasks of `soulslab.envs.game.game_env.GameEnv`."""
