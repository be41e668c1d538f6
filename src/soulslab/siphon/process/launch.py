"""Starting a game as a child of ours, and ending it with all that it started.

::

    game = launch(profile.process, options={"skill": "4"}, display=":7")
    game.pid, game.status(), game.output_tail()
    game.kill()
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from soulslab.errors import ConfigError, LaunchError, did_you_mean
from soulslab.siphon.process.output import Output
from soulslab.siphon.process.parent_death_pipe import Lifeline
from soulslab.siphon.process.private_folder import PrivateFolder
from soulslab.siphon.process.process_tree import await_end, is_program, living, marked
from soulslab.siphon.profile import Process

#: Where Debian puts games; root does not search there.
GAME_DIRS = ("/usr/games", "/usr/local/games")
DEADLINE_S = 20.0
GRACE_S = 1.0
KILL_DEADLINE_S = 10.0
POLL_S = 0.01
#: A variable that all that a game starts inherits, so that nothing of it is lost sight of.
MARK = "SOULSLAB_RUN"
#: Sound without a device, which would pace the game: for games in lockstep or on a private display, unless the profile
#: sets the variables.
SILENT = {
    "SDL_AUDIODRIVER": "dummy",  # SDL 1.2 and 2
    "SDL_AUDIO_DRIVER": "dummy",  # SDL 3
    "ALSOFT_DRIVERS": "null",  # OpenAL Soft
    "ALSA_CONFIG_PATH": os.devnull,
    "PULSE_SERVER": "unix:/dev/null",
    "PIPEWIRE_REMOTE": os.devnull,
    "JACK_NO_START_SERVER": "1",
}
#: Variables of this process that a game gets at a deterministic start: where things are found.
INHERITED = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR"),
    *("DISPLAY", "XAUTHORITY"),
)
#: Variables that it gets besides.
FIXED = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}
#: A variable that brings all arguments and variables to a multiple of so many bytes.
PADDING = "SOULSLAB_PADDING"
PADDED_BYTES = 4096
#: <sys/personality.h>; the number that asks for the present value.
ADDR_NO_RANDOMIZE = 0x0040000
QUERY_PERSONALITY = 0xFFFFFFFF

_MAX_OPTION_CHARACTERS = 4096
_PLACE = re.compile(r"\{(\w+)\}")


class GameProcess:
    """A game that we started, with its helpers: a script around it, Wine's server.

    Attributes:
        pid: Of the game itself.
        directory: Its private folder, removed by `kill`.
    """

    def __init__(self, child: subprocess.Popen[bytes], mark: str, output: Output, parts: ExitStack) -> None:
        self.pid = child.pid
        self.directory = Path()
        self._child = child
        self._mark = mark
        self._output = output
        self._parts = parts
        self._pidfd: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the game has ended; the script that started it may still run."""
        if self._pidfd is None:
            return self._child.poll() is not None
        return await_end([self.pid], 0.0, pidfds={self.pid: self._pidfd})

    def status(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs.

        If the command is a script around the game, it is that of the script, which normally ends with the game; None
        if the script goes on without it (see `has_ended`).
        """
        if self._pidfd is not None:
            if not self.has_ended:
                return None
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(GRACE_S)
        return self._child.poll()

    def processes(self) -> set[int]:
        """Return all processes that were started and have not ended."""
        return living(marked(MARK, self._mark) | ({self._child.pid} if self._child.poll() is None else set()))

    def output_tail(self) -> str:
        """Return the end of what it printed; "" after `kill`."""
        return self._output.tail()

    def kill(self, grace_s: float = GRACE_S) -> None:
        """End the game and all that it started, and remove its folder; a second call does nothing.

        Args:
            grace_s: How long they may take to end by themselves after SIGTERM.
        """
        self._end(signal.SIGTERM, grace_s)
        deadline = time.monotonic() + KILL_DEADLINE_S
        while not self._end(signal.SIGKILL, 1.0) and time.monotonic() < deadline:
            pass
        self._child.wait(KILL_DEADLINE_S)
        if self._pidfd is not None:
            os.close(self._pidfd)
            # From here on only the child is asked, and it has ended.
            self._pidfd = None
        self._parts.close()

    def _end(self, number: signal.Signals, wait_s: float) -> bool:
        """Send a signal to all that still lives and wait; tell whether nothing was alive."""
        if self._child.returncode is None:
            # A process that just changes its program has no environment for a moment, but always a group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
        pids = self.processes()
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        await_end(pids, wait_s)
        self._child.poll()
        return not pids

    def find_game(self, executable: str, deadline_s: float, wait: Callable[[], object] | None = None) -> None:
        """Wait until a process of that name runs among those we started, and take it for the game.

        Args:
            executable: File name of the program.
            deadline_s: Wall time for the process to come up.
            wait: Waits between two searches; None for a short sleep.

        Raises:
            LaunchError: All of them ended before, or none had that name in time.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            pids = living(marked(MARK, self._mark) | {self._child.pid})
            matching = sorted(pid for pid in pids if is_program(pid, executable))
            if self._child.pid in matching:
                return
            for pid in matching:
                with suppress(ProcessLookupError):  # it has just ended, and another may come
                    self._pidfd = os.pidfd_open(pid)
                    self.pid = pid
                    return
            if not pids:
                raise LaunchError(
                    f"the game ended at once, with {_how(self._child.wait())}, before a process {executable!r} was "
                    f"seen; {_printed(self._output.tail())}",
                    pid=self._child.pid,
                )
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"no process {executable!r} came up within {deadline_s:.0f} s; does process.executable name the "
                    f"program that the command starts? {_printed(self._output.tail())}",
                    pid=self._child.pid,
                )
            (wait or _sleep)()


def launch(
    process: Process,
    *,
    options: Mapping[str, str] | None = None,
    display: str = "",
    extra_environment: Mapping[str, str] | None = None,
    ends_with_us: bool = True,
    deadline_s: float = DEADLINE_S,
) -> GameProcess:
    """Start a game and wait until its process is there: `start_command` and `GameProcess.find_game`.

    Raises:
        LaunchError: It cannot be started, or ended at once.
        ConfigError: An option is unknown, or the profile has no command.
    """
    game = start_command(
        process, options=options, display=display, extra_environment=extra_environment, ends_with_us=ends_with_us
    )
    try:
        game.find_game(process.executable, deadline_s)
    except BaseException:
        game.kill(grace_s=0.0)
        raise
    return game


def start_command(
    process: Process,
    *,
    options: Mapping[str, str] | None = None,
    display: str = "",
    extra_environment: Mapping[str, str] | None = None,
    ends_with_us: bool = True,
    is_deterministic: bool = False,
) -> GameProcess:
    """Start the command of a game; `GameProcess.find_game` finds the game among the processes of the command.

    It gets a session and a process group of its own, and an empty private folder that ``{directory}`` names; it is
    started in that folder unless the profile names another.

    Args:
        process: What the profile says about it.
        options: Replace `Process.options`.
        display: X display to draw on; "" leaves the environment as it is.
        extra_environment: Variables that win over the profile's. ``LD_PRELOAD`` is put before one that is there.
        ends_with_us: The kernel kills its process group when this process dies in whatever way.
        is_deterministic: Start it at fixed addresses, and with few variables of this process (`INHERITED`).

    Raises:
        LaunchError: It cannot be started.
        ConfigError: An option is unknown, or the profile has no command.
    """
    if not process.command:
        raise ConfigError("is empty, so this game cannot be started; start it yourself", path="process.command")
    mark = secrets.token_hex(8)
    with ExitStack() as undo:
        folder = PrivateFolder("run")
        undo.callback(folder.close)
        values = {**_chosen(process, options or {}), "directory": str(folder.path)}
        command = [_fill(text, values, f"process.command[{i}]") for i, text in enumerate(process.command)]
        command = [_program(command[0]), *command[1:]]
        own = {name: _fill(text, values, f"process.environment.{name}") for name, text in process.environment.items()}
        base = _fixed_environment() if is_deterministic else dict(os.environ)
        environment = _environment(base, display, own, extra_environment or {}) | {MARK: mark}
        if is_deterministic:
            environment[PADDING] = _padding(command, environment)
        directory = Path(process.directory).expanduser() if process.directory else folder.path
        output = Output()
        undo.callback(output.close)
        lifeline = Lifeline()
        undo.callback(lifeline.release)
        with _fixed_addresses() if is_deterministic else nullcontext():
            child = _start(command, environment, directory, (folder.fd, lifeline.fd), output)
        if ends_with_us:
            lifeline.tie(-child.pid, signal.SIGKILL)
        game = GameProcess(child, mark, output, undo.pop_all())
    game.directory = folder.path
    return game


def _start(
    command: list[str], environment: dict[str, str], directory: Path, fds: tuple[int, ...], output: Output
) -> subprocess.Popen[bytes]:
    """Start the command."""
    try:
        return subprocess.Popen(  # noqa: S603 - running the profile's command is what launch is for
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output.fd,
            stderr=output.fd,
            pass_fds=fds,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(f"cannot start {command[0]} in {directory}: {error.strerror}") from error


@contextmanager
def _fixed_addresses() -> Iterator[None]:
    """Start processes without randomised addresses in this block (personality(2)); only this thread is affected."""
    personality = ctypes.CDLL(None, use_errno=True).personality
    personality.argtypes = (ctypes.c_ulong,)
    before = personality(QUERY_PERSONALITY)
    if before < 0 or personality(before | ADDR_NO_RANDOMIZE) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise LaunchError(
            f"addresses of the game cannot be fixed (personality: {reason}), which a deterministic start needs. In a "
            "container, allow this call: docker run --security-opt seccomp=unconfined"
        )
    try:
        yield
    finally:
        personality(before)


def find_program(name: str) -> str:
    """Return the path of a program on the PATH, among the games, or beside this Python; "" if there is none."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *GAME_DIRS, sysconfig.get_path("scripts")))
    return shutil.which(name, path=path) or ""


def _program(name: str) -> str:
    """Return the path of a program.

    Raises:
        LaunchError: There is none.
    """
    program = find_program(name)
    if not program:
        raise LaunchError(
            f"there is no program {name!r}; install it (on Debian: apt-get install {Path(name).name}, if its package "
            f"is called so), or put its folder on the PATH"
        )
    # A path is meant from where we are, not from the folder that the game is started in.
    return str(Path(program).absolute())


def check_options(process: Process, options: Mapping[str, str]) -> None:
    """Check that a program can be started with some options.

    Raises:
        ConfigError: The profile has no such option, or a value cannot stand on a command line.
    """
    for name, value in options.items():
        if name not in process.options:
            raise ConfigError(f"unknown option{did_you_mean(name, process.options)}", path=f"options.{name:.64}")
        if "\0" in value or len(value) > _MAX_OPTION_CHARACTERS:
            raise ConfigError(
                f"has a zero character or more than {_MAX_OPTION_CHARACTERS} characters", path=f"options.{name}"
            )


def _chosen(process: Process, options: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each option."""
    check_options(process, options)
    return {**process.options, **options}


def _fill(text: str, values: Mapping[str, str], path: str) -> str:
    """Return the text with ``{name}`` replaced."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise ConfigError(f"unknown option {{{name}}}{did_you_mean(name, values)}", path=path)
        return values[name]

    return _PLACE.sub(value, text)


def _environment(
    base: Mapping[str, str], display: str, own: Mapping[str, str], extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables to start the game with."""
    environment = dict(base)
    if display:
        environment["DISPLAY"] = display
        # A program that finds Wayland would open its window there.
        environment.pop("WAYLAND_DISPLAY", None)
    environment |= own
    preloads = [text for text in (extra.get("LD_PRELOAD"), environment.get("LD_PRELOAD")) if text]
    environment |= extra
    if preloads:
        environment["LD_PRELOAD"] = ":".join(dict.fromkeys(":".join(preloads).split(":")))
    return environment


def _fixed_environment() -> dict[str, str]:
    """Return the variables of a deterministic start, without those of the profile."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | FIXED


def _padding(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return a value for `PADDING` with which arguments and variables fill whole blocks.

    They lie above the stack. A longer display number, say, would move all addresses on it.
    """
    texts = [*command, *(f"{name}={value}" for name, value in environment.items()), f"{PADDING}="]
    return "x" * (-sum(len(os.fsencode(text)) + 1 for text in texts) % PADDED_BYTES)


def _sleep() -> None:
    time.sleep(POLL_S)


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {-status} ({signal.strsignal(-status)})"


def _printed(tail: str) -> str:
    return f"it printed:\n{tail}" if tail else "it printed nothing"
