"""Fault injection for running games."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import psutil

from soulslab.envs.tasks.duel.duel_env import DuelEnv
from soulslab.errors import EnvironmentUsageError, SiphonError

#: Depth below the floor at which a player is out of bounds.
DEPTH_M = 50.0


def kill_game(env: DuelEnv) -> None:
    """Kill the process of the game."""
    os.kill(env.session.info.pid, signal.SIGKILL)


def freeze_game(env: DuelEnv) -> None:
    """Stop the process of the game with SIGSTOP."""
    os.kill(env.session.info.pid, signal.SIGSTOP)


def close_window(env: DuelEnv) -> None:
    """Close the X connection of the game, as ``xkill`` does."""
    from soulslab.siphon.process.window import find_window  # noqa: PLC0415  (X is only needed here)
    from soulslab.siphon.process.x11 import XConnection  # noqa: PLC0415

    connection = XConnection(env.session.info.display)
    try:
        window = find_window(connection, env.session.info.pid)
        with connection.using("close the window", window.id):
            connection.core.KillClient(window.id, is_checked=True).check()
    finally:
        connection.close()


def kill_display(env: DuelEnv) -> None:
    """Kill the X server that was started for the game.

    Raises:
        EnvironmentUsageError: The game is on a display that was not started for it.
    """
    name = env.session.info.display
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/tmp/.X11-unix/X{name.removeprefix(':')}")  # noqa: S108  (socket folder of X servers)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", credentials)[0]
    if pid not in (child.pid for child in psutil.Process().children(recursive=True)):
        raise EnvironmentUsageError(
            f"the display {name} was not started by this process; open the game on a private one"
        )
    os.kill(pid, signal.SIGKILL)


def lose_lock(env: DuelEnv) -> None:
    """Release the lock-on of the camera."""
    env.game.write({"lock_on": False})


def sink_player(env: DuelEnv) -> None:
    """Put the player far below the ground."""
    position = np.array(env.game.read("player.position")["player.position"])
    env.game.write({"player.position": position - (0.0, 0.0, DEPTH_M)})


def load_fight(env: DuelEnv) -> None:
    """Load another fight during an episode; until it is loaded, pointers of the game are invalid."""
    env.game.play(0.05, ("restart",))


#: Functions that inject faults, by name. The first four require a restart of the game.
FAULTS: Final[dict[str, Callable[[DuelEnv], None]]] = {
    "game killed": kill_game,
    "game frozen": freeze_game,
    "window closed": close_window,
    "display killed": kill_display,
    "lock-on lost": lose_lock,
    "player out of bounds": sink_player,
    "fight loaded anew": load_fight,
}


def inject_fault(env: DuelEnv, name: str) -> bool:
    """Inject a fault into a game; return False if the game has already ended."""
    try:
        FAULTS[name](env)
    except (SiphonError, OSError):
        return False
    return True
