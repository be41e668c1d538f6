"""The way into the fight of a real game, state after state; the states are those of docs/resets.md."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TypeVar

import msgspec

from soulslab.envs.tasks.duel.entrance import Visit
from soulslab.envs.tasks.souls.fight_observer import Sight
from soulslab.errors import EnvironmentUsageError, ProfileError, ResetFailedError, WaitTimeoutError
from soulslab.games.axes import Position
from soulslab.games.boss_facts import BossFacts
from soulslab.games.souls_game import MENU, SoulsGame
from soulslab.games.waiting import SAW, Patience, wait_until
from soulslab.siphon.session import LOADING, Session

#: Who is so far from the fog has to be warped first: a teleport across the world leads where nothing is loaded.
NEAR_M = 150.0
#: Loads of one entering: the first may show flags that could not be seen before.
MAX_WARPS = 2

_log = logging.getLogger(__name__)

T = TypeVar("T")


class EntranceLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Game time that the states of an entrance may take.

    Attributes:
        title_s: From the title, or the start of the program, until it loads; menus are looked at twice a second.
        load_s: Until the player is in control, after a load and a cutscene.
        death_s: Until the game loads after a death.
        press_s: Until the game heeds a key, before the fog.
        fog_s: Until the player is through it.
        inside_s: Until the player is in control again, behind it; there may be a cutscene.
        boss_s: Until the boss is there.
        poll_s: Between two looks.
    """

    title_s: float = 120.0
    load_s: float = 120.0
    death_s: float = 30.0
    press_s: float = 3.0
    fog_s: float = 20.0
    inside_s: float = 60.0
    boss_s: float = 10.0
    poll_s: float = 0.1


class Way:
    """One way to a fight, state after state.

    Args:
        facts: What is known of the boss.
        limits: Game time that the states may take.
        game: The game.
        visit: What is wanted.

    Raises:
        ProfileError: The profile lacks a key that the way needs.
    """

    def __init__(self, facts: BossFacts, limits: EntranceLimits, game: SoulsGame, visit: Visit) -> None:
        self._facts = facts
        self._limits = limits
        self._game = game
        self._visit = visit
        self._sight = Sight(facts, game)
        self._interact = _key(game.session, "interact")

    def come_into_world(self) -> None:
        """Go as far as to where the player can do something; nothing is written."""
        self._leave_title()
        self._load()

    def go(self, *, is_old: bool) -> bool:
        """Go on from there to the fight; tell whether it is another one."""
        with named_state("load", "the player to be read"):
            refuse_another_player(self._facts, self._game.player.max_hp)
        if self._is_in_fight() and not is_old and not self._is_another_wanted():
            return False
        self._make_fight("the last load is long ago" if is_old else self._why_warp())
        self._pass_fog()
        self._await_inside()
        self._await_boss()
        return True

    def _is_in_fight(self) -> bool:
        with named_state("load", "the player and the boss to be read"):
            is_there = self._sight.is_it(self._sight.boss()) and self._sight.is_inside(self._game.player.position_m)
            # One that was beaten is no fight any more, also if somebody has given it health again.
            return is_there and not self._sight.is_beaten()

    def _is_another_wanted(self) -> bool:
        """Tell whether the fight that goes on will not do; one that nobody has begun yet is as good as another."""
        boss, player = self._sight.boss(), self._game.player
        is_new = boss is not None and boss.hp >= boss.max_hp and player.hp >= player.max_hp
        return self._visit.needs_another and not (is_new and self._visit.is_fresh and not self._visit.n_tries)

    def _why_warp(self) -> str:
        """Return why the fight is to be had only after another load; "" if it is without."""
        with named_state("load", "the player to be read"):
            position = self._game.player.position_m
            boss = self._sight.boss()
            is_begun = self._sight.is_it(boss) and boss is not None and boss.hp < boss.max_hp
            can_tell = boss is not None or self._facts.poses.behind_fog_wall is not None
            reasons = {
                "the try before failed": self._visit.n_tries > 0 and not self._visit.is_fresh,
                "the boss has been hurt": is_begun,
                "the player is in a fight that will not do": can_tell and self._sight.is_inside(position),
                "the fog is far away": self._sight.distance_m(position) > NEAR_M,
                "the player rested elsewhere": self._game.last_rest_point not in self._facts.warp_points,
            }
            return next((reason for reason, holds in reasons.items() if holds), "")

    # --- the states -----------------------------------------------------------------------------------------

    def _leave_title(self) -> None:
        what = "the title to end, with the key that confirms pressed"
        patience = Patience(deadline_s=self._limits.title_s, poll_s=MENU.poll_s)
        with named_state("title", what):
            self._await(what, lambda: self._game.screen, lambda screen: screen != "title", patience, (self._interact,))

    def _load(self) -> None:
        what = "the player to be alive and in control"
        with named_state("load", what):
            self._await(what, self._sight.player, lambda player: player.can_act, self._patience(self._limits.load_s))

    def _make_fight(self, why_warp: str) -> None:
        """Have the game believe that the boss is there to be fought, and load the place where it is not so already."""
        is_known = self._has_flags_right(is_sure=bool(why_warp))
        for _ in range(MAX_WARPS):
            if is_known and not why_warp:
                return
            self._warp(why_warp or "its flags were set otherwise")
            why_warp, is_known = "", self._has_flags_right(is_sure=False)
        if not is_known:
            saw = f"flag {self._facts.defeat_flag} or {', '.join(self._facts.encounter) or 'no other'} set otherwise"
            raise ResetFailedError("the game to take the flags of the fight", 0.0, state="flags", saw=saw)

    def _has_flags_right(self, *, is_sure: bool) -> bool:
        """Put the flags of the fight right; tell whether they were already.

        Args:
            is_sure: The place will be loaded in any case, so that what cannot be seen now is seen then.
        """
        session, defeat = self._game.session, self._facts.defeat_flag or 0
        wanted = {name: value for name, value in self._facts.encounter.items() if name in session.profile.attributes}
        try:
            with named_state("flags", "the flags of the fight to be read"):
                seen = session.snapshot(tuple(wanted))
                wrong = {name: value for name, value in wanted.items() if seen[name] != value}
                if wrong:
                    session.write(wrong)
                is_beaten = self._game.event_flags[defeat]
                if is_beaten:
                    self._game.event_flags[defeat] = False
                return not (wrong or is_beaten)
        except ResetFailedError:
            if is_sure:
                return False
            raise

    def _warp(self, why: str) -> None:
        name = self._facts.warp_points[0]
        _log.info("to %s by way of %r, because %s", self._facts.name, name, why)
        with named_state("warp", f"the game to load {name!r}"):
            self._visit.deadline.check(f"the way to {name!r}")
            loaded = self._patience(self._limits.load_s)
            self._game.warp(name, died=self._patience(self._limits.death_s), loaded=loaded)
        self._visit.log.n_respawns += 1
        self._load()

    def _pass_fog(self) -> None:
        what = "the player to go through the fog"
        forward = _key(self._game.session, "forward")
        with named_state("fog", what):
            self._game.teleport(self._game.pose_of(self._facts, "fog_wall"))
            _look_through_fog(self._game, self._facts)
            stands = "the player to be in control before the fog"
            self._await(stands, self._sight.player, lambda player: player.can_act, self._patience(self._limits.fog_s))
            try:
                self._press((self._interact,))
            except WaitTimeoutError as error:
                # It may stand a step too far away.
                _log.info("%s; it is tried a step further, with %s pressed too", error, forward)
                self._press((forward, self._interact))
            self._await(what, self._sight.place, self._is_through, self._patience(self._limits.fog_s))

    def _press(self, keys: tuple[str, ...]) -> None:
        """Press keys until the game heeds them: it takes the player's control away, or has it through."""
        self._await(
            f"the fog to be passed, with {' and '.join(keys)} pressed before it",
            self._sight.place,
            lambda seen: not seen[0] or self._is_through(seen),
            self._patience(self._limits.press_s),
            keys,
        )

    def _is_through(self, seen: tuple[bool, Position]) -> bool:
        return self._sight.is_inside(seen[1])

    def _await_inside(self) -> None:
        what = "the player to be alive and in control behind the fog"
        with named_state("inside", what):
            self._await(
                what,
                lambda: (self._sight.player(), self._sight.place()),
                lambda seen: seen[0].can_act and self._is_through(seen[1]),
                self._patience(self._limits.inside_s),
            )

    def _await_boss(self) -> None:
        full = f", with a full health of {self._facts.max_hp}" if self._facts.max_hp else ""
        what = f"{self._facts.name} to be there and alive{full}"
        with named_state("boss", what):
            try:
                self._await(what, self._sight.read_boss, self._sight.is_it, self._patience(self._limits.boss_s))
            except WaitTimeoutError:
                if (boss := self._sight.boss()) is not None and boss.hp > 0:
                    refuse_another_boss(self._facts, boss.max_hp)
                raise

    # --- waiting --------------------------------------------------------------------------------------------

    def _patience(self, deadline_s: float) -> Patience:
        return Patience(deadline_s=deadline_s, poll_s=self._limits.poll_s)

    def _await(
        self,
        what: str,
        look: Callable[[], T],
        is_reached: Callable[[T], bool],
        patience: Patience,
        press: tuple[str, ...] = (),
    ) -> T:
        """Wait as `wait_until` does, but for no longer than the wall time that is left."""
        saw = ""

        def look_in_time() -> T:
            nonlocal saw
            self._visit.deadline.check(what, saw=saw)
            try:
                found = look()
            except LOADING as error:
                saw = str(error)
                raise
            saw = repr(found)
            return found

        return wait_until(self._game.session, what, look_in_time, is_reached, patience, press)


@contextmanager
def named_state(name: str, what: str) -> Iterator[None]:
    """Give what goes wrong in a state its name, so that the reset counts it and tries again."""
    try:
        yield
    except ResetFailedError:
        raise
    except WaitTimeoutError as error:
        raise ResetFailedError(error.what, error.waited_s, state=name, saw=error.hint.removeprefix(SAW)) from error
    except LOADING as error:
        raise ResetFailedError(what, 0.0, state=name, saw=str(error)) from error


def _look_through_fog(game: SoulsGame, facts: BossFacts) -> None:
    """Have the camera look through the fog, where that is known: who walks forward walks where it looks."""
    if facts.poses.behind_fog_wall is None:
        return
    fog, behind = (game.pose_of(facts, name).position_m for name in ("fog_wall", "behind_fog_wall"))
    x, y = behind[0] - fog[0], behind[1] - fog[1]
    length_m = math.hypot(x, y)
    if length_m > 0.0:
        game.camera.turn((x / length_m, y / length_m, 0.0))


def _key(session: Session, button: str) -> str:
    keys = session.profile.keys
    if button not in keys:
        raise ProfileError("is missing, and the way to the fight needs it", path=f"keys.{button}")
    return keys[button]


def refuse_another_boss(facts: BossFacts, max_hp: int) -> None:
    """Raise `EnvironmentUsageError` if another boss is there than the file is about, by its full health."""
    if facts.max_hp not in (None, max_hp):
        raise EnvironmentUsageError(
            f"{facts.name} has a full health of {max_hp} in the game, and {facts.max_hp} in its file: that is "
            f"another boss, or a later journey through the game; to fight this one give boss= the path of a copy "
            f"of the file with max_hp = {max_hp} (docs/bosses.md)"
        )


def refuse_another_player(facts: BossFacts, max_hp: int) -> None:
    """Raise `EnvironmentUsageError` if another character plays than the file is for, before it goes all the way."""
    if facts.player_max_hp not in (None, max_hp):
        raise EnvironmentUsageError(
            f"the player has a full health of {max_hp} in the game, and {facts.player_max_hp} in the file of "
            f"{facts.name}: load the character that agents were trained with, or give boss= the path of a copy of the "
            f"file with player_max_hp = {max_hp} (docs/bosses.md)"
        )


def refuse_stand_in(executable: str) -> None:
    """Raise `EnvironmentUsageError` for the window of the built-in fight, which has no title, no load and no fog.

    Args:
        executable: Path of the program that runs; a game is never Python.
    """
    if PurePath(executable).name.startswith("python"):
        raise EnvironmentUsageError(
            "this is no real game, but a window that stands in for it (soulslab arena --mask): give stand_in=True too"
        )
