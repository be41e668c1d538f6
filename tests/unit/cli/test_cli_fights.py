"""``soulslab fights``: its flags and errors."""

import logging
import shutil
import subprocess
import sys

import numpy as np
import pytest

from soulslab import cli
from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import BOSS_DIR, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.key_log import KeyLogWriter
from soulslab.fights.fit_recordings import read_recorded_fights
from soulslab.fights.recording import FightRecorder, fight_seeds, record_fight
from soulslab.learn.demonstrations.data_set_metadata import describe
from soulslab.learn.demonstrations.reading import read_outcomes
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.settings import NetworkSettings


@pytest.fixture
def out(tmp_path):
    return tmp_path / "fights"


def test_the_reference_player_by_a_config(out, capsys):
    record = ["fights", "record", str(out), "--fights", "2", "--config", "demo.toml", "--phase", "1"]
    assert cli.run(record) == cli.EXIT_OK
    description = describe(out)
    assert (description.n_episodes, description.player) == (2, "reference")
    assert (description.options["skip_locked"], description.options["phase"]) == (True, "1")
    assert cli.run([*record, "--append"]) == cli.EXIT_OK
    assert describe(out).n_episodes == 4
    first = fight_seeds(0, 1)[0]
    assert [told["seed"] for told in read_outcomes(describe(out))] == [first, first + 1, first + 2, first + 3]
    assert cli.run(record) == cli.EXIT_FAILED
    assert "already exists" in capsys.readouterr().err
    assert cli.run(["fights", "show", str(out)]) == cli.EXIT_OK
    said = capsys.readouterr().out
    assert all(text in said for text in ("soulslab/Arena-v0", "reference", "of 4", "skip_locked", "random_pose"))


def test_a_policy(out, tmp_path):
    header = PolicyHeader(
        env_id="soulslab/Arena-v0",
        env_options={},
        n_features=74,
        n_actions=20,
        network=NetworkSettings(widths=(8,)),
        soulslab="",
        commit="",
    )
    Policy(header).save(tmp_path / "policy.safetensors")
    policy = str(tmp_path / "policy.safetensors")
    assert cli.run(["fights", "record", str(out), "--policy", policy, "--fights", "1", "--phase", "1"]) == cli.EXIT_OK
    assert describe(out).player == policy


def test_a_key_log(out, tmp_path):
    game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions(phase="1", seed=3))
    writer = KeyLogWriter(tmp_path / "keys.log", game, "judge")
    while game.n_fights == 1:
        game.tick(())
        writer.tick(game)
    writer.close(game)
    keys = str(tmp_path / "keys.log")
    assert cli.run(["fights", "record", str(out), "--keys", keys, "--phase", "1"]) == cli.EXIT_OK
    assert (describe(out).n_episodes, describe(out).player) == (1, "human")
    assert cli.run(["fights", "record", str(out), "--keys", keys, "--phase", "1", "--append"]) == cli.EXIT_OK
    assert describe(out).n_episodes == 1


def test_an_amount_of_game_time_in_an_environment(out, tmp_path, caplog):
    caplog.set_level(logging.INFO, "soulslab")
    config = tmp_path / "game.toml"
    config.write_text('[env]\nid = "soulslab/DarkSouls3Iudex-v0"\n[env.options]\nphase = "1"\nskip_locked = true\n')
    record = ["fights", "record", str(out), "--config", str(config), "--env", "soulslab/Arena-v0", "--minutes", "0.5"]
    assert cli.run(record) == cli.EXIT_OK
    description = describe(out)
    assert (description.env_id, description.player) == ("soulslab/Arena-v0", "reference")
    fights = read_recorded_fights([out])
    # The last moment of a fight is left out, and a step may skip several decisions.
    assert sum(fight.game_time_s for fight in fights) > 20
    assert sum(fight.game_time_s for fight in fights[:-1]) < 30
    assert cli.run([*record, "--append"]) == cli.EXIT_OK
    assert describe(out).n_episodes > len(fights)


def test_a_boss_is_fitted_to_recorded_fights_and_evaluations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate = ["evaluate", "judge", "--fights", "4", "--record", "evaluated", "--option", "skip_locked=false"]
    for words in (evaluate, ["fights", "record", "shown", "--fights", "1"]):
        assert cli.run(words) == cli.EXIT_OK
    assert cli.run(["boss", "fit", "evaluated", "shown", "--out", "fitted.toml"]) == cli.EXIT_OK
    fitted, true = find_boss(tmp_path / "fitted.toml"), find_boss("judge")
    found = {move.animation for move in fitted.moves} & {move.animation for move in true.moves}
    assert fitted.hp == true.hp
    assert len(found) >= 15


def test_relative_folders(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record = ["fights", "record", "recorded/judge", "--fights", "1", "--phase", "1"]
    assert cli.run(record) == cli.EXIT_OK
    assert cli.run([*record, "--append"]) == cli.EXIT_OK
    assert cli.run(["fights", "show", "recorded/judge"]) == cli.EXIT_OK
    assert "of 2" in capsys.readouterr().out
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli.run(["fights", "record", ".", "--fights", "1", "--phase", "1"]) == cli.EXIT_OK
    assert describe(tmp_path / "here").n_episodes == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "recorded"]


def test_a_data_set_belongs_to_the_boss_file_and_not_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(BOSS_DIR / "judge.toml", "my.toml")
    fight = ["--fights", "1", "--phase", "1", "--append", "--boss"]
    assert cli.run(["fights", "record", "recorded", *fight, "my.toml"]) == cli.EXIT_OK
    assert describe(tmp_path / "recorded").options["boss"] == str(tmp_path / "my.toml")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli.run(["fights", "record", "../recorded", *fight, "../my.toml"]) == cli.EXIT_OK
    shutil.copy("../my.toml", "other.toml")
    assert cli.run(["fights", "record", "../recorded", *fight, "other.toml"]) == cli.EXIT_FAILED


def test_a_failure_creates_no_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = ["fights", "record", "recorded/judge", "--phase", "1", "--fights", "1"]
    assert cli.run([*record, "--policy", "nothing"]) != cli.EXIT_OK
    assert list(tmp_path.iterdir()) == []
    assert cli.run(record) == cli.EXIT_OK


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--policy", "x", "--keys", "y"], cli.EXIT_USAGE, "cannot be combined"),
        (["--fights", "2", "--minutes", "1"], cli.EXIT_USAGE, "--fights and --minutes: cannot be combined"),
        (["--minutes", "1", "--keys", "y"], cli.EXIT_USAGE, "--minutes: is not for key logs"),
        (["--fights", "2", "--player", "human"], cli.EXIT_USAGE, "--fights: is not for key logs"),
        (["--env", "CartPole-v1", "--minutes", "1"], cli.EXIT_USAGE, "the game time of CartPole-v1 is not known"),
        (["--env", "CartPole-v1"], cli.EXIT_USAGE, "the probing player can only fight duels, not CartPole-v1"),
        (["--top-up"], cli.EXIT_USAGE, "only restores the health of --player probe"),
        (["--boss", "jugde"], cli.EXIT_USAGE, "did you mean 'judge'"),
        (["--set", "env.id=toys/Nothing-v0"], cli.EXIT_USAGE, "toys"),
        (["--config", "nothing.toml"], cli.EXIT_USAGE, "nothing.toml"),
        (["--keys", "nothing.log"], cli.EXIT_FAILED, "nothing.log: cannot be read"),
        (
            ["--policy", "nothing"],
            cli.EXIT_USAGE,
            "nothing: does not exist; name the folder of a run, a policy file, or a policy of soulslab",
        ),
        (["--player", "human"], cli.EXIT_FAILED, "needs a terminal"),
    ],
)
def test_wrong_usage(out, capsys, flags, code, said):
    assert cli.run(["fights", "record", str(out), *flags]) == code
    assert said in capsys.readouterr().err


def test_show_reports_a_missing_data_set(tmp_path, capsys):
    assert cli.run(["fights", "show", str(tmp_path)]) == cli.EXIT_FAILED
    assert "is not a data set" in capsys.readouterr().err


def test_show_prints_a_player_whose_name_looks_like_markup(out, capsys):
    with FightRecorder(out, "soulslab/Arena-v0", {}, "evaluation of run[/b]") as recorder:
        record_fight(recorder, 0)
    assert cli.run(["fights", "show", str(out)]) == cli.EXIT_OK
    assert "evaluation of run[/b]" in capsys.readouterr().out


def test_help_imports_no_large_packages():
    code = (
        "import sys; sys.argv = ['soulslab']; from soulslab.cli import run; run(['fights', 'record', '--help']);"
        "print([name for name in ('numpy', 'torch', 'gymnasium', 'h5py', 'minari') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_show_describes_data_sets_of_other_programs(out, capsys):
    assert cli.run(["fights", "record", str(out), "--fights", "1", "--phase", "1"]) == cli.EXIT_OK
    (out / "metadata.json").write_text(
        (out / "metadata.json").read_text().replace('"soulslab"', '"other"').replace('"algorithm_name"', '"x"')
    )
    assert cli.run(["fights", "show", str(out)]) == cli.EXIT_OK
    assert np.isin(["player", "-"], capsys.readouterr().out.split()).all()
