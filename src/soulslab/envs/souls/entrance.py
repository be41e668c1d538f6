"""Getting a real game to a fight: from its title, a loading screen, a bonfire, a death or a win, through the fog.

The states are those of docs/resets.md. Each is a condition with a deadline in game time, and is passed at once where it
holds already: a game that is in the fight is not touched.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from soulslab.envs.attribute_gate import AttributeGate
from soulslab.envs.live.duel_game import DuelGame
from soulslab.envs.live.entrance import Visit
from soulslab.envs.souls.long_lock import WANTED, LongLock
from soulslab.envs.souls.refusals import refuse_another_boss, refuse_another_player, refuse_stand_in
from soulslab.envs.souls.standstill import Standstill
from soulslab.errors import ProfileError, ResetFailedError, SelfCheckError, WaitTimeoutError
from soulslab.games.axes import Position
from soulslab.games.boss_facts import BossFacts
from soulslab.games.dark_souls_3 import DarkSouls3
from soulslab.games.elden_ring import EldenRing
from soulslab.games.self_check import needed_by
from soulslab.games.souls_game import MENU, Screen, SoulsGame
from soulslab.games.waiting import SAW, Patience, wait_until
from soulslab.siphon.session import LOADING, Session

#: The games that an entrance leads into, by the names of their folders.
GAMES: dict[str, type[SoulsGame]] = {"dark_souls_3": DarkSouls3, "elden_ring": EldenRing}
#: Without these there is no way.
NEEDED = ("poses.fog_wall", "defeat_flag", "warp_points")
#: Who is so far from the fog has to be warped first: a teleport across the world leads where nothing is loaded.
NEAR_M = 150.0
#: Nobody who is further from the fog than this is in the arena, where its limits are not known.
ARENA_M = 120.0
#: So far beyond the fog one is inside, where nobody has published the place behind it.
BEYOND_M = 2.0
#: And so much of the way to that place where it is known.
BEYOND_SHARE = 0.5
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


class Player(msgspec.Struct, frozen=True):
    """What is seen of the player; errors show it as it is.

    Attributes:
        screen: What the game shows.
        is_in_control: The player does what the keys say.
        hp: Its health; 0 where there is none.
    """

    screen: Screen
    is_in_control: bool
    hp: int

    @property
    def can_act(self) -> bool:
        """Whether it is alive, in the world, and does what the keys say."""
        return self.screen == "world" and self.is_in_control and self.hp > 0


class Health(msgspec.Struct, frozen=True):
    """What is seen of the boss.

    Attributes:
        hp: Its health.
        max_hp: The most of it.
    """

    hp: int
    max_hp: int


class SoulsEntrance:
    """Gets Elden Ring or Dark Souls III to the fight with a boss (`soulslab.envs.live.entrance.Entrance`).

    The only way out of a fight that goes on is the player's death, whatever `Visit.may_kill` says: what comes of it is
    a load, as of a restart of the game, only sooner.

    Args:
        facts: What is known of the boss.
        kind: The game; `GAMES` has them by name.
        reload_minutes: Wall time after which a fight is left for another load, as SoulsGym 1.1.0 does every 15 minutes
            because keys begin to lag; None for never.
        limits: Game time that the states may take.

    Raises:
        MissingFactError: The place before the fog, the flag of the defeat or a bonfire is not known of the boss.
    """

    def __init__(
        self,
        facts: BossFacts,
        kind: type[SoulsGame],
        *,
        reload_minutes: float | None = 15.0,
        limits: EntranceLimits = EntranceLimits(),  # noqa: B008  (it is frozen)
    ) -> None:
        facts.need(*NEEDED)
        self._facts = facts
        self._kind = kind
        self._reload_s = math.inf if reload_minutes is None else 60.0 * reload_minutes
        self._limits = limits
        self._game: SoulsGame | None = None
        # When the game last loaded on our way; until then, when we first saw it.
        self._loaded_at_s: float | None = None
        self._lock, self._standstill = LongLock(), Standstill()
        #: The start of the game in which all that is needed has passed the self-check.
        self._checked: tuple[int, int] | None = None

    def enter(self, game: DuelGame, visit: Visit) -> bool:
        """See `Entrance.enter`."""
        session = game.session
        refuse_stand_in(session.info.executable)
        if self._game is None or self._game.session is not session:
            self._game = self._kind(session)
        start = (session.info.pid, session.info.n_starts)
        is_unchecked = self._checked != start
        if self._loaded_at_s is None:
            self._loaded_at_s = time.monotonic()
        is_old = time.monotonic() - self._loaded_at_s > self._reload_s
        way = _Way(self._facts, self._limits, self._game, visit)
        way.come_into_world()
        if is_unchecked:
            _check(self._game, _written(self._game, self._facts))
        is_another = way.go(is_old=is_old)
        if is_unchecked:
            _check(self._game, needed_by(session.profile))
            with _state("boss", "the game to stand at a speed of 0"):
                self._standstill.check(session)
        self._checked = start
        if is_another:
            self._loaded_at_s = time.monotonic()
        with _state("boss", "the lock-on to reach across the arena"):
            self._lock.set(game.session)
        return is_another

    def leave(self, game: DuelGame) -> None:
        """See `Entrance.leave`: the lock-on reaches as far as ever, and no flag is set for the speed."""
        for change in (self._lock, self._standstill):
            if change.is_set:
                change.put_back(game.session)


class _Way:
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
        self._interact = _key(game.session, "interact")

    def come_into_world(self) -> None:
        """Go as far as to where the player can do something; nothing is written."""
        self._leave_title()
        self._load()

    def go(self, *, is_old: bool) -> bool:
        """Go on from there to the fight; tell whether it is another one."""
        with _state("load", "the player to be read"):
            refuse_another_player(self._facts, self._game.player.max_hp)
        if self._is_in_fight() and not is_old and not self._is_another_wanted():
            return False
        self._make_fight("the last load is long ago" if is_old else self._why_warp())
        self._pass_fog()
        self._await_inside()
        self._await_boss()
        return True

    # --- what there is --------------------------------------------------------------------------------------

    def _player(self) -> Player:
        """Return what is seen of the player; raises one of `LOADING` where there is none."""
        screen = self._game.screen
        if screen in ("title", "loading"):
            return Player(screen, is_in_control=False, hp=0)
        return Player(screen, self._game.is_in_control, self._game.player.hp)

    def _boss(self) -> Health | None:
        """Return what is seen of the boss; None while it is not there."""
        try:
            return self._read_boss()
        except LOADING:
            return None

    def _read_boss(self) -> Health:
        """Return what is seen of the boss; raises one of `LOADING` while it is not there."""
        seen = self._game.session.snapshot(("boss.hp", "boss.max_hp"))
        return Health(int(seen["boss.hp"]), int(seen["boss.max_hp"]))

    def _is_it(self, boss: Health | None) -> bool:
        """Tell whether that is the boss, alive: another place has others where this one is found."""
        return boss is not None and boss.hp > 0 and boss.max_hp == (self._facts.max_hp or boss.max_hp)

    def _is_in_fight(self) -> bool:
        with _state("load", "the player and the boss to be read"):
            is_there = self._is_it(self._boss()) and self._is_inside(self._game.player.position_m)
            # One that was beaten is no fight any more, also if somebody has given it health again.
            return is_there and not self._is_beaten()

    def _is_beaten(self) -> bool:
        """Tell whether the game has taken down the boss's defeat, as far as that can be seen."""
        try:
            return self._game.event_flags[self._facts.defeat_flag or 0]
        except LOADING:
            return False

    def _is_another_wanted(self) -> bool:
        """Tell whether the fight that goes on will not do; one that nobody has begun yet is as good as another."""
        boss, player = self._boss(), self._game.player
        is_new = boss is not None and boss.hp >= boss.max_hp and player.hp >= player.max_hp
        return self._visit.needs_another and not (is_new and self._visit.is_fresh and not self._visit.n_tries)

    def _why_warp(self) -> str:
        """Return why the fight is to be had only after another load; "" if it is without."""
        with _state("load", "the player to be read"):
            position = self._game.player.position_m
            boss = self._boss()
            is_begun = self._is_it(boss) and boss is not None and boss.hp < boss.max_hp
            can_tell = boss is not None or self._facts.poses.behind_fog_wall is not None
            reasons = {
                "the try before failed": self._visit.n_tries > 0 and not self._visit.is_fresh,
                "the boss has been hurt": is_begun,
                "the player is in a fight that will not do": can_tell and self._is_inside(position),
                "the fog is far away": self._distance_m(position) > NEAR_M,
                "the player rested elsewhere": self._game.last_rest_point not in self._facts.warp_points,
            }
            return next((reason for reason, holds in reasons.items() if holds), "")

    # --- where the player is --------------------------------------------------------------------------------

    def _distance_m(self, position: Position) -> float:
        """Return how far someone is from the fog, on the ground."""
        return math.dist(position[:2], self._game.pose_of(self._facts, "fog_wall").position_m[:2])

    def _is_inside(self, position: Position) -> bool:
        """Tell whether someone is beyond the fog, and in the arena as far as that is known."""
        fog = self._game.pose_of(self._facts, "fog_wall").position_m
        x, y = position[0] - fog[0], position[1] - fog[1]
        if self._facts.poses.behind_fog_wall is not None:
            behind = self._game.pose_of(self._facts, "behind_fog_wall").position_m
            way = (behind[0] - fog[0], behind[1] - fog[1])
            needed_m = BEYOND_SHARE * math.hypot(*way)
        else:
            # All that is known of the direction is where the boss is, if it is there already.
            other = self._game.boss.position_m if self._is_it(self._boss()) else position
            way, needed_m = (other[0] - fog[0], other[1] - fog[1]), BEYOND_M
        length_m = math.hypot(*way)
        is_beyond = length_m > 0.0 and (x * way[0] + y * way[1]) / length_m >= needed_m
        return is_beyond and _is_in_arena(self._facts, position, math.hypot(x, y))

    # --- the states -----------------------------------------------------------------------------------------

    def _leave_title(self) -> None:
        what = "the title to end, with the key that confirms pressed"
        patience = Patience(deadline_s=self._limits.title_s, poll_s=MENU.poll_s)
        with _state("title", what):
            self._await(what, lambda: self._game.screen, lambda screen: screen != "title", patience, (self._interact,))

    def _load(self) -> None:
        what = "the player to be alive and in control"
        with _state("load", what):
            self._await(what, self._player, lambda player: player.can_act, self._patience(self._limits.load_s))

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
            with _state("flags", "the flags of the fight to be read"):
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
        with _state("warp", f"the game to load {name!r}"):
            self._visit.deadline.check(f"the way to {name!r}")
            loaded = self._patience(self._limits.load_s)
            self._game.warp(name, died=self._patience(self._limits.death_s), loaded=loaded)
        self._visit.log.n_respawns += 1
        self._load()

    def _pass_fog(self) -> None:
        what = "the player to go through the fog"
        forward = _key(self._game.session, "forward")
        with _state("fog", what):
            self._game.teleport(self._game.pose_of(self._facts, "fog_wall"))
            _look_through_fog(self._game, self._facts)
            stands = "the player to be in control before the fog"
            self._await(stands, self._player, lambda player: player.can_act, self._patience(self._limits.fog_s))
            try:
                self._press((self._interact,))
            except WaitTimeoutError as error:
                # It may stand a step too far away.
                _log.info("%s; it is tried a step further, with %s pressed too", error, forward)
                self._press((forward, self._interact))
            self._await(what, self._place, self._is_through, self._patience(self._limits.fog_s))

    def _press(self, keys: tuple[str, ...]) -> None:
        """Press keys until the game heeds them: it takes the player's control away, or has it through."""
        self._await(
            f"the fog to be passed, with {' and '.join(keys)} pressed before it",
            self._place,
            lambda seen: not seen[0] or self._is_through(seen),
            self._patience(self._limits.press_s),
            keys,
        )

    def _place(self) -> tuple[bool, Position]:
        """Return whether the player is in control, and where it is, to the centimetre."""
        x, y, height = self._game.player.position_m
        return self._game.is_in_control, (round(x, 2), round(y, 2), round(height, 2))

    def _is_through(self, seen: tuple[bool, Position]) -> bool:
        return self._is_inside(seen[1])

    def _await_inside(self) -> None:
        what = "the player to be alive and in control behind the fog"
        with _state("inside", what):
            self._await(
                what,
                lambda: (self._player(), self._place()),
                lambda seen: seen[0].can_act and self._is_through(seen[1]),
                self._patience(self._limits.inside_s),
            )

    def _await_boss(self) -> None:
        full = f", with a full health of {self._facts.max_hp}" if self._facts.max_hp else ""
        what = f"{self._facts.name} to be there and alive{full}"
        with _state("boss", what):
            try:
                self._await(what, self._read_boss, self._is_it, self._patience(self._limits.boss_s))
            except WaitTimeoutError:
                if (boss := self._boss()) is not None and boss.hp > 0:
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
def _state(name: str, what: str) -> Iterator[None]:
    """Give what goes wrong in a state its name, so that the reset counts it and tries again."""
    try:
        yield
    except ResetFailedError:
        raise
    except WaitTimeoutError as error:
        raise ResetFailedError(error.what, error.waited_s, state=name, saw=error.hint.removeprefix(SAW)) from error
    except LOADING as error:
        raise ResetFailedError(what, 0.0, state=name, saw=str(error)) from error


def _check(game: SoulsGame, names: tuple[str, ...]) -> None:
    """Refuse attributes that fail the self-check; where there is no world any more, that is why, and no mistake."""
    try:
        AttributeGate(names)(game.session)
    except SelfCheckError as error:
        if game.screen == "world" and game.player.hp > 0:
            raise
        raise ResetFailedError("the world to stay for a self-check", 0.0, state="check", saw=str(error)) from error


def _is_in_arena(facts: BossFacts, position: Position, distance_m: float) -> bool:
    """Tell whether a position, so far from the fog, is within the limits of the arena, as far as they are known."""
    limits_m = facts.arena.limits_m
    if limits_m is None or facts.frame != "player.position":
        return distance_m <= ARENA_M
    return all(low <= value <= high for value, (low, high) in zip(position, limits_m, strict=True))


def _look_through_fog(game: SoulsGame, facts: BossFacts) -> None:
    """Have the camera look through the fog, where that is known: who walks forward walks where it looks."""
    if facts.poses.behind_fog_wall is None:
        return
    fog, behind = (game.pose_of(facts, name).position_m for name in ("fog_wall", "behind_fog_wall"))
    x, y = behind[0] - fog[0], behind[1] - fog[1]
    length_m = math.hypot(x, y)
    if length_m > 0.0:
        game.camera.turn((x / length_m, y / length_m, 0.0))


def _written(game: SoulsGame, facts: BossFacts) -> tuple[str, ...]:
    """Return the attributes that a way writes, but for those of a duel. Event flags are at no attribute."""
    of_player = (f"player.{name}" for name in ("hp", "position", "angle", "no_death", "no_gravity"))
    names = (*of_player, "camera.direction", "debug.no_death", game.last_rest, *facts.encounter, *WANTED)
    return tuple(name for name in names if name in game.session.profile.attributes)


def _key(session: Session, button: str) -> str:
    keys = session.profile.keys
    if button not in keys:
        raise ProfileError("is missing, and the way to the fight needs it", path=f"keys.{button}")
    return keys[button]
