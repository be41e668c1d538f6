"""A check that keys have an effect: each key is pressed once, and the player has to react."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from soulslab.arena.live_fight import DIRECTIONS
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.fighter_placing import refill, set_safety_flags
from soulslab.envs.tasks.duel.reset_states import QuantityValues
from soulslab.errors import EnvironmentUsageError

#: Limit of game time for the whole check.
BUDGET_S = 10.0
#: Game time for which a direction is held, and any other button.
WALK_S, PRESS_S = 0.3, 0.1
#: Limits of game time for a reaction after a press, and for the player to come to rest before the next press.
REACTION_S, REST_S = 0.4, 2.5
#: Game time between two readings.
POLL_S = 0.1
#: Number of readings at the beginning, from which the player's animations at rest are known.
N_REST_READINGS = 4
#: Distance from which on the player has walked.
MOVED_M = 0.1
_QUANTITIES = ("player.position", "player.animation")

_log = logging.getLogger(__name__)


def check_keys(game: DuelGame, scenario: Scenario, buttons: Sequence[str]) -> None:
    """Press each key once; raise `EnvironmentUsageError` if the player neither moves nor changes its animation.

    The player must be at rest in a fight. During the check no fighter dies, falls or attacks, as far as the game has
    flags for that. The check moves both fighters.
    """
    set_safety_flags(game, is_on=True)
    try:
        check = _KeyCheck(game, scenario)
        checked = [button for button in buttons if check.press(button)]
        # A second try, because a key that is pressed at a bad moment may have no effect.
        for button in checked:
            if button not in check.effective:
                check.press(button)
        ineffective = [button for button in checked if button not in check.effective]
    finally:
        set_safety_flags(game, is_on=False)
    if len(checked) < len(buttons):
        rest = ", ".join(button for button in buttons if button not in checked)
        _log.warning("the keys of %s were not checked, because the %g s were over", rest, BUDGET_S)
    if ineffective:
        listed = ", ".join(f"{button} (key {game.profile.keys[button]})" for button in ineffective)
        reason = (
            f"keys without an effect in the game: {listed}. Bind them in the settings of the game as [keys] of the "
            f"profile says, or write the bindings of the game to [keys]; consider the keyboard layout"
        )
        if not check.effective:
            reason = (
                f"no key has an effect in the game: {listed}. The keys do not reach its window, the game waits in a "
                f"menu, or its key bindings differ from [keys] of the profile"
            )
        raise EnvironmentUsageError(f"{reason}; check_keys=False turns this check off")
    _log.info("each key had an effect: %s", ", ".join(checked))


class _KeyCheck:
    """Presses keys and observes the player; `effective` are the buttons to which the player has reacted."""

    def __init__(self, game: DuelGame, scenario: Scenario) -> None:
        self._game, self._scenario = game, scenario
        self._left_s = BUDGET_S
        self.effective: set[str] = set()
        self._rest = {self._step(POLL_S)["player.animation"] for _ in range(N_REST_READINGS)}

    def press(self, button: str) -> bool:
        """Press the key of a button and wait for a reaction; return False if the time left is too short."""
        press_s = WALK_S if button in DIRECTIONS else PRESS_S
        before = self._wait_for_rest()
        if self._left_s < press_s + REACTION_S:
            return False
        values = self._step(press_s, (button,))
        n_readings = round(REACTION_S / POLL_S)
        while n_readings and not self._is_reaction(before, values):
            values = self._step(POLL_S)
            n_readings -= 1
        if self._is_reaction(before, values):
            self.effective.add(button)
        return True

    def _wait_for_rest(self) -> QuantityValues:
        """Wait until the player is at rest with full stamina; return the last reading."""
        refill(self._game, self._scenario)
        wait_s = REST_S
        values = self._step(0.0)
        while values["player.animation"] not in self._rest and min(wait_s, self._left_s) > POLL_S:
            values = self._step(POLL_S)
            wait_s -= POLL_S
        return values

    def _is_reaction(self, before: QuantityValues, values: QuantityValues) -> bool:
        animation = values["player.animation"]
        has_acted = animation not in self._rest and animation != before["player.animation"]
        distance_m = np.linalg.norm(np.asarray(values["player.position"]) - np.asarray(before["player.position"]))
        return has_acted or bool(distance_m > MOVED_M)

    def _step(self, seconds: float, buttons: Sequence[str] = ()) -> QuantityValues:
        self._left_s -= seconds
        return self._game.decode(self._game.step(seconds, buttons, _QUANTITIES).snapshot)
