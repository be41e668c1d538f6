"""Recorded fights: what comes out is what the environment gave, and what does not fit is refused with its place."""

import json
import subprocess
import sys

import h5py
import msgspec
import numpy as np
import pytest
from minari import MinariDataset

from soulslab.config import dump_settings
from soulslab.envs.registration import ARENA_ID, ARENA_LIVE_ID
from soulslab.errors import ConfigError, DemonstrationError
from soulslab.learn.demonstrations.data_set_metadata import METADATA_NAME, describe
from soulslab.learn.demonstrations.reading import read_demonstrations, read_outcomes
from soulslab.learn.environment import blocked_actions, decisions_taken, layout, make_vector
from soulslab.learn.inputs import ExtraInputs, Observer
from soulslab.learn.replay.step_rows import Outcome
from soulslab.learn.settings import EnvSettings
from support.fights import ARENA, check_same, play_again, record_random, record_reference
from support.stage import shipped

DATA_NAME = "main_data.hdf5"
N_FIGHTS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "reference"
    record_reference(folder, ARENA, N_FIGHTS)
    return folder


@pytest.fixture
def copied(folder, tmp_path):
    """A copy of the data set, to be damaged."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def read(folder, env_id=ARENA_ID, options=ARENA, *, is_masked=True, is_simulated=False, extras=None, frame_stack=1):
    env = make_vector(env_id, 1, options)
    settings = EnvSettings(id=env_id, options=options, frame_stack=frame_stack)
    try:
        return read_demonstrations(folder, env, settings, extras=extras, is_masked=is_masked, is_simulated=is_simulated)
    finally:
        env.close()


def lived(seeds, rows, extras=None, env_id=ARENA_ID, options=ARENA):
    """Return what training would have seen of the same fights: (features, blocked, reward, decisions) per step."""
    env = make_vector(env_id, 1, options)
    observer = Observer(layout(env), 1, extras=extras or ExtraInputs(), n_actions=20)
    seen, steps = [], iter(rows[rows["outcome"] != Outcome.FINAL])
    for seed in seeds:
        obs, info = env.reset(seed=seed)
        observer.begin(obs)
        is_over = False
        while not is_over:
            before = observer.inputs.features[0].copy(), blocked_actions(info, 1, 20)[0]
            action = np.array([next(steps)["action"]], np.int64)
            obs, reward, terminated, truncated, info = env.step(action)
            taken = decisions_taken(info, 1)
            is_over = bool(terminated[0] | truncated[0])
            seen.append((*before, np.float32(reward[0]), int(taken[0])))
            observer.follow(obs, terminated | truncated, action, taken)
    return seen


@pytest.mark.parametrize("extras", [None, ExtraInputs(previous_actions=2, time_left_decisions=3000)])
def test_the_rows_are_what_training_would_have_seen(folder, extras):
    rows = read(folder, extras=extras)
    seeds = [int(outcome["seed"]) for outcome in read_outcomes(describe(folder))]
    steps = rows[rows["outcome"] != Outcome.FINAL]
    expected = lived(seeds, rows, extras)
    assert len(steps) == len(expected)
    for row, (features, blocked, reward, n_decisions) in zip(steps, expected, strict=True):
        np.testing.assert_array_equal(row["features"], features)
        np.testing.assert_array_equal(np.unpackbits(row["blocked"])[:20], blocked)
        assert (row["reward"], row["n_decisions"]) == (reward, n_decisions)
    assert rows["is_first"].sum() == N_FIGHTS
    assert (rows["outcome"] == Outcome.TERMINATED).sum() == N_FIGHTS
    assert not rows["stream"].any()


@pytest.mark.parametrize("form", ["hw", "khw", "dict"])
def test_pictures_and_truncations(tmp_path, form):
    episodes = record_random(tmp_path / "dots", "toys/Dot-v0", {"form": form}, 2)
    rows = read(tmp_path / "dots", "toys/Dot-v0", {"form": form})
    n_steps = len(episodes[0].actions)
    assert rows["outcome"].tolist() == 2 * ([Outcome.GOES_ON] * (n_steps - 1) + [Outcome.TRUNCATED, Outcome.FINAL])
    assert rows["is_first"].nonzero()[0].tolist() == [0, n_steps + 1]
    pictures = episodes[1].observations["pixels"] if form == "dict" else episodes[1].observations
    channels = np.moveaxis(pictures, 1, -1) if form == "khw" else pictures[..., None]
    np.testing.assert_array_equal(rows["pixels"][n_steps + 1 :], channels)
    if form == "dict":
        np.testing.assert_array_equal(rows["features"][n_steps + 1 :], episodes[1].observations["age"])


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (ARENA_ID, ARENA),
        (ARENA_ID, {"phase": "2", "observation": "dict", "reward": {"win": 2.0, "time": -0.1}}),
        ("toys/Dot-v0", {"form": "dict"}),
        ("toys/Lights-v0", {}),
    ],
)
def test_an_episode_played_again_is_the_same(tmp_path, env_id, options):
    for episode in record_random(tmp_path / "x", env_id, options, 2):
        check_same(episode, play_again(env_id, options, episode))


def test_outcomes(folder):
    outcomes = read_outcomes(describe(folder))
    rows = read(folder)
    assert [outcome["total_steps"] for outcome in outcomes] == np.diff(
        [*rows["is_first"].nonzero()[0], len(rows)]
    ).tolist()
    assert sum(outcome["total_reward"] for outcome in outcomes) == pytest.approx(rows["reward"].sum(), abs=1e-4)
    assert {bool(outcome["is_won"]) for outcome in outcomes} <= {True, False}


def test_minari_itself_reads_it(folder):
    data = MinariDataset(folder)
    assert (data.total_episodes, data.total_steps) == (N_FIGHTS, describe(folder).n_steps)
    env = data.recover_environment()
    assert env.observation_space == data.observation_space
    assert env.spec.kwargs == ARENA


def test_an_id_of_this_machine(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    place = tmp_path / "minari" / "mine" / "fights-v0"
    place.mkdir(parents=True)
    (place / "data").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    assert len(read("mine/fights-v0")) == len(read(folder))
    with pytest.raises(DemonstrationError, match=r"mine/other-v0: is not a data set, because it has no .*other-v0"):
        read("mine/other-v0")


def test_learning_does_not_import_minari():
    code = (
        "import sys, soulslab.learn.demonstrations.reading as _; print('minari' in sys.modules, 'h5py' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]


# --- what does not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"boss": "trickster"}, "boss is 'judge' in the recording and 'trickster' here"),
        ({"phase": "full"}, "phase is '1' in the recording and 'full' here"),
        ({"skip_locked": False}, "skip_locked is True in the recording and False here"),
        ({"reward": {"win": 1.0}}, r"reward is 'soulsgym' in the recording and {'win': 1.0} here"),
    ],
)
def test_other_options(folder, changes, said):
    with pytest.raises(DemonstrationError, match=said):
        read(folder, options={**ARENA, **changes})


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A data set against a boss file with other health, on a larger ground, under training conditions."""
    folder = tmp_path_factory.mktemp("simulated")
    judge = shipped("judge")
    limits_m = tuple((low - 2.0, high + 2.0) for low, high in judge.ground.limits_m)
    ground = msgspec.structs.replace(judge.ground, limits_m=limits_m)
    boss = msgspec.structs.replace(judge, hp=judge.hp + 100, ground=ground)
    (folder / "boss.toml").write_text(dump_settings(boss))
    options = {**ARENA, "observation": "relative", "boss": str(folder / "boss.toml"), "latency_ms": (0.0, 100.0)}
    record_random(folder / "fights", ARENA_ID, options, 2)
    return folder / "fights"


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (ARENA_ID, {**ARENA, "observation": "relative"}),
        (ARENA_ID, {"phase": "full", "observation": "relative", "skip_locked": True, "reward": "soulsgym"}),
        (ARENA_LIVE_ID, {"observation": "relative", "skip_locked": True, "step_ms": 100, "latency_ms": 50}),
    ],
)
def test_a_simulated_boss_stands_in_for_the_true_one_only_by_its_setting(simulated, env_id, options):
    rows = read(simulated, env_id, options, is_simulated=True)
    assert (rows["is_first"].sum(), rows["features"].shape[1]) == (2, 73)
    assert len(rows) == describe(simulated).n_steps
    with pytest.raises(DemonstrationError):
        read(simulated, env_id, options)


def test_the_error_for_another_boss_names_the_setting(folder):
    with pytest.raises(DemonstrationError, match=r"boss is 'judge' .* set demonstrations\.is_simulated"):
        read(folder, options={**ARENA, "boss": "trickster"})
    with pytest.raises(DemonstrationError, match=r"skip_locked is True .* and False here; change env.options, or rec"):
        read(folder, options={**ARENA, "boss": "trickster", "skip_locked": False})


@pytest.mark.parametrize(
    ("env_id", "changes", "said"),
    [
        (ARENA_ID, {"reward": {"win": 1.0}}, r"reward is 'soulsgym' in the recording and {'win': 1.0} here"),
        (ARENA_ID, {"skip_locked": False}, "skip_locked is True in the recording and False here"),
        (ARENA_ID, {"observation": "features"}, "observation is 'relative' in the recording and 'features' here"),
        (ARENA_LIVE_ID, {"reward": "sparse"}, "reward is 'soulsgym' in the recording and 'sparse' here"),
        (ARENA_LIVE_ID, {"step_ms": 50}, "step_ms is 100 in the recording and 50 here"),
        (ARENA_LIVE_ID, {"actions": ["nothing", "light_attack"]}, "actions is None in the recording and"),
    ],
)
def test_steps_of_another_kind_are_refused_although_they_are_simulated(simulated, env_id, changes, said):
    options = {"observation": "relative", "skip_locked": True, **changes}
    with pytest.raises(DemonstrationError, match=said):
        read(simulated, env_id, options, is_simulated=True)


def test_a_default_of_a_game_is_compared_with_the_recorded_option(simulated):
    with pytest.raises(DemonstrationError, match="skip_locked is True in the recording and False here"):
        read(simulated, ARENA_LIVE_ID, {"observation": "relative"}, is_simulated=True)


def test_an_environment_that_does_not_say_what_a_step_is_has_no_simulator(tmp_path):
    record_random(tmp_path / "lights", "toys/Lights-v0", {}, 1)
    with pytest.raises(ConfigError, match=r"demonstrations\.is_simulated: .*toys/Lights-v0"):
        read(tmp_path / "lights", "toys/Lights-v0", {}, is_simulated=True)


def test_equal_options_in_other_notations(folder):
    said = {name: value for name, value in ARENA.items() if name != "boss"}
    assert len(read(folder, options={**said, "phase": 1, "reward": "soulsgym"})) == len(read(folder))


def test_another_version_of_the_environment(copied):
    change(copied, env_spec=lambda text: text.replace("Arena-v0", "Arena-v1"))
    with pytest.raises(DemonstrationError, match=r"recorded in soulslab/Arena-v1, not in soulslab/Arena-v0"):
        read(copied)


def test_another_environment(folder):
    with pytest.raises(DemonstrationError, match="recorded in soulslab/Arena-v0, not in toys/Lights-v0"):
        read(folder, "toys/Lights-v0", {})


@pytest.mark.parametrize(("name", "what"), [("observation_space", "observations"), ("action_space", "actions")])
def test_other_spaces(copied, name, what):
    sizes = {"observation_space": ("-1.0", "-2.0"), "action_space": ('"n": 20', '"n": 21')}
    change(copied, **{name: lambda text: text.replace(*sizes[name])})
    with pytest.raises(DemonstrationError, match=rf"its {what} are .*, but those of {ARENA_ID} are .* here"):
        read(copied)


def test_the_same_fight_behind_another_door(folder, tmp_path):
    description = describe(folder)
    description.check_env("other/Arena-v0", {"phase": "1", "size_px": 3}, [ARENA_ID])
    with pytest.raises(DemonstrationError, match="phase is '1' in the recording and '2' here"):
        description.check_env("other/Arena-v0", {"phase": "2", "size_px": 3}, [ARENA_ID])
    with pytest.raises(DemonstrationError, match="skip_locked is True in the recording and False here"):
        description.check_env("other/Arena-v0", {"phase": "1"}, [ARENA_ID], {"skip_locked": False})


@pytest.mark.parametrize(
    ("column", "value", "what", "step"),
    [
        ("observations", np.nan, "an observation that is not finite", 4),
        ("observations", np.inf, "an observation that is not finite", 4),
        ("rewards", np.nan, "a reward that is not finite", 5),
        ("rewards", 1e300, r"a reward that is not finite \(inf\)", 5),  # in the 32 bits of the replay buffer
        ("actions", 20, "an action that is not one of 0..19", 5),
        ("actions", -1, "an action that is not one of 0..19", 5),
        ("infos/n_decisions", 0, "less than one decision", 4),
        ("infos/n_decisions", 2**16, "more than 65535 decisions", 4),
    ],
)
def test_a_wrong_number_is_named_with_its_place(copied, column, value, what, step):
    with h5py.File(copied / DATA_NAME, "r+") as file:
        file[f"episode_1/{column}"][4] = value
    with pytest.raises(DemonstrationError, match=rf"episode 1, step {step}: .*{what}") as caught:
        read(copied)
    assert (caught.value.episode, caught.value.step) == (1, step)


def test_an_action_that_its_mask_forbids(copied):
    with h5py.File(copied / DATA_NAME, "r+") as file:
        action = file["episode_0/actions"][2]
        file["episode_0/infos/action_mask"][2, action] = False
    with pytest.raises(
        DemonstrationError, match=rf"episode 0, step 3: has action {action}, which its own mask forbids"
    ):
        read(copied)


def test_no_mask(copied):
    with h5py.File(copied / DATA_NAME, "r+") as file:
        for i in range(N_FIGHTS):
            del file[f"episode_{i}/infos/action_mask"]
    with pytest.raises(DemonstrationError, match="episode 0: has no action mask"):
        read(copied)
    assert not read(copied, is_masked=False)["blocked"].any()


def test_others_count_decisions_of_steps_alone_or_not_at_all(copied):
    expected = read(copied)
    with h5py.File(copied / DATA_NAME, "r+") as file:
        for i in range(N_FIGHTS):
            taken = file[f"episode_{i}/infos/n_decisions"][1:]
            del file[f"episode_{i}/infos/n_decisions"]
            file[f"episode_{i}/infos/n_decisions"] = taken
    assert read(copied).tobytes() == expected.tobytes()
    with h5py.File(copied / DATA_NAME, "r+") as file:
        for i in range(N_FIGHTS):
            del file[f"episode_{i}/infos/n_decisions"]
    assert (read(copied)["n_decisions"] == 1).all()


@pytest.mark.parametrize("n_left", [1, 3])  # one alone would be taken for that of every step
def test_decisions_without_a_number_in_each_step(copied, n_left):
    with h5py.File(copied / DATA_NAME, "r+") as file:
        n_steps = len(file["episode_2/actions"])
        left = file["episode_2/infos/n_decisions"][:n_left]
        del file["episode_2/infos/n_decisions"]
        file["episode_2/infos/n_decisions"] = left
    with pytest.raises(DemonstrationError, match=rf"episode 2: .*{n_steps} steps, but {n_left} values"):
        read(copied)


@pytest.mark.parametrize("column", ["rewards", "observations", "terminations", "actions", "infos/action_mask"])
def test_a_missing_or_short_column(copied, column):
    with h5py.File(copied / DATA_NAME, "r+") as file:
        short = file[f"episode_2/{column}"][:-1]
        del file[f"episode_2/{column}"]
        file[f"episode_2/{column}"] = short
    with pytest.raises(DemonstrationError, match="episode 2"):
        read(copied)
    with h5py.File(copied / DATA_NAME, "r+") as file:
        del file[f"episode_2/{column}"]
    with pytest.raises(DemonstrationError, match="episode 2"):
        read(copied)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95])
def test_a_file_that_was_cut_off(copied, share):
    data = (copied / DATA_NAME).read_bytes()
    (copied / DATA_NAME).write_bytes(data[: int(share * len(data))])
    with pytest.raises(DemonstrationError, match="damaged, truncated or not a set of episodes"):
        read(copied)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "does not describe recorded episodes"),
        (b"{", "does not describe recorded episodes"),
        (b"[]", "does not describe recorded episodes"),
        (b"\xff\xfe", "does not describe recorded episodes"),
        (b'{"total_episodes": 1}', "env_spec"),
    ],
)
def test_a_description_that_is_none(copied, text, said):
    (copied / METADATA_NAME).write_bytes(text)
    with pytest.raises(DemonstrationError, match=said):
        read(copied)


def test_a_data_set_without_spaces_makes_no_environment(copied):
    # Minari would import what the file names to find out.
    change(copied, observation_space=None)
    with pytest.raises(DemonstrationError, match="observation_space"):
        read(copied)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data_format": lambda _: "arrow"}, "'arrow'; soulslab only reads 'hdf5'"),
        ({"soulslab": lambda origin: {**origin, "format": 99}}, "version 99 of soulslab's metadata"),
        ({"minari_version": lambda _: "99.0"}, r"99\.0"),
        ({"total_episodes": lambda n: n + 1}, "episode 3: is damaged"),
        ({"total_episodes": lambda _: 0}, "holds no episode"),
    ],
)
def test_unknown_versions_and_numbers(copied, changes, said):
    change(copied, **changes)
    with pytest.raises(DemonstrationError, match=said):
        read(copied)


def test_no_data_set(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(DemonstrationError, match="is not a data set"):
            read(path)


def change(folder, **changes):
    """Change entries of the description by functions; None removes one."""
    data = json.loads((folder / METADATA_NAME).read_text())
    for name, function in changes.items():
        if function is None:
            del data[name]
        else:
            data[name] = function(data[name])
    (folder / METADATA_NAME).write_text(json.dumps(data))
