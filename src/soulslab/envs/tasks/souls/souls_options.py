"""Options of the environments of real games."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.tasks.duel.duel_options import DuelOptions, Minutes, WindowOptions
from soulslab.envs.tasks.souls.character_keeper import CharacterSettings
from soulslab.errors import EnvironmentUsageError

#: Options of `DuelOptions` with other defaults: episodes in place need no load, a reset may have to start the game and
#: wait for loads, and the user may have bound other keys.
DUEL_DEFAULTS: Final[dict[str, Any]] = {"episodes": "in_place", "reset_deadline_s": 600.0, "check_keys": True}


class SoulsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a boss of a real game, in addition to `DuelOptions`, `WindowOptions` and `ConnectOptions`.

    The options of `WindowOptions` are for the stand-in window. These options of `DuelOptions` have other defaults:
    ``episodes="in_place"``, ``reset_deadline_s=600`` and ``check_keys=True``.

    Attributes:
        boss: Another boss of the same game: a name of `soulslab.games.boss_facts.boss_names`, or the path of a file
            (docs/bosses.md); "" for the boss of the environment id.
        reload_minutes: Wall time after which a reset leaves the fight for another load, as SoulsGym 1.1.0 does because
            keys begin to lag; None for never. ``hard_reset_minutes`` restarts the program instead.
        no_wear: Whether the wear of weapons is switched off, in a game whose profile has a switch for it (Dark Souls
            III).
        player_stats: ``"check"`` refuses a character whose stats differ from the boss's file (``[player_stats]``),
            ``"set"`` writes the stats of the file, ``"ignore"`` does nothing.
        weapons: ``"check"`` refuses a reset if the player has no weapon, or other weapons than at the first reset, in a
            game whose profile has their attributes (Elden Ring); ``"ignore"`` does nothing.
        play_time: ``"count"`` does not change the play time of the save, ``"keep"`` writes the value of the first
            reset, at each reset and at the end.
        launch: Whether the game is started, with Steam's Proton, offline and without its anti-cheat. Otherwise it must
            already run.
        folder: Folder of the game's program, for `launch`; "" searches the libraries of Steam.
        proton: Path of Proton, for `launch`; "" takes the latest version in Steam.
        stand_in: Whether the built-in fight replaces the game: its window, with the memory layout of the game. No game
            needs to be installed. With `pid`, `server` or `session`, the window that runs there is used
            (``soulslab arena --mask``).
    """

    boss: str = ""
    reload_minutes: Minutes | None = 15.0
    no_wear: bool = True
    player_stats: Literal["check", "set", "ignore"] = "check"
    weapons: Literal["check", "ignore"] = "check"
    play_time: Literal["count", "keep"] = "count"
    launch: bool = False
    folder: str = ""
    proton: str = ""
    stand_in: bool = False

    def check(self, duel: DuelOptions, window: WindowOptions, connect: ConnectOptions) -> None:
        """Raise `EnvironmentUsageError` for the first option that contradicts another."""
        if (duel.episodes, str(duel.phase)) == ("demo", "2"):
            raise EnvironmentUsageError(
                "phase: a fight of the game begins with the first phase; phase '2' needs episodes='in_place'"
            )
        if self.launch and (self.stand_in or connect.has_running_game):
            raise EnvironmentUsageError("launch starts the real game: give no stand_in, server, pid or session with it")
        if self.launch and connect.read_only:
            raise EnvironmentUsageError(
                "launch starts the game, and read_only observes a running game; give only one of them"
            )
        plain = WindowOptions()
        for name in WindowOptions.__struct_fields__:
            if getattr(window, name) != getattr(plain, name) and not self.starts_window(connect):
                raise EnvironmentUsageError(f"{name} is for a window that stand_in=True starts")
        for name in ("folder", "proton"):
            if getattr(self, name) and not self.launch:
                raise EnvironmentUsageError(f"{name} is for launch=True")

    @property
    def character(self) -> CharacterSettings:
        """The settings of the checks of the player's character."""
        kept = {"stats": self.player_stats, "weapons": self.weapons, "play_time": self.play_time}
        return msgspec.convert({"has_no_wear": self.no_wear, **kept}, CharacterSettings)

    def starts_window(self, connect: ConnectOptions) -> bool:
        """Return whether the built-in fight is started in place of the game."""
        return self.stand_in and not connect.has_running_game
