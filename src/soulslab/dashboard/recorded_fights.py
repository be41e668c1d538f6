"""Recorded fights: data sets below a folder, and the replay of a fight for a browser.

A recorded fight of the built-in arena has its seed and its actions, so the simulator repeats it exactly, and its
picture can be drawn. Of other fights the observations and the actions are shown. A policy can be asked at every step
what it would compute there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import cv2
import gymnasium
import msgspec
import numpy as np

from soulslab.dashboard.run_library import RunLibrary
from soulslab.dashboard.scene_view import SceneView, is_own_environment, pack, picture_of, state_scene
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.spaces import ROW_NAMES
from soulslab.errors import DemonstrationError
from soulslab.learn.demonstrations.data_set_metadata import DATA_NAME, METADATA_NAME, Description, describe
from soulslab.learn.demonstrations.reading import read_outcomes, read_recorded
from soulslab.learn.demonstrations.recorded_episode import Episode, stack
from soulslab.learn.environment import Sizes, sizes_of_one, without_functions
from soulslab.learn.evaluated_fights import FIGHTS_NAME, read_evaluated_fights
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
from soulslab.learn.run_folder import CONFIG_NAME
from soulslab.learn.training import load_run_settings
from soulslab.learn.untrusted import find_decisions
from soulslab.video import Mp4Writer

_MAX_DEPTH: Final = 3


class RecordedFight(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded fight; unknown values are None.

    Attributes:
        number: Number of the fight, from 0.
        n_steps: Steps of the environment.
        seed: Seed of its reset.
        total_return: Sum of the rewards.
        is_won: Whether the fight was won.
        killed_by: The attack that ended it; "" for none.
        env_steps: Game decisions of the training before the evaluation of the fight.
    """

    number: int
    n_steps: int
    seed: int | None
    total_return: float | None
    is_won: bool | None
    killed_by: str
    env_steps: int | None = None


class FightSet(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded fights of a folder: a data set, or a run with the fights of its evaluations.

    ``data`` describes the data set; None for a run. ``options`` are those of the environment.
    """

    folder: Path
    env_id: str
    options: dict[str, Any]
    player: str
    fights: tuple[RecordedFight, ...]
    data: Description | None = None

    def fight(self, number: int) -> RecordedFight:
        """Return a fight; raises DemonstrationError if there is none with this number."""
        if not 0 <= number < len(self.fights):
            raise DemonstrationError(self.folder, f"has {len(self.fights)} fights, and no fight {number}")
        return self.fights[number]

    def is_repeatable(self, fight: RecordedFight) -> bool:
        """Return whether the simulator can repeat a fight.

        A fight of a person has no seed, and an option may select a file, which only the command line may do.
        """
        return self.env_id == ARENA_ID and fight.seed is not None and not any(find_decisions("", self.options))


def find_data_sets(root: Path) -> dict[str, Path]:
    """Return the folders of the data sets below a folder, by their path relative to it; the root may be one."""
    found = {}
    for depth in range(_MAX_DEPTH + 1):
        for file in root.glob("/".join([*["*"] * depth, METADATA_NAME])):
            place = file.parent.relative_to(root)
            # A recording that has not ended writes to a hidden copy.
            is_hidden = any(part.startswith(".") for part in place.parts)
            if not is_hidden and file.with_name(DATA_NAME).exists():
                name = place.as_posix() if depth else root.resolve().name
                found[name.removesuffix("/data")] = file.parent
    return dict(sorted(found.items()))


def find_fight_sets(library: RunLibrary) -> dict[str, Path]:
    """Return the folders with recorded fights, by name: data sets, and runs with fights of evaluations."""
    runs = {run_id: library.path(run_id) for run_id in library.run_ids()}
    evaluated = {run_id: folder for run_id, folder in runs.items() if (folder / FIGHTS_NAME).exists()}
    return dict(sorted((find_data_sets(library.root) | evaluated).items()))


def read_fight_set(folder: Path) -> FightSet:
    """Read the fights of a data set or a run without their steps; raises DemonstrationError or ConfigError."""
    return _fights_of_run(folder) if (folder / FIGHTS_NAME).exists() else _fights_of_data_set(folder)


def describe_fight_set(folder: Path) -> tuple[str, str, int]:
    """Return environment, player and number of recorded fights; of a data set only the metadata are read."""
    if (folder / FIGHTS_NAME).exists():
        found = _fights_of_run(folder)
        return found.env_id, found.player, len(found.fights)
    data = describe(folder)
    return data.env_id, data.player, data.n_episodes


def _fights_of_run(folder: Path) -> FightSet:
    env = load_run_settings(folder / CONFIG_NAME).env
    fights = tuple(
        RecordedFight(
            number=number,
            n_steps=len(fight.actions),
            seed=fight.seed,
            total_return=fight.total_return,
            is_won=fight.is_won,
            killed_by=fight.killed_by,
            env_steps=fight.env_steps,
        )
        for number, fight in enumerate(read_evaluated_fights(folder))
    )
    options = without_functions(env.options)
    return FightSet(folder=folder, env_id=env.id, options=options, player="evaluations of this run", fights=fights)


def _fights_of_data_set(folder: Path) -> FightSet:
    data = describe(folder)
    fights = []
    for number, outcome in enumerate(read_outcomes(data)):
        seed = outcome.get("seed")
        fights.append(
            RecordedFight(
                number=number,
                n_steps=outcome.get("total_steps", 0),
                seed=seed if isinstance(seed, int) and seed >= 0 else None,
                total_return=outcome.get("total_reward"),
                is_won=outcome.get("is_won"),
                killed_by=outcome.get("killed_by", ""),
            )
        )
    return FightSet(
        folder=folder, env_id=data.env_id, options=data.options, player=data.player, fights=tuple(fights), data=data
    )


def replay_fight(folder: Path, number: int, player: Player | None = None) -> Iterator[bytes]:
    """Yield the messages for the live page: the environment, each decision of a fight, and its end.

    Args:
        folder: Folder of the data set or the run.
        number: Number of the fight.
        player: Policy that is asked at every step; the actions are the recorded ones.

    Raises:
        DemonstrationError: The recording is damaged, or the repetition of the fight differs from it.
        IncompatibleCheckpointError: The policy does not match the observations.
    """
    found = read_fight_set(folder)
    fight = found.fight(number)
    if found.data is not None:
        episode, space, n_actions = read_recorded(found.data, number)
        if not found.is_repeatable(fight):
            yield from _show_recording(found.data, fight, (episode, space, n_actions), player)
            return
        actions = episode.actions.tolist()
    else:
        if not found.is_repeatable(fight):
            raise DemonstrationError(
                folder,
                f"only fights of {ARENA_ID} with its own bosses are repeated from their actions; record the fights of "
                "other environments with soulslab evaluate --record",
            )
        actions = list(read_evaluated_fights(folder)[number].actions)
    with closing(gymnasium.make(ARENA_ID, **{**found.options, "render_mode": None})) as env:
        if player is not None:
            player.header.check_env(ARENA_ID, sizes_of_one(env))
        yield from _replay(env, actions, fight, player, folder)


def _show_recording(
    description: Description,
    fight: RecordedFight,
    recorded: tuple[Episode, gymnasium.Space[Any], int],
    player: Player | None,
) -> Iterator[bytes]:
    """Yield the messages of `replay_fight` from the observations and the actions of a recording alone."""
    episode, space, n_actions = recorded
    layout = Layout(space, description.env_id)
    is_own = is_own_environment(description.env_id)
    names = next((names for names in ROW_NAMES.values() if is_own and len(names) == layout.n_features), ())
    header = player.header if player is not None else None
    if header is not None:
        sizes = Sizes(1, layout.n_features, n_actions, layout.pixels, header.feature_names)
        header.check_env(header.env_id, sizes)
    observer = header.make_observer(layout, 1) if header is not None else Observer(layout, 1)
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
        total = float(episode.rewards[:step].sum())
        moment = msgspec.structs.replace(
            moment, fight=fight.number, decision=step, reward=reward, total=total, scene=scene, picture=picture
        )
        yield pack(view.describe(moment), view.picture(moment))
    yield pack({"type": "ending", "fight": fight.number, "is_won": fight.is_won})


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
    env: gymnasium.Env[Any, Any], actions: list[int], fight: RecordedFight, player: Player | None, folder: Path
) -> Iterator[bytes]:
    view = SceneView(describe_env(env))
    yield pack(view.info())
    layout = Layout(env.observation_space, ARENA_ID)
    observer = player.header.make_observer(layout, 1) if player is not None else Observer(layout, 1)
    observation, info = env.reset(seed=fight.seed)
    observer.begin(stack([observation]))
    reward, total, is_over, won, n_steps = 0.0, 0.0, False, None, 0
    for step, action in enumerate(actions):
        inputs, mask = observer.inputs, info["action_mask"]
        if is_over or not (0 <= action < len(mask) and mask[action]):
            break
        moment = make_moment(env, inputs, mask, action, player.view(inputs, mask, action) if player else None)
        moment = msgspec.structs.replace(moment, fight=fight.number, decision=step, reward=reward, total=total)
        yield pack(view.describe(moment), view.picture(moment))
        observation, step_reward, terminated, truncated, info = env.step(action)
        reward, is_over, won = float(step_reward), terminated or truncated, info.get("fight", {}).get("won")
        total, n_steps = total + reward, step + 1
        taken = np.array([info["n_decisions"]])
        observer.follow(stack([observation]), np.zeros(1, np.bool_), np.array([action]), taken)
    has_return = fight.total_return is None or math.isclose(total, fight.total_return, rel_tol=1e-4, abs_tol=1e-3)
    if not is_over or n_steps < len(actions) or won != fight.is_won or not has_return:
        raise DemonstrationError(
            folder,
            f"differs from its repetition, which took {n_steps} of {len(actions)} steps and has a return of {total:g}; "
            "it was recorded with other rules or another boss",
            episode=fight.number,
        )
    yield pack({"type": "ending", "fight": fight.number, "is_won": won})
