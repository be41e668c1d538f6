"""Starts with paused time from the first instruction, and deterministic starts."""

import getpass
import hashlib
import subprocess
import sys
from pathlib import Path
from shutil import which

import msgspec
import numpy as np
import pytest

from soulslab.errors import ConfigError
from soulslab.games import profile_path
from soulslab.siphon.capture import NATIVE
from soulslab.siphon.clock.held_start import BOOT_S, EPOCH_S
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import ClockFacts, Process, Profile, load_profile
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions, Step
from support.long_form import IS_LONG
from support.waiting import PATIENCE_S, wait_for

SOURCE = Path(__file__).parents[2] / "support" / "start_program.c"
DOOM = load_profile(profile_path(Path("doom")))
KEYS = ("UP_ARROW", "DOWN_ARROW", "LEFT_ARROW", "RIGHT_ARROW", "LEFT_CTRL", "SPACE")
SECOND_NS = 1_000_000_000
#: What is fixed by the seed alone; variables hold ids and folders of this start.
RANDOM = ("getrandom", "raw_getrandom", "raw_urandom", "getentropy", "arc4random", "urandom", "random", "threads")
CLOCKS = ("time", "first", "realtime", "monotonic", "boottime", "midnight")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "start_program"
    gcc = which("gcc")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    subprocess.run([gcc, "-O1", "-pthread", "-o", str(path), str(SOURCE), "-ldl"], check=True)
    return path


@pytest.fixture
def report_of(program, tmp_path):
    """Start the program in a session and return its report: a text for each name, and the variables."""

    def start(*, script="", **options):
        report = tmp_path / "report"
        report.unlink(missing_ok=True)
        command = ("sh", "-c", script, "sh", str(program), str(report)) if script else (str(program), str(report))
        profile = Profile(
            name="start",
            process=Process(executable=program.name, command=command, environment={"OWN": "1"}),
            clock=ClockFacts(grade="lockstep"),
        )
        with open_session(profile, SessionOptions(with_window=False, **options)):
            wait_for(report.exists)
            lines = report.read_text().splitlines()
        variables = dict(line.removeprefix("variable ").split("=", 1) for line in lines if line.startswith("variable "))
        return dict(line.split("=", 1) for line in lines if not line.startswith("variable ")), variables

    return start


def test_two_starts_with_the_same_seed_are_equal(report_of):
    first, variables = report_of(deterministic=True, seed=11)
    second, others = report_of(deterministic=True, seed=11)
    assert first == second
    assert set(RANDOM) | set(CLOCKS) | {"addresses"} == set(first)
    assert variables.keys() == others.keys()
    assert {name: len(text) for name, text in variables.items()} == {name: len(text) for name, text in others.items()}


def test_the_clocks_begin_at_fixed_times(report_of):
    report, _ = report_of(deterministic=True, seed=86_399)
    assert report["time"] == str(EPOCH_S + 86_399)
    assert report["first"] == report["monotonic"] == report["boottime"] == str(BOOT_S * SECOND_NS)
    assert report["realtime"] == str((EPOCH_S + 86_399) * SECOND_NS)
    assert report["midnight"] == "23"


def test_another_seed_gives_other_random_numbers_and_another_time(report_of):
    first, _ = report_of(deterministic=True, seed=11)
    second, _ = report_of(deterministic=True, seed=12)
    assert [name for name in RANDOM if first[name] == second[name]] == []
    assert int(second["time"]) == int(first["time"]) + 1
    assert first["addresses"] == second["addresses"]


def test_random_sources_do_not_repeat_each_other(report_of):
    report, _ = report_of(deterministic=True, seed=11)
    assert len({report[name] for name in ("getrandom", "getentropy", "urandom", "random")}) == 4


def test_a_nondeterministic_start_uses_the_clocks_and_random_numbers_of_the_machine(report_of, monkeypatch):
    monkeypatch.setenv("SOULSLAB_TEST", "inherited")
    first, variables = report_of()
    second, _ = report_of()
    assert [name for name in RANDOM if first[name] == second[name]] == []
    assert int(first["monotonic"]) != int(second["monotonic"])
    assert variables["SOULSLAB_TEST"] == "inherited"


def test_a_deterministic_start_gets_few_variables(report_of, monkeypatch):
    monkeypatch.setenv("SOULSLAB_TEST", "inherited")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    _, variables = report_of(deterministic=True)
    assert "SOULSLAB_TEST" not in variables
    fixed = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "OWN": "1", "SDL_AUDIODRIVER": "dummy"}
    assert fixed.items() <= variables.items()


@pytest.mark.parametrize("is_deterministic", [True, False])
def test_a_game_learns_the_name_of_its_user(report_of, monkeypatch, is_deterministic):
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    _, variables = report_of(deterministic=is_deterministic)
    assert variables["USER"] == variables["LOGNAME"] == getpass.getuser()


def test_a_longer_variable_does_not_move_the_stack(report_of, monkeypatch):
    monkeypatch.setenv("USER", "me")
    first, _ = report_of(deterministic=True)
    monkeypatch.setenv("USER", "a-user-with-a-longer-name")
    second, _ = report_of(deterministic=True)
    assert first["addresses"] == second["addresses"]


def test_a_script_gets_the_time_that_it_waits_for(report_of):
    first, _ = report_of(script='sleep 1.5; exec "$@"', deterministic=True)
    second, _ = report_of(script='sleep 1.5; exec "$@"', deterministic=True)
    assert first == second
    assert 1.5 <= int(first["first"]) / SECOND_NS - BOOT_S < 1.5 + 2 / 60


def test_a_restart_with_a_seed_is_deterministic(report_of, program, tmp_path):
    expected, _ = report_of(deterministic=True, seed=5)
    report = tmp_path / "report"
    profile = Profile(
        name="start",
        process=Process(executable=program.name, command=(str(program), str(report)), environment={"OWN": "1"}),
        clock=ClockFacts(grade="lockstep"),
    )
    with open_session(profile, SessionOptions(with_window=False)) as session:
        wait_for(report.exists)
        report.unlink()
        with (
            serve(session, ServerOptions(address=f"unix:{tmp_path}/s")) as server,
            connect(server.address, token=server.token) as remote,
        ):
            remote.restart(seed=5)
            wait_for(report.exists)
    lines = [line for line in report.read_text().splitlines() if not line.startswith("variable ")]
    assert dict(line.split("=", 1) for line in lines) == expected


def test_time_is_paused_until_the_first_step():
    with open_session(DOOM, SessionOptions(deterministic=True)) as game:
        before_s = game.clock.game_time_s
        assert game.clock.speed == 0
        assert game.clock.advance(0.1).elapsed_s == pytest.approx(0.1)
        assert game.clock.game_time_s == pytest.approx(before_s + 0.1)


@pytest.mark.parametrize(
    ("profile", "options"),
    [
        (DOOM, {"clock": "realtime"}),
        (DOOM, {"launch": "never"}),
        (msgspec.structs.replace(DOOM, clock=ClockFacts(grade="realtime")), {}),
    ],
)
def test_a_game_that_cannot_be_paused_is_refused(profile, options):
    with pytest.raises(ConfigError, match=r"deterministic: needs a game that the session starts .* lockstep"):
        open_session(profile, SessionOptions(deterministic=True, **options))


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(ConfigError, match=r"seed: is .*, not in 0 to"):
        open_session(DOOM, SessionOptions(deterministic=True, seed=seed))


def test_a_refused_seed_leaves_the_game_as_it_is():
    with open_session(DOOM, SessionOptions(clock="realtime")) as game:
        with pytest.raises(ConfigError, match="deterministic"):
            game.restart(seed=1)
        assert game.read("health") == 100


def play(seed, n_steps):
    """Return the game time of the start, and the state after each step with random keys."""
    keys = np.random.default_rng(3)
    with open_session(DOOM, SessionOptions(deterministic=True, seed=seed)) as game:
        seen = [game.clock.game_time_s]
        for _ in range(n_steps):
            held = tuple(key for key in KEYS if keys.random() < 0.35)
            result = game.step(Step(held=held, advance_s=1 / 35, frame=NATIVE, deadline_s=PATIENCE_S))
            seen.append((dict(result.snapshot), hashlib.sha256(result.frame.pixels).hexdigest()))
    return seen


def test_two_games_of_doom_are_equal_in_values_and_pixels_beside_other_load():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    n_steps = 150 if IS_LONG else 70
    try:
        first, second = play(1, n_steps), play(1, n_steps)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert first == second
    assert len({pixels for _, pixels in first[1:]}) > 2 * n_steps / 3
