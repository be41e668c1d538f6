"""Checks and settings before and after the entrance to a boss fight; `entrance_states` walks through the fog."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal

import msgspec
import numpy as np

from soulslab.envs.game.session_holder import AttributeGate
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.entrance import FightRequest
from soulslab.envs.tasks.souls.entrance_states import EntranceLimits, EntranceStateMachine, named_state
from soulslab.errors import ClockUnavailableError, EnvironmentUsageError, ResetFailedError, SelfCheckError, SiphonError
from soulslab.games.boss_facts import BossFacts
from soulslab.games.dark_souls_3 import DarkSouls3
from soulslab.games.elden_ring import EldenRing
from soulslab.games.self_check import needed_by
from soulslab.games.souls_game import SoulsGame
from soulslab.siphon.profile import Value
from soulslab.siphon.session import LOADING, Session

#: Supported games, by the names of their folders.
GAMES: dict[str, type[SoulsGame]] = {"dark_souls_3": DarkSouls3, "elden_ring": EldenRing}
#: Facts of a boss that an entrance requires.
NEEDED = ("poses.fog_wall", "defeat_flag", "warp_points")
#: Written values of the lock-on of Dark Souls III. Its range is 15 m, and an episode begins 19 m from Iudex; without a
#: line of sight it lasts 2 s. SoulsGym 1.1.0 sets a range of 60 m and a time of 99 s.
LOCK_ON: dict[str, Value] = {"lock.bonus_range_m": 35.0, "lock.sight_time_s": 99.0}
#: Attributes that change while time passes in a fight.
MOVING = ("player.animation_time", "boss.animation_time")
#: Flag that the speed of Elden Ring may need. Sources disagree: eldengym sets it, and others do not know it.
SPEED_FLAG = "game.has_speed"
#: Reads of a check that the game stands still. A new speed has effect from the next frame on, which may take long.
N_READS = 4
STANDSTILL_POLL_S = 0.05

#: Switch of the game: weapons do not lose durability.
NO_WEAR = "debug.no_wear"
#: How the hands hold their weapons, and the ids of the weapons in the slots of both hands.
WEAPONS = ("player.hands", "player.weapons")
PLAY_TIME = "game.time_s"
#: Id in a slot without a weapon (Elden Ring).
UNARMED = 110000

_log = logging.getLogger(__name__)


class CharacterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Checks and changes of the player's character at each reset.

    Attributes:
        no_wear: Whether the wear of weapons is switched off, in a game whose profile has a switch for it (Dark Souls
            III).
        player_stats: ``"check"`` refuses a character whose stats differ from the boss's fact file (``[player_stats]``,
            which the bosses of Dark Souls III have; without it there is one warning), ``"set"`` writes the stats of the
            file, ``"ignore"`` does nothing.
        weapons: ``"check"`` refuses a reset if the player has no weapon, or other weapons than at the first reset, in a
            game whose profile has their attributes (Elden Ring); without them it warns once. ``"ignore"`` does nothing.
        play_time: ``"count"`` does not change the play time of the save, ``"keep"`` writes the value of the first
            reset, at each reset and at the end.
    """

    no_wear: bool = True
    player_stats: Literal["check", "set", "ignore"] = "check"
    weapons: Literal["check", "ignore"] = "check"
    play_time: Literal["count", "keep"] = "count"


class SoulsEntrance:
    """Brings Elden Ring or Dark Souls III into a boss fight (`soulslab.envs.tasks.duel.entrance.Entrance`).

    A fight that has not ended is left by the player's death, whatever `FightRequest.may_kill` is: the death
    leads to a load, as a restart of the game does, but takes less time.

    Args:
        facts: Facts of the boss.
        kind: Class of the game; see `GAMES`.
        reload_minutes: Wall time after which a fight is left for another load, as SoulsGym 1.1.0 does every 15 minutes
            because keys begin to lag; None for never.
        limits: Limits of the states.
        character: Checks and changes of the player's character.

    Raises:
        MissingFactError: The pose before the fog, the flag of the defeat or a warp point of the boss is not known.
    """

    def __init__(
        self,
        facts: BossFacts,
        kind: type[SoulsGame],
        *,
        reload_minutes: float | None = 15.0,
        limits: EntranceLimits = EntranceLimits(),  # noqa: B008  (it is frozen)
        character: CharacterSettings = CharacterSettings(),  # noqa: B008  (it is frozen)
    ) -> None:
        facts.need(*NEEDED)
        self._facts = facts
        self._kind = kind
        self._reload_s = 60.0 * reload_minutes if reload_minutes is not None else math.inf
        self._limits = limits
        self._game: SoulsGame | None = None
        # Wall time of the last load in an entrance; before that, of the first call of `enter`.
        self._loaded_at_s: float | None = None
        self._changes = TemporaryValues()
        self._character = CharacterKeeper(character, facts, self._changes)
        #: Process and number of the game's start whose attributes have passed the self-check.
        self._checked_start: tuple[int, int] | None = None

    def enter(self, game: DuelGame, visit: FightRequest) -> bool:
        """See `Entrance.enter`."""
        session = game.session
        # Only the built-in fight, which has no title, no load and no fog, runs in Python.
        if PurePath(session.info.executable).name.startswith("python"):
            raise EnvironmentUsageError(
                "this is the stand-in window of the built-in fight (soulslab arena --mask), not the real game: "
                "give stand_in=True too"
            )
        if self._game is None or self._game.session is not session:
            self._game = self._kind(session)
        start = (session.info.pid, session.info.n_starts)
        is_unchecked = self._checked_start != start
        if self._loaded_at_s is None:
            self._loaded_at_s = time.monotonic()
        needs_load = time.monotonic() - self._loaded_at_s > self._reload_s
        states = EntranceStateMachine(self._facts, self._limits, self._game, visit)
        states.enter_world()
        if is_unchecked:
            of_player = (f"player.{name}" for name in ("hp", "position", "angle", "no_death", "no_gravity"))
            names = (*of_player, "camera.direction", "debug.no_death", self._game.last_rest, *self._facts.encounter)
            # Event flags, which the entrance writes too, are not attributes.
            names = (*names, *LOCK_ON, *self._character.written_attributes)
            _check_attributes(self._game, tuple(name for name in names if name in session.profile.attributes))
        with named_state("character", "the player's character to be read"):
            self._character.apply(session)
        is_another = states.enter_fight(needs_load=needs_load)
        if is_unchecked:
            _check_attributes(self._game, needed_by(session.profile))
            with named_state("boss", "the game to stand at a speed of 0"):
                check_standstill(session, self._changes)
        self._checked_start = start
        if is_another:
            self._loaded_at_s = time.monotonic()
        with named_state("boss", "the range of the lock-on to be written"):
            self._changes.write(session, LOCK_ON)
        return is_another

    def leave(self, game: DuelGame) -> None:
        """See `Entrance.leave`: restores the lock-on, the flag of the speed, the wear of weapons and the play time."""
        for change in (self._changes, self._character):
            if change.is_set:
                change.restore(game.session)


def _check_attributes(game: SoulsGame, names: tuple[str, ...]) -> None:
    """Check attributes (`AttributeGate`); raise `ResetFailedError` if they fail because the game has left the world."""
    try:
        AttributeGate(names)(game.session)
    except SelfCheckError as error:
        with named_state("check", "the player to be read"):
            if game.screen == "world" and game.player.hp > 0:
                raise
        raise ResetFailedError("the world to stay for a self-check", 0.0, state="check", saw=str(error)) from error


class TemporaryValues:
    """Values that are written to the game, and restored before the environment is closed."""

    def __init__(self) -> None:
        self._before: dict[str, Value] = {}

    def write(self, session: Session, wanted: Mapping[str, Value]) -> None:
        """Write the attributes that the profile has and that have other values. Raises as `Session.write`."""
        names = tuple(name for name in wanted if name in session.profile.attributes)
        if not names:
            return
        found = session.snapshot(names)
        changed = {name: wanted[name] for name in names if found[name] != wanted[name]}
        if changed:
            self._before = {**{name: found[name] for name in changed}, **self._before}
            session.write(changed)

    @property
    def is_set(self) -> bool:
        """Whether a value was changed."""
        return bool(self._before)

    def restore(self, session: Session) -> None:
        """Write the values from before the first change. Errors are ignored: a load restores most values as well."""
        before, self._before = self._before, {}
        for name, value in before.items():
            with contextlib.suppress(SiphonError):
                session.write({name: value})


def check_standstill(session: Session, changes: TemporaryValues) -> None:
    """Stop a game for a moment by its own speed. If it does not stand still, set `SPEED_FLAG` and check again.

    Raises `ClockUnavailableError` if it still runs on. Does nothing if another clock steps the game.
    """
    if session.info.clock_grade != "scaled":
        return
    speed = session.clock.speed
    session.clock.pause()
    try:
        if _stands(session):
            return
        if SPEED_FLAG in session.profile.attributes and not session.read(SPEED_FLAG):
            changes.write(session, {SPEED_FLAG: True})
            if _stands(session):
                _log.info("%s obeys its speed since %s is set", session.profile.name, SPEED_FLAG)
                return
        raise ClockUnavailableError(
            f"{session.profile.name} runs on at a speed of 0: {' and '.join(MOVING)} do not stand still, so the "
            f"game does not obey {session.profile.clock.speed_attribute}, and the length of steps would be wrong; "
            f"give session= a session that was opened with clock='realtime'"
        )
    finally:
        if speed > 0.0:
            session.clock.run(speed)


def _stands(session: Session) -> bool:
    """Return whether two successive reads are equal."""
    last = dict(session.snapshot(MOVING))
    for _ in range(N_READS):
        time.sleep(STANDSTILL_POLL_S)
        now = dict(session.snapshot(MOVING))
        if now == last:
            return True
        last = now
    return False


class CharacterKeeper:
    """Checks and changes the character at each reset (`CharacterSettings`); the facts of the boss have the stats.

    A check without data in the profile or in the fact file is skipped with one warning.
    """

    def __init__(self, settings: CharacterSettings, facts: BossFacts, changes: TemporaryValues) -> None:
        self._settings = settings
        self._changes = changes
        self._name = facts.name
        self._stats: dict[str, Value] = {f"player.{stat}": value for stat, value in facts.player_stats.items()}
        self._weapons: dict[str, list[int]] = {}
        self._play_time_s: float | None = None
        self._warnings: set[str] = set()

    @property
    def written_attributes(self) -> tuple[str, ...]:
        """Attributes that `apply` writes if the profile has them."""
        settings = self._settings
        written = [NO_WEAR] if settings.no_wear else []
        written += [PLAY_TIME] if settings.play_time == "keep" else []
        return (*written, *self._stats) if settings.player_stats == "set" else tuple(written)

    def apply(self, session: Session) -> None:
        """Do all checks and changes; raise `EnvironmentUsageError` if a check fails. The player is in the world."""
        self._check_weapons(session)
        self._check_stats(session)
        self._keep_play_time(session)
        if self._settings.no_wear:
            self._changes.write(session, {NO_WEAR: True})

    @property
    def is_set(self) -> bool:
        """Whether `restore` has something to do."""
        return self._play_time_s is not None

    def restore(self, session: Session) -> None:
        """Restore the play time. Stats that were set stay. Errors are ignored."""
        with contextlib.suppress(SiphonError):
            self._keep_play_time(session)

    def _check_stats(self, session: Session) -> None:
        if self._settings.player_stats == "ignore":
            return
        if not self._stats:
            done = "set" if self._settings.player_stats == "set" else "checked"
            self._warn_once(
                f"the stats of the character are not {done}, because the fact file of {self._name} has no "
                f"[player_stats]; add them, or give player_stats='ignore'"
            )
            return
        found = session.snapshot(tuple(self._stats))
        wrong = {name: found[name] for name, value in self._stats.items() if found[name] != value}
        if not wrong:
            return
        listed = ", ".join(f"{name} is {value} and not {self._stats[name]}" for name, value in wrong.items())
        if self._settings.player_stats == "set":
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
        if self._settings.weapons == "ignore":
            return
        if not names:
            self._warn_once(
                f"the weapons of the character are not checked, because the profile of {session.profile.name} has "
                f"neither player.weapons nor player.hands; give weapons='ignore'"
            )
            return
        try:
            values = session.snapshot(names)
            found = {name: np.atleast_1d(values[name]).astype(int).tolist() for name in names}
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

    def _warn_once(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.add(text)
            _log.warning(text)

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
