"""Verification of running games: Doom, and a small game with optional flaws."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from functools import cache, partial

import psutil
import pytest

from soulslab import cli
from support.flawed_game import build_flawed_game


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return build_flawed_game(tmp_path_factory.mktemp("flawed_game"))


def run_verify(profile, folder, flaw, *arguments, at=30):
    """Run the command on the flawed game; return its exit code, its row and its output."""
    file = folder / "found.json"
    options = ["--option", f"flaw={flaw}", "--option", f"at={at}"]
    command = ["siphon", "verify", str(profile), "--episodes", "2", "--steps", "120", "--json", str(file)]
    with redirect_stdout(io.StringIO()) as out:
        code = cli.run([*command, *options, *arguments])
    (row,) = json.loads(file.read_text())
    return code, row, " ".join(out.getvalue().split())


@pytest.fixture
def verify(profile, tmp_path):
    """A function that runs the command on the flawed game and returns its exit code, its row and its output."""
    return partial(run_verify, profile, tmp_path)


@pytest.fixture(scope="module")
def recorded(profile, tmp_path_factory):
    """A function that returns the result of the command for a flaw, which it runs once, and a folder of recordings."""

    @cache
    def run(flaw, *arguments):
        folder = tmp_path_factory.mktemp(flaw)
        return *run_verify(profile, folder, flaw, "--record", str(folder / "traces"), *arguments), folder / "traces"

    return run


def test_an_exact_game_is_verified_with_busy_processes(recorded):
    code, row, text, _ = recorded("none", "--load", "2")
    assert (code, row["failures"], row["is_verified"]) == (0, [], True)
    assert (row["n_steps"], row["n_counted"], row["n_lost"], row["n_doubled"]) == (240, 240, 0, 0)
    assert (row["grade"], row["n_equal_steps"], row["motion"]) == ("lockstep", 120, "")
    assert "Flawed game lockstep 0 0 120 yes" in text
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in alive if "getppid" in " ".join(child.cmdline())]


@pytest.mark.parametrize(("flaw", "n_ticks"), [("lost", 0), ("doubled", 2)])
def test_the_step_with_a_lost_or_doubled_tick_is_named(verify, flaw, n_ticks):
    code, row, text = verify(flaw)
    assert code == 1
    assert row[f"n_{flaw}"] == 2
    assert row["n_lost"] + row["n_doubled"] == 2
    wrong = row["first_wrong"]
    assert (wrong["episode"], wrong["n_ticks"]) == (1, n_ticks)
    assert wrong["held"]  # the flaw is in the tick of key press number 30
    assert f"the first is step {wrong['step']} of episode 1" in text
    # The same tick of both episodes is flawed, so they are equal.
    assert (row["n_equal_steps"], row["difference"]) == (120, None)


def test_the_first_value_that_depends_on_the_process_is_named(recorded):
    code, row, text, _ = recorded("value")
    assert (code, row["n_lost"], row["n_doubled"], row["different_episode"]) == (1, 0, 0, 2)
    step = row["difference"]["step"]
    assert 25 <= step <= 30
    assert row["n_equal_steps"] == step - 1
    assert list(row["difference"]["values"]) == ["value"]
    assert not row["difference"]["has_other_frame"]
    assert f"episode 2 differs from episode 1: step {step}" in text


def test_the_first_pixels_that_depend_on_the_process_are_named(verify):
    code, row, text = verify("pixels")
    assert (code, row["difference"]["values"]) == (1, {})
    region = row["difference"]["region"]
    assert (region["left_px"], region["top_px"], region["width_px"], region["height_px"]) == (10, 20, 3, 2)
    assert region["n_pixels"] == 6
    assert "6 pixels within 3 x 2 px at (10, 20)" in text


def test_a_game_with_another_source_of_time_is_not_verified(verify):
    code, row, _ = verify("motion")
    assert code == 1
    assert row["grade"] != "lockstep" or "motion" in row["motion"]


def test_the_reset_procedure_follows_a_game_over_with_a_null_pointer(verify):
    code, row, _ = verify("over", at=40)
    assert (code, row["failures"]) == (0, [])
    assert row["n_resets"] >= 4
    assert row["n_counted"] == 240 - row["n_resets"]


def test_steps_in_which_the_game_resets_its_tick_counter_are_not_counted(verify):
    code, row, _ = verify("restart", at=40)
    assert (code, row["failures"]) == (0, [])
    assert (row["n_lost"], row["n_doubled"]) == (0, 0)
    assert 240 - 8 <= row["n_counted"] <= 240 - 4


def test_traces_of_two_runs_are_compared(recorded, tmp_path, capsys):
    folders = [recorded("none", "--load", "2")[-1], recorded("value")[-1]]
    traces = [str(folder / f"flawed_game-{number}.h5") for folder in folders for number in (1, 2)]
    assert cli.run(["siphon", "compare", traces[0], traces[1]]) == 0
    assert "equal in all 120 steps" in capsys.readouterr().out
    file = tmp_path / "difference.json"
    assert cli.run(["siphon", "compare", traces[0], traces[3], "--json", str(file)]) == 1
    assert "attribute 'value' is 0 and " in " ".join(capsys.readouterr().out.split())
    (row,) = json.loads(file.read_text())
    assert list(row["values"]) == ["value"]


def test_doom_is_verified(tmp_path, capsys):
    file = tmp_path / "doom.json"
    command = ["siphon", "verify", "doom", "--episodes", "2", "--steps", "150", "--json", str(file)]
    code = cli.run(command)
    (row,) = json.loads(file.read_text())
    assert (code, row["failures"]) == (0, []), capsys.readouterr().out
    assert (row["n_counted"], row["n_equal_steps"]) == (300, 150)
