"""Settings, counters and exit codes, for the process of a game and the process that watches it."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any, Final

import msgspec

from soulslab.errors import ConfigError
from soulslab.fleet.messages import Name, Role
from soulslab.learn.actors.actor_status import LAYOUT, N_STATUS_BYTES, StatusBoard
from soulslab.learn.actors.memory_block import create_block, open_block

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 3
"""Exit code of a game that must not be started again, because the fleet or this machine refuses it."""

SETTINGS_NAME: Final = "game.json"
STATUS_NAME: Final = "status"

_MAX_MACHINE: Final = 100
"""Length of the name of a machine; the names of its games are longer."""


class GameSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one game, which this machine determines.

    Attributes:
        join: Path of the join file.
        name: Name of the game for people.
        n_envs: Environments in this process; more than 1 only for simulators.
        env_id: Environment that may be played although a message cannot name it (``module:id``); "" for none.
        role: Whether it explores or plays candidates greedily.
        options: Options of the environment that only this machine may determine, such as its server or its launch.
        functions: Functions that the learner may name as a reward, as ``module:function``, by that name.
        spool_bytes: Size of the file for steps that the server does not take.
        n_restarts: Number of earlier starts of this game.
        last_fault: Why the last start of this game ended; "" if none did.
        feed: Path of its live feed; "" for none.
        record: Folder of the data set of its fights; "" for none.
    """

    join: str
    name: str
    n_envs: int = 1
    env_id: str = ""
    role: Role = "exploring"
    options: dict[str, Any] = {}
    functions: dict[str, str] = {}
    spool_bytes: int
    n_restarts: int = 0
    last_fault: str = ""
    feed: str = ""
    record: str = ""


def machine_name() -> str:
    """Return the host name, with the characters that the name of a game may have."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
    return plain.lstrip("._-")[:_MAX_MACHINE] or "machine"


def game_name(machine: str, suffix: str | int) -> str:
    """Return the name of a game of a machine; "" is the host name.

    Raises ConfigError for a name that the learner would refuse (`messages.Name`).
    """
    name = f"{machine or machine_name()}/{suffix}"
    try:
        return msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{machine!r} is not a name of at most {_MAX_MACHINE} ASCII letters, digits, spaces and the characters "
            "._/-, which begins with a letter or a digit",
            path="--name",
        ) from error


def create_status(folder: Path) -> StatusBoard:
    """Make the counters through which a game is watched."""
    return StatusBoard(create_block(folder / STATUS_NAME, "status", LAYOUT, N_STATUS_BYTES, 1))


def open_status(folder: Path) -> StatusBoard:
    """Open the counters through which a game is watched."""
    return StatusBoard(open_block(folder / STATUS_NAME, "status", LAYOUT))
