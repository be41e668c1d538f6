"""From an agent's action to one of the 20, and from that to keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from soulslab.arena.live_fight import BUTTONS, DIRECTIONS, PRESSES, is_press_action
from soulslab.arena.vocabulary import ACTIONS, FIRST_ROLL, N_ACTIONS, NOTHING, action_name
from soulslab.envs.arguments import action_number
from soulslab.envs.game.timing import Keys
from soulslab.envs.tasks.duel.duel_masks import Freedom
from soulslab.errors import EnvironmentUsageError, InvalidActionError, ProfileError, did_you_mean

ActionMode: TypeAlias = Literal["discrete", "multi_binary", "continuous"]
ACTION_NAMES = tuple(action_name(number) for number in range(N_ACTIONS))

_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}
_OPPOSITES = (frozenset(("forward", "backward")), frozenset(("left", "right")))


class Choice(msgspec.Struct, frozen=True):
    """What an agent chose.

    Attributes:
        action: One of the 20.
        is_masked: Something else was asked for, which is not open.
    """

    action: int
    is_masked: bool


class Actions:
    """The actions of one environment.

    ``discrete`` is a number. ``multi_binary`` has a bit per button, ``continuous`` a number from 0 to 1 per button,
    down from the threshold on; both come to one of the 20 actions: opposite directions cancel out, and of several
    presses that are open the last in `PRESSES` is made.

    Args:
        mode: Kind of the action space.
        names: Actions of ``discrete``, by name; all 20 without.
        threshold: Of ``continuous``.

    Attributes:
        space: Of what an agent gives.
        names: What can be chosen: actions, or buttons.

    Raises:
        EnvironmentUsageError: One of them cannot be.
    """

    def __init__(self, mode: ActionMode, names: Sequence[str] | None = None, threshold: float = 0.5) -> None:
        if names is not None and mode != "discrete":
            raise EnvironmentUsageError(f"actions: only discrete actions have names to choose from, not {mode!r}")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.0 < threshold <= 1.0:
            raise EnvironmentUsageError(f"threshold must be above 0 and at most 1, not {threshold!r}")
        self._mode = mode
        self._threshold = threshold
        self._numbers = _numbers_of(ACTION_NAMES if names is None else names)
        self.names: tuple[str, ...] = BUTTONS
        self.space: spaces.Space[Any]
        if mode == "discrete":
            self.names = tuple(ACTION_NAMES[number] for number in self._numbers)
            self.space = spaces.Discrete(len(self._numbers))
        elif mode == "multi_binary":
            self.space = spaces.MultiBinary(len(BUTTONS))
        else:
            self.space = spaces.Box(0.0, 1.0, (len(BUTTONS),), np.float32)
        self._places = np.array(self._numbers)

    @property
    def buttons(self) -> tuple[str, ...]:
        """The buttons that the actions use, in the order of `BUTTONS`."""
        used = {button for number in self._numbers for button in ACTIONS[number]}
        return tuple(button for button in BUTTONS if button in used)

    def choose(self, action: Any, freedom: Freedom) -> Choice:
        """Return what an action comes to.

        Raises:
            InvalidActionError: It is not in the space.
        """
        if self._mode == "discrete":
            number = self._numbers[self._checked_number(action)]
            return Choice(number, False) if freedom.allows(number) else Choice(NOTHING, True)
        return _choice_of_buttons(self._down(action), freedom)

    def mask(self, open_: NDArray[np.bool_], freedom: Freedom) -> NDArray[np.bool_]:
        """Return which of `names` are open, as an array of its own."""
        if self._mode == "discrete":
            mask: NDArray[np.bool_] = open_[self._places]
            return mask
        way = freedom.can_move or freedom.can_roll
        return np.array([way] * len(DIRECTIONS) + [freedom.can_roll] + [freedom.can_attack] * 3)

    def one_hot(self, action: Any) -> NDArray[np.float32]:
        """Return an action that was taken as numbers of 0 and 1, one for each of `names`."""
        numbers = np.zeros(len(self.names), np.float32)
        if self._mode == "discrete":
            numbers[int(action)] = 1.0
        else:
            numbers[:] = self._down(action)
        return numbers

    def _checked_number(self, action: Any) -> int:
        return action_number(action, len(self._numbers))

    def _down(self, action: Any) -> list[bool]:
        """Return which buttons are down."""
        try:
            given = np.asarray(action)
        except ValueError:  # a ragged list
            given = np.zeros(0, object)
        kinds = "biu" if self._mode == "multi_binary" else "biuf"
        if given.shape != (len(BUTTONS),) or given.dtype.kind not in kinds or not ((given >= 0) & (given <= 1)).all():
            raise InvalidActionError(f"action {action!r} is not in {self.space}: a number for each of {BUTTONS}")
        return [bool(value >= self._threshold) for value in given.tolist()]


def keys_of(action: int, keys: Mapping[str, str], source: str = "") -> Keys:
    """Return the keys of one of the 20 actions.

    Args:
        action: Which.
        keys: Key of each button (a profile's ``[keys]``).
        source: The profile's file, for errors.

    Raises:
        ProfileError: A button has no key.
    """
    for button in ACTIONS[action]:
        if button not in keys:
            raise ProfileError("is missing: a duel needs it", path=f"keys.{button}", source=source)
    held = tuple(keys[button] for button in ACTIONS[action])
    pressed = tuple(keys[button] for button in ACTIONS[action] if button in PRESSES)
    return Keys(held, pressed if is_press_action(action) else ())


def _numbers_of(names: Sequence[str]) -> list[int]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise EnvironmentUsageError(
            f"actions must be a list of names, such as {list(ACTION_NAMES[15:])}, not {names!r}"
        )
    for name in names:
        if name not in ACTION_NAMES:
            hint = did_you_mean(str(name), ACTION_NAMES)
            raise EnvironmentUsageError(f"actions: unknown action {name!r}{hint}")
    if len(set(names)) < len(names):
        raise EnvironmentUsageError(f"actions: each name only once, not {list(names)}")
    if "nothing" not in names:
        raise EnvironmentUsageError("actions must contain 'nothing': often it is all that is open")
    return [ACTION_NAMES.index(name) for name in names]


def _choice_of_buttons(down: Sequence[bool], freedom: Freedom) -> Choice:
    buttons = {name for name, is_down in zip(BUTTONS, down, strict=True) if is_down}
    ways = frozenset(buttons & set(DIRECTIONS))
    for pair in _OPPOSITES:
        if pair <= ways:
            ways -= pair
    for press in reversed(PRESSES):
        if press in buttons:
            # Without a direction a roll goes backwards, as in the game (`soulslab.arena.live_fight`).
            keys = {press} | ((ways or {"backward"}) if press == "roll" else set())
            action = _NUMBER[frozenset(keys)]
            if freedom.allows(action):
                return Choice(action, False)
    move = _NUMBER[ways]
    if move < FIRST_ROLL and freedom.can_move:
        return Choice(move, False)
    return Choice(NOTHING, bool(ways or buttons & set(PRESSES)))
