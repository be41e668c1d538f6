"""The gamepad on Linux: programs find one device, and see the state that the session sets."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from shutil import which

import msgspec
import pytest

from soulslab.errors import ClockError, InputError, ReadOnlyError
from soulslab.siphon.clock.lockstep_page import LockstepPage
from soulslab.siphon.local import open_session
from soulslab.siphon.pad import CONTROLS, Pad
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import serve
from soulslab.siphon.session import SessionOptions, Step
from soulslab.siphon.tick_alignment import advance_to_tick_middle
from support.pad_program import TICK_HZ, WAYS, compile_pad_program, pad_profile, read_report
from support.souls_program import PADS
from support.waiting import wait_for

TICK_S = 1 / TICK_HZ
START = SessionOptions(launch="always", input_backend="pad")
NAMES = {"sdl": "X360 Controller"}
HELD = Pad(buttons=("A",), left_stick=(1.0, -1.0), left_trigger=1.0)
#: A controller that is killed while it holds the pad; it prints the process of the game.
CONTROLLER = """
import sys
from pathlib import Path
import msgspec
from soulslab.siphon.local import open_session
from soulslab.siphon.pad import Pad
from soulslab.siphon.session import SessionOptions
from support.pad_program import pad_profile, read_report
from support.waiting import wait_for
program, report, way, clock, display, held = sys.argv[1:]
profile = pad_profile(Path(program), Path(report), way)
options = SessionOptions(launch="always", input_backend="pad", on_orphan="run", clock=clock, display=display)
game = open_session(profile, options)
game.clock.run(1.0)
# Events from before it opens the device would be lost.
wait_for(lambda: read_report(Path(report)).n_ticks > 0)
game.input.set_pad(msgspec.json.decode(held, type=Pad))
print(game.info.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_pad_program(tmp_path_factory.mktemp("pad_program"))


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report"


@pytest.fixture
def play(program, report):
    """A function that opens a session with the program; it is open until the end of the test."""
    opened = []

    def open_one(way, souls="dark_souls_3", **options):
        profile = pad_profile(program, report, way, souls)
        opened.append(open_session(profile, msgspec.structs.replace(START, **options)))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def pause(game, report):
    """Pause in the middle of a tick."""
    game.clock.pause()
    assert advance_to_tick_middle(lambda seconds: count_after(game, report, seconds), TICK_S)


def count_after(game, report, seconds):
    game.clock.advance(seconds)
    return read_report(report).n_ticks


def step(game, report, **fields):
    """Advance by one tick and return the report."""
    before = read_report(report).n_ticks
    game.step(Step(advance_s=TICK_S, **fields))
    after = read_report(report)
    assert after.n_ticks == before + 1
    return after


@pytest.mark.parametrize("way", WAYS)
def test_every_control_is_seen_at_the_next_tick(play, report, way):
    game = play(way)
    pause(game, report)
    seen = read_report(report)
    assert (seen.n_devices, seen.n_others, seen.pad) == (1, 0, Pad().to_bytes())
    assert seen.name == NAMES.get(way, "Microsoft X-Box 360 pad")
    assert game.info.input_backend == "pad"
    for control in CONTROLS:
        pad = Pad().with_controls([control])
        assert step(game, report, pad=pad).pad == pad.to_bytes(), control
        assert step(game, report, pad=Pad()).pad == Pad().to_bytes(), control


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way in ("sdl", "read", "joystick") else pytest.mark.long) for way in WAYS],
)
def test_intermediate_values(play, report, way):
    game = play(way)
    pause(game, report)
    for part in (-1.0, -0.75, -0.1, 0.2, 0.5, 1.0):
        pad = Pad(left_stick=(part, -part), right_stick=(part / 2, part), left_trigger=abs(part), right_trigger=0.25)
        seen, wanted = step(game, report, pad=pad).pad, pad.to_bytes()
        assert seen[:2] == wanted[:2]
        assert all(abs(one - other) <= 1 for one, other in zip(seen[2:4], wanted[2:4], strict=True))
        assert seen[4:] == wanted[4:]


@pytest.mark.parametrize(
    ("way", "souls"), [("sdl", "elden_ring"), ("thread", "dark_souls_3"), ("joystick", "elden_ring")]
)
def test_every_souls_action_is_sent_by_the_pad(play, report, way, souls):
    game = play(way, souls)
    pause(game, report)
    keys, wanted = game.profile.keys, PADS[souls]
    assert game.profile.pad.keys() == wanted.keys()
    for action, state in wanted.items():
        assert step(game, report, held=(keys[action],)).pad == state, action
    together = tuple(keys[action] for action in ("roll", "forward", "right", "heavy_attack"))
    seen = step(game, report, held=together)
    assert seen.pad == Pad().with_controls(["B", "LEFT_STICK_UP", "LEFT_STICK_RIGHT", "RIGHT_TRIGGER"]).to_bytes()
    assert game.input.held == set(together)
    assert step(game, report, held=()).pad == Pad().to_bytes()


@pytest.mark.parametrize("way", WAYS)
def test_a_new_press_is_seen(play, report, way):
    game = play(way)
    pause(game, report)
    before = step(game, report, held=("SPACE",)).n_presses
    assert before == 1
    for n in range(1, 6):
        assert step(game, report, held=("SPACE",), again=("SPACE",)).pad == Pad().to_bytes()
        assert step(game, report).n_presses == before + n
    step(game, report, held=())
    game.input.type(["SPACE"] * 5)
    game.step(Step(advance_s=24 * TICK_S))
    assert read_report(report).n_presses == before + 5 + 5


def test_a_program_that_does_not_read_gets_the_last_state(play, report):
    """More events than a pipe holds: the state is right in the end."""
    game = play("read")
    pause(game, report)
    for i in range(5000):
        game.input.set_pad(Pad(left_stick=(i % 100 / 100, 0.0)))
    game.input.set_pad(HELD)
    step(game, report)
    assert step(game, report).pad == HELD.to_bytes()


def test_a_game_in_real_time_has_a_pad(play, report):
    game = play("thread", clock="realtime")
    assert game.info.clock_grade == "realtime"
    wait_for(lambda: read_report(report).n_ticks > 0, "the device to be opened")
    game.input.set_pad(HELD)
    wait_for(lambda: read_report(report).pad == HELD.to_bytes(), "the state")
    game.input.set_held(["SPACE"])
    wait_for(lambda: read_report(report).n_presses == 2, "the key")


def test_without_the_backend_there_is_no_device(program, report):
    with open_session(pad_profile(program, report, "sdl"), SessionOptions(launch="always")) as game:
        game.clock.pause()
        assert read_report(report).n_devices == 0
        with pytest.raises(InputError, match="the session has no gamepad"):
            game.step(Step(pad=HELD))


def test_two_starts_are_equal(program, tmp_path):
    """A deterministic game sees the same at the same tick."""
    seen = []
    for i in range(2):
        report = tmp_path / str(i)
        options = msgspec.structs.replace(START, deterministic=True, seed=3)
        with open_session(pad_profile(program, report, "thread"), options) as game:
            states = [step(game, report, pad=Pad(left_stick=(j % 7 / 7, 0.0))) for j in range(30)]
            seen.append([(one.n_ticks, one.pad) for one in states])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_pad_works_after_the_clock_and_after_a_restart(play, report, is_restarted):
    game = play("sdl")
    pause(game, report)
    step(game, report, pad=HELD)
    if is_restarted:
        game.restart()
        pause(game, report)
        assert step(game, report).pad == Pad().to_bytes()
    assert step(game, report, pad=Pad(buttons=("X",))).pad == Pad(buttons=("X",)).to_bytes()


# --- the end of the controller --------------------------------------------------------------------------------------


@pytest.fixture
def display():
    with PrivateDisplay((640, 480)) as one:
        yield one.name


@pytest.fixture
def orphan(program, report, display, request):
    """Process of a game whose controller was killed while it held the pad."""
    way, clock = request.param
    held = msgspec.json.encode(HELD).decode()
    command = [sys.executable, "-c", CONTROLLER, str(program), str(report), way, clock, display, held]
    tests = str(Path(__file__).parents[2])
    paths = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as controller:
        pid = int(controller.stdout.readline())
        wait_for(lambda: read_report(report).pad == HELD.to_bytes(), "the state")
        with pytest.raises(ClockError, match=f"process {controller.pid} controls"):
            open_session(pad_profile(program, report, way), found(pid, display))
        controller.kill()
        controller.wait()
    yield pid
    os.kill(pid, signal.SIGKILL)


def found(pid, display, **options):
    options = {"launch": "never", "display": display, "input_backend": "pad", "clock": "realtime"} | options
    return SessionOptions(pid=pid, **options)


@pytest.mark.parametrize(
    "orphan", [("sdl", "lockstep"), ("thread", "realtime"), ("joystick", "lockstep")], indirect=True
)
def test_the_pad_is_at_rest_when_its_controller_is_killed(orphan, program, report, display):
    wait_for(lambda: read_report(report).pad == Pad().to_bytes(), "a pad at rest")
    profile = pad_profile(program, report, "")
    for clock in ("realtime", "lockstep"):
        with open_session(profile, found(orphan, display, clock=clock)) as game:
            assert (game.info.clock_grade, game.info.input_backend) == (clock, "pad")
            game.input.set_pad(HELD)
            if clock == "lockstep":
                game.clock.advance(2 * TICK_S)
                game.clock.run(1.0)
            wait_for(lambda: read_report(report).pad == HELD.to_bytes(), "the state of the next controller")
        wait_for(lambda: read_report(report).pad == Pad().to_bytes(), "the release at the end of the session")
    with open_session(profile, found(orphan, display, is_read_only=True)) as game:
        for change in (lambda: game.input.set_pad(HELD), lambda: game.step(Step(pad=Pad()))):
            with pytest.raises(ReadOnlyError):
                change()


def test_a_game_without_a_pad_gets_none_later(program, report, display):
    profile = pad_profile(program, report, "read")
    start = SessionOptions(launch="always", display=display, clock="lockstep", on_orphan="run")
    with open_session(profile, start) as game:
        pid = game.info.pid
        game.clock.close()  # gives the page back
        with pytest.raises(InputError, match=f"process {pid} was started without a gamepad"):
            open_session(profile, found(pid, display))
    with (
        open_session(profile, msgspec.structs.replace(start, clock="realtime")) as game,
        pytest.raises(InputError, match=f"process {game.info.pid} has none"),
    ):
        open_session(profile, found(game.info.pid, display))


def test_a_client_of_a_server_has_the_pad(play, report):
    game = play("sdl")
    with serve(game) as server:
        with connect(server.address, token=server.token) as remote:
            pause(remote, report)
            assert remote.info.input_backend == remote.input.backend == "pad"
            assert remote.profile.pad == game.profile.pad
            assert step(remote, report, pad=HELD).pad == HELD.to_bytes()
            assert step(remote, report, held=("SPACE",)).n_presses == 2
        assert step(game, report).pad == Pad().to_bytes()


def compiled(name, folder):
    gcc = which("gcc")
    assert gcc, "gcc is not installed; scripts/bootstrap.py installs it"
    source = Path(__file__).parents[2] / "support" / f"{name}.c"
    subprocess.run([gcc, "-O1", "-o", str(folder / name), str(source)], check=True)
    return folder / name


@pytest.mark.parametrize("way", ["close", "fclose", "dup2"])
def test_a_game_that_loses_its_pad_plays_on(tmp_path, way):
    """A write to the pipe of a pad that was closed unseen would end it with SIGPIPE."""
    program = compiled("lost_pad", tmp_path)
    with closing(LockstepPage.create()) as page:
        page.connect_pad()
        game = subprocess.Popen(
            [str(program), way], env={**os.environ, **page.environment()}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with game:
            assert game.stdout.read(1) == b"."  # it has closed the pad
            for buttons in (("A",), (), ("A",)):
                page.set_pad(Pad(buttons=buttons).to_bytes(), False)
                game.stdin.write(b".")
                game.stdin.flush()
                assert game.stdout.read(1) == b"."  # it has looked at the time
            game.stdin.close()
            assert game.wait() == 0


def test_the_mask_of_a_system_call_has_the_size_of_the_kernel(tmp_path):
    """Masks of the C library are larger, and reading so much could reach behind the memory of the program."""
    program = compiled("short_masks", tmp_path)
    with closing(LockstepPage.create()) as page:
        ended = subprocess.run([str(program)], env={**os.environ, **page.environment()}, check=False)
    assert ended.returncode == 0
