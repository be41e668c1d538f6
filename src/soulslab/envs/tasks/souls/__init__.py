"""Bosses of Elden Ring and Dark Souls III: duels with the facts of the real games."""
