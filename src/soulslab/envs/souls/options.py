"""Options of the environments of real games."""

from __future__ import annotations

from pathlib import Path

import msgspec

from soulslab.envs.live.options import check_number
from soulslab.envs.live.window_options import WindowOptions
from soulslab.envs.souls.character_keeper import CharacterSettings
from soulslab.errors import EnvironmentUsageError, did_you_mean

#: Options of the window that stands in.
OF_THE_WINDOW = ("size_px", "renderer", "launch_seed")
_CHOICES = {
    "player_stats": ("check", "set", "ignore"),
    "weapons": ("check", "ignore"),
    "play_time": ("count", "keep"),
}


class SoulsOptions(WindowOptions, frozen=True, kw_only=True):
    """Options of a boss of a real game, beside those of `WindowOptions`, which are for the window that stands in.

    Attributes:
        boss: Another boss of the same game: a name of `soulslab.games.boss_facts.boss_names`, or the path of a file
            (docs/bosses.md); "" for the one that the id names.
        episodes: As in `DuelOptions`, but ``"in_place"`` unless asked for otherwise: a reset then takes no load.
        reset_deadline_s: As in `DuelOptions`, but with time for a start of the game and for the loads on its way to
            the fight.
        reload_minutes: Wall time after which a reset leaves the fight for another load, as SoulsGym 1.1.0 does because
            keys begin to lag; None for never. ``hard_reset_minutes`` restarts the program instead.
        check_keys: As in `DuelOptions`, but True unless asked for otherwise; a window that stands in is not checked.
        no_wear: Weapons do not lose durability, in a game whose profile has a switch for it (Dark Souls III).
        player_stats: ``"check"`` refuses a character with other stats than the boss's file has (``[player_stats]``),
            ``"set"`` writes those of the file, ``"ignore"`` leaves them.
        weapons: ``"check"`` refuses a reset where the player's weapons are other ones than at the first reset, or where
            it has none, in a game whose profile tells (Elden Ring); ``"ignore"`` does not look.
        play_time: ``"count"`` lets the play time of the save go on, ``"keep"`` puts it back to what it was at the first
            reset, at each reset and at the end.
        launch: Start the game with Steam's Proton, offline and without its anti-cheat; without, it has to run.
        folder: Of its program, for `launch`; "" looks into the libraries of Steam.
        proton: Program that starts it; "" takes the last that Steam has.
        stand_in: Play the built-in fight in the game's place: its window, with memory laid out as the game's. Nothing
            but soulslab has to be installed. With `pid`, `server` or `session` it is the one that runs there
            (``soulslab arena --mask``).
        allow_unknown_version: Attach although the profile does not know this version of the game. As in any other,
            every value that is needed has to pass the self-check (docs/games.md) before anything is written.
    """

    boss: str | Path = ""
    episodes: str = "in_place"
    reset_deadline_s: float = 600.0
    reload_minutes: float | None = 15.0
    check_keys: bool = True
    no_wear: bool = True
    player_stats: str = "check"
    weapons: str = "check"
    play_time: str = "count"
    launch: bool = False
    folder: str | Path = ""
    proton: str | Path = ""
    stand_in: bool = False
    allow_unknown_version: bool = False

    def check(self) -> None:
        """Raise `EnvironmentUsageError` for the first option that is wrong."""
        super().check()
        for name in ("boss", "folder", "proton"):
            value = getattr(self, name)
            if not isinstance(value, str | Path):
                raise EnvironmentUsageError(f"{name} must be a name or a path, not {value!r}")
        if self.reload_minutes is not None:
            check_number("reload_minutes", self.reload_minutes, 0.001, 10**6)
        self._check_choices_of_character()
        for name in ("no_wear", "launch", "stand_in", "allow_unknown_version"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise EnvironmentUsageError(f"{name} must be True or False, not {value!r}")
        if (self.episodes, str(self.phase)) == ("demo", "2"):
            raise EnvironmentUsageError(
                "phase: a fight of the game begins with the first; '2' takes episodes='in_place'"
            )
        if self.launch + (self.stand_in or self.is_elsewhere) > 1:
            raise EnvironmentUsageError("launch starts the real game: give no stand_in, server, pid or session with it")
        if self.launch and self.read_only:
            raise EnvironmentUsageError(
                "launch starts the game, and read_only observes one that runs; give one of them"
            )
        plain = WindowOptions()
        for name in OF_THE_WINDOW:
            if getattr(self, name) != getattr(plain, name) and not self.starts_window:
                raise EnvironmentUsageError(f"{name} is for a window that stand_in=True starts")
        for name in ("folder", "proton"):
            if getattr(self, name) and not self.launch:
                raise EnvironmentUsageError(f"{name} is for launch=True")

    def _check_choices_of_character(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise EnvironmentUsageError(f"{name}: unknown choice {value!r}{did_you_mean(str(value), known)}")

    @property
    def character(self) -> CharacterSettings:
        """What is checked and kept of the player's character."""
        kept = {"stats": self.player_stats, "weapons": self.weapons, "play_time": self.play_time}
        return msgspec.convert({"has_no_wear": self.no_wear, **kept}, CharacterSettings)

    @property
    def starts_window(self) -> bool:
        """Whether the built-in fight is started in the game's place."""
        return self.stand_in and not self.is_elsewhere

    @property
    def is_elsewhere(self) -> bool:
        """Whether the game runs already: as a process, on a server, or in a session."""
        return bool(self.server or self.pid or self.session is not None)
