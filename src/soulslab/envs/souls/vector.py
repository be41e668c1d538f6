"""Several fights with a boss of a real game at once, each in a game of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from soulslab.envs.live.env import DuelEnv
from soulslab.envs.live.vector import DuelVectorEnv
from soulslab.envs.souls.env import SoulsDuelEnv


class SoulsDuelVectorEnv(DuelVectorEnv):
    """N fights with a boss of a real game (`SoulsDuelEnv`).

    A machine runs one such game. N games are on N servers (``server`` as a list), or the built-in fight stands in.
    """

    single: ClassVar[Callable[..., DuelEnv]] = SoulsDuelEnv
