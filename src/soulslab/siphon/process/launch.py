"""Starting a game as a child process, and ending it with all of its processes."""

from __future__ import annotations

import ctypes
import getpass
import os
import secrets
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from soulslab.errors import LaunchError
from soulslab.siphon.process.child_process import Output, ParentDeathPipe, PrivateFolder
from soulslab.siphon.process.command import fill_command
from soulslab.siphon.process.private_scores import with_private_scores
from soulslab.siphon.process.process_tree import (
    await_end,
    is_program,
    living,
    marked,
    process_ids,
    remove_shared_memory,
)
from soulslab.siphon.profile import Process

#: Folder in which Debian installs games; it is not on root's PATH.
GAME_DIRS = ("/usr/games", "/usr/local/games")
GRACE_S = 1.0
KILL_DEADLINE_S = 10.0
POLL_S = 0.01
#: Variable that every process of a game inherits, so that all of them can be found.
MARK = "SOULSLAB_RUN"
#: Variables of this process that a game inherits at a deterministic start: search paths.
INHERITED = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR"),
    *("DISPLAY", "XAUTHORITY"),
)
#: Additional variables at a deterministic start.
FIXED = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}
#: Variable that pads all arguments and variables to a multiple of this many bytes.
PADDING = "SOULSLAB_PADDING"
PADDED_BYTES = 4096
#: Values of <sys/personality.h>; the last one queries the current value.
ADDR_NO_RANDOMIZE = 0x0040000
QUERY_PERSONALITY = 0xFFFFFFFF


class Mark:
    """A variable that every process of a game inherits, made before the first of them starts.

    Attributes:
        value: Value of the variable.
        set_s: Unix time at which it was made.
    """

    def __init__(self) -> None:
        self.value = secrets.token_hex(8)
        self.set_s = time.time()
        self._older = process_ids()

    def processes(self) -> set[int]:
        """Return the processes that have the variable, including those outside the session of the game."""
        pids = process_ids()
        # Most processes of a machine are older than the game, and are not read. An id of one that has ended may be used
        # again.
        self._older &= pids
        return marked(MARK, self.value, pids - self._older)


class GameProcess:
    """A started game with its helper processes: a wrapper script, Wine's server.

    `pid` is that of the game itself; `directory` is its private folder, removed by `kill`.
    """

    def __init__(self, child: subprocess.Popen[bytes], mark: Mark, output: Output, parts: ExitStack) -> None:
        self.pid = child.pid
        self.directory = Path()
        self._child = child
        self._mark = mark
        self._output = output
        self._parts = parts
        self._pidfd: int | None = None
        # Processes that `kill` has ended.
        self._ended: set[int] = set()

    @property
    def has_ended(self) -> bool:
        """Whether the game has ended; its wrapper script may still run."""
        if self._pidfd is None:
            return self._child.poll() is not None
        return await_end([self.pid], 0.0, pidfds={self.pid: self._pidfd})

    def status(self) -> int | None:
        """Return the exit status, negative for a signal; None while the game runs.

        If the command is a script around the game, this is the status of the script, which normally ends with the game;
        None if the script continues without the game (see `has_ended`).
        """
        if self._pidfd is not None:
            if not self.has_ended:
                return None
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(GRACE_S)
        return self._child.poll()

    def processes(self) -> set[int]:
        """Return all started processes that have not ended."""
        return living(self._mark.processes() | (set() if self._child.poll() is not None else {self._child.pid}))

    def output_tail(self) -> str:
        """Return the end of the game's output; "" after `kill`."""
        return self._output.tail()

    def kill(self, grace_s: float = GRACE_S) -> None:
        """End the game with all of its processes, and remove its folder and its shared memory.

        The processes have `grace_s` to end after SIGTERM. A second call does nothing.
        """
        self._end(signal.SIGTERM, grace_s)
        deadline = time.monotonic() + KILL_DEADLINE_S
        while not self._end(signal.SIGKILL, 1.0) and time.monotonic() < deadline:
            pass
        self._child.wait(KILL_DEADLINE_S)
        if self._pidfd is not None:
            os.close(self._pidfd)
            # From here on only the child process is polled, and it has ended.
            self._pidfd = None
        remove_shared_memory(self._ended | {self._child.pid, self.pid}, self._mark.set_s)
        self._parts.close()

    def _end(self, number: signal.Signals, wait_s: float) -> bool:
        """Send a signal to all remaining processes and wait; return whether there were none."""
        if self._child.returncode is None:
            # During exec a process has no environment for a moment, but always a process group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
        pids = self.processes()
        self._ended |= pids
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        await_end(pids, wait_s)
        self._child.poll()
        return not pids

    def find_game(self, executable: str, deadline_s: float, wait: Callable[[], object] | None = None) -> None:
        """Wait until a process with a file name runs among the started ones, and use it as the game.

        `wait` is called between two searches; None for a short sleep. Raises `LaunchError` if all processes ended, or
        none has that name in time.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            pids = living(self._mark.processes() | {self._child.pid})
            matching = sorted(pid for pid in pids if is_program(pid, executable))
            if self._child.pid in matching:
                return
            for pid in matching:
                with suppress(ProcessLookupError):  # it has just ended, and another one may start
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
            (wait or partial(time.sleep, POLL_S))()


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

    The command gets a session, a process group and an empty private folder (``{directory}``), which is its working
    folder unless the profile names another one.

    Args:
        process: Command of the profile.
        options: Values that replace those in `Process.options`.
        display: X display of the game; "" leaves the environment unchanged.
        extra_environment: Variables that override the profile's. ``LD_PRELOAD`` is put before an existing value.
        ends_with_us: Whether the kernel kills its process group when this process dies for any reason.
        is_deterministic: Whether to start at fixed addresses, with few variables of this process (`INHERITED`).

    Raises:
        LaunchError: The game cannot be started.
        ConfigError: An option is unknown, or the profile has no command.
    """
    mark = Mark()
    with ExitStack() as undo:
        folder = PrivateFolder("run")
        undo.callback(folder.close)
        command, own = fill_command(process, options or {}, folder.path)
        command = [_program(command[0]), *command[1:]]
        base = _user() | (_fixed_environment() if is_deterministic else dict(os.environ))
        environment = _environment(base, display, own, extra_environment or {}) | {MARK: mark.value}
        if is_deterministic:
            environment[PADDING] = _padding(command, environment)
        directory = Path(process.directory).expanduser() if process.directory else folder.path
        output = Output()
        undo.callback(output.close)
        lifeline = ParentDeathPipe()
        undo.callback(lifeline.release)

        def start() -> subprocess.Popen[bytes]:
            with _fixed_addresses() if is_deterministic else nullcontext():
                return _start(command, environment, directory, (folder.fd, lifeline.fd), output)

        child = with_private_scores(start)
        if ends_with_us:
            lifeline.tie(-child.pid, signal.SIGKILL)
        game = GameProcess(child, mark, output, undo.pop_all())
    game.directory = folder.path
    return game


def _user() -> dict[str, str]:
    """Return the variables with the name of the user, which a container may lack and on which games rely."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in the password database
        name = f"user{os.getuid()}"
    return {"USER": name, "LOGNAME": name}


def _start(
    command: list[str], environment: dict[str, str], directory: Path, fds: tuple[int, ...], output: Output
) -> subprocess.Popen[bytes]:
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
    """Disable address randomisation for processes started in this block by this thread (personality(2))."""
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
    """Return the path of a program on the PATH, in Debian's folder of games, or beside this Python; "" if none."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *GAME_DIRS, sysconfig.get_path("scripts")))
    return shutil.which(name, path=path) or ""


def _program(name: str) -> str:
    """Return the path of a program. Raises `LaunchError` if it was not found."""
    program = find_program(name)
    if not program:
        raise LaunchError(
            f"the program {name!r} is not installed; install it (on Debian: apt-get install {Path(name).name}, if the "
            f"package has this name), or add its folder to PATH"
        )
    # A relative path counts from the current folder, not from the working folder of the game.
    return str(Path(program).absolute())


def _environment(
    base: Mapping[str, str], display: str, own: Mapping[str, str], extra: Mapping[str, str]
) -> dict[str, str]:
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
    """Return a value for `PADDING` that fills blocks: a longer display number would shift all stack addresses."""
    texts = [*command, *(f"{name}={value}" for name, value in environment.items()), f"{PADDING}="]
    return "x" * (-sum(len(os.fsencode(text)) + 1 for text in texts) % PADDED_BYTES)


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {-status} ({signal.strsignal(-status)})"


def _printed(tail: str) -> str:
    return f"it printed:\n{tail}" if tail else "it printed nothing"
