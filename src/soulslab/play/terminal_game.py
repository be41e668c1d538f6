"""Fights in the terminal: ten decisions per second, by a person or a policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cv2
import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.blow import blow_of
from soulslab.arena.records import DECISION_S, TICKS_PER_S
from soulslab.arena.simulator import Simulator
from soulslab.arena.top_down import ASPECT, draw_duel
from soulslab.envs.arena import ArenaEnv
from soulslab.errors import EnvironmentUsageError
from soulslab.play.terminal import HELP, Controls, Terminal

#: Function from observation, action mask and number of decisions in this fight to an action.
Act: TypeAlias = Callable[[Any, NDArray[np.bool_], int], Any]

_WATCHING = "watching a policy   P pause   N single step   Q quit"
_N_TEXT_LINES = 4
#: The image is rendered larger than it is shown, so that details thinner than a character remain visible.
_OVERSAMPLING = 3
_RED, _GREEN, _ORANGE, _DIM = "\x1b[38;2;190;40;40m", "\x1b[38;2;80;160;80m", "\x1b[38;2;230;150;60m", "\x1b[2m"


class Tally(msgspec.Struct):
    """Number of completed fights, and of wins."""

    fights: int = 0
    wins: int = 0


def play_in_terminal(
    env: gymnasium.Env[Any, Any],
    *,
    seed: int | None = None,
    act: Act | None = None,
    describe: Callable[[], str] | None = None,
) -> Tally:
    """Run fights in the terminal of this process until the player quits; return the number of fights and wins.

    ``act`` chooses the actions while the person watches; None uses the keyboard. When watching, P pauses the fight, and
    N takes one decision of a paused fight. ``describe`` returns a line about the last choice of `act`, shown with the
    reward of each decision. The seed of the first fight determines all later fights. Raises `EnvironmentUsageError` if
    the environment is not the arena, and the errors of `Terminal`.
    """
    arena = env.unwrapped
    if not isinstance(arena, ArenaEnv):
        raise EnvironmentUsageError(f"only soulslab/Arena-v0 can be played in the terminal, not {env}")
    tally, footer = Tally(), _WATCHING if act is not None else HELP
    with Terminal() as terminal:
        observation, info = env.reset(seed=seed)
        controls, n_decisions = Controls(), 0
        pause = Pause() if act is not None else None
        total = 0.0
        _show(terminal, arena.simulator, footer)
        while _wait(terminal, controls, DECISION_S, pause):
            mask = info["action_mask"]
            action = act(observation, mask, n_decisions) if act is not None else controls.action(mask, time.monotonic())
            choice = describe() if describe is not None else ""
            observation, reward, terminated, truncated, info = env.step(action)
            n_decisions += info["n_decisions"]
            total += float(reward)
            notes = [choice, f"reward {reward:+.3f}   return {total:+.3f}"] if choice else []
            _show(terminal, arena.simulator, footer, notes)
            if terminated or truncated:
                tally.fights += 1
                tally.wins += bool(info["fight"]["won"])
                if not _wants_another(terminal, arena.simulator):
                    break
                observation, info = env.reset()
                controls, n_decisions, total = Controls(), 0, 0.0
    return tally


class Pause:
    """Pause and single steps of a watched fight."""

    def __init__(self) -> None:
        self.is_on = False

    def press(self, keys: str) -> bool:
        """Process characters from the terminal; return whether to take a single step now."""
        for key in keys.lower():
            if key == "n" and self.is_on:
                return True
            if key in "pn":
                self.is_on = not self.is_on
        return False


def _wait(terminal: Terminal, controls: Controls, duration_s: float, pause: Pause | None = None) -> bool:
    """Process keys until the next decision is due; return False to quit.

    The schedule does not depend on the time needed for drawing. A paused fight only continues for single steps.
    """
    now_s = time.monotonic()
    # Decisions are due at multiples of the interval, so a late one does not delay the others.
    end_s = now_s + duration_s - now_s % duration_s
    while now_s < end_s or (pause is not None and pause.is_on):
        keys = terminal.read_keys(duration_s if pause is not None and pause.is_on else end_s - now_s)
        now_s = time.monotonic()
        if "q" in keys.lower():
            return False
        if pause is not None and pause.press(keys):
            return True
        controls.press(keys, now_s)
    return True


def _wants_another(terminal: Terminal, simulator: Simulator) -> bool:
    _show(terminal, simulator, "R another fight   Q quit")
    while True:
        keys = terminal.read_keys(1.0).lower()
        if "q" in keys or "r" in keys:
            return "q" not in keys


def _show(terminal: Terminal, simulator: Simulator, footer: str, notes: Sequence[str] = ()) -> None:
    """Draw the fight as large as the terminal allows; below it the bars, the notes and the footer."""
    columns, lines = terminal.size()
    height = 2 * max(lines - _N_TEXT_LINES - len(notes), 1)
    width = min(columns, round(height * ASPECT))
    height = min(height, 2 * round(width / ASPECT / 2))
    fight, duel = simulator.fight[0], simulator.duels[0]
    drawn = draw_duel(simulator.boss, fight, duel, height_px=_OVERSAMPLING * height, has_hud=False)
    picture = np.asarray(cv2.resize(drawn, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    *status, last = _status(simulator, width, footer)
    terminal.show(picture, [*status, *(line[:width] for line in notes), last])


def _status(simulator: Simulator, width: int, footer: str) -> list[str]:
    fight, d = simulator.fight[0], simulator.duels[0]
    blow = blow_of(d, fight)
    doing = f"{blow.stage}: {simulator.boss.moves[d.b_move].id.replace('_', ' ')}" if blow is not None else ""
    if d.over:
        doing = "VICTORY" if d.won else "TIME IS UP" if d.truncated else "YOU DIED"
    third = width // 3
    seconds = d.tick / TICKS_PER_S
    vitals = f"{_bar(d.p_hp / fight.p_max_hp, third, _RED)} {_bar(d.p_sp / fight.p_max_sp, third, _GREEN)}"
    return [
        _bar(d.b_hp / fight.b_max_hp, width - 2, _ORANGE if d.phase == 2 else _RED),
        f"{simulator.boss.name}, phase {d.phase}   {doing}",
        f"{vitals} {seconds:.1f} s",
        f"{_DIM}{footer[:width]}",
    ]


def _bar(share: float, width: int, colour: str) -> str:
    """Return a bar of full and empty blocks."""
    n = round(width * min(max(share, 0.0), 1.0))
    return f"{colour}{'█' * n}{_DIM}{'░' * (width - n)}\x1b[0m"
