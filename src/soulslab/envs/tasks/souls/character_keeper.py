"""Checks of the player's character at each reset: stats, weapons, wear of weapons, and the play time of the save."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from soulslab.errors import EnvironmentUsageError, SiphonError
from soulslab.games.boss_facts import BossFacts
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.session import LOADING, Session

#: Switch of the game: weapons do not lose durability.
NO_WEAR = "debug.no_wear"
#: How the hands hold their weapons, and the ids of the weapons in the slots of both hands.
WEAPONS = ("player.hands", "player.weapons")
PLAY_TIME = "game.time_s"
#: Id in a slot without a weapon (Elden Ring).
UNARMED = 110000

_log = logging.getLogger(__name__)


class CharacterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Checks and changes of the character at each reset.

    Attributes:
        has_no_wear: Whether the wear of weapons is switched off, in a game whose profile has `NO_WEAR`.
        stats: ``check`` refuses a character whose stats differ from the boss's file, ``set`` writes the stats of the
            file, ``ignore`` does nothing.
        weapons: ``check`` refuses a character whose weapons, or the hands that hold them, differ from the first reset;
            ``ignore`` does nothing. Without effect in a game whose profile lacks `WEAPONS`.
        play_time: ``count`` does not change the play time of the save, ``keep`` writes the value of the first reset.
    """

    has_no_wear: bool = True
    stats: Literal["check", "set", "ignore"] = "check"
    weapons: Literal["check", "ignore"] = "check"
    play_time: Literal["count", "keep"] = "count"


class CharacterKeeper:
    """Checks and changes the character at each reset (`CharacterSettings`); the facts of the boss have the stats."""

    def __init__(self, settings: CharacterSettings, facts: BossFacts) -> None:
        self._settings = settings
        self._name = facts.name
        self._stats: dict[str, Value] = {f"player.{stat}": value for stat, value in facts.player_stats.items()}
        self._weapons: dict[str, list[int]] = {}
        self._play_time_s: float | None = None
        self._had_wear = False

    def written_attributes(self, profile: Profile) -> tuple[str, ...]:
        """Return the attributes that `apply` writes."""
        settings, written = self._settings, []
        written += [NO_WEAR] if settings.has_no_wear else []
        written += [PLAY_TIME] if settings.play_time == "keep" else []
        written += self._stats if settings.stats == "set" else ()
        return tuple(name for name in written if name in profile.attributes)

    def apply(self, session: Session) -> None:
        """Do all checks and changes. The player must be in the world.

        Raises:
            EnvironmentUsageError: The character has wrong stats or weapons.
        """
        self._check_weapons(session)
        self._check_stats(session)
        self._keep_play_time(session)
        if self._settings.has_no_wear and NO_WEAR in session.profile.attributes and not session.read(NO_WEAR):
            session.write({NO_WEAR: True})
            self._had_wear = True

    @property
    def is_set(self) -> bool:
        """Whether `restore` has something to do."""
        return self._had_wear or self._play_time_s is not None

    def restore(self, session: Session) -> None:
        """Restore wear and play time. Stats that were set stay. Errors are ignored."""
        with contextlib.suppress(SiphonError):
            self._keep_play_time(session)
        with contextlib.suppress(SiphonError):
            if self._had_wear:
                session.write({NO_WEAR: False})
        self._had_wear = False

    def _check_stats(self, session: Session) -> None:
        if self._settings.stats == "ignore" or not self._stats:
            return
        found = session.snapshot(tuple(self._stats))
        wrong = {name: found[name] for name, value in self._stats.items() if found[name] != value}
        if not wrong:
            return
        listed = ", ".join(f"{name} is {value} and not {self._stats[name]}" for name, value in wrong.items())
        if self._settings.stats == "set":
            _log.info("stats for %s are set: %s", self._name, listed)
            session.write({name: self._stats[name] for name in wrong})
            return
        raise EnvironmentUsageError(
            f"the character's stats differ from player_stats in the file of {self._name}: {listed}. Load the "
            f"character that agents were trained with, or give player_stats='set' to write the stats of the file, or "
            f"player_stats='ignore'"
        )

    def _check_weapons(self, session: Session) -> None:
        names = tuple(name for name in WEAPONS if name in session.profile.attributes)
        if self._settings.weapons == "ignore" or not names:
            return
        try:
            found = _as_lists(session.snapshot(names))
        except LOADING as error:
            # The player is in the world, so the game is not loading: the profile does not fit this game.
            _log.warning("the weapons of the character cannot be checked: %s", error)
            return
        if set(found.get("player.weapons", ())) == {UNARMED}:
            raise EnvironmentUsageError(
                "the character has no weapon in any hand; equip the weapon for the fight, or give weapons='ignore'"
            )
        self._weapons = self._weapons or found
        before = self._weapons
        changed = [f"{name} is {now}, and was {before[name]}" for name, now in found.items() if now != before[name]]
        if changed:
            raise EnvironmentUsageError(
                f"the character's weapons, or the hands that hold them, have changed since the first reset: "
                f"{', '.join(changed)}. A key may have changed them by accident. Equip the same weapons as before, or "
                f"give weapons='ignore'"
            )

    def _keep_play_time(self, session: Session) -> None:
        """Store the play time at the first reset, and write it at later resets.

        A save with less play time than stored is another save, whose play time is then stored.
        """
        if self._settings.play_time != "keep" or PLAY_TIME not in session.profile.attributes:
            return
        now_s = float(session.read(PLAY_TIME))
        if self._play_time_s is None or now_s < self._play_time_s:
            self._play_time_s = now_s
        elif now_s > self._play_time_s:
            session.write({PLAY_TIME: self._play_time_s})


def _as_lists(found: Mapping[str, Any]) -> dict[str, list[int]]:
    return {name: np.atleast_1d(value).astype(int).tolist() for name, value in found.items()}
