"""``env.client`` for scripts and wrappers of EldenGym: reads and writes the game's memory by EldenGym's names."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from soulslab.compat.eldengym.eldengym_observation import IN_BLOCK, PLAYER, PUBLIC_ATTRIBUTES, block_positions
from soulslab.compat.eldengym.eldengym_options import boss_of
from soulslab.errors import EnvironmentUsageError, UnknownAttributeError
from soulslab.games.character import Position, from_memory, to_memory
from soulslab.siphon.session import Session

_log = logging.getLogger(__name__)

#: Replacements of members of EldenGym's client that `EldenClient` does not have.
_REPLACEMENTS: Final = {
    "launch_game": "make(..., launch_game=True) starts the game",
    "scenarios": "list_envs() returns their names, soulslab.games.boss_facts has the facts of their bosses",
    **dict.fromkeys(
        ("enter_menu", "quit_to_title"),
        "env.reset() enters a fight from any state of the game; EldenRing(env.session) has enter_world() and "
        "leave_world()",
    ),
    "copy_save_file": "soulslab.games.save_files has backup() and restore()",
    **dict.fromkeys(
        (
            "set_process_config",
            "init_all",
            "initialize_memory",
            "initialize_input",
            "initialize_capture",
            "get_server_status",
        ),
        "the environment finds the game by itself; env.session.info describes it",
    ),
    **dict.fromkeys(
        ("input_key_tap", "input_key_toggle", "move_mouse"),
        "an action holds the keys of a step; between two steps use env.session.input",
    ),
    **dict.fromkeys(
        (
            "capture_frame",
            "capture_and_save",
            "start_frame_stream",
            "get_latest_frame",
            "stop_frame_stream",
            "stream_frames",
            "stream_frames_to_callback",
        ),
        "each observation has its frame; env.session.capture() captures one between two steps",
    ),
    **dict.fromkeys(
        ("start_recording", "stop_recording", "get_recording_status", "download_recording"),
        "soulslab.siphon.recording.recorder.Recorder(env.session, path) records",
    ),
    "execute_command": "soulslab does not run commands for a client",
    "close": "env.close() closes the game",
}


class ClientEnv(Protocol):
    """The part of the environment that the client needs."""

    scenario_name: str | Path

    def set_game_speed(self, speed: float) -> None:
        """Set the game seconds per wall second."""

    def reset(self) -> Any:
        """Start an episode."""


def _integer(name: str, doc: str) -> property:
    """Return a property of `EldenClient` that reads an integer by EldenGym's name."""
    return property(lambda client: int(client._read(name)), doc=doc)


class EldenClient:
    """Reads and writes the game, with methods of the same names as in eldengym 0.6.0.

    Attribute names of soulslab are accepted, too. A failure raises an error, whereas EldenGym's client returns
    ``success=False`` or 0. Access to a member of EldenGym that does not exist here raises an error that names the
    replacement.
    """

    def __init__(self, session: Session, env: ClientEnv) -> None:
        self._session = session
        self._env = env

    def set_game_speed(self, speed: float) -> None:
        """Set the speed of the game; see `EldenGymEnv.set_game_speed`."""
        self._env.set_game_speed(speed)

    def start_scenario(self, scenario_name: str | Path = "") -> None:
        """Start a fight, as ``reset`` of the environment does.

        Raises:
            EnvironmentUsageError: The environment has another scenario, compared in any spelling.
            SiphonError: All tries to start the fight failed.
        """
        own = self._env.scenario_name
        if scenario_name and boss_of(scenario_name) != boss_of(own):
            raise EnvironmentUsageError(f"start_scenario: the environment is for {own}; make one for {scenario_name}")
        self._env.reset()

    def load_config_from_file(self, config_filepath: str | Path, wait_time: float = 2) -> dict[str, dict[str, Any]]:
        """Return the process and the window of the session, in the format of EldenGym's method.

        The file is not read, because the profile of soulslab describes the game. Both arguments have no effect.

        Returns:
            ``config``, ``memory``, ``input`` and ``capture``, each with ``success`` and ``message``.
        """
        del wait_time
        info = self._session.info
        _log.info("%s is not read: the profile of %s describes the game", config_filepath, self._session.profile.name)
        width, height = info.window_px
        memory = {"process_id": info.pid}
        capture = {"window_width": width, "window_height": height}
        parts: dict[str, dict[str, Any]] = {"config": {}, "memory": memory, "input": {}, "capture": capture}
        return {name: {"success": True, "message": "attached", **part} for name, part in parts.items()}

    def get_attribute(self, name: str) -> dict[str, Any]:
        """Return a value as ``{"success": True, "message": "", "value": ...}``. Raises `SiphonError`."""
        return {"success": True, "message": "", "value": self._read(name)}

    def set_attribute(self, name: str, value: Any, value_type: str = "") -> dict[str, Any]:
        """Write a number or a bool; return ``{"success": True, "message": ""}``. Raises `SiphonError`.

        ``value_type`` has no effect, because the profile has the type.
        """
        del value_type
        attribute, index, is_vector = self._find_attribute(name)
        if is_vector:
            # A session writes whole vectors.
            vector = np.array(self._session.read(attribute))
            vector[index] = value
            value = vector
        self._session.write({attribute: value})
        return {"success": True, "message": ""}

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that names the replacement of a member of EldenGym's client."""
        hint = f"; {_REPLACEMENTS[name]}" if name in _REPLACEMENTS else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    # --- the player -----------------------------------------------------------------------------------------

    player_hp = _integer("HeroHp", "Health of the player.")
    player_max_hp = _integer("HeroMaxHp", "Full health of the player.")

    def set_player_hp(self, hp: int) -> None:
        """Set the health of the player. Raises as `set_attribute`."""
        self.set_attribute("HeroHp", hp)

    player_animation_id = _integer("HeroAnimId", "Id of the player's animation.")

    @property
    def local_player_coords(self) -> Position:
        """Position of the player in the coordinates of the physics: x, y, height, in m."""
        return from_memory(self._session.read(PLAYER))

    @property
    def global_player_coords(self) -> Position:
        """Position of the player in its map block, as in observations: x, y, height, in m."""
        return from_memory(self._session.read(IN_BLOCK))

    def teleport(self, x: float, y: float, z: float) -> None:
        """Move the player to a position in its map block, in m (z is the height), with one write."""
        values = self._session.snapshot((PLAYER, IN_BLOCK))
        physics, block = from_memory(values[PLAYER]), from_memory(values[IN_BLOCK])
        target = [old + new - now for old, new, now in zip(physics, (x, y, z), block, strict=True)]
        self._session.write({PLAYER: to_memory((target[0], target[1], target[2]))})

    teleport_to = teleport

    # --- the boss -------------------------------------------------------------------------------------------

    target_hp = _integer("NpcHp", "Health of the boss.")
    target_max_hp = _integer("NpcMaxHp", "Full health of the boss.")

    def set_target_hp(self, hp: int) -> None:
        """Set the health of the boss. Raises as `set_attribute`."""
        self.set_attribute("NpcHp", hp)

    target_animation_id = _integer("NpcAnimId", "Id of the boss's animation.")

    @property
    def local_target_coords(self) -> Position:
        """Position of the boss in the coordinates of the Havok engine: x, y, height, in m."""
        return from_memory(self._session.read("boss.havok_position"))

    @property
    def global_target_coords(self) -> Position:
        """Position of the boss in the player's map block, as in observations: x, y, height, in m."""
        return block_positions(self._session.snapshot((PLAYER, "boss.position", IN_BLOCK)))[1]

    @property
    def target_player_distance(self) -> float:
        """Distance between player and boss in three dimensions, in m."""
        player, boss = block_positions(self._session.snapshot((PLAYER, "boss.position", IN_BLOCK)))
        return math.dist(player, boss)

    def _read(self, name: str) -> Any:
        attribute, index, is_vector = self._find_attribute(name)
        value = self._session.read(attribute)
        return float(value[index]) if is_vector else value

    def _find_attribute(self, name: str) -> tuple[str, int, bool]:
        """Return the attribute of the profile, the index in its vector, and whether it is a vector."""
        attribute, index = PUBLIC_ATTRIBUTES.get(name, (name, 0))
        known = self._session.profile.attributes
        if attribute not in known:
            raise UnknownAttributeError(name, (*PUBLIC_ATTRIBUTES, *known))
        return attribute, index, name in PUBLIC_ATTRIBUTES and known[attribute].length > 1
