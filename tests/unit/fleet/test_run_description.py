"""Functions that a learner names: only those that a machine allows are used."""

import sys

import pytest

from soulslab.cli import EXIT_USAGE, run
from soulslab.errors import ConfigError, FleetError
from soulslab.fleet.run_description import with_functions
from soulslab.learn.environment import describe_function
from soulslab.learn.untrusted import find_decisions
from support.rewards import thousand

OPTIONS = {"phase": "1", "reward": describe_function("bold")}


def test_a_name_is_replaced_by_the_function_of_this_machine():
    found = with_functions(OPTIONS, {"bold": "support.rewards:thousand", "other": "nowhere:x"}, "here")
    assert found == {"phase": "1", "reward": thousand}
    assert with_functions({"phase": "1"}, {}, "here") == {"phase": "1"}


def test_a_function_may_be_in_a_module_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "rewards_beside_join_file.py").write_text("def double(step):\n    return 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])  # as that of an installed command
    found = with_functions(OPTIONS, {"bold": "rewards_beside_join_file:double"}, "here")
    assert found["reward"](None) == 2


@pytest.mark.parametrize(("allowed", "listed"), [({}, "allows none"), ({"b": "x:y", "a": "x:y"}, "allows a, b;")])
def test_another_name_is_refused_with_the_list(allowed, listed):
    with pytest.raises(FleetError, match=f"names the function 'bold' as reward.*{listed}.*--allow-reward bold="):
        with_functions(OPTIONS, allowed, "here")


@pytest.mark.parametrize(
    ("target", "problem"),
    [("no_such_module:f", "no_such_module"), ("support.rewards:f", "has no attribute"), ("math:pi", "not a function")],
)
def test_a_function_that_this_machine_lacks_is_an_error_of_its_configuration(target, problem):
    with pytest.raises(ConfigError, match=problem):
        with_functions(OPTIONS, {"bold": target}, "here")


@pytest.mark.parametrize(
    "command",
    [["learn", "--config", "rainbow.toml", "--run-dir", "run", "--reward", "be-bold"],
     ["play", "join.toml", "--allow-reward", "be-bold=support.rewards:thousand"]],
)  # fmt: skip
def test_both_commands_refuse_a_name_that_no_header_may_hold(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["fleet", *command]) == EXIT_USAGE
    assert "'be-bold' is not a name" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_name_of_a_function_needs_no_trust_but_other_text_does():
    assert not list(find_decisions("soulslab/Arena-v0", OPTIONS))
    assert list(find_decisions("soulslab/Arena-v0", {"reward": "<function a/../b>"}))
    assert list(find_decisions("soulslab/Arena-v0", {"profile": "<function bold>"}))
