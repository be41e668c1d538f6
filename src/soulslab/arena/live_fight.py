"""A sequence of fights in a running game: tick by tick, controlled by buttons, with end screens and loading.

The simulator plays whole decisions; a game plays single ticks and reads the buttons before each of them. Both call the
same `duel_tick`, so the same seed and the same buttons give exactly the same fight.

A game cycles through the stages ``fighting``, ``won`` or ``lost`` (an end screen), ``loading``, ``fighting``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias
from zlib import crc32

import msgspec
import numpy as np

from soulslab.arena.boss_file import Boss
from soulslab.arena.boss_rules import boss_is_beaten
from soulslab.arena.duel_rules import duel_tick
from soulslab.arena.kernel import kernel
from soulslab.arena.player_rules import is_open, start_animation
from soulslab.arena.records import ROAMING, TICKS_PER_S, Record, Table
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.vocabulary import ACTIONS, FIRST_ROLL, N_DIRECTIONS, NOTHING

Stage: TypeAlias = Literal["fighting", "won", "lost", "loading"]
STAGES: tuple[Stage, ...] = ("fighting", "won", "lost", "loading")
_FIGHTING, _WON, _LOST, _LOADING = range(len(STAGES))

DIRECTIONS = ("forward", "right", "backward", "left")
PRESSES = ("roll", "light_attack", "heavy_attack", "parry")
#: Buttons that a player can hold or press.
BUTTONS = (*DIRECTIONS, *PRESSES)

#: Duration of the end screen, and of loading the next fight.
END_TICKS = 3 * TICKS_PER_S
LOADING_TICKS = TICKS_PER_S // 2
#: A button that is pressed too early is buffered for this long.
BUFFER_TICKS = 24

#: Number of past ticks whose codes are kept (`LiveFight.history`).
HISTORY_TICKS = 256
#: Bits of the code of a tick: its action, whether the button was pressed in it, and commands before it.
CODE_ACTION, CODE_PRESS, CODE_LOCK_ON, CODE_RESTART = 0x1F, 0x20, 0x40, 0x80

_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}
_OPPOSITES = (frozenset(("forward", "backward")), frozenset(("left", "right")))


# One compiled call per tick, with arrays: outside a kernel, reading one field of a record takes as long as a tick.
@kernel
def _live_tick(
    duels: Table, fights: Table, action: int, is_press: bool, no_death: bool, no_gravity: bool, no_attack: bool
) -> int:
    """Play a tick of the first duel; return the index in `STAGES` of the resulting stage."""
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
    """Return whether an action is open in the first duel."""
    return is_open(duels[0], fights[0], action)


class LiveFightOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the fights of a game; see `FightOptions`. Only the first fight is seeded."""

    phase: str = "full"
    random_pose: bool = False
    seed: int = 0


class LiveFight:
    """A sequence of fights against one boss, controlled by buttons.

    Attributes:
        duel: `DUEL` record of the present fight.
        fight: `FIGHT` record: the rules of the fight.
        stage_ticks: Ticks since the start of the present stage.
        n_ticks: Ticks since the game began, in any stage.
        n_fights: Number of fights begun, including the present one.
        seed: Seed of the present fight, or None if it continued the generator of the previous one.
        next_seed: Seed of the next fight; None continues the generator of the present one.
        speed: Factor of game time; 0 pauses the game. The caller of `tick` has to apply it.
        no_death: The player's health does not fall below 1.
        no_attack: The boss does not start attacks.
        action: Action of the last tick (`soulslab.arena.vocabulary.ACTIONS`).
        is_press: Whether its button was pressed in that tick.
        history: (`HISTORY_TICKS`,) uint8, a ring buffer: the code of tick n (`n_ticks` after it) is at n modulo the
            length. `replay_tick` replays everything that was done by buttons from these codes.
        generator: State of the present fight's generator before the fight was begun.
        next_generator: Generator state for the next fight; None uses `next_seed`.
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
        self._commanded = 0  # bits of the commands since the last tick
        self.begin()

    def begin(self) -> None:
        """Start a fight."""
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
        """End the present fight in any stage and load the next one."""
        self._commanded |= CODE_RESTART
        self._enter("loading")

    def toggle_lock_on(self) -> None:
        """Lock the camera on the boss, or release it, as the player's key does."""
        self._commanded ^= CODE_LOCK_ON
        self.duel.lock_on = 1 - int(self.duel.lock_on)
        self.duel.lock_off_ticks = 0

    def tick(self, held: Collection[str], pressed: Collection[str] = ()) -> None:
        """Play a tick, with the `BUTTONS` that are down, and those that were pressed since the last tick."""
        self._advance(*(self._choose(held, pressed) if self.stage == "fighting" else (NOTHING, False)))

    def replay_tick(self, code: int) -> None:
        """Replay a tick, given its code from `history`."""
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
        """Return the action of a tick, and whether its button is pressed in it."""
        ways = frozenset(way for way in DIRECTIONS if way in held)
        for pair in _OPPOSITES:
            if pair <= ways:
                ways -= pair
        for button in PRESSES:
            if button in pressed:
                self._waiting, self._waiting_ticks = button, BUFFER_TICKS
        if self._waiting:
            # Without a direction, a roll goes backwards.
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

    def show_moment(self, duel: Record, action: int, stage: Stage) -> None:
        """Copy the present moment of another fight against the same boss, such as one of a simulator, to display it."""
        self._simulator.duels[0] = duel
        self.action, self.is_press = action, is_press_action(action)
        self.n_ticks += 1
        self.stage_ticks += 1
        if stage != self.stage:
            self._enter(stage)

    def digest(self) -> int:
        """Return a CRC-32 of the whole state of the fight."""
        return crc32(self.duel.tobytes(), STAGES.index(self.stage))

    def stand_up(self) -> None:
        """End a fall after the player was moved back to the ground."""
        d = self.duel
        if d.p_falling and d.p_z >= self.fight.floor - 1.0:
            d.p_falling = 0
            d.p_fall_speed = 0.0
            start_animation(d, self.fight, self.fight.idle)


def buttons_of(action: int) -> tuple[str, ...]:
    """Return the buttons of an action (its keys in `ACTIONS`)."""
    return ACTIONS[action]


def is_press_action(action: int) -> bool:
    """Return whether an action acts on the button press, rather than for as long as the button is held."""
    return FIRST_ROLL <= action < NOTHING
