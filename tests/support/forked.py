"""Python programs that are forked from a process which has imported torch: they start in 0.1 instead of 3 s.

A server process, which has no threads, imports the modules at the first use. It forks a process for each program, which
gets the arguments, environment, working folder and streams of a new one. All processes of the suite share the server,
which ends with the one that called `prepare_server`.

A forked program has the command line of the server in ``/proc``, and variables of the environment that are read at the
import of a module, such as ``NUMBA_DISABLE_JIT``, have no effect. Tests of these start a real program.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import logging
import os
import runpy
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable
from inspect import signature
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from filelock import FileLock

TESTS = Path(__file__).parents[1]
#: What the programs import. A program itself must not be in it, because `runpy` executes it anew.
PRELOADED = [
    *("soulslab.cli.application", "soulslab.envs.arena", "soulslab.fleet.game_process", "soulslab.fleet.learning"),
    *("soulslab.fleet.playing", "soulslab.learn.train", "soulslab.testing.paced_env", "soulslab.dashboard.server"),
    "soulslab.envs.tasks.process.doom",
]
#: Size of a request (bytes). The server answers with the id of the process, and at its end with its wait status.
MAX_REQUEST = 1 << 18

#: Variable of the environment with the process that prepared the server, and the folder of its socket.
VARIABLE = "SOULSLAB_FORK_SERVER"

_address = ""


class ForkedPopen(subprocess.Popen):
    """A `subprocess.Popen` of a Python program (``-m MODULE`` or ``-c CODE``, and arguments) that is forked."""

    def _execute_child(self, args: list[str], *others: Any) -> None:
        given = signature(subprocess.Popen._execute_child).bind(self, args, *others).arguments
        executable, option, program, *arguments = args
        assert executable == sys.executable, args
        assert not given["pass_fds"], args
        assert given["preexec_fn"] is None, args
        assert option in {"-m", "-c"}, args
        pairs = (("p2cread", 0), ("c2pwrite", 1), ("errwrite", 2))
        streams = [given[name] if given[name] != -1 else number for name, number in pairs]
        request = {
            "option": option,
            "program": program,
            "arguments": arguments,
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "folder": str(given["cwd"] or Path.cwd()),
            "has_session": given["start_new_session"],
        }
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(_server_address())
        socket.send_fds(self._connection, [json.dumps(request).encode()], streams)
        self.pid = int(self._connection.recv(64))
        self._child_created = True
        self._close_pipe_fds(*(given[f"{pipe}{end}"] for pipe in ("p2c", "c2p", "err") for end in ("read", "write")))

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            answer = self._connection.recv(64)
            self._connection.close()
            self.returncode = os.waitstatus_to_exitcode(int(answer)) if answer else _deadstate
            assert self.returncode is not None, "the server of forked processes has ended"
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and not select.select([self._connection], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.poll()


class ForkedGame(get_context("fork").Process):
    """The process of a game of a fleet, forked from the one that watches it."""

    def run(self) -> None:
        logging.getLogger().handlers.clear()
        super().run()


def fork_further_processes(put: Callable[[object, str, object], None] = setattr) -> None:
    """Let the remote actors, the games of fleets and the dashboards that this process starts be forked as well.

    ``put`` replaces an attribute.
    """
    # Each process of the suite collects the users of this module.
    from soulslab.dashboard import companion  # noqa: PLC0415
    from soulslab.fleet import playing  # noqa: PLC0415
    from soulslab.learn.actors import actor_process  # noqa: PLC0415

    forking = types.SimpleNamespace(**{**vars(subprocess), "Popen": ForkedPopen})
    for module in (actor_process, companion):
        put(module, "subprocess", forking)
    put(playing, "_process_context", lambda: types.SimpleNamespace(Process=ForkedGame))


def prepare_server() -> str:
    """Prepare a server for this process and all that it starts; return the folder to remove at the end."""
    folder = tempfile.mkdtemp(prefix="forks-")
    os.environ[VARIABLE] = f"{os.getpid()}:{folder}"
    return folder


def _server_address() -> str:
    """Return the address of the server, which is started if there is none."""
    global _address  # noqa: PLW0603 - one server for a process and those that it forks
    if not _address:
        session, _, folder = os.environ[VARIABLE].partition(":")
        address = f"{folder}/socket"
        with FileLock(f"{folder}/lock"):
            if not Path(address).exists():
                _start_server(address, session)
        _address = address
    return _address


def _start_server(address: str, session: str) -> None:
    code = "import sys; from support import forked; forked._run_forked(*map(int, sys.argv[1:]))"
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(100)
        # In a session of its own, and not as a child of this process, which would have to wait for its end.
        subprocess.run(
            [shutil.which("setsid") or "setsid", "--fork", sys.executable, "-c", code, str(listener.fileno()), session],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            pass_fds=[listener.fileno()],
            check=True,
        )


def _run_forked(listener_fd: int, session_pid: int) -> None:
    """Serve until a process ends; in each forked process, run its program."""
    session = os.pidfd_open(session_pid)
    request = _serve(socket.socket(fileno=listener_fd), session)
    os.close(session)
    fork_further_processes()
    option, program = request["option"], request["program"]
    if not hasattr(sys.modules.get(program), "__path__"):
        sys.modules.pop(program, None)  # `runpy` warns of a program that is imported already
    sys.argv = [option, *request["arguments"]]
    code: int | None = 1
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(program, {"__name__": "__main__"})  # noqa: S102 - code of a test
        code = None
    except SystemExit as error:
        code = error.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        traceback.print_exc()
    # As a process of `multiprocessing` ends; the interpreter would need 0.2 s to remove all modules.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _serve(listener: socket.socket, session: int) -> dict[str, Any]:
    """Fork processes while a process lives; return the request in each of them."""
    global _address  # noqa: PLW0603
    _address = listener.getsockname()
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    children: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(session, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == session:
                    for pid, _ in children.values():
                        os.kill(pid, signal.SIGKILL)
                    os._exit(0)
                if key.fd in children:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    pid, connection = children.pop(key.fd)
                    _answer(connection, os.waitpid(pid, 0)[1])
                    connection.close()
                    continue
                connection, _ = listener.accept()
                message, streams, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
                if (pid := os.fork()) == 0:
                    for each in (*(each for _, each in children.values()), connection, listener):
                        each.close()
                    for fd in children:
                        os.close(fd)
                    return _begin(json.loads(message), streams)
                for fd in streams:
                    os.close(fd)
                _answer(connection, pid)
                pidfd = os.pidfd_open(pid)
                children[pidfd] = pid, connection
                selector.register(pidfd, selectors.EVENT_READ)


def _answer(connection: socket.socket, number: int) -> None:
    try:
        connection.send(str(number).encode())
    except ConnectionError:  # the process that wanted to know it has ended
        return


def _begin(request: dict[str, Any], streams: list[int]) -> dict[str, Any]:
    """Give this process what a new one has, and return the request."""
    if request["has_session"]:
        os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return request
