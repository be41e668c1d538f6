"""Environments, programs and options that an untrusted policy, run or study may and may not name."""

from pathlib import Path

import gymnasium
import msgspec
import numpy as np
import pytest
import torch

from soulslab import cli
from soulslab.config import dump_settings
from soulslab.envs.registration import ARENA_ID, PROCESS_ID
from soulslab.errors import CheckpointError, IncompatibleCheckpointError, UntrustedFileError
from soulslab.learn import policy as network
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.players import join_runs, load_player
from soulslab.learn.policy import ActorCritic
from soulslab.learn.rainbow import q_network as rainbow_network
from soulslab.learn.rainbow.q_network import QNetwork
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings
from soulslab.learn.run_folder import CHECKPOINTS_NAME
from soulslab.learn.settings import EnvSettings, NetworkSettings, TrainSettings
from soulslab.learn.tuning.settings import TuneSettings
from soulslab.learn.tuning.study_folder import CONFIG_NAME, STUDY_NAME
from soulslab.learn.untrusted import check_named_environment
from support.policies import actor_critic, q_policy, seeing_policy

POLICY = Path("policy.safetensors")
EVIL_PROFILE = """
format = 1
name = "game"
[process]
executable = "sh"
command = ["sh", "-c", "touch ran"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with what a stranger's archive may hold: a policy, a profile with a command, and a module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "game.toml").write_text(EVIL_PROFILE)
    (tmp_path / "evil_module.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    yield tmp_path
    assert not (tmp_path / "ran").exists()


NAMED = [
    ("evil_module:Env-v0", {}, "env.id"),
    (PROCESS_ID, {"profile": "game.toml"}, "env.options.profile"),
    ("soulslab/DarkSouls3Iudex-v0", {"server": "example_host"}, "env.options.server"),
    ("soulslab/DarkSouls3Iudex-v0", {"launch": True}, "env.options.launch"),
    ("soulslab/ArenaLive-v0", {"pid": 1}, "env.options.pid"),
    (ARENA_ID, {"boss": "../boss.toml"}, "env.options.boss"),
    (ARENA_ID, {"boss": "generated:module"}, "env.options.boss"),
    ("GymV26Environment-v0", {"env_id": "evil_module:Env-v0"}, "env.options.env_id"),
    ("GymV26Environment-v0", {"env_id": "generated:7"}, "env.options.env_id"),
    ("CartPole-v1", {"nested": [{"deep": "/etc/passwd"}]}, "env.options.nested"),
]


@pytest.mark.parametrize(("env_id", "options", "place"), NAMED)
@pytest.mark.parametrize("make", [actor_critic, q_policy])
def test_a_policy_file_decides_nothing_that_runs(env_id, options, place, make, capsys):
    make(env_id=env_id, env_options=options).save(POLICY)
    assert cli.run(["evaluate", "policy.safetensors", "--fights", "1"]) == 2
    error = capsys.readouterr().err
    assert f"policy.safetensors: {place}: " in error
    assert "--trust" in error
    assert cli.run(["join", "policy.safetensors", "policy.safetensors", "--feature", "x", "--at-most", "0.5",
                    "--out", "joined"]) == 2  # fmt: skip
    assert place in capsys.readouterr().err


@pytest.mark.parametrize(("env_id", "options", "place"), NAMED)
def test_a_run_and_a_study_decide_nothing_that_runs(env_id, options, place, tmp_path, capsys):
    settings = TrainSettings(env=EnvSettings(id=env_id, options=options))
    for name in ("run", "study"):
        (tmp_path / name).mkdir()
        (tmp_path / name / CONFIG_NAME).write_text(dump_settings(settings))
    assert cli.run(["train", "--resume", "run"]) == 2
    assert f"config.toml: {place}: " in capsys.readouterr().err
    search = {"learner.lr": {"low": 0.1, "high": 0.2}}
    (tmp_path / "study" / STUDY_NAME).write_text(dump_settings(msgspec.convert({"search": search}, TuneSettings)))
    assert cli.run(["tune", "--study", "study"]) == 2
    assert f"study: {place}: " in capsys.readouterr().err


#: A fit to recordings replaces the boss of the training.
WITHOUT_BOSS = [each for each in NAMED if "boss" not in each[1]]


@pytest.mark.parametrize(("env_id", "options", "place"), WITHOUT_BOSS)
def test_a_refined_run_decides_nothing_that_runs(env_id, options, place, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    actor_critic().save(tmp_path / "run" / "policy.safetensors")
    fitted = {"boss": "fitted.toml", "boss_intervals": [0.0, 1.0], **options}
    (tmp_path / "run" / CONFIG_NAME).write_text(
        dump_settings(TrainSettings(env=EnvSettings(id=env_id, options=fitted)))
    )
    command = ["boss", "refine", "run", "seen", "--out", "rounds", "--env", ARENA_ID]
    assert cli.run(command) == 2
    assert f"config.toml: {place}: " in capsys.readouterr().err
    assert cli.run([*command, "--trust"]) == 2  # a fitted boss exists nowhere else than in the simulator
    assert "--trust" not in capsys.readouterr().err
    assert not (tmp_path / "rounds").exists()


@pytest.mark.parametrize(("env_id", "options", "place"), [each for each in WITHOUT_BOSS if each[1]])
def test_a_predicted_policy_decides_nothing_that_runs(env_id, options, place, capsys):
    actor_critic(env_id=env_id, env_options={"boss": "fitted.toml", **options}).save(POLICY)
    assert cli.run(["boss", "predict", "policy.safetensors", "seen"]) == 2
    assert f"policy.safetensors: {place}: " in capsys.readouterr().err


@pytest.mark.parametrize(("env_id", "options", "place"), NAMED)
def test_a_resumed_demo_decides_nothing_that_runs(env_id, options, place, tmp_path, capsys):
    CheckpointStore(tmp_path / "demo" / CHECKPOINTS_NAME, keep=1).save(1, {}, {})
    settings = TrainSettings(env=EnvSettings(id=env_id, options=options))
    (tmp_path / "demo" / CONFIG_NAME).write_text(dump_settings(settings))
    command = ["demo", "--no-dashboard", "--run-dir", "demo"]
    assert cli.run(command) == 2
    assert f"config.toml: {place}: " in capsys.readouterr().err
    assert cli.run([*command, "--trust"]) == 2
    assert "--trust" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "dimension"),
    [
        ("env.id", {"choices": ["evil_module:Env-v0"]}),
        ("env.options.profile", {"choices": ["game.toml"]}),
        ("env.options.pid", {"low": 1, "high": 2}),
        ("env.options", {"choices": [{"profile": "game.toml"}]}),
    ],
)
def test_the_search_of_a_study_decides_nothing_that_runs(name, dimension, tmp_path, capsys):
    (tmp_path / CONFIG_NAME).write_text(dump_settings(TrainSettings()))
    tuning = msgspec.convert({"search": {name: dimension}}, TuneSettings)
    (tmp_path / STUDY_NAME).write_text(dump_settings(tuning))
    assert cli.run(["tune", "--study", "."]) == 2
    assert name in capsys.readouterr().err


def test_the_command_line_decides(capsys):
    """An option given by hand replaces the file's, and --trust takes all; both fail later, at the missing file."""
    q_policy(env_id=PROCESS_ID, env_options={"profile": "none.toml"}).save(POLICY)
    for flags in (["--trust"], ["--option", "profile=none.toml"]):
        assert cli.run(["evaluate", "policy.safetensors", "--fights", "1", *flags]) == 2
        error = capsys.readouterr().err
        assert "--trust" not in error
        assert "none.toml" in error


def test_joining_from_python(tmp_path):
    q_policy(env_id="evil_module:Env-v0").save(tmp_path / "policy.safetensors")
    with pytest.raises(UntrustedFileError, match=r"policy.safetensors: env.id: 'evil_module:Env-v0' selects code"):
        join_runs([tmp_path / "policy.safetensors"] * 2, "boss_hp", [0.5])


def test_watching_opens_no_file_that_a_policy_names(capsys):
    options = {"boss": "/dev/zero"}
    q_policy(env_id=ARENA_ID, n_features=74, n_actions=20, env_options=options).save(POLICY)
    assert cli.run(["play", "--policy", "policy.safetensors"]) == 2
    assert "env.options.boss: '/dev/zero' selects code" in capsys.readouterr().err


def test_what_soulslab_itself_trains_with_needs_no_trust():
    options = {
        "boss": "judge", "phase": 2, "reward": {"boss_damage": 1.5}, "observation": "pixels+features", "pixels": None,
        "random_pose": True, "actions": ["nothing", "roll_left"], "launch": False, "server": "", "latency_ms": 12.5,
    }  # fmt: skip
    for boss in ("judge", "generated:7", "generated:0-255"):
        check_named_environment(ARENA_ID, {**options, "boss": boss}, "policy")
    check_named_environment("ALE/Pong-v5", {"obs_type": "rgb", "frameskip": 4}, "policy")


@pytest.mark.parametrize("make", [actor_critic, q_policy])
@pytest.mark.parametrize(
    "change",
    [
        {"n_features": 3_000_000},
        {"n_features": 2**31},
        {"n_actions": 2**31},
        {"network": {"widths": [2**40, 2**40]}},
        {"network": {"widths": [8] * 7 + [2**30]}},
        {"pixels": {"height_px": 16384, "width_px": 16384, "n_channels": 1024}, "frame_stack": 64},
        {"pixels": {"height_px": 1, "width_px": 1, "n_channels": 1}},
        {"extras": {"previous_actions": 16}, "n_actions": 2**31},
    ],
    ids=str,
)
def test_a_header_larger_than_its_file_builds_nothing(make, change, tmp_path, monkeypatch):
    path = tmp_path / "policy.safetensors"
    make().save(path)
    tensors, header = read_archive(path)
    write_archive(path, tensors, header | change)
    for module, kind in ((network, "ActorCritic"), (rainbow_network, "QNetwork")):
        monkeypatch.setattr(getattr(module, kind), "__init__", lambda *_, **__: pytest.fail("built"))
    with pytest.raises(CheckpointError, match=r"network of \d+ parameters, but the file holds|malformed header"):
        load_player(path)


@pytest.mark.parametrize("pixels", [None, (84, 84, 4), (48, 64, 1)])
@pytest.mark.parametrize("widths", [(8,), (16, 5, 7)])
@pytest.mark.parametrize("is_on", [False, True])
def test_parameters_are_counted_as_they_are_built(pixels, widths, is_on):
    settings = NetworkSettings(widths=widths, shared=is_on)
    built = ActorCritic(13, 6, settings, torch.Generator().manual_seed(0), pixels=pixels)
    n_built = sum(parameter.numel() for parameter in built.parameters())
    assert network.count_parameters(13, 6, settings, pixels) == n_built
    rainbow = QNetworkSettings(
        widths=widths,
        has_layer_norm=is_on,
        is_dueling=not is_on,
        n_quantiles=5,
        channels=(3, 4),
        memory=9 * is_on,
    )
    values = QNetwork(13, 6, rainbow, torch.Generator().manual_seed(0), pixels=pixels)
    assert rainbow_network.count_parameters(13, 6, rainbow, pixels) == values.parameters_flat.numel()


def test_a_policy_with_wrong_numbers_is_refused(tmp_path):
    path = tmp_path / "policy.safetensors"
    seeing_policy().save(path)
    tensors, header = read_archive(path)
    name = "network/head.weight"
    write_archive(path, tensors | {name: np.full_like(tensors[name], np.nan)}, header)
    with pytest.raises(CheckpointError, match="holds NaN or infinity"):
        load_player(path)
    write_archive(path, tensors | {name: tensors[name].astype(np.complex64)}, header)
    with pytest.raises(IncompatibleCheckpointError, match="should be of type float32"):
        load_player(path)


def test_an_unregistered_id_is_an_error_in_one_line(capsys):
    q_policy(env_id="Nowhere-v0").save(POLICY)
    assert cli.run(["evaluate", "policy.safetensors", "--fights", "1"]) == 2
    assert "Nowhere" in capsys.readouterr().err
    assert "Nowhere-v0" not in gymnasium.registry
