"""Camera and lock-on of a game."""

from __future__ import annotations

import msgspec

from soulslab.games.axes import Position, from_memory, to_memory
from soulslab.games.waiting import Patience, wait_until
from soulslab.siphon.session import Session

#: The poll interval separates two key presses, because a second press while locked on would release the lock.
LOCK_ON = Patience(deadline_s=5.0, poll_s=0.5)


class CameraPose(msgspec.Struct, frozen=True, kw_only=True):
    """Position and direction of the camera.

    Attributes:
        position_m: x, y, height.
        direction: Viewing direction as a unit vector: x, y, height.
    """

    position_m: Position
    direction: Position


class Camera:
    """The camera; each access raises the errors of `Session.read` and `Session.write`.

    Args:
        session: Session of the game.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def pose(self) -> CameraPose:
        """Position and direction, read in one snapshot."""
        seen = self._session.snapshot(("camera.position", "camera.direction"))
        return CameraPose(
            position_m=from_memory(seen["camera.position"]), direction=from_memory(seen["camera.direction"])
        )

    def turn(self, direction: Position) -> None:
        """Set the viewing direction.

        Args:
            direction: A unit vector: x, y, height.
        """
        self._session.write({"camera.direction": to_memory(direction)})

    @property
    def is_locked_on(self) -> bool:
        """Whether the camera is locked on an enemy."""
        return bool(self._session.read("lock_on"))

    def lock_on(self, patience: Patience = LOCK_ON) -> None:
        """Press the lock-on key until the camera is locked on an enemy.

        Raises:
            WaitTimeoutError: The camera did not lock on before the deadline.
            KeyError: The profile has no key ``lock_on``.
        """
        key = self._session.profile.keys["lock_on"]
        wait_until(self._session, "the camera to lock on", lambda: self.is_locked_on, bool, patience, (key,))

    @property
    def lock_range_m(self) -> float:
        """Distance added to the game's usual lock-on range."""
        return float(self._session.read("lock.bonus_range_m"))

    @lock_range_m.setter
    def lock_range_m(self, distance_m: float) -> None:
        self._session.write({"lock.bonus_range_m": distance_m})

    @property
    def lock_sight_time_s(self) -> float:
        """How long the lock-on lasts without line of sight."""
        return float(self._session.read("lock.sight_time_s"))

    @lock_sight_time_s.setter
    def lock_sight_time_s(self, seconds: float) -> None:
        self._session.write({"lock.sight_time_s": seconds})
