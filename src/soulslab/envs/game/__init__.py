"""Environments over a session with a game: how the game is found, held, timed and stepped."""
