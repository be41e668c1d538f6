"""Default values of settings of a fleet; the command line imports them without the packages of the extra."""

from __future__ import annotations

from typing import Final

MAX_MEMORY_MB: Final = 1024
"""Memory of the Redis server (MB)."""
EPSILON_ALPHA: Final = 7.0
"""Spread of the shares of random actions over the games."""
SPOOL_MB: Final = 256
"""Size of the file of a game for messages that the server does not take (MB)."""
FROZEN_S: Final = 180.0
"""Time without a step after which a game is started again (s); a loading screen of a real game takes up to a minute."""
