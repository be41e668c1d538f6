"""What Elden Ring and Dark Souls III have in common, over a session, local or remote."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from soulslab.errors import ConfigError, PointerError
from soulslab.games.allowed import Allowed
from soulslab.games.boss_facts import BossFacts, Pose, load_boss_facts, with_boss
from soulslab.games.camera import Camera
from soulslab.games.character import Character
from soulslab.games.facts import GAMES
from soulslab.games.flag_memory import FlagMemory
from soulslab.games.installation import find_installation, launchable
from soulslab.games.teleport import TELEPORT, holding, teleport
from soulslab.games.waiting import Patience, wait_until
from soulslab.games.warp_points import WarpPoints
from soulslab.siphon.local import open_session
from soulslab.siphon.process.discovery import refuse_anti_cheat
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import LOADING, Session, SessionOptions

Screen: TypeAlias = Literal["title", "loading", "cutscene", "world"]
"""What the game shows: the main menu, a loading screen, a cutscene or a film, or the world."""

#: Of a load from a slow disk.
LOADED = Patience(deadline_s=120.0, poll_s=0.1)
#: A death is shown for some seconds before the game loads.
DIED = Patience(deadline_s=30.0, poll_s=0.1)
#: The game needs the screen of the graphics card, and minutes when it compiles its shaders.
LAUNCH = SessionOptions(launch="always", display="", deadline_s=300.0)
#: Menus take a key about so often.
MENU = Patience(deadline_s=60.0, poll_s=0.5)


class SoulsGame(ABC):
    """A game of this family; each access raises as `Session.read` and `Session.write`.

    Args:
        session: Of the game; `close` and the end of a ``with`` block close it.

    Attributes:
        session: See above.
        player: The player.
        boss: The boss that the profile names (`soulslab.games.boss_facts.with_boss` names another).
        camera: The camera.
        allowed: What the game lets happen.
        warp_points: Bonfires or sites of grace.
        event_flags: What the game remembers of its world, by number and by name.
    """

    player: Character
    boss: Character
    warp_points: WarpPoints
    event_flags: FlagMemory
    #: Of its folder beside this file.
    name: str
    #: Attribute of the bonfire or site of grace that the player rested at last.
    last_rest: str

    def __init__(self, session: Session) -> None:
        self.session = session
        self.camera = Camera(session)
        self.allowed = Allowed(session)

    # --- time -----------------------------------------------------------------------------------------------

    @property
    def time_s(self) -> float:
        """Play time of the save; it also goes on while the game is held, so `Session.clock` is what to step by."""
        return float(self.session.read("game.time_s"))

    @property
    def speed(self) -> float:
        """The game's own speed; 1 is as ever."""
        return float(self.session.read("game.speed"))

    @speed.setter
    def speed(self, speed: float) -> None:
        clock = self.session.clock
        if clock.grade != "scaled":
            self.session.write({"game.speed": speed})
        elif speed > 0.0:
            # The clock of the session works by this very attribute, and has to know.
            clock.run(speed)
        else:
            clock.pause()

    # --- what it shows --------------------------------------------------------------------------------------

    @property
    def screen(self) -> Screen:
        """What the game shows now."""
        if self._is_title():
            return "title"
        try:
            self.session.read("player.hp")
            return "cutscene" if self._is_cutscene() else "world"
        except LOADING:
            return "loading"

    @property
    def is_loading(self) -> bool:
        """Whether there is no world: a loading screen."""
        return self.screen == "loading"

    @property
    def is_in_control(self) -> bool:
        """Whether the player does what the keys say: there is a world, and no cutscene."""
        try:
            return self._has_control()
        except LOADING:
            return False

    def wait_for_control(self, patience: Patience = LOADED) -> None:
        """Wait until the player is in control.

        Raises:
            WaitTimeoutError: It was not.
        """
        wait_until(
            self.session,
            "the player to be in control",
            lambda: (self.screen, self.is_in_control),
            lambda seen: seen == ("world", True),
            patience,
        )

    def _has(self, name: str, value: int) -> bool:
        """Tell whether an attribute has a value; an object that the game has not made, as it needs none, has none."""
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

    # --- where the player is --------------------------------------------------------------------------------

    def teleport(self, pose: Pose, who: Character | None = None, patience: Patience = TELEPORT) -> None:
        """Put the player, or someone else, elsewhere; see `soulslab.games.teleport.teleport`."""
        teleport(who or self.player, pose, patience)

    def pose_of(self, facts: BossFacts, name: str) -> Pose:
        """Return a pose that is known of a boss, in the frame that `teleport` takes.

        Args:
            facts: What is known of it.
            name: Of the pose: ``fog_wall``.

        Raises:
            MissingFactError: Nobody has published it.
        """
        return facts.pose(name)

    @property
    def last_rest_point(self) -> str:
        """Name of the bonfire or site of grace that the player rested at last, where it comes back after a death."""
        return self.warp_points.name_of(int(self.session.read(self.last_rest)))

    @last_rest_point.setter
    def last_rest_point(self, name: str) -> None:
        self.session.write({self.last_rest: self.warp_points.id_of(name)})

    def warp(self, name: str, *, died: Patience = DIED, loaded: Patience = LOADED) -> None:
        """Bring the player to a bonfire or site of grace: name it as the last one, and let the player die.

        That is the way that memory alone can go. The game's own warp is a function of its code, and soulslab runs none
        in a game. The player leaves its souls or runes where it died; whether it may die is then as it was before.

        Args:
            name: Of the warp point, as `warp_points` has it.
            died: How long the game may take to show the death and begin to load.
            loaded: How long it may load.

        Raises:
            ConfigError: There is no such warp point (did you mean ...).
            WaitTimeoutError: The player did not die, or the game did not come back.
        """
        self.last_rest_point = name
        known = self.session.profile.attributes
        mortal = [one for one in ("player.no_death", "debug.no_death") if one in known]
        with holding(self.session, dict.fromkeys(mortal, False)):
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
        """Go from the title to the world with the last save: press the key that confirms until the game loads.

        Raises:
            WaitTimeoutError: The title stayed, or the world did not come.
        """
        keys = self.session.profile.keys
        if "interact" not in keys:
            raise ConfigError("has no key for it, and the title needs it to confirm", path="keys.interact")
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

    # --- its life -------------------------------------------------------------------------------------------

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
            boss: Whose attributes ``boss`` shall be (`soulslab.games.boss_facts.boss_names`); "" for the profile's own.
            folder: Of its program; None looks into the libraries of Steam.
            proton: Program that starts it; None takes the last of those that Steam has.
            home: Of the user whose Steam it is; None for who runs this.
            options: How to attach.

        Raises:
            LaunchError: It is not installed, or does not start; the message says what is missing.
            AntiCheatError: An anti-cheat runs.
            SiphonError: What `soulslab.siphon.local.open_session` raises.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
