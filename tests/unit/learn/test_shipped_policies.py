"""The policies that come with soulslab keep what their cards promise."""

from pathlib import Path

import pytest

from soulslab import cli
from soulslab.cli.parameters import find_run
from soulslab.errors import CheckpointError, ConfigError
from soulslab.learn.evaluate import EvaluationSettings, evaluate
from soulslab.learn.players import load_player
from soulslab.learn.policies import POLICY_DIR, shipped_policies, shipped_policy

NAMES = ("judge", "trickster", "frost_beast", "generated")
PAGE = Path(__file__).parents[3] / "docs" / "policies.md"
N_FIGHTS = 200


def test_every_policy_has_a_card():
    assert set(shipped_policies()) == {file.stem for file in POLICY_DIR.glob("*.safetensors")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_card_describes_its_policy_and_its_wins(name):
    card = shipped_policies()[name]
    policy = load_player(shipped_policy(name))
    header = policy.header
    assert header.env_options["boss"] == card.boss
    assert card.evaluation_boss == (name if name != "generated" else "generated:5000-5063")
    assert header.env_steps == card.env_steps
    options = {**header.env_options, "boss": card.evaluation_boss}
    settings = EvaluationSettings(env_id=header.env_id, env_options=options, n_fights=N_FIGHTS, seed=1)
    found = evaluate(policy, settings)
    # The 99.99 % interval of the difference between the card's fights and these.
    share = card.wins / card.fights
    spread = 3.9 * (share * (1 - share) * (1 / N_FIGHTS + 1 / card.fights)) ** 0.5
    assert found.win_rate == pytest.approx(share, abs=spread + 0.5 / N_FIGHTS)


def test_only_the_policy_of_many_bosses_wins_against_bosses_that_it_has_never_met():
    wins = {}
    for name in ("generated", "judge"):
        policy = load_player(shipped_policy(name))
        options = {**policy.header.env_options, "boss": "generated:2000-2063"}
        settings = EvaluationSettings(env_id=policy.header.env_id, env_options=options, n_fights=60, n_envs=60, seed=1)
        wins[name] = evaluate(policy, settings).win_rate
    assert wins["generated"] > 0.3
    assert wins["judge"] < 0.1


def test_page_has_the_numbers_of_the_cards():
    for name, card in shipped_policies().items():
        [row] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}` |")]
        assert f"{100 * card.wins / card.fights:.1f} %" in row
        assert f"{100 * card.low:.1f} to {100 * card.high:.1f} %" in row


def test_names_are_found_after_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_run(Path("judge")) == POLICY_DIR / "judge.safetensors"
    assert load_player(Path("judge")).header.env_options["boss"] == "judge"
    (tmp_path / "judge").touch()
    assert find_run(Path("judge")) == Path("judge")
    # load_player is for run.start_from and learner.teacher.
    for find, error in ((find_run, ConfigError), (load_player, CheckpointError)):
        with pytest.raises(error, match=r"jugde: does not exist; .*did you mean 'judge'\? \(known: frost"):
            find(Path("jugde"))
        with pytest.raises(error, match="does not exist"):
            find(Path("x/trickster"))


def test_evaluate_takes_a_name_with_and_without_the_option(capsys):
    printed = []
    for words in (["judge"], ["--policy", "judge"]):
        assert cli.run(["evaluate", *words, "--fights", "3", "--greedy"]) == 0
        printed.append(capsys.readouterr().out)
    assert "attacks (greedy)" in printed[0]
    assert printed[0] == printed[1]
