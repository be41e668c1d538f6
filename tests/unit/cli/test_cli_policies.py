"""``soulslab join``, the use of joined policies, and the environment of an evaluation."""

import json
from contextlib import closing
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from soulslab import cli
from soulslab.arena.boss_file import BOSS_DIR
from soulslab.arena.vocabulary import NOTHING
from soulslab.cli import evaluate
from soulslab.cli.parameters import EnvironmentFlags
from soulslab.envs.registration import ARENA_ID
from soulslab.fights.recording import FightRecorder
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.recorded_episode import play_episode
from soulslab.learn.players import load_player
from support.broken_output import broken_output
from support.policies import q_policy


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs(tmp_path):
    for number in (1, 2):
        options = {"boss": "judge", "phase": number, "random_pose": True, "skip_locked": True}
        (tmp_path / f"p{number}").mkdir()
        policy = q_policy(number, env_id=ARENA_ID, n_features=74, n_actions=20, env_options=options, n_envs=4)
        policy.save(tmp_path / f"p{number}" / "policy.safetensors")


def contents(folder):
    """Return the content of each file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("runs")
def test_join_and_evaluate(tmp_path, capsys, caplog):
    caplog.set_level("INFO", "soulslab")
    arguments = ["--feature", "boss_hp", "--at-most", "0.5", "--out", "judge.safetensors"]
    assert cli.run(["join", "p1", "p2", *arguments]) == 0
    assert caplog.messages[-1] == "judge.safetensors: p1, then p2 from boss_hp <= 0.5"
    joined = load_player(tmp_path / "judge.safetensors")
    assert joined.header.env_options["phase"] == "full"
    for phase, name in (("full", "full.json"), ("2", "second.json")):
        flags = ["--fights", "4", "--greedy", "--json", name] + (["--phase", phase] if phase == "2" else [])
        assert cli.run(["evaluate", "judge.safetensors", *flags]) == 0
        (row,) = json.loads((tmp_path / name).read_text())
        assert (row["env"], row["options"]["phase"], row["n_fights"]) == (ARENA_ID, phase, 4)
    assert "greedy" in capsys.readouterr().out


def test_options_of_the_environment_have_their_own_table_in_the_json_file(tmp_path):
    def make(actions, **options):
        return CartPoleEnv(**options)

    gymnasium.register("toys/Actions-v0", make)
    try:
        options = {"actions": "few"}
        policy = q_policy(1, env_id="toys/Actions-v0", n_features=4, n_actions=2, env_options=options)
        policy.save(tmp_path / "p.safetensors")
        assert cli.run(["evaluate", "p.safetensors", "--fights", "1", "--greedy", "--json", "rows.json"]) == 0
    finally:
        del gymnasium.registry["toys/Actions-v0"]
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert (row["actions"], row["options"]) == ("greedy", options)


@pytest.mark.usefixtures("runs")
def test_the_results_of_an_evaluation_are_written_before_the_tables(tmp_path):
    with broken_output(), pytest.raises(SystemExit, match="1"):
        cli.run(["evaluate", "p1", "--fights", "1", "--greedy", "--json", "result.json"])
    (row,) = json.loads((tmp_path / "result.json").read_text())
    assert row["n_fights"] == 1


@pytest.mark.usefixtures("runs")
def test_three_policies_by_the_number_of_the_feature(tmp_path, caplog):
    caplog.set_level("INFO", "soulslab")
    thresholds = ["--at-most", "0.7", "--at-most", "0.3"]
    arguments = ["--feature", "2", *thresholds, "--phase", "1", "--out", "j.safetensors"]
    assert cli.run(["join", "p1", "p2", "p1/policy.safetensors", *arguments]) == 0
    assert caplog.messages[-1].endswith(
        "p1, then p2 from feature 2 <= 0.7, p1/policy.safetensors from feature 2 <= 0.3"
    )
    assert load_player(tmp_path / "j.safetensors").header.env_options["phase"] == "1"


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["p1", "--feature", "boss_hp", "--at-most", "0.5", "--out", "j"], 2, "needs policies of at least two phases"),
        (["p1", "p2", "--feature", "bos_hp", "--at-most", "0.5", "--out", "j"], 2, "did you mean 'boss_hp'?"),
        (["p1", "p2", "p1", "--feature", "2", "--at-most", "0.5", "--out", "j"], 2, "has 1 thresholds for 3 policies"),
        (["p1", "p2", "--feature", "2", "--at-most", "0.5"], 2, "--out"),
        (["p1", "p2", "--feature", "2", "--at-most", "half", "--out", "j"], 2, "half"),
        (
            ["p1", "p3", "--feature", "2", "--at-most", "0.5", "--out", "j"],
            2,
            "p3: does not exist; name the folder of a run, a policy file, or a policy of soulslab",
        ),
        (["p1", "p2", "--feature", "2", "--at-most", "0.5", "--out", "no/j"], 1, "no/j: could not be written"),
        (
            ["p1", "p2", "--feature", "2", "--at-most", "0.5", "--out", "./p2/policy.safetensors"],
            2,
            "--out: is one of the policies to join; choose another file",
        ),
    ],
)
def test_wrong_usage(tmp_path, capsys, arguments, code, words):
    before = contents(tmp_path)
    assert cli.run(["join", *arguments]) == code
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in error
    assert "Traceback" not in error
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("p2/policy.safetensors", "must end in .mp4, as the name of every film"),
        ("folder.mp4", "cannot be written: it is a folder; name a file"),
    ],
)
def test_a_film_overwrites_nothing_but_a_film(tmp_path, capsys, file, words):
    (tmp_path / "folder.mp4").mkdir()
    before = contents(tmp_path)
    assert cli.run(["film", "p1/policy.safetensors", file]) == cli.EXIT_USAGE
    assert capsys.readouterr().err == f"soulslab: {file}: {words}\n"
    assert contents(tmp_path) == before


def test_another_environment_has_no_conditions_of_the_training():
    trained = {"boss": "mine.toml", "boss_intervals": [0.0, 1.0], "latency_ms": [0.0, 120.0], "observation": "features"}
    flags = EnvironmentFlags(env="soulslab/ArenaLive-v0", boss="judge")
    env_id, options = flags.choose("soulslab/Arena-v0", trained, Path("policy"))
    assert (env_id, options) == ("soulslab/ArenaLive-v0", {"boss": "judge", "observation": "features"})
    _, options = EnvironmentFlags(trust=True).choose("soulslab/Arena-v0", trained, Path("policy"))
    assert options == trained


def test_the_window_is_filmed_without_the_name_of_an_environment(capsys):
    assert cli.run(["film", "judge", "--window", "--env", "soulslab/Arena-v0"]) == 2
    assert "--window: films the built-in fight; leave out --env" in capsys.readouterr().err


def test_a_trusted_policy_is_filmed_with_its_boss_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("soulslab.video.HOLD_S", 0.1)
    boss = tmp_path / "boss.toml"
    boss.write_bytes((BOSS_DIR / "trickster.toml").read_bytes())
    options = {"boss": str(boss), "phase": "1"}
    q_policy(1, env_id=ARENA_ID, n_features=74, n_actions=20, env_options=options).save(tmp_path / "p.safetensors")
    assert cli.run(["film", "p.safetensors"]) == cli.EXIT_USAGE
    assert "trust the file with --trust" in capsys.readouterr().err
    assert cli.run(["film", "p.safetensors", "--trust"]) == cli.EXIT_OK
    assert Path("fight.mp4").stat().st_size > 0


@pytest.mark.usefixtures("runs")
def test_an_evaluation_is_not_recorded_into_an_existing_folder(tmp_path, capsys):
    (tmp_path / "fights").mkdir()
    (tmp_path / "fights" / "note").touch()
    assert cli.run(["evaluate", "p1", "--record", "fights"]) == cli.EXIT_FAILED
    words = "already exists; name another folder, or remove it; soulslab fights record --append adds to it"
    assert words in capsys.readouterr().err


def test_a_fight_that_an_evaluation_repeats_is_recorded_once():
    """Without chance and without a seed, as in Doom, a greedy policy repeats its fight."""
    options = {"phase": "1"}
    with closing(gymnasium.make(ARENA_ID, **options)) as env:
        episode = play_episode(env, lambda *_: NOTHING, 0)._replace(seed=None)
    with FightRecorder(Path("fights"), ARENA_ID, options, "evaluation") as recorder:
        for _ in range(2):
            evaluate._record(recorder, episode)
    assert describe(Path("fights")).n_episodes == 1
