"""Videos of a trained policy: in the simulator, in the window of the built-in fight, or in any game that renders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import cv2
import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.fights.recording import make_fight
from soulslab.learn.policy_header import Player
from soulslab.play.policy_actions import WINDOW_PX, PolicyActions, fight_options, policy_actions
from soulslab.video import find_won_fight, record_fight, record_won_fight

#: Maximum number of fights when searching for a won one.
MAX_ATTEMPTS = 100
#: Colours of the bars of actions: blue and vermilion of Okabe & Ito 2008.
OTHER_RGB: Final = (0, 114, 178)
CHOSEN_RGB: Final = (213, 94, 0)


class FilmOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a film.

    Attributes:
        in_window: Record the window of the fight, 10 frames per second of game time, instead of the top-down view of
            the simulator, 30 frames.
        seed: Seed of the first fight.
        needs_win: Record the first won fight of at most 100.
        explain: Draw the scores of the best actions into the frames.
    """

    in_window: bool = False
    seed: int = 0
    needs_win: bool = False
    explain: bool = False


def film_policy(player: Player, path: Path, fight: dict[str, Any], film: FilmOptions) -> bool | None:
    """Play one fight with a policy and write it as an MP4 file; return whether the fight was won.

    ``fight`` has the ``boss`` and ``phase`` to use instead of those of the training, and ``trust`` of `fight_options`.

    Raises IncompatibleCheckpointError if the policy cannot play the built-in fight, NoWinError without a win,
    VideoError if the video could not be encoded, and SiphonError if the window does not start.
    """
    seed = film.seed
    env_id = ARENA_LIVE_ID if film.in_window else ARENA_ID
    options = fight_options(env_id, player.header, **fight)
    if film.in_window:
        options |= {"size_px": WINDOW_PX, "episodes": "demo"}
    elif film.needs_win:  # drawing takes much longer than the fight itself
        with closing(gymnasium.make(env_id, disable_env_checker=True, **options)) as env:
            seed = find_won_fight(env, policy_actions(player, env, path), seed=seed, max_attempts=MAX_ATTEMPTS)
    render_mode = "rgb_array" if film.in_window else "rgb_array_list"
    with closing(gymnasium.make(env_id, render_mode=render_mode, disable_env_checker=True, **options)) as env:
        return _film(env, policy_actions(player, env, path), path, film, seed)


def film_in(player: Player, path: Path, env_id: str, options: dict[str, Any], film: FilmOptions) -> bool | None:
    """Play one episode with a policy in any environment that renders, and write it as an MP4 file.

    Args:
        player: The policy.
        path: The file.
        env_id: Gymnasium id of the environment.
        options: Its options; the actions, observations and their timing are those of the training.
        film: Options of the film; ``in_window`` has no effect.

    Returns:
        Whether the fight was won; None if the environment reports no fight.

    Raises:
        EnvironmentUsageError: The environment cannot be made, or does not render images.
        IncompatibleCheckpointError: The policy cannot play in this environment.
        NoWinError: No fight was won, and ``needs_win`` is set.
        VideoError: The video could not be encoded.
    """
    rendered = {**options, "render_mode": "rgb_array", "disable_env_checker": True}
    with closing(make_fight(env_id, rendered)) as env:
        return _film(env, policy_actions(player, env, path), path, film, film.seed)


def _film(env: gymnasium.Env[Any, Any], act: PolicyActions, path: Path, film: FilmOptions, seed: int) -> bool | None:
    filmed = _Explained(env, act) if film.explain else env
    if not film.needs_win:
        return record_fight(filmed, act, path, seed=seed)
    return record_won_fight(filmed, act, path, seed=seed, max_attempts=MAX_ATTEMPTS) > 0


class _Explained(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Draws the scores of the last choice into the frames of an environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], act: PolicyActions) -> None:
        super().__init__(env)
        self._act = act
        self._shown: tuple[str, list[tuple[str, float]]] = ("", [])

    def render(self) -> Any:
        """Return the frames; between two choices they show the last one."""
        rendered: Any = self.env.render()
        ranking = self._act.ranking()
        if ranking[0]:
            self._shown = ranking
        frames = rendered if isinstance(rendered, list) else [rendered]
        drawn = [draw_scores(frame, *self._shown) for frame in frames]
        return drawn if isinstance(rendered, list) else drawn[0]


def draw_scores(frame: NDArray[np.uint8], kind: str, ranking: Sequence[tuple[str, float]]) -> NDArray[np.uint8]:
    """Return a copy of a frame, (H, W, 3) uint8, with a bar for each score, the chosen action first."""
    if not ranking:
        return frame
    scale = frame.shape[0] / 450.0
    row, width, left, top = round(24 * scale), round(250 * scale), round(12 * scale), round(70 * scale)
    picture = frame.copy()
    panel = picture[top : top + row * (len(ranking) + 1), left : left + width]
    panel[:] = panel // 4
    scores = [score for _, score in ranking]
    low = 0.0 if kind == "probability" else min(scores)
    high = 1.0 if kind == "probability" else max(*scores, low + 1e-9)
    _write(picture, f"{kind} of the best actions", (left, top), scale)
    for place, (name, score) in enumerate(ranking, start=1):
        y = top + place * row
        end = left + round(width * (score - low) / (high - low))
        picture[y + row // 6 : y + row - row // 6, left:end] = CHOSEN_RGB if place == 1 else OTHER_RGB
        _write(picture, f"{name} {score:.2f}", (left, y), scale)
    return picture


def _write(picture: NDArray[np.uint8], text: str, corner: tuple[int, int], scale: float) -> None:
    """Write a line of text whose upper left corner is given (px)."""
    where = (corner[0] + round(6 * scale), corner[1] + round(17 * scale))
    cv2.putText(picture, text, where, cv2.FONT_HERSHEY_SIMPLEX, 0.45 * scale, (255, 255, 255), 1, cv2.LINE_AA)
