"""The camera of a game, and what it is locked on."""

from __future__ import annotations

import msgspec

from soulslab.games.axes import Position, from_memory, to_memory
from soulslab.games.waiting import Patience, wait_until
from soulslab.siphon.session import Session

#: Between two presses of the key, as a second press would let go again.
LOCK_ON = Patience(deadline_s=5.0, poll_s=0.5)


class CameraPose(msgspec.Struct, frozen=True, kw_only=True):
    """Where the camera is.

    Attributes:
        position_m: x, y, height.
        direction: What it looks at, as a unit vector: x, y, height.
    """

    position_m: Position
    direction: Position


class Camera:
    """The camera; each access raises as `Session.read` and `Session.write`.

    Args:
        session: Of the game.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def pose(self) -> CameraPose:
        """Where it is and what it looks at, read together."""
        seen = self._session.snapshot(("camera.position", "camera.direction"))
        return CameraPose(
            position_m=from_memory(seen["camera.position"]), direction=from_memory(seen["camera.direction"])
        )

    def turn(self, direction: Position) -> None:
        """Make it look another way.

        Args:
            direction: A unit vector: x, y, height.
        """
        self._session.write({"camera.direction": to_memory(direction)})

    @property
    def is_locked_on(self) -> bool:
        """Whether it is locked on an enemy."""
        return bool(self._session.read("lock_on"))

    def lock_on(self, patience: Patience = LOCK_ON) -> None:
        """Press the key until it is locked on an enemy.

        Raises:
            WaitTimeoutError: There was none that it could be locked on.
            KeyError: The profile has no key of that name.
        """
        key = self._session.profile.keys["lock_on"]
        wait_until(self._session, "the camera to lock on", lambda: self.is_locked_on, bool, patience, (key,))

    @property
    def lock_range_m(self) -> float:
        """How much further than usual the lock-on reaches."""
        return float(self._session.read("lock.bonus_range_m"))

    @lock_range_m.setter
    def lock_range_m(self, further_m: float) -> None:
        self._session.write({"lock.bonus_range_m": further_m})

    @property
    def lock_sight_time_s(self) -> float:
        """How long the lock-on lasts without a line of sight."""
        return float(self._session.read("lock.sight_time_s"))

    @lock_sight_time_s.setter
    def lock_sight_time_s(self, seconds: float) -> None:
        self._session.write({"lock.sight_time_s": seconds})
