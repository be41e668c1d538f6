"""Steps a real game through the states of docs/resets.md until the player stands in the fight with the boss."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec

from soulslab.envs.tasks.duel.entrance import FightRequest
from soulslab.errors import EnvironmentUsageError, ProfileError, ResetFailedError, WaitTimeoutError
from soulslab.games.boss_facts import BossFacts
from soulslab.games.character import Position
from soulslab.games.souls_game import MENU, Screen, SoulsGame
from soulslab.games.waiting import SAW, Patience, wait_until
from soulslab.siphon.session import LOADING, Session

#: Maximum distance from the fog of a position in the arena, if the limits of the arena are not known.
ARENA_M = 120.0
#: Distance beyond the fog from which a position counts as inside, if no pose behind the fog is known.
BEYOND_M = 2.0
#: Part of the distance from the fog to the pose behind it from which a position counts as inside, if that is known.
BEYOND_SHARE = 0.5
#: Maximum distance of a teleport to the fog. From farther away the player is warped first, because the game has not
#: loaded the map around the fog.
NEAR_M = 150.0
#: Maximum number of loads in one entrance: flags that cannot be read before the first load may require a second one.
MAX_WARPS = 2

T = TypeVar("T")

_log = logging.getLogger(__name__)


class PlayerStatus(msgspec.Struct, frozen=True):
    """State of the player; the health is 0 if no player is loaded. Its ``repr`` is part of error messages."""

    screen: Screen
    is_in_control: bool
    hp: int

    @property
    def can_act(self) -> bool:
        """Whether the player is alive, in the world, and responds to keys."""
        return self.screen == "world" and self.is_in_control and self.hp > 0


class BossHealth(NamedTuple):
    """Current and full health of the boss."""

    hp: int
    max_hp: int


class FightObserver:
    """Reads player and boss, and compares them with the facts of the boss."""

    def __init__(self, facts: BossFacts, game: SoulsGame) -> None:
        self._facts, self._game = facts, game

    def read_player(self) -> PlayerStatus:
        """Return the state of the player. Raises one of `LOADING` while the player is not loaded."""
        screen = self._game.screen
        if screen in ("title", "loading"):
            return PlayerStatus(screen, is_in_control=False, hp=0)
        return PlayerStatus(screen, self._game.is_in_control, self._game.player.hp)

    def read_position(self) -> tuple[bool, Position]:
        """Return whether the player is in control, and its position, rounded to 1 cm."""
        x, y, height = self._game.player.position_m
        return self._game.is_in_control, (round(x, 2), round(y, 2), round(height, 2))

    def read_boss(self) -> BossHealth:
        """Return the health of the boss. Raises one of `LOADING` while the boss is not loaded."""
        values = self._game.session.snapshot(("boss.hp", "boss.max_hp"))
        return BossHealth(int(values["boss.hp"]), int(values["boss.max_hp"]))

    def find_boss(self) -> BossHealth | None:
        """Return the health of the boss, or None while the boss is not loaded."""
        try:
            return self.read_boss()
        except LOADING:
            return None

    def is_expected_boss(self, boss: BossHealth | None) -> bool:
        """Return whether the boss is alive and has the full health of its facts.

        In another place the same attributes can belong to another character, which has another full health.
        """
        return boss is not None and boss.hp > 0 and boss.max_hp == (self._facts.max_hp or boss.max_hp)

    def is_defeated(self) -> bool:
        """Return whether the flag of the boss's defeat is set; False if the flag cannot be read now."""
        try:
            return self._game.event_flags[self._facts.defeat_flag or 0]
        except LOADING:
            return False

    def distance_m(self, position: Position) -> float:
        """Return the horizontal distance of a position from the fog."""
        return math.dist(position[:2], self._game.pose_of(self._facts, "fog_wall").position_m[:2])

    def is_inside(self, position: Position) -> bool:
        """Return whether a position is beyond the fog, and within the limits of the arena."""
        fog = self._game.pose_of(self._facts, "fog_wall").position_m
        x, y = position[0] - fog[0], position[1] - fog[1]
        has_pose_behind = self._facts.poses.behind_fog_wall is not None
        if has_pose_behind:
            target = self._game.pose_of(self._facts, "behind_fog_wall").position_m
        else:
            # The position of the boss, if it is loaded, is the only known direction into the arena.
            target = self._game.boss.position_m if self.is_expected_boss(self.find_boss()) else position
        inwards = (target[0] - fog[0], target[1] - fog[1])
        length_m = math.hypot(*inwards)
        needed_m = BEYOND_SHARE * length_m if has_pose_behind else BEYOND_M
        if not (length_m > 0.0 and (x * inwards[0] + y * inwards[1]) / length_m >= needed_m):
            return False
        limits_m = self._facts.arena.limits_m
        if limits_m is None or self._facts.frame != "player.position":
            return math.hypot(x, y) <= ARENA_M
        return all(low <= value <= high for value, (low, high) in zip(position, limits_m, strict=True))


class EntranceLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the states of an entrance, in game time.

    Attributes:
        title_s: From the title, or the start of the program, until the game loads. Menus are read twice a second.
        load_s: Until the player is in control, after a load and a cutscene.
        death_s: Until the game loads after a death.
        press_s: Until the game responds to a key before the fog.
        fog_s: Until the player has passed the fog.
        inside_s: Until the player is in control behind the fog. There may be a cutscene.
        boss_s: Until the boss is loaded.
        poll_s: Time between two reads.
    """

    title_s: float = 120.0
    load_s: float = 120.0
    death_s: float = 30.0
    press_s: float = 3.0
    fog_s: float = 20.0
    inside_s: float = 60.0
    boss_s: float = 10.0
    poll_s: float = 0.1


class EntranceStateMachine:
    """State machine of one entrance. A state whose condition already holds is passed at once."""

    def __init__(self, facts: BossFacts, limits: EntranceLimits, game: SoulsGame, visit: FightRequest) -> None:
        self._facts = facts
        self._limits = limits
        self._game = game
        self._visit = visit
        self._observer = FightObserver(facts, game)
        self._interact = _find_key(game.session, "interact")

    def enter_world(self) -> None:
        """Leave the title, and wait until the player is in control. Writes nothing."""
        what = "the title to end, with the key that confirms pressed"
        with named_state("title", what):
            self._await(
                what,
                lambda: self._game.screen,
                lambda screen: screen != "title",
                self._limits.title_s,
                (self._interact,),
                poll_s=MENU.poll_s,
            )
        self._await_load()

    def enter_fight(self, *, needs_load: bool) -> bool:
        """Bring the player from the world into the fight; return whether this is another fight than before.

        With `needs_load`, the current fight is left because its load is too long ago.
        """
        with named_state("load", "the player to be read"):
            max_hp, expected_hp = self._game.player.max_hp, self._facts.player_max_hp
            if expected_hp not in (None, max_hp):
                raise EnvironmentUsageError(
                    f"the player has a full health of {max_hp} in the game, and {expected_hp} in the file of "
                    f"{self._facts.name}: load the character that agents were trained with, or give boss= the path of "
                    f"a copy of the file with player_max_hp = {max_hp} (docs/bosses.md)"
                )
        if self._is_in_fight() and not needs_load and not self._is_another_needed():
            return False
        self._prepare_fight("the last load is long ago" if needs_load else self._reason_to_warp())
        self._pass_fog()
        what = "the player to be alive and in control behind the fog"
        with named_state("inside", what):
            self._await(
                what,
                lambda: (self._observer.read_player(), self._observer.read_position()),
                lambda found: found[0].can_act and self._is_through(found[1]),
                self._limits.inside_s,
            )
        self._await_boss()
        return True

    def _is_in_fight(self) -> bool:
        with named_state("load", "the player and the boss to be read"):
            is_boss_alive = self._observer.is_expected_boss(self._observer.find_boss())
            is_present = is_boss_alive and self._observer.is_inside(self._game.player.position_m)
            # A boss with the flag of its defeat is not fought again, even if its health was written afterwards.
            return is_present and not self._observer.is_defeated()

    def _is_another_needed(self) -> bool:
        """Return whether the current fight does not suit the episode. A fight that has not begun suits any episode."""
        boss, player = self._observer.find_boss(), self._game.player
        is_unused = boss is not None and boss.hp >= boss.max_hp and player.hp >= player.max_hp
        return self._visit.needs_another and not (is_unused and self._visit.is_fresh and not self._visit.n_tries)

    def _reason_to_warp(self) -> str:
        """Return why the fight requires a load; "" if it does not."""
        with named_state("load", "the player to be read"):
            position = self._game.player.position_m
            boss = self._observer.find_boss()
            is_hurt = boss is not None and boss.hp < boss.max_hp and self._observer.is_expected_boss(boss)
            has_direction = boss is not None or self._facts.poses.behind_fog_wall is not None
            reasons = {
                "the try before failed": self._visit.n_tries > 0 and not self._visit.is_fresh,
                "the boss has been hurt": is_hurt,
                "the player is in an unsuitable fight": has_direction and self._observer.is_inside(position),
                "the fog is far away": self._observer.distance_m(position) > NEAR_M,
                "the player rested elsewhere": self._game.last_rest_point not in self._facts.warp_points,
            }
            return next((reason for reason, holds in reasons.items() if holds), "")

    # --- the states -----------------------------------------------------------------------------------------

    def _await_load(self) -> None:
        what = "the player to be alive and in control"
        with named_state("load", what):
            self._await(what, self._observer.read_player, lambda player: player.can_act, self._limits.load_s)

    def _prepare_fight(self, reason: str) -> None:
        """Set the flags of the fight, and load the place of the fight if a flag or `reason` requires it."""
        are_right = self._set_flags(is_load_certain=bool(reason))
        for _ in range(MAX_WARPS):
            if are_right and not reason:
                return
            self._warp(reason or "its flags had other values")
            reason, are_right = "", self._set_flags(is_load_certain=False)
        if not are_right:
            saw = f"flag {self._facts.defeat_flag} or {', '.join(self._facts.encounter) or 'no other'} set otherwise"
            raise ResetFailedError("the game to take the flags of the fight", 0.0, state="flags", saw=saw)

    def _set_flags(self, *, is_load_certain: bool) -> bool:
        """Write the flags of the fight that have other values; return whether all were readable and already right.

        If a load follows in any case (`is_load_certain`), flags that cannot be read now are read after it.
        """
        session, defeat = self._game.session, self._facts.defeat_flag or 0
        wanted = {name: value for name, value in self._facts.encounter.items() if name in session.profile.attributes}
        try:
            with named_state("flags", "the flags of the fight to be read"):
                found = session.snapshot(tuple(wanted))
                wrong = {name: value for name, value in wanted.items() if found[name] != value}
                if wrong:
                    session.write(wrong)
                is_defeated = self._game.event_flags[defeat]
                if is_defeated:
                    self._game.event_flags[defeat] = False
                return not (wrong or is_defeated)
        except ResetFailedError:
            if is_load_certain:
                return False
            raise

    def _warp(self, reason: str) -> None:
        name = self._facts.warp_points[0]
        _log.info("warp to %r for %s, because %s", name, self._facts.name, reason)
        with named_state("warp", f"the game to load {name!r}"):
            self._visit.deadline.check(f"the warp to {name!r}")
            poll_s = self._limits.poll_s
            self._game.warp(
                name,
                died=Patience(deadline_s=self._limits.death_s, poll_s=poll_s),
                loaded=Patience(deadline_s=self._limits.load_s, poll_s=poll_s),
            )
        self._visit.log.n_respawns += 1
        self._await_load()

    def _pass_fog(self) -> None:
        what = "the player to go through the fog"
        forward = _find_key(self._game.session, "forward")
        fog_s = self._limits.fog_s
        with named_state("fog", what):
            fog = self._game.pose_of(self._facts, "fog_wall")
            self._game.teleport(fog)
            if self._facts.poses.behind_fog_wall is not None:
                # The player walks in the direction of the camera.
                behind = self._game.pose_of(self._facts, "behind_fog_wall")
                x, y = (end - start for start, end in zip(fog.position_m[:2], behind.position_m[:2], strict=True))
                if (length_m := math.hypot(x, y)) > 0.0:
                    self._game.camera.turn((x / length_m, y / length_m, 0.0))
            in_control = "the player to be in control before the fog"
            self._await(in_control, self._observer.read_player, lambda player: player.can_act, fog_s)
            try:
                self._press((self._interact,))
            except WaitTimeoutError as error:
                # The player may stand a step too far away.
                _log.info("%s; next try: a step forward, with %s pressed too", error, forward)
                self._press((forward, self._interact))
            self._await(what, self._observer.read_position, self._is_through, fog_s)

    def _press(self, keys: tuple[str, ...]) -> None:
        """Press keys until the game responds: the player is no longer in control, or is through the fog."""
        self._await(
            f"the fog to be passed, with {' and '.join(keys)} pressed before it",
            self._observer.read_position,
            lambda found: not found[0] or self._is_through(found),
            self._limits.press_s,
            keys,
        )

    def _is_through(self, found: tuple[bool, Position]) -> bool:
        return self._observer.is_inside(found[1])

    def _await_boss(self) -> None:
        full = f", with a full health of {self._facts.max_hp}" if self._facts.max_hp else ""
        what = f"{self._facts.name} to be there and alive{full}"
        observer = self._observer
        with named_state("boss", what):
            try:
                self._await(what, observer.read_boss, observer.is_expected_boss, self._limits.boss_s)
            except WaitTimeoutError:
                boss, max_hp = observer.find_boss(), self._facts.max_hp
                if boss is not None and boss.hp > 0 and max_hp not in (None, boss.max_hp):
                    raise EnvironmentUsageError(
                        f"{self._facts.name} has a full health of {boss.max_hp} in the game, and {max_hp} in its file: "
                        f"this is another boss, or a later journey through the game; to fight it, give boss= the path "
                        f"of a copy of the file with max_hp = {boss.max_hp} (docs/bosses.md)"
                    ) from None
                raise

    def _await(
        self,
        what: str,
        read: Callable[[], T],
        is_reached: Callable[[T], bool],
        limit_s: float,
        press: tuple[str, ...] = (),
        poll_s: float | None = None,
    ) -> T:
        """Wait as `wait_until` does, and also stop at the wall-time deadline of the reset."""
        saw = ""

        def read_in_time() -> T:
            nonlocal saw
            self._visit.deadline.check(what, saw=saw)
            try:
                found = read()
            except LOADING as error:
                saw = str(error)
                raise
            saw = repr(found)
            return found

        patience = Patience(deadline_s=limit_s, poll_s=poll_s or self._limits.poll_s)
        return wait_until(self._game.session, what, read_in_time, is_reached, patience, press)


@contextmanager
def named_state(name: str, what: str) -> Iterator[None]:
    """Convert errors of a state into `ResetFailedError` with the name of the state, so that the reset retries.

    So are errors of a value that cannot be read because the game loads; `what` is the awaited condition.
    """
    try:
        yield
    except ResetFailedError:
        raise
    except WaitTimeoutError as error:
        raise ResetFailedError(error.what, error.waited_s, state=name, saw=error.hint.removeprefix(SAW)) from error
    except LOADING as error:
        raise ResetFailedError(what, 0.0, state=name, saw=str(error)) from error


def _find_key(session: Session, button: str) -> str:
    keys = session.profile.keys
    if button not in keys:
        raise ProfileError("is missing; the entrance into the fight needs it", path=f"keys.{button}")
    return keys[button]
