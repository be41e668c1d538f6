"""Actions of a duel: from an action of the agent to one of the 20 actions, and from that to keys."""

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
from soulslab.envs.tasks.duel.duel_masks import OpenActions
from soulslab.errors import EnvironmentUsageError, InvalidActionError, ProfileError, did_you_mean

ActionMode: TypeAlias = Literal["discrete", "multi_binary", "continuous"]
ACTION_NAMES = tuple(action_name(number) for number in range(N_ACTIONS))

_NUMBER = {frozenset(keys): number for number, keys in enumerate(ACTIONS)}
_OPPOSITES = (frozenset(("forward", "backward")), frozenset(("left", "right")))


class DecodedAction(msgspec.Struct, frozen=True):
    """One of the 20 actions, decoded from an action of the agent.

    Attributes:
        action: Number of the action, 0 to 19.
        is_masked: Whether it replaces a chosen action that is not open.
    """

    action: int
    is_masked: bool


class DuelActions:
    """The action space of an environment, and its mapping to the 20 actions.

    An action of ``discrete`` is a number. ``multi_binary`` has a bit for each button. ``continuous`` has a number from
    0 to 1 for each button; the button is down if the number is at least the threshold. Buttons are mapped to one of the
    20 actions: opposite directions cancel out, and of several pressed actions that are open the last one in `PRESSES`
    is used.

    Args:
        mode: Kind of the action space.
        names: Names of the actions of ``discrete``; None for all 20.
        threshold: Smallest number of ``continuous`` at which a button is down.

    Attributes:
        space: The action space.
        names: Names of the actions of ``discrete``, or of the buttons.

    Raises:
        EnvironmentUsageError: An argument is wrong.
    """

    def __init__(self, mode: ActionMode, names: Sequence[str] | None = None, threshold: float = 0.5) -> None:
        if names is not None and mode != "discrete":
            raise EnvironmentUsageError(f"actions: only discrete actions can be selected by name, not {mode!r}")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.0 < threshold <= 1.0:
            raise EnvironmentUsageError(f"threshold must be above 0 and at most 1, not {threshold!r}")
        self._mode = mode
        self._threshold = threshold
        self._numbers = _numbers_of(names if names is not None else ACTION_NAMES)
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
        """Return the one of the 20 actions that an action of the agent stands for.

        Raises:
            InvalidActionError: The action is not in the space.
        """
        if self._mode == "discrete":
            number = self._numbers[action_number(action, len(self._numbers))]
            return DecodedAction(number, False) if open_actions.allows(number) else DecodedAction(NOTHING, True)
        return _decode_buttons(self._down(action), open_actions)

    def mask(self, mask_of_all: NDArray[np.bool_], open_actions: OpenActions) -> NDArray[np.bool_]:
        """Return which of `names` are open, as a new array.

        Args:
            mask_of_all: Which of the 20 actions are open, (20,).
            open_actions: The same by kind of action.
        """
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
    """Return the keys of one of the 20 actions.

    Args:
        action: Number of the action, 0 to 19.
        keys: Key of each button (``[keys]`` of a profile).
        source: File of the profile, for errors.

    Raises:
        ProfileError: A button has no key.
    """
    for button in ACTIONS[action]:
        if button not in keys:
            raise ProfileError("is missing, and a duel needs it", path=f"keys.{button}", source=source)
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
        raise EnvironmentUsageError(f"actions: each name may appear only once, not {list(names)}")
    if "nothing" not in names:
        raise EnvironmentUsageError("actions must contain 'nothing', because often no other action is open")
    return [ACTION_NAMES.index(name) for name in names]


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
