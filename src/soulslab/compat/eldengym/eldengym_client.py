"""What scripts and wrappers for EldenGym ask of ``env.client``: values of the game's memory, by its names."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from soulslab.compat.eldengym.absent import OF_CLIENT
from soulslab.compat.eldengym.eldengym_attributes import PUBLIC_ATTRIBUTES
from soulslab.compat.eldengym.eldengym_observation import IN_BLOCK, PLAYER, positions
from soulslab.compat.eldengym.scenario_names import boss_of
from soulslab.errors import EnvironmentUsageError, UnknownAttributeError
from soulslab.games.axes import Position, from_memory, to_memory
from soulslab.siphon.session import Session

_log = logging.getLogger(__name__)


class Fighting(Protocol):
    """The part of the environment that the client needs."""

    scenario_name: str | Path

    def set_game_speed(self, speed: float) -> None:
        """Set the game seconds per wall second."""

    def reset(self) -> Any:
        """Begin a fight."""


class EldenClient:
    """Reads and writes the game, as the methods of those names in eldengym 0.6.0 do.

    It also takes attribute names of soulslab. A failure raises an error, where EldenGym's client returns
    ``success=False`` or 0. A method of EldenGym that does not exist here is an error that names the replacement.

    Args:
        session: Of the game.
        env: The environment that plays it: sets the speed and starts fights.
    """

    def __init__(self, session: Session, env: Fighting) -> None:
        self._session = session
        self._env = env

    def set_game_speed(self, speed: float) -> None:
        """Set the speed of the game; see `EldenGymEnv.set_game_speed`."""
        self._env.set_game_speed(speed)

    def start_scenario(self, scenario_name: str | Path = "") -> None:
        """Begin a fight of the environment, as its ``reset`` does.

        Args:
            scenario_name: The environment's own scenario, in any of its spellings; by default that one.

        Raises:
            EnvironmentUsageError: It is another scenario.
            SiphonError: The start failed, also after retries.
        """
        own = self._env.scenario_name
        if scenario_name and boss_of(scenario_name) != boss_of(own):
            raise EnvironmentUsageError(f"start_scenario: the environment is for {own}; make one for {scenario_name}")
        self._env.reset()

    def load_config_from_file(self, config_filepath: str | Path, wait_time: float = 2) -> dict[str, dict[str, Any]]:
        """Return what the session is attached to, in the form of EldenGym's method; it is attached if it is not yet.

        The file is not read, because the profile of soulslab describes the game.

        Args:
            config_filepath: Accepted so that calls need no change.
            wait_time: Accepted and without effect: attaching waits as long as it has to.

        Returns:
            ``config``, ``memory``, ``input`` and ``capture``, each with ``success`` and ``message``.

        Raises:
            SiphonError: The game cannot be attached to.
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
        """Return a value as ``{"success": True, "message": "", "value": ...}``.

        Raises:
            UnknownAttributeError: There is none of that name.
            SiphonError: It cannot be read.
        """
        return {"success": True, "message": "", "value": self._read(name)}

    def set_attribute(self, name: str, value: Any, value_type: str = "") -> dict[str, Any]:
        """Write a value; return ``{"success": True, "message": ""}``.

        Args:
            name: Of the attribute.
            value: Number or bool.
            value_type: Not needed, as the profile says it.

        Raises:
            UnknownAttributeError: There is none of that name.
            SiphonError: It cannot be written.
        """
        del value_type
        attribute, number, is_vector = self._place(name)
        if is_vector:
            # A vector is written as a whole.
            whole = np.array(self._session.read(attribute))
            whole[number] = value
            value = whole
        self._session.write({attribute: value})
        return {"success": True, "message": ""}

    def __getattr__(self, name: str) -> NoReturn:
        """Say what does here what EldenGym's client does by that name."""
        advice = f"; {OF_CLIENT[name]}" if name in OF_CLIENT else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}", name=name, obj=self)

    # --- the player -----------------------------------------------------------------------------------------

    @property
    def player_hp(self) -> int:
        """Health of the player."""
        return int(self._read("HeroHp"))

    @property
    def player_max_hp(self) -> int:
        """Full health of the player."""
        return int(self._read("HeroMaxHp"))

    def set_player_hp(self, hp: int) -> None:
        """Set the health of the player. Raises as `set_attribute`."""
        self.set_attribute("HeroHp", hp)

    @property
    def player_animation_id(self) -> int:
        """Animation of the player."""
        return int(self._read("HeroAnimId"))

    @property
    def local_player_coords(self) -> Position:
        """Where the player is in the frame of the physics: x, y, height, m."""
        return from_memory(self._session.read(PLAYER))

    @property
    def global_player_coords(self) -> Position:
        """Where the player is in its block of the map, as in observations: x, y, height, m."""
        return from_memory(self._session.read(IN_BLOCK))

    def teleport(self, x: float, y: float, z: float) -> None:
        """Put the player somewhere in its block of the map, by one write.

        Args:
            x: Where, m.
            y: Where, m.
            z: The height, m.

        Raises:
            SiphonError: It cannot be written.
        """
        seen = self._session.snapshot((PLAYER, IN_BLOCK))
        here, in_block = from_memory(seen[PLAYER]), from_memory(seen[IN_BLOCK])
        moved = [a + there - b for a, there, b in zip(here, (x, y, z), in_block, strict=True)]
        self._session.write({PLAYER: to_memory((moved[0], moved[1], moved[2]))})

    teleport_to = teleport

    # --- the boss -------------------------------------------------------------------------------------------

    @property
    def target_hp(self) -> int:
        """Health of the boss."""
        return int(self._read("NpcHp"))

    @property
    def target_max_hp(self) -> int:
        """Full health of the boss."""
        return int(self._read("NpcMaxHp"))

    def set_target_hp(self, hp: int) -> None:
        """Set the health of the boss. Raises as `set_attribute`."""
        self.set_attribute("NpcHp", hp)

    @property
    def target_animation_id(self) -> int:
        """Animation of the boss."""
        return int(self._read("NpcAnimId"))

    @property
    def local_target_coords(self) -> Position:
        """Where the boss is in the frame of the Havok engine: x, y, height, m."""
        return from_memory(self._session.read("boss.havok_position"))

    @property
    def global_target_coords(self) -> Position:
        """Where the boss is in the player's block of the map, as in observations: x, y, height, m."""
        return positions(self._session.snapshot((PLAYER, "boss.position", IN_BLOCK)))[1]

    @property
    def target_player_distance(self) -> float:
        """How far they are apart, height included, m."""
        player, boss = positions(self._session.snapshot((PLAYER, "boss.position", IN_BLOCK)))
        return math.dist(player, boss)

    def _read(self, name: str) -> Any:
        attribute, number, is_vector = self._place(name)
        value = self._session.read(attribute)
        return float(value[number]) if is_vector else value

    def _place(self, name: str) -> tuple[str, int, bool]:
        """Return the attribute of the profile, which number of it, and whether it is one of several."""
        attribute, number = PUBLIC_ATTRIBUTES.get(name, (name, 0))
        known = self._session.profile.attributes
        if attribute not in known:
            raise UnknownAttributeError(name, (*PUBLIC_ATTRIBUTES, *known))
        return attribute, number, name in PUBLIC_ATTRIBUTES and known[attribute].length > 1
