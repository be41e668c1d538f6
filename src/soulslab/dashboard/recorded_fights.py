"""Recorded fights: data sets below a folder, and the replay of a fight for a browser.

A recorded fight of the built-in arena has its seed and its actions, so the simulator repeats it exactly, and its
picture can be drawn. Of other fights the observations and the actions are shown. A policy can be asked at every step
what it would compute there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import cv2
import gymnasium
import msgspec
import numpy as np

from soulslab.dashboard.scene_view import SceneView, pack, picture_of, state_scene
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.spaces import ROW_NAMES
from soulslab.errors import DemonstrationError
from soulslab.learn.demonstrations.data_set_metadata import METADATA_NAME, Description, describe
from soulslab.learn.demonstrations.reading import read_episode, read_outcomes, read_recorded
from soulslab.learn.demonstrations.recorded_episode import Episode, stack
from soulslab.learn.environment import Sizes, make_vector, sizes_of_one
from soulslab.learn.inputs import Layout, Observer
from soulslab.learn.live_feed import (
    WATCHED_DECISION_S,
    FeedInfo,
    describe_env,
    describe_moment,
    encode_picture,
    make_moment,
)
from soulslab.learn.policy_header import Player
from soulslab.learn.untrusted import check_named_environment
from soulslab.video import Mp4Writer

_MAX_DEPTH: Final = 3


class RecordedFight(msgspec.Struct, frozen=True, kw_only=True):
    """A fight of a data set; unknown values are None."""

    number: int
    n_steps: int
    seed: int | None
    total_return: float | None
    is_won: bool | None
    killed_by: str


def find_data_sets(root: Path) -> dict[str, Path]:
    """Return the folders of the data sets below a folder, by their path relative to it; the root may be one."""
    found = {}
    for depth in range(_MAX_DEPTH + 1):
        for file in root.glob("/".join([*["*"] * depth, METADATA_NAME])):
            if (file.parent / "main_data.hdf5").exists():
                name = file.parent.relative_to(root).as_posix() if depth else root.resolve().name
                found[name.removesuffix("/data")] = file.parent
    return dict(sorted(found.items()))


def list_fights(folder: Path) -> tuple[Description, list[RecordedFight]]:
    """Return the description of a data set and its fights; raises DemonstrationError."""
    description = describe(folder)
    fights = [
        RecordedFight(
            number=number,
            n_steps=int(row.get("total_steps", 0)),
            seed=int(row["seed"]) if row.get("seed") is not None else None,
            total_return=float(row["total_reward"]) if "total_reward" in row else None,
            is_won=bool(row["is_won"]) if "is_won" in row else None,
            killed_by=str(row.get("killed_by", "")),
        )
        for number, row in enumerate(read_outcomes(description))
    ]
    return description, fights


def replay_fight(folder: Path, number: int, player: Player | None = None) -> Iterator[bytes]:
    """Yield the messages for the live page: the environment, each decision of a fight, and its end.

    Args:
        folder: Folder of the data set.
        number: Number of the fight.
        player: Policy that is asked at every step; the actions are the recorded ones.

    Raises:
        DemonstrationError: The data set is damaged, or the repetition of the fight differs from the recording.
        IncompatibleCheckpointError: The policy does not match the observations.
        UntrustedFileError: An option in the file selects code or a file.
    """
    description, fights = list_fights(folder)
    if not 0 <= number < len(fights) or not is_repeatable(description, fights[number]):
        yield from _show_recording(description, number, player)
        return
    check_named_environment("", description.options, folder)
    with closing(make_vector(ARENA_ID, 1, description.options)) as spaces:
        episode = read_episode(description, spaces, number)
    with closing(gymnasium.make(ARENA_ID, **description.options)) as env:
        if player is not None:
            player.header.check_env(ARENA_ID, sizes_of_one(env))
        episode = episode._replace(seed=fights[number].seed, is_won=fights[number].is_won)
        yield from _replay(env, episode, player, folder, number)


def is_repeatable(description: Description, fight: RecordedFight) -> bool:
    """Return whether the simulator can repeat a fight; a fight of a person has no seed."""
    return description.env_id == ARENA_ID and fight.seed is not None


def _show_recording(description: Description, number: int, player: Player | None) -> Iterator[bytes]:
    """Yield the messages of `replay_fight` from the observations and the actions of a recording alone."""
    episode, space, n_actions = read_recorded(description, number)
    layout = Layout(space, description.env_id)
    names = next((names for names in ROW_NAMES.values() if len(names) == layout.n_features), ())
    header = player.header if player is not None else None
    if header is not None:
        sizes = Sizes(1, layout.n_features, n_actions, layout.pixels, header.feature_names)
        header.check_env(header.env_id, sizes)
    observer = Observer(
        layout,
        1,
        header.frame_stack if header else 1,
        extras=header.extras if header else None,
        n_actions=n_actions,
        n_memory=header.n_memory if header else 0,
    )
    info = FeedInfo(env_id=description.env_id, feature_names=names, n_actions=n_actions, action_names=(), scene={})
    view = SceneView(info)
    yield pack(view.info())
    for step, action in enumerate(episode.actions.tolist()):
        observation = _row(episode.observations, step)
        batch = stack([observation])
        if step == 0:
            observer.begin(batch)
        else:
            last = np.array([episode.actions[step - 1]])
            observer.follow(batch, np.zeros(1, np.bool_), last, episode.n_decisions[step - 1 : step])
        mask = episode.masks[step] if episode.masks is not None else np.ones(n_actions, np.bool_)
        inputs = observer.inputs
        moment = describe_moment(inputs, mask, action, player.view(inputs, mask, action) if player else None)
        reward = float(episode.rewards[step - 1]) if step else 0.0
        scene = state_scene(observation) if isinstance(observation, dict) else {}
        picture = encode_picture(layout.view_pixels(observation)) if layout.pixels is not None else b""
        moment = msgspec.structs.replace(
            moment, fight=number, decision=step, reward=reward, scene=scene, picture=picture
        )
        yield pack(view.describe(moment), view.picture(moment))
    outcome = read_outcomes(description)[number]
    is_won = bool(outcome["is_won"]) if "is_won" in outcome else None
    yield pack({"type": "ending", "fight": number, "is_won": is_won})


def _row(observations: Any, step: int) -> Any:
    """Return one observation of an episode."""
    if isinstance(observations, dict):
        return {name: values[step] for name, values in observations.items()}
    return observations[step]


def film_fight(folder: Path, number: int, path: Path) -> None:
    """Write a recorded fight as an MP4 file, a frame for each decision; raises as `replay_fight`, or VideoError."""
    n_frames = 0
    with Mp4Writer(path, 1.0 / WATCHED_DECISION_S) as film:
        for picture in filter(None, map(picture_of, replay_fight(folder, number))):
            frame = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
            film.write(np.asarray(frame, np.uint8)[..., ::-1])
            n_frames += 1
        if n_frames == 0:
            raise DemonstrationError(folder, "has no pictures, so it cannot be saved as a video", episode=number)
        film.keep()


def _replay(
    env: gymnasium.Env[Any, Any], episode: Episode, player: Player | None, folder: Path, number: int
) -> Iterator[bytes]:
    view = SceneView(describe_env(env))
    yield pack(view.info())
    header = player.header if player is not None else None
    observer = Observer(
        Layout(env.observation_space, ARENA_ID),
        1,
        header.frame_stack if header else 1,
        extras=header.extras if header else None,
        n_actions=header.n_actions if header else 0,
        n_memory=header.n_memory if header else 0,
    )
    observation, info = env.reset(seed=episode.seed)
    observer.begin(stack([observation]))
    reward, is_over, won = 0.0, False, None
    for step, action in enumerate(episode.actions.tolist()):
        if is_over:
            break
        inputs, mask = observer.inputs, info["action_mask"]
        moment = make_moment(env, inputs, mask, action, player.view(inputs, mask, action) if player else None)
        moment = msgspec.structs.replace(moment, fight=number, decision=step, reward=reward)
        yield pack(view.describe(moment), view.picture(moment))
        observation, step_reward, terminated, truncated, info = env.step(action)
        reward, is_over, won = float(step_reward), terminated or truncated, info.get("fight", {}).get("won")
        taken = np.array([info["n_decisions"]])
        observer.follow(stack([observation]), np.zeros(1, np.bool_), np.array([action]), taken)
    if not is_over or won != episode.is_won:
        raise DemonstrationError(
            folder, "differs from its repetition; it was recorded with other rules or another boss", episode=number
        )
    yield pack({"type": "ending", "fight": number, "is_won": won})
