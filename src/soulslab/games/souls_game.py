"""Base class of the Python interfaces to Elden Ring and Dark Souls III, over a local or remote session."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import Literal, Self, TypeAlias

from soulslab.closing import Closing
from soulslab.errors import ConfigError, PointerError
from soulslab.games.boss_facts import BossFacts, Pose, load_boss_facts, with_boss
from soulslab.games.camera import Camera
from soulslab.games.character import Character
from soulslab.games.event_flags import FlagMemory
from soulslab.games.facts import GAMES
from soulslab.games.installation import find_installation, launchable
from soulslab.games.permissions import GamePermissions
from soulslab.games.teleport import TELEPORT, teleport, temporary_values
from soulslab.games.waiting import Patience, wait_until
from soulslab.games.warp_points import WarpPoints
from soulslab.siphon.local import open_session
from soulslab.siphon.process.discovery import refuse_anti_cheat
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import LOADING, Session, SessionOptions

Screen: TypeAlias = Literal["title", "loading", "cutscene", "world"]
"""Screen that the game shows: main menu, loading screen, cutscene or film, or the world."""

#: Deadline for loading from a slow disk.
LOADED = Patience(deadline_s=120.0, poll_s=0.1)
#: Deadline for a death; the game shows it for some seconds before it loads.
DIED = Patience(deadline_s=30.0, poll_s=0.1)
#: The game needs the display of the graphics card, and minutes to compile its shaders.
LAUNCH = SessionOptions(launch="always", display="", deadline_s=300.0)
#: Menus accept about two keys per second.
MENU = Patience(deadline_s=60.0, poll_s=0.5)


class SoulsGame(Closing):
    """A Souls game; each access raises the errors of `Session.read` and `Session.write`.

    Args:
        session: Session of the game; `close` and the end of a ``with`` block close it.

    Attributes:
        session: The session.
        player: The player.
        boss: The boss of the profile (`soulslab.games.boss_facts.with_boss` selects another one).
        camera: The camera.
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
        self.session = session
        self.camera = Camera(session)
        self.allowed = GamePermissions(session)

    # --- time -----------------------------------------------------------------------------------------------

    @property
    def time_s(self) -> float:
        """Play time of the save file. It also advances while the game is paused; use `Session.clock` for stepping."""
        return float(self.session.read("game.time_s"))

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
        """Wait until the player is in control.

        Raises:
            WaitTimeoutError: The player was not in control before the deadline.
        """
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

    @abstractmethod
    def _is_title(self) -> bool: ...

    @abstractmethod
    def _is_cutscene(self) -> bool: ...

    @abstractmethod
    def _has_control(self) -> bool: ...

    # --- position -------------------------------------------------------------------------------------------

    def teleport(self, pose: Pose, character: Character | None = None, patience: Patience = TELEPORT) -> None:
        """Move the player or another character; see `soulslab.games.teleport.teleport`."""
        teleport(character or self.player, pose, patience)

    def pose_of(self, facts: BossFacts, name: str) -> Pose:
        """Return a pose of a boss in the coordinate system that `teleport` uses.

        Args:
            facts: Facts about the boss.
            name: Name of the pose: ``fog_wall``.

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
            ConfigError: The warp point is unknown; the message suggests a similar name.
            WaitTimeoutError: The player did not die, or the game did not finish loading.
        """
        self.last_rest_point = name
        known = self.session.profile.attributes
        mortal = [one for one in ("player.no_death", "debug.no_death") if one in known]
        with temporary_values(self.session, dict.fromkeys(mortal, False)):
            self.session.write({"player.hp": 0})
            wait_until(
                self.session,
                f"the game to load after the death of the player, on the way to {name!r}",
                lambda: self.screen,
                lambda screen: screen == "loading",
                died,
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
        wait_until(
            self.session,
            f"the title to end, with {keys['interact']} pressed to confirm",
            lambda: self.screen,
            lambda screen: screen != "title",
            patience,
            (keys["interact"],),
        )
        self.wait_for_control(loaded)

    def _await_title(self, patience: Patience) -> None:
        wait_until(self.session, "the title", lambda: self.screen, lambda screen: screen == "title", patience)

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
        """Start the game with Proton, offline and without its anti-cheat, and attach to it.

        Args:
            boss: Name of the boss whose attributes ``boss`` has (`soulslab.games.boss_facts.boss_names`); "" for the
                profile's default.
            folder: Folder of the program; None searches the libraries of Steam.
            proton: Program that starts the game; None uses the latest Proton installed with Steam.
            home: Home folder of the user of Steam; None uses that of the current user.
            options: Session options.

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
