"""The player's character over a long session: its stats, its weapons, their wear, and the play time of its save."""

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

#: A switch of the game: weapons do not lose durability.
NO_WEAR = "debug.no_wear"
#: What the player has in its hands: how they are held, and the weapons in the slots of both hands.
WEAPONS = ("player.hands", "player.weapons")
PLAY_TIME = "game.time_s"
#: Elden Ring's number of the bare hand, in a slot without a weapon.
UNARMED = 110000

_log = logging.getLogger(__name__)


class CharacterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is checked and kept of the character at each reset.

    Attributes:
        has_no_wear: Weapons do not lose durability, in a game whose profile has `NO_WEAR`.
        stats: ``check`` refuses a character with other stats than the boss's file has, ``set`` writes those of the
            file, ``ignore`` leaves them.
        weapons: ``check`` refuses a character whose weapons, or the hands that hold them, are other ones than at the
            first reset; ``ignore`` does not look. Only in a game whose profile has `WEAPONS`.
        play_time: ``count`` lets the play time of the save go on, ``keep`` writes what it was at the first reset.
    """

    has_no_wear: bool = True
    stats: Literal["check", "set", "ignore"] = "check"
    weapons: Literal["check", "ignore"] = "check"
    play_time: Literal["count", "keep"] = "count"


class CharacterKeeper:
    """Checks and keeps the character (`CharacterSettings`).

    Args:
        settings: What is checked and kept.
        facts: What is known of the boss; its ``player_stats`` are those that agents were trained with.
    """

    def __init__(self, settings: CharacterSettings, facts: BossFacts) -> None:
        self._settings = settings
        self._name = facts.name
        self._stats: dict[str, Value] = {f"player.{stat}": value for stat, value in facts.player_stats.items()}
        self._weapons: dict[str, list[int]] = {}
        self._play_time_s: float | None = None
        self._had_wear = False

    def names(self, profile: Profile) -> tuple[str, ...]:
        """Return the attributes that are written."""
        settings, written = self._settings, []
        written += [NO_WEAR] if settings.has_no_wear else []
        written += [PLAY_TIME] if settings.play_time == "keep" else []
        written += self._stats if settings.stats == "set" else ()
        return tuple(name for name in written if name in profile.attributes)

    def begin(self, session: Session) -> None:
        """Check and set what the settings say; the player has to be in the world.

        Raises:
            EnvironmentUsageError: The character has other stats or weapons.
            SiphonError: As `Session.snapshot` and `Session.write`.
        """
        self._begin_weapons(session)
        self._begin_stats(session)
        self._keep_play_time(session)
        if self._settings.has_no_wear and NO_WEAR in session.profile.attributes and not session.read(NO_WEAR):
            session.write({NO_WEAR: True})
            self._had_wear = True

    @property
    def is_set(self) -> bool:
        """Whether `put_back` has something to do."""
        return self._had_wear or self._play_time_s is not None

    def put_back(self, session: Session) -> None:
        """Put back what was changed for the episodes; stats that were set stay."""
        with contextlib.suppress(SiphonError):
            self._keep_play_time(session)
        with contextlib.suppress(SiphonError):
            if self._had_wear:
                session.write({NO_WEAR: False})
        self._had_wear = False

    def _begin_stats(self, session: Session) -> None:
        if self._settings.stats == "ignore" or not self._stats:
            return
        found = session.snapshot(tuple(self._stats))
        others = {name: found[name] for name, value in self._stats.items() if found[name] != value}
        if not others:
            return
        listed = ", ".join(f"{name} is {value} and not {self._stats[name]}" for name, value in others.items())
        if self._settings.stats == "set":
            _log.info("stats for %s are set: %s", self._name, listed)
            session.write({name: self._stats[name] for name in others})
            return
        raise EnvironmentUsageError(
            f"the character has other stats than the file of {self._name} has in player_stats: {listed}. Load the "
            f"character that agents were trained with, or give player_stats='set' to write those of the file, or "
            f"player_stats='ignore'"
        )

    def _begin_weapons(self, session: Session) -> None:
        names = tuple(name for name in WEAPONS if name in session.profile.attributes)
        if self._settings.weapons == "ignore" or not names:
            return
        try:
            found = _numbers(session.snapshot(names))
        except LOADING as error:
            # The player is in the world, so it is not a load: the profile does not fit this game.
            _log.warning("the weapons of the character cannot be checked: %s", error)
            return
        if set(found.get("player.weapons", ())) == {UNARMED}:
            raise EnvironmentUsageError(
                "the character has no weapon in any hand; equip the one that it is to fight with, or give "
                "weapons='ignore'"
            )
        self._weapons = self._weapons or found
        before = self._weapons
        others = [f"{name} is {now}, and was {before[name]}" for name, now in found.items() if now != before[name]]
        if others:
            raise EnvironmentUsageError(
                f"the character's weapons, or the hands that hold them, have changed since the first reset: "
                f"{', '.join(others)}. A key may have changed them by accident. Equip what was equipped before, or "
                f"give weapons='ignore'"
            )

    def _keep_play_time(self, session: Session) -> None:
        """Remember the play time at first, and write it back then; a save that was played for less is another one."""
        if self._settings.play_time != "keep" or PLAY_TIME not in session.profile.attributes:
            return
        now_s = float(session.read(PLAY_TIME))
        if self._play_time_s is None or now_s < self._play_time_s:
            self._play_time_s = now_s
        elif now_s > self._play_time_s:
            session.write({PLAY_TIME: self._play_time_s})


def _numbers(found: Mapping[str, Any]) -> dict[str, list[int]]:
    return {name: np.atleast_1d(value).astype(int).tolist() for name, value in found.items()}
