"""Actions of a duel: which of the 20 actions are open, and the keys of an action of the agent.

The rule of open actions is that of `soulslab.arena.player_rules`, but in seconds as in SoulsGym, because durations that
are read from a game are not always whole ticks of the built-in fight. For whole ticks both give the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import BUTTONS, DIRECTIONS, PRESSES, is_press_action
from soulslab.arena.vocabulary import ACTIONS, FIRST_ROLL, LIGHT_ATTACK, N_ACTIONS, N_DIRECTIONS, NOTHING, action_name
from soulslab.envs.arguments import action_number, check_names
from soulslab.envs.game.timing import Keys
from soulslab.errors import EnvironmentUsageError, InvalidActionError, ProfileError

#: Prefix of the animations of a fall, in which no action is open.
_FALL = "Fall"
#: Tolerance for durations that are read as float32. A tick of 1/60 s either coincides with the end of a lock or is at
#: least 3 ms away from it.
_ROUNDING_S = 1e-4
_UNLOCKED = (0.0, 0.0, 0.0)

ActionMode: TypeAlias = Literal["discrete", "multi_binary", "continuous"]
ACTION_NAMES = tuple(action_name(number) for number in range(N_ACTIONS))
_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}
_OPPOSITES = (frozenset(("forward", "backward")), frozenset(("left", "right")))


class OpenActions(NamedTuple):
    """Which kinds of actions are open: walking, rolling, and attacking or parrying."""

    can_move: bool
    can_roll: bool
    can_attack: bool

    def allows(self, action: int) -> bool:
        """Return whether one of the 20 actions is open."""
        if action == NOTHING:
            return True
        if action < FIRST_ROLL:
            return self.can_move
        return self.can_roll if action < LIGHT_ATTACK else self.can_attack

    def write(self, mask: NDArray[np.bool_]) -> int:
        """Write which actions are open to `mask`, (20,) bool; return the number of open actions."""
        mask[:FIRST_ROLL] = self.can_move
        mask[FIRST_ROLL:LIGHT_ATTACK] = self.can_roll
        mask[LIGHT_ATTACK:NOTHING] = self.can_attack
        mask[NOTHING] = True
        return 1 + N_DIRECTIONS * (self.can_move + self.can_roll) + 3 * self.can_attack


def find_open_actions(animation: str, time_s: float, sp: float) -> OpenActions:
    """Return which kinds of actions are open in an animation of the player that began `time_s` ago, at a stamina.

    In an unknown animation all actions are open, because a key without effect does no harm.
    """
    if animation.startswith(_FALL):
        return OpenActions(False, False, False)
    attack_s, roll_s, move_s = load_knight().locks_s.get(animation, _UNLOCKED)
    has_stamina, time_s = sp > 0.0, time_s + _ROUNDING_S
    return OpenActions(time_s >= move_s, has_stamina and time_s >= roll_s, has_stamina and time_s >= attack_s)


def is_falling(animation: str) -> bool:
    """Return whether an animation of the player belongs to a fall."""
    return animation.startswith(_FALL)


class DecodedAction(msgspec.Struct, frozen=True):
    """One of the 20 actions, and whether it replaces a chosen action that is not open."""

    action: int
    is_masked: bool


class DuelActions:
    """The action space of an environment, and its mapping to the 20 actions.

    An action of ``discrete`` is a number; `names` selects some of the 20 actions. ``multi_binary`` has a bit for each
    button. ``continuous`` has a number from 0 to 1 for each button; the button is down if the number is at least the
    threshold. Buttons are mapped to one of the 20 actions: opposite directions cancel out, and of several pressed
    actions that are open the last one in `PRESSES` is used.
    """

    def __init__(self, mode: ActionMode, names: Sequence[str] | None = None, threshold: float = 0.5) -> None:
        if names is not None and mode != "discrete":
            raise EnvironmentUsageError(f"actions: only discrete actions can be selected by name, not {mode!r}")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.0 < threshold <= 1.0:
            raise EnvironmentUsageError(f"threshold must be above 0 and at most 1, not {threshold!r}")
        self._mode = mode
        self._threshold = threshold
        names = names if names is not None else ACTION_NAMES
        check_names("actions", names, ACTION_NAMES, "action")
        if len(set(names)) < len(names):
            raise EnvironmentUsageError(f"actions: each name may appear only once, not {list(names)}")
        if "nothing" not in names:
            raise EnvironmentUsageError("actions must contain 'nothing', because often no other action is open")
        self._numbers = [ACTION_NAMES.index(name) for name in names]
        self.names: tuple[str, ...] = BUTTONS
        self.space: spaces.Space[Any]
        if mode == "discrete":
            self.names = tuple(ACTION_NAMES[number] for number in self._numbers)
            self.space = spaces.Discrete(len(self._numbers))
        elif mode == "multi_binary":
            self.space = spaces.MultiBinary(len(BUTTONS))
        else:
            self.space = spaces.Box(0.0, 1.0, (len(BUTTONS),), np.float32)
        self._indices = np.array(self._numbers)

    @property
    def buttons(self) -> tuple[str, ...]:
        """The buttons that the actions use, in the order of `BUTTONS`."""
        used = {button for number in self._numbers for button in ACTIONS[number]}
        return tuple(button for button in BUTTONS if button in used)

    def decode(self, action: Any, open_actions: OpenActions) -> DecodedAction:
        """Return the one of the 20 actions that an action of the agent stands for. Raises `InvalidActionError`."""
        if self._mode == "discrete":
            number = self._numbers[action_number(action, len(self._numbers))]
            return DecodedAction(number, False) if open_actions.allows(number) else DecodedAction(NOTHING, True)
        return _decode_buttons(self._down(action), open_actions)

    def mask(self, mask_of_all: NDArray[np.bool_], open_actions: OpenActions) -> NDArray[np.bool_]:
        """Return which of `names` are open, as a new array, given which of the 20 actions and which kinds are open."""
        if self._mode == "discrete":
            mask: NDArray[np.bool_] = mask_of_all[self._indices]
            return mask
        has_direction = open_actions.can_move or open_actions.can_roll
        return np.array([has_direction] * len(DIRECTIONS) + [open_actions.can_roll] + [open_actions.can_attack] * 3)

    def one_hot(self, action: Any) -> NDArray[np.float32]:
        """Return an action of the agent as numbers of 0 and 1, one for each of `names`, float32."""
        numbers = np.zeros(len(self.names), np.float32)
        if self._mode == "discrete":
            numbers[int(action)] = 1.0
        else:
            numbers[:] = self._down(action)
        return numbers

    def _down(self, action: Any) -> list[bool]:
        """Return which buttons are down."""
        try:
            given = np.asarray(action)
        except ValueError:  # a ragged list
            given = np.zeros(0, object)
        kinds = "biu" if self._mode == "multi_binary" else "biuf"
        if given.shape != (len(BUTTONS),) or given.dtype.kind not in kinds or not ((given >= 0) & (given <= 1)).all():
            raise InvalidActionError(f"action {action!r} is not in {self.space}; give a number for each of {BUTTONS}")
        return [bool(value >= self._threshold) for value in given.tolist()]


def keys_of(action: int, keys: Mapping[str, str], source: str = "") -> Keys:
    """Return the keys of one of the 20 actions; raise `ProfileError` if ``[keys]`` has no key of a button."""
    for button in ACTIONS[action]:
        if button not in keys:
            raise ProfileError("is missing, and a duel needs it", path=f"keys.{button}", source=source)
    held = tuple(keys[button] for button in ACTIONS[action])
    pressed = tuple(keys[button] for button in ACTIONS[action] if button in PRESSES)
    return Keys(held, pressed if is_press_action(action) else ())


def _decode_buttons(down: Sequence[bool], open_actions: OpenActions) -> DecodedAction:
    buttons = {name for name, is_down in zip(BUTTONS, down, strict=True) if is_down}
    directions = frozenset(buttons & set(DIRECTIONS))
    for pair in _OPPOSITES:
        if pair <= directions:
            directions -= pair
    for press in reversed(PRESSES):
        if press in buttons:
            # A roll without a direction goes backwards, as in the game (`soulslab.arena.live_fight`).
            keys = {press} | ((directions or {"backward"}) if press == "roll" else set())
            action = _NUMBER[frozenset(keys)]
            if open_actions.allows(action):
                return DecodedAction(action, False)
    move = _NUMBER[directions]
    if move < FIRST_ROLL and open_actions.can_move:
        return DecodedAction(move, False)
    return DecodedAction(NOTHING, bool(directions or buttons & set(PRESSES)))
