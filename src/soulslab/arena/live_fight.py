"""A fight as a game runs it: tick by tick, by buttons, with what comes before and after it.

The simulator plays whole decisions; a game plays one tick after another and listens to buttons in each. Both call the
same `duel_tick`, so the same seed and the same buttons give the same fight, to the last bit.

A game goes round through the stages ``fighting``, ``won`` or ``lost`` (its end is shown), ``loading``, ``fighting``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias
from zlib import crc32

import msgspec
import numpy as np

from soulslab.arena.boss import boss_is_beaten
from soulslab.arena.boss_file import Boss
from soulslab.arena.duel import duel_tick
from soulslab.arena.kernel import kernel
from soulslab.arena.player import is_open, start_animation
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.state import ROAMING, TICKS_PER_S, Record, Table
from soulslab.arena.vocabulary import ACTIONS, FIRST_ROLL, N_DIRECTIONS, NOTHING

Stage: TypeAlias = Literal["fighting", "won", "lost", "loading"]
STAGES: tuple[Stage, ...] = ("fighting", "won", "lost", "loading")
_FIGHTING, _WON, _LOST, _LOADING = range(len(STAGES))

DIRECTIONS = ("forward", "right", "backward", "left")
PRESSES = ("roll", "light_attack", "heavy_attack", "parry")
#: What a player holds or presses.
BUTTONS = (*DIRECTIONS, *PRESSES)

#: How long the end of a fight is shown, and how long the next one loads.
END_TICKS = 3 * TICKS_PER_S
LOADING_TICKS = TICKS_PER_S // 2
#: A button that is pressed too early is kept for this long, until it does something.
BUFFER_TICKS = 24

#: The codes of so many last ticks are kept (`LiveFight.history`).
HISTORY_TICKS = 256
#: A tick's code: its action, whether its button went down in it, and what was commanded before it.
CODE_ACTION, CODE_PRESS, CODE_LOCK_ON, CODE_RESTART = 0x1F, 0x20, 0x40, 0x80

_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}
_OPPOSITES = (frozenset(("forward", "backward")), frozenset(("left", "right")))


# One call for all of a tick, with arrays: a field of a record that is read outside a kernel takes as long as a tick.
@kernel
def _live_tick(
    duels: Table, fights: Table, action: int, is_press: bool, no_death: bool, no_gravity: bool, no_attack: bool
) -> int:
    """Play a tick of the first duel; return the place in `STAGES` of what the game is at then."""
    d, f = duels[0], fights[0]
    if no_attack and d.b_mode == ROAMING:
        d.b_wait = max(d.b_wait, 1)
    if no_gravity and d.p_falling:
        d.p_fall_speed = 0.0
    duel_tick(d, f, action, is_press)
    if no_death and d.p_hp < 1.0:
        d.p_hp = 1.0
    if d.p_hp <= 0.0:
        return _LOST
    return _WON if boss_is_beaten(d, f) else _FIGHTING


@kernel
def _is_open_now(duels: Table, fights: Table, action: int) -> bool:
    """Whether an action is open in the first duel now."""
    return is_open(duels[0], fights[0], action)


class LiveFightOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the fights of a game are like.

    Attributes:
        phase: See `FightOptions.phase`.
        random_pose: See `FightOptions.random_pose`.
        seed: Of the first fight; those after it follow from it.
    """

    phase: str = "full"
    random_pose: bool = False
    seed: int = 0


class LiveFight:
    """One fight after another, by buttons.

    Attributes:
        boss: Against whom.
        duel: `DUEL` record of the present fight.
        fight: `FIGHT` record: its rules.
        stage: What the game is at.
        stage_ticks: For how long.
        n_ticks: Ticks since the game began, whatever it was at.
        n_fights: Fights begun, the present one included.
        seed: The present fight was begun with it; None where it follows from the one before.
        next_seed: The next one is begun with it; None goes on with the generator of the present one.
        speed: Factor of game time; 0 stops it. Whoever calls `tick` heeds it.
        no_death: The player's health does not fall below 1.
        no_gravity: The player does not fall.
        no_attack: The boss begins no attack.
        action: What was done in the last tick (`soulslab.arena.vocabulary.ACTIONS`).
        is_press: Whether its button went down in that tick.
        history: (`HISTORY_TICKS`,) uint8: the code of tick n (`n_ticks` after it) is at n modulo its length. All
            that a person or a program did by buttons can be played again from the codes (`play_again`).
        generator: State of the present fight's generator before the fight was begun.
        next_generator: The next fight is begun with it; None goes on as `next_seed` says.
        rules_digest: CRC-32 of the fight's rules: boss, phase, poses and knight.
    """

    def __init__(self, boss: Boss, options: LiveFightOptions) -> None:
        self.boss = boss
        self.options = options
        rules = FightOptions(phase=options.phase, random_pose=options.random_pose, features=False, autoreset="disabled")
        self._simulator = Simulator(boss, 1, rules)
        self.fight: Record = self._simulator.fight[0]
        self.duel: Record = self._simulator.duels[0]
        self.rules_digest = crc32(self.fight.tobytes())
        self.stage: Stage = "fighting"
        self.stage_ticks = 0
        self.n_ticks = 0
        self.n_fights = 0
        self.seed: int | None = None
        self.next_seed: int | None = options.seed
        self.speed = 1.0
        self.no_death = False
        self.no_gravity = False
        self.no_attack = False
        self.action = NOTHING
        self.is_press = False
        self.history = np.zeros(HISTORY_TICKS, np.uint8)
        self.generator = 0
        self.next_generator: int | None = None
        self._waiting = ""
        self._waiting_ticks = 0
        self._commanded = 0  # since the last tick, as its code has it
        self.begin()

    def begin(self) -> None:
        """Begin a fight."""
        everyone = np.ones(1, np.bool_)
        self.seed, self.next_seed = self.next_seed, None
        if self.seed is not None:
            self._simulator.seed(np.array([self.seed], np.uint64), everyone)
        if self.next_generator is not None:
            self.duel.rng, self.next_generator = self.next_generator, None
        self.generator = int(self.duel.rng)
        self._simulator.reset(everyone)
        self.n_fights += 1
        self._waiting = ""
        self._enter("fighting")

    def restart(self) -> None:
        """Leave the present fight, whatever it is at; the next one loads."""
        self._commanded |= CODE_RESTART
        self._enter("loading")

    def toggle_lock_on(self) -> None:
        """Lock the camera on the boss, or let it go, as the player's key does."""
        self._commanded ^= CODE_LOCK_ON
        self.duel.lock_on = 1 - int(self.duel.lock_on)
        self.duel.lock_off_ticks = 0

    def tick(self, held: Collection[str], pressed: Collection[str] = ()) -> None:
        """Play a tick.

        Args:
            held: Buttons that are down, of `BUTTONS`.
            pressed: Those that went down since the last tick.
        """
        self._advance(*(self._choose(held, pressed) if self.stage == "fighting" else (NOTHING, False)))

    def play_again(self, code: int) -> None:
        """Play a tick as it was played before.

        Args:
            code: Of the tick, from `history`.
        """
        if code & CODE_LOCK_ON:
            self.toggle_lock_on()
        if code & CODE_RESTART:
            self.restart()
        self._advance(code & CODE_ACTION, bool(code & CODE_PRESS))

    def _advance(self, action: int, is_press: bool) -> None:
        self.n_ticks += 1
        self.stage_ticks += 1
        self.action, self.is_press = NOTHING, False
        self.history[self.n_ticks % HISTORY_TICKS] = action | is_press * CODE_PRESS | self._commanded
        self._commanded = 0
        if self.stage == "fighting":
            self._fight(action, is_press)
        elif self.stage == "loading":
            if self.stage_ticks >= LOADING_TICKS:
                self.begin()
        elif self.stage_ticks >= END_TICKS:
            self._enter("loading")

    def _fight(self, action: int, is_press: bool) -> None:
        self.action, self.is_press = action, is_press
        duels, fights = self._simulator.duels, self._simulator.fight
        stage = STAGES[_live_tick(duels, fights, action, is_press, self.no_death, self.no_gravity, self.no_attack)]
        if stage != "fighting":
            self._enter(stage)

    def _choose(self, held: Collection[str], pressed: Collection[str]) -> tuple[int, bool]:
        """Return the action of a tick, and whether its button goes down in it."""
        ways = frozenset(way for way in DIRECTIONS if way in held)
        for pair in _OPPOSITES:
            if pair <= ways:
                ways -= pair
        for button in PRESSES:
            if button in pressed:
                self._waiting, self._waiting_ticks = button, BUFFER_TICKS
        if self._waiting:
            # Without a direction a roll goes backwards, out of reach.
            keys = {self._waiting} | ((ways or {"backward"}) if self._waiting == "roll" else set())
            action = _NUMBER[frozenset(keys)]
            if self._is_open(action):
                self._waiting = ""
                return action, True
            self._waiting_ticks -= 1
            if self._waiting_ticks <= 0:
                self._waiting = ""
        move = _NUMBER[ways]
        return (move if move < N_DIRECTIONS and self._is_open(move) else NOTHING), False

    def _is_open(self, action: int) -> bool:
        return bool(_is_open_now(self._simulator.duels, self._simulator.fight, action))

    def _enter(self, stage: Stage) -> None:
        self.stage, self.stage_ticks = stage, 0

    def take(self, duel: Record, action: int, stage: Stage) -> None:
        """Take the present moment of another fight against the same boss, as of a simulator, to be shown.

        Args:
            duel: Its `DUEL` record; copied.
            action: What is done in it.
            stage: What it is at.
        """
        self._simulator.duels[0] = duel
        self.action, self.is_press = action, is_press_action(action)
        self.n_ticks += 1
        self.stage_ticks += 1
        if stage != self.stage:
            self._enter(stage)

    def digest(self) -> int:
        """Return a CRC-32 of the fight's whole state."""
        return crc32(self.duel.tobytes(), STAGES.index(self.stage))

    def stand_up(self) -> None:
        """End a fall, for a player that was put back on the ground."""
        d = self.duel
        if d.p_falling and d.p_z >= self.fight.floor - 1.0:
            d.p_falling = 0
            d.p_fall_speed = 0.0
            start_animation(d, self.fight, self.fight.idle)


def buttons_of(action: int) -> tuple[str, ...]:
    """Return the buttons of an action."""
    return ACTIONS[action]


def is_press_action(action: int) -> bool:
    """Tell whether an action acts when its button goes down, and not for as long as it is held."""
    return FIRST_ROLL <= action < NOTHING
