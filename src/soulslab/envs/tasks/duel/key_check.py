"""A check that keys do what the profile says: each is pressed once, and the player has to react."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from soulslab.arena.live_fight import DIRECTIONS
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.fighter_placing import hold, refill
from soulslab.envs.tasks.duel.reset_states import Seen
from soulslab.errors import EnvironmentUsageError

#: Game time that the whole check may take.
BUDGET_S = 10.0
#: How long a direction is held, and how long any other key.
WALK_S, PRESS_S = 0.3, 0.1
#: A reaction is waited for so long after the key went up, and a player at rest so long before the next key.
REACTION_S, REST_S = 0.4, 2.5
POLL_S = 0.1
#: Looks at the player at rest, for the animations that it has then.
REST_LOOKS = 4
#: A player that has gone so far has walked.
MOVED_M = 0.1
_SEEN = ("player.position", "player.animation")

_log = logging.getLogger(__name__)


def check_keys(game: DuelGame, scenario: Scenario, buttons: Sequence[str]) -> None:
    """Press each button's key once, and see whether the player moves or changes its animation.

    Nobody dies, falls or attacks meanwhile, as far as the game can be told so. Both fighters are elsewhere afterwards.

    Args:
        game: The game, in a fight, with the player at rest.
        scenario: The boss and its place.
        buttons: Buttons to check, of `soulslab.arena.live_fight.BUTTONS`.

    Raises:
        EnvironmentUsageError: A key has no effect; the message names the buttons and their keys.
        SiphonError: The game cannot be played, read or written.
    """
    hold(game, is_on=True)
    try:
        check = _KeyCheck(game, scenario)
        tried = [button for button in buttons if check.press(button)]
        idle = [button for button in tried if button not in check.effective]
        # A key may come at a bad moment once.
        for button in idle:
            check.press(button)
        idle = [button for button in idle if button not in check.effective]
    finally:
        hold(game, is_on=False)
    if len(tried) < len(buttons):
        rest = ", ".join(button for button in buttons if button not in tried)
        _log.warning("the keys of %s were not checked: the %g s were over", rest, BUDGET_S)
    if idle:
        raise EnvironmentUsageError(_message(game, idle, is_all=not check.effective))
    _log.info("each key had an effect: %s", ", ".join(tried))


class _KeyCheck:
    """The course of a check.

    Attributes:
        effective: Buttons that the player reacted to.
    """

    def __init__(self, game: DuelGame, scenario: Scenario) -> None:
        self._game, self._scenario = game, scenario
        self._left_s = BUDGET_S
        self.effective: set[str] = set()
        looks = [self._play(POLL_S) for _ in range(REST_LOOKS)]
        self._rest = {seen["player.animation"] for seen in looks}

    def press(self, button: str) -> bool:
        """Press a button's key and wait for a reaction; return False where no time is left for that."""
        press_s = WALK_S if button in DIRECTIONS else PRESS_S
        before = self._come_to_rest()
        if self._left_s < press_s + REACTION_S:
            return False
        seen = self._play(press_s, (button,))
        n_looks = round(REACTION_S / POLL_S)
        while n_looks and not self._is_reaction(before, seen):
            seen = self._play(POLL_S)
            n_looks -= 1
        if self._is_reaction(before, seen):
            self.effective.add(button)
        return True

    def _come_to_rest(self) -> Seen:
        """Wait until the player is at rest, with all its stamina; return what was seen last."""
        refill(self._game, self._scenario)
        wait_s = REST_S
        seen = self._play(0.0)
        while seen["player.animation"] not in self._rest and min(wait_s, self._left_s) > POLL_S:
            seen = self._play(POLL_S)
            wait_s -= POLL_S
        return seen

    def _is_reaction(self, before: Seen, seen: Seen) -> bool:
        animation = seen["player.animation"]
        has_acted = animation not in self._rest and animation != before["player.animation"]
        way_m = np.linalg.norm(np.asarray(seen["player.position"]) - np.asarray(before["player.position"]))
        return has_acted or bool(way_m > MOVED_M)

    def _play(self, seconds: float, buttons: Sequence[str] = ()) -> Seen:
        self._left_s -= seconds
        return self._game.decode(self._game.play(seconds, buttons, _SEEN).snapshot)


def _message(game: DuelGame, idle: Sequence[str], *, is_all: bool) -> str:
    listed = ", ".join(f"{button} (key {game.profile.keys[button]})" for button in idle)
    off = "check_keys=False switches this check off"
    if is_all:
        return (
            f"no key has an effect in the game: {listed}. The keys do not reach its window, the game waits in a menu, "
            f"or its keys are bound otherwise than [keys] of the profile says; {off}"
        )
    return (
        f"keys without an effect in the game: {listed}. Bind them in the game's settings as [keys] of the profile "
        f"says, or write the game's own keys there; mind the layout of the keyboard; {off}"
    )
