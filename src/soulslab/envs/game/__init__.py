"""The Gymnasium environment over a session: connection options, recovery, timing and stepping of a game."""
