"""What can befall a game while it is played: faults to inflict on one, and to recover from."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import psutil

from soulslab.envs.live.env import DuelEnv
from soulslab.errors import EnvironmentUsageError, SiphonError

#: Where a player is put that is to be out of bounds: this far under the floor.
DEPTH_M = 50.0


def kill_game(env: DuelEnv) -> None:
    """Kill the process of the game."""
    os.kill(env.session.info.pid, signal.SIGKILL)


def freeze_game(env: DuelEnv) -> None:
    """Stop the process of the game, as a debugger does."""
    os.kill(env.session.info.pid, signal.SIGSTOP)


def close_window(env: DuelEnv) -> None:
    """Cut the game off from its window, as ``xkill`` does."""
    from soulslab.siphon.process.window import find_window  # noqa: PLC0415  (X only where it is needed)
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
        connection.connect(f"/tmp/.X11-unix/X{name.removeprefix(':')}")  # noqa: S108  (where X servers listen)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", credentials)[0]
    if pid not in (child.pid for child in psutil.Process().children(recursive=True)):
        raise EnvironmentUsageError(
            f"the display {name} was not started by this process; open the game on a private one"
        )
    os.kill(pid, signal.SIGKILL)


def lose_lock(env: DuelEnv) -> None:
    """Take the camera's lock off the boss."""
    env.game.write({"lock_on": False})


def sink_player(env: DuelEnv) -> None:
    """Put the player far below the ground."""
    position = np.array(env.game.read("player.position")["player.position"])
    env.game.write({"player.position": position - (0.0, 0.0, DEPTH_M)})


def load_fight(env: DuelEnv) -> None:
    """Let the game load another fight in the middle of an episode: its pointers lead nowhere meanwhile."""
    env.game.play(0.05, ("restart",))


#: Faults by name, with what does them. Those of the first three, and a display that is gone, cost the game.
FAULTS: Final[dict[str, Callable[[DuelEnv], None]]] = {
    "game killed": kill_game,
    "game frozen": freeze_game,
    "window closed": close_window,
    "display killed": kill_display,
    "lock-on lost": lose_lock,
    "player out of bounds": sink_player,
    "fight loaded anew": load_fight,
}


def inflict(env: DuelEnv, name: str) -> bool:
    """Do a fault to a game; tell whether that was possible (it may be gone already)."""
    try:
        FAULTS[name](env)
    except (SiphonError, OSError):
        return False
    return True
