"""Claims on a game: one holder at a time, within a process and between processes."""

import os
import subprocess
import sys

import pytest

from soulslab.errors import ControlTakenError, ProcessError, ProcessExitedError
from soulslab.siphon.process import control_claim
from soulslab.siphon.process.control_claim import ControlClaim

OTHER = """
import sys
from pathlib import Path
from soulslab.siphon.process.control_claim import ControlClaim
claim = ControlClaim(int(sys.argv[1]), "another trainer", Path(sys.argv[2]))
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def game():
    """A process that waits until it is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_second_claim_in_this_process_is_refused_until_the_first_is_released(game, tmp_path):
    first = ControlClaim(game.pid, "soulslab/Process-v0", tmp_path)
    with pytest.raises(ControlTakenError, match=f"the game of process {game.pid}; close it first") as caught:
        ControlClaim(game.pid, "soulslab/Doom-v0", tmp_path)
    assert caught.value.holder == "another environment of this process (soulslab/Process-v0)"
    first.release()
    first.release()
    assert not list(tmp_path.iterdir())
    ControlClaim(game.pid, "soulslab/Doom-v0", tmp_path).release()


def test_a_claim_of_another_process_ends_with_it(game, tmp_path):
    command = [sys.executable, "-c", OTHER, str(game.pid), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "claimed\n"
        with pytest.raises(ControlTakenError) as caught:
            ControlClaim(game.pid, "soulslab/Process-v0", tmp_path)
        assert caught.value.holder == f"another trainer in process {other.pid}"
        other.kill()
        other.wait()
    ControlClaim(game.pid, "soulslab/Process-v0", tmp_path).release()


def test_two_games_have_two_claims(game, tmp_path):
    first, second = ControlClaim(game.pid, "one", tmp_path), ControlClaim(os.getpid(), "two", tmp_path)
    first.release()
    second.release()


def test_a_game_that_has_ended_cannot_be_claimed(game, tmp_path):
    game.kill()
    game.wait()
    with pytest.raises(ProcessExitedError, match=f"process {game.pid} has ended"):
        ControlClaim(game.pid, "soulslab/Process-v0", tmp_path)


def test_a_link_in_the_folder_is_not_followed(game, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    claim = ControlClaim(game.pid, "one", tmp_path)
    name = next(path for path in tmp_path.iterdir() if path != victim)
    claim.release()
    name.symlink_to(victim)
    with pytest.raises(ProcessError, match="remove it"):
        ControlClaim(game.pid, "one", tmp_path)
    assert victim.read_text() == "kept"


def test_a_folder_that_others_can_write_to_is_refused(game, tmp_path, monkeypatch):
    monkeypatch.setattr(control_claim, "_RUNTIME", tmp_path / "absent")
    monkeypatch.setattr(control_claim, "_FALLBACK", tmp_path)
    ControlClaim(game.pid, "one").release()
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(ProcessError, match="only this user can write to"):
        ControlClaim(game.pid, "one")
