"""Base class of the Python interfaces to Elden Ring and Dark Souls III, over a local or remote session."""

from __future__ import annotations

import logging
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self, TypeAlias

import msgspec

from soulslab.closing import Closing
from soulslab.errors import ConfigError, PointerError, SiphonError
from soulslab.games.boss_facts import BossFacts, Pose, load_boss_facts, with_boss
from soulslab.games.character import (
    AttributeGroup,
    AttributeProperty,
    Character,
    GamePermissions,
    Position,
    from_memory,
    to_memory,
)
from soulslab.games.facts import GAMES, EventFlags, WarpPoints
from soulslab.games.installation import find_installation, launchable
from soulslab.games.waiting import Patience, wait_until
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.local import open_session
from soulslab.siphon.process.discovery import refuse_anti_cheat
from soulslab.siphon.profile import NumberType, Value, load_profile
from soulslab.siphon.session import LOADING, Session, SessionOptions

#: The poll interval separates two key presses, because a second press while locked on would release the lock.
LOCK_ON = Patience(deadline_s=5.0, poll_s=0.5)


class CameraPose(msgspec.Struct, frozen=True):
    """Position of the camera, and its viewing direction as a unit vector: x, y, height."""

    position_m: Position
    direction: Position


class Camera(AttributeGroup):
    """The camera and the lock-on; each access raises the errors of `Session.read` and `Session.write`.

    Attributes:
        lock_range_m: Distance added to the game's usual lock-on range.
        lock_sight_time_s: How long the lock-on lasts without line of sight.
    """

    lock_range_m = AttributeProperty("lock.bonus_range_m", float)
    lock_sight_time_s = AttributeProperty("lock.sight_time_s", float)
    is_locked_on = AttributeProperty("lock_on", bool, is_writable=False)
    """Whether the camera is locked on an enemy."""

    @property
    def pose(self) -> CameraPose:
        """Position and direction, read in one snapshot."""
        seen = self.session.snapshot(("camera.position", "camera.direction")).values()
        return CameraPose(*map(from_memory, seen))

    def turn(self, direction: Position) -> None:
        """Set the viewing direction, a unit vector: x, y, height."""
        self.session.write({"camera.direction": to_memory(direction)})

    def lock_on(self, patience: Patience = LOCK_ON) -> None:
        """Press the lock-on key until the camera is locked on an enemy; raises `WaitTimeoutError`."""
        key = self.session.profile.keys["lock_on"]
        wait_until(self.session, "the camera to lock on", lambda: self.is_locked_on, bool, patience, (key,))


#: The game may correct the position: move a character onto the ground, or separate two characters.
NEAR_M = 1.0
#: Two reads: the first returns the written value, the second the value that the game computed from it.
TELEPORT = Patience(deadline_s=2.0, poll_s=0.05, n_looks=2)

_log = logging.getLogger(__name__)


@contextmanager
def temporary_values(session: Session, values: Mapping[str, Value]) -> Iterator[None]:
    """Write attributes on entry, and restore the previous values on exit, also after an error.

    Raises the errors of `Session.write`; errors while restoring after another error are only logged.
    """
    before = dict(session.snapshot(tuple(values)))
    try:
        session.write(values)
        yield
    except BaseException:
        for error in _restore(session, before):
            _log.warning("an attribute could not be restored: %s", error)
        raise
    for error in _restore(session, before):
        raise error


def _restore(session: Session, before: Mapping[str, Value]) -> list[SiphonError]:
    """Write each attribute separately, so that one failure does not prevent the others; return the errors."""
    errors = []
    for name, value in before.items():
        try:
            session.write({name: value})
        except SiphonError as error:
            errors.append(error)
    return errors


class FlagMemory(ABC):
    """Event flags of a running game, by number or by the boss's name in ``event_flags.toml``.

    A subclass knows where a game stores them.
    """

    def __init__(self, session: Session, known: EventFlags) -> None:
        self._session = session
        self._known = known

    @abstractmethod
    def locate(self, number: int) -> ChainNumber:
        """Return the current memory location of a flag.

        Raises:
            EntityNotFoundError: The game has no storage for a flag of this number, or has not loaded that part.
            SiphonError: Errors of `Session.read_number`.
        """

    def __getitem__(self, number: int) -> bool:
        """Return whether a flag is set; raises the errors of `locate`."""
        return bool(self._session.read_number(self.locate(number)))

    def __setitem__(self, number: int, is_set: bool) -> None:
        """Set or clear a flag; raises the errors of `locate` and `Session.write_number`."""
        self._session.write_number(self.locate(number), is_set)

    def is_defeated(self, boss: str) -> bool:
        """Return whether a boss is marked as defeated; raises `ConfigError` if no flag is known for it."""
        return self[self._known.defeat_of(boss)]

    def set_defeated(self, boss: str, is_defeated: bool) -> None:
        """Mark a boss as defeated or not defeated; the game reads the flag when it loads the place."""
        self[self._known.defeat_of(boss)] = is_defeated

    def _read_integer(self, base: str, kind: NumberType, *offsets: int) -> int:
        return int(self._session.read_number(ChainNumber(base=base, offsets=offsets, type=kind)))


Screen: TypeAlias = Literal["title", "loading", "cutscene", "world"]
"""Screen that the game shows: main menu, loading screen, cutscene or film, or the world."""

#: Deadline for loading from a slow disk.
LOADED = Patience(deadline_s=120.0, poll_s=0.1)
#: Deadline for a death; the game shows it for some seconds before it loads.
DIED = Patience(deadline_s=30.0, poll_s=0.1)
#: The game needs the display of the graphics card, and minutes to compile its shaders.
LAUNCH = SessionOptions(launch="always", display="", deadline_s=300.0)
#: Value of ``game.save_slot`` in the main menu (SoulsTAS).
NO_SLOT = -1
#: Menus accept about two keys per second.
MENU = Patience(deadline_s=60.0, poll_s=0.5)


class SoulsGame(AttributeGroup, Closing):
    """A Souls game; each access raises the errors of `Session.read` and `Session.write`.

    `close` and the end of a ``with`` block close the session.

    Attributes:
        boss: The boss of the profile (`soulslab.games.boss_facts.with_boss` selects another one).
        allowed: Permissions for all characters.
        warp_points: Bonfires or sites of grace.
        event_flags: Event flags, by number and by name.
    """

    player: Character
    boss: Character
    warp_points: WarpPoints
    event_flags: FlagMemory
    #: Name of the game's folder beside this file.
    name: str
    #: Attribute of the bonfire or site of grace where the player rested last.
    last_rest: str

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.camera = Camera(session)
        self.allowed = GamePermissions(session)

    # --- time -----------------------------------------------------------------------------------------------

    time_s = AttributeProperty("game.time_s", float, is_writable=False)
    """Play time of the save file. It also advances while the game is paused; use `Session.clock` for stepping."""

    @property
    def speed(self) -> float:
        """Speed factor of the game; 1 is the usual speed."""
        return float(self.session.read("game.speed"))

    @speed.setter
    def speed(self, speed: float) -> None:
        clock = self.session.clock
        if clock.grade != "scaled":
            self.session.write({"game.speed": speed})
        elif speed > 0.0:
            # The clock of the session uses the same attribute, so the change has to go through the clock.
            clock.run(speed)
        else:
            clock.pause()

    # --- screen ---------------------------------------------------------------------------------------------

    @property
    def screen(self) -> Screen:
        """Screen that the game shows."""
        if self._is_title():
            return "title"
        try:
            self.session.read("player.hp")
            return "cutscene" if self._is_cutscene() else "world"
        except LOADING:
            return "loading"

    @property
    def is_loading(self) -> bool:
        """Whether the game shows a loading screen."""
        return self.screen == "loading"

    @property
    def is_in_control(self) -> bool:
        """Whether the player reacts to keys: a world is loaded and no cutscene is shown."""
        try:
            return self._has_control()
        except LOADING:
            return False

    def wait_for_control(self, patience: Patience = LOADED) -> None:
        """Wait until the player is in control; raises `WaitTimeoutError`."""
        wait_until(
            self.session,
            "the player to be in control",
            lambda: (self.screen, self.is_in_control),
            lambda seen: seen == ("world", True),
            patience,
        )

    def _has(self, name: str, value: int) -> bool:
        """Return whether an attribute has a value; False if the game has not created the object of the attribute."""
        try:
            return int(self.session.read(name)) == value
        except PointerError:
            return False

    def _is_title(self) -> bool:
        return int(self.session.read("game.save_slot")) == NO_SLOT

    @abstractmethod
    def _is_cutscene(self) -> bool: ...

    @abstractmethod
    def _has_control(self) -> bool: ...

    # --- position -------------------------------------------------------------------------------------------

    def teleport(self, pose: Pose, character: Character | None = None, patience: Patience = TELEPORT) -> None:
        """Move a character: write x, height and y at once, then the angle if the pose has one.

        Death and gravity are disabled until the game has applied the new position.

        Args:
            pose: Target, in the coordinate system of the ``position`` attribute of the character.
            character: The character; None for the player.
            patience: Deadline for the character to be at the target.

        Raises:
            WaitTimeoutError: The character was not at the target before the deadline.
            SiphonError: Errors of `Session.write`. Death and gravity are restored in any case.
        """
        character = character or self.player
        group, known = character.group, self.session.profile.attributes
        # Without an attribute that disables the death of the character, the one for all.
        no_death = f"{group}.no_death" if f"{group}.no_death" in known else "debug.no_death"
        protections = [name for name in (no_death, f"{group}.no_gravity") if name in known]
        values: dict[str, Value] = {f"{group}.position": to_memory(pose.position_m)}
        if pose.angle_rad is not None:
            values[f"{group}.angle"] = pose.angle_rad
        target = ", ".join(f"{number:.2f}" for number in pose.position_m)
        with temporary_values(self.session, dict.fromkeys(protections, True)):
            self.session.write(values)
            wait_until(
                self.session,
                f"the {group} to stand at ({target}) m after a teleport",
                lambda: character.position_m,
                lambda position: math.dist(position, pose.position_m) <= NEAR_M,
                patience,
            )

    def pose_of(self, facts: BossFacts, name: str) -> Pose:
        """Return a pose of a boss, such as ``fog_wall``, in the coordinate system that `teleport` uses.

        Raises:
            MissingFactError: The pose is not published.
        """
        return facts.pose(name)

    @property
    def last_rest_point(self) -> str:
        """Name of the bonfire or site of grace where the player rested last, and where it reappears after a death."""
        return self.warp_points.name_of(int(self.session.read(self.last_rest)))

    @last_rest_point.setter
    def last_rest_point(self, name: str) -> None:
        self.session.write({self.last_rest: self.warp_points.id_of(name)})

    def warp(self, name: str, *, died: Patience = DIED, loaded: Patience = LOADED) -> None:
        """Move the player to a bonfire or site of grace: set it as the last one, then set the player's health to 0.

        This needs only memory writes. The game's own warp is a function of its code, and soulslab does not call code in
        a game. The player loses its souls or runes at the place of death; its death permission is restored afterwards.

        Args:
            name: Name of the warp point, as in `warp_points`.
            died: Deadline for the game to show the death and start loading.
            loaded: Deadline for loading.

        Raises:
            ConfigError: The warp point is unknown.
            WaitTimeoutError: The player did not die, or the game did not finish loading.
        """
        self.last_rest_point = name
        known = self.session.profile.attributes
        mortal = [one for one in ("player.no_death", "debug.no_death") if one in known]
        with temporary_values(self.session, dict.fromkeys(mortal, False)):
            self.session.write({"player.hp": 0})
            self._await_screen(
                f"the game to load after the death of the player, on the way to {name!r}", ("loading",), died
            )
            self.wait_for_control(loaded)

    # --- the menu -------------------------------------------------------------------------------------------

    def enter_world(self, patience: Patience = MENU, loaded: Patience = LOADED) -> None:
        """Load the last save from the title screen: press the confirm key until the game loads.

        Raises:
            WaitTimeoutError: The title screen remained, or the world was not loaded.
        """
        keys = self.session.profile.keys
        if "interact" not in keys:
            raise ConfigError("the key is missing; the title screen needs it to confirm", path="keys.interact")
        confirm = keys["interact"]
        what = f"the title to end, with {confirm} pressed to confirm"
        self._await_screen(what, ("loading", "cutscene", "world"), patience, (confirm,))
        self.wait_for_control(loaded)

    def _await_screen(
        self, what: str, screens: Sequence[Screen], patience: Patience, press: tuple[str, ...] = ()
    ) -> None:
        wait_until(self.session, what, lambda: self.screen, lambda screen: screen in screens, patience, press)

    # --- launch and close -----------------------------------------------------------------------------------

    @classmethod
    def launch(
        cls,
        *,
        boss: str = "",
        folder: Path | None = None,
        proton: Path | None = None,
        home: Path | None = None,
        options: SessionOptions = LAUNCH,
    ) -> Self:
        """Start the game, on Linux with Proton, offline and without its anti-cheat, and attach to it.

        Args:
            boss: Name of the boss whose attributes ``boss`` has (`soulslab.games.boss_facts.boss_names`); "" for the
                profile's default.
            folder: Folder of the program; None searches the libraries of Steam.
            proton: Program that starts the game; None uses the latest Proton installed with Steam.
            home: Home folder of the user of Steam; None uses that of the current user.
            options: Options of the session.

        Raises:
            LaunchError: The game is not installed or does not start; the message says what is missing.
            AntiCheatError: An anti-cheat program is running.
            SiphonError: Errors of `soulslab.siphon.local.open_session`.
        """
        profile = load_profile(GAMES / cls.name / "profile.toml")
        refuse_anti_cheat(os.getpid(), profile.process)
        if boss:
            profile = with_boss(profile, load_boss_facts(cls.name, boss))
        found = find_installation(cls.name, profile.process.executable, folder=folder, proton=proton, home=home)
        return cls(open_session(launchable(profile, found), options))

    def close(self) -> None:
        """Close the session; a second call does nothing."""
        self.session.close()
