"""A Redis server as a child process: private, with passwords, durable, and ended together with this process."""

from __future__ import annotations

import logging
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
from redis import Redis
from redis.exceptions import RedisError

from soulslab.errors import FleetError
from soulslab.fleet.access import Access, connect, is_loopback, password_hash, split_address, user_rules
from soulslab.fleet.weights_message import MAX_VALUE_BYTES
from soulslab.learn.archive import writing
from soulslab.siphon.process.child_process import ParentDeathPipe

START_DEADLINE_S: Final = 30.0
STOP_DEADLINE_S: Final = 10.0
MIN_RESTART_S: Final = 0.5
MAX_RESTART_S: Final = 10.0

_POLL_S: Final = 0.02
_TAIL_BYTES: Final = 1500

_log = logging.getLogger(__name__)


class JoinUser(msgspec.Struct, frozen=True, rename={"name": "user"}):
    """The user of a join file, with the SHA-256 of its password."""

    name: str
    password_hash: str


class Certificates(msgspec.Struct, frozen=True):
    """Files of a server with TLS: its certificate, the key of that, and the certificate of the authority."""

    certificate: Path
    key: Path
    ca: Path


class RedisServer:
    """A Redis server with its own folder, where its data are kept over restarts.

    The configuration is passed through a pipe and holds only hashes of passwords, so no secret is in a file or in a
    command line. Each write reaches the disk before it is acknowledged (``appendfsync always``). If the memory is full,
    the server refuses new writes; it never removes data by itself.
    """

    def __init__(
        self, folder: Path, access: Access, *, max_memory_mb: int, certificates: Certificates | None = None
    ) -> None:
        """Prepare a server for the administrator's access; :meth:`start` must follow."""
        self._folder = folder.resolve()
        self._access = access
        self._max_memory_mb = max_memory_mb
        self._certificates = certificates
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: ParentDeathPipe | None = None
        self._next_start_at = self._launched_at = 0.0
        self._wait_s = MIN_RESTART_S
        self.n_restarts = 0

    @property
    def pid(self) -> int | None:
        """Process id of the server; None if it was not started."""
        return self._child.pid if self._child is not None else None

    def start(self, users: Iterable[JoinUser]) -> None:
        """Start the server, and wait until it has loaded its data; raises FleetError with the end of its log otherwise.

        A server that answers may load for as long as its data needs.
        """
        deadline = time.monotonic() + START_DEADLINE_S
        with closing(connect(self._access)) as client:
            self._launch(users)
            while (is_loading := self._is_loading(client)) is not False:
                if is_loading:
                    deadline = time.monotonic() + START_DEADLINE_S
                if self._child is None or self._child.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise FleetError(
                        self._access.address, f"the Redis server did not start; the end of its log:\n{self.log_tail()}"
                    )
                time.sleep(_POLL_S)

    def watch(self, users: Iterable[JoinUser]) -> None:
        """Start the server again if it has ended; does not wait for it.

        The intervals between the starts of a server that ends soon after its start grow.
        """
        now = time.monotonic()
        if self._child is None or self._child.poll() is None or now < self._next_start_at:
            return
        _log.warning(
            "the Redis server ended with %d; restarting it. The end of its log:\n%s",
            self._child.returncode,
            self.log_tail(),
        )
        self.n_restarts += 1
        has_worked = now - self._launched_at > MAX_RESTART_S
        self._wait_s = MIN_RESTART_S if has_worked else min(2.0 * self._wait_s, MAX_RESTART_S)
        self._next_start_at = now + self._wait_s
        self._launch(users)

    def log_tail(self) -> str:
        """Return the end of the log of the server."""
        try:
            return (self._folder / "redis.log").read_text(errors="replace")[-_TAIL_BYTES:].strip()
        except OSError:
            return ""

    def close(self) -> None:
        """End the server after it has written everything to the disk; a second call does nothing."""
        child, self._child = self._child, None
        if child is not None:
            child.terminate()
            try:
                child.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._pipe is not None:
            self._pipe.release()
            self._pipe = None

    def _is_loading(self, client: Redis) -> bool | None:
        """Return whether this server loads its data; None if it, or another one at its address, does not answer."""
        try:
            info: Any = client.info()
        except RedisError:
            return None
        return bool(info["loading"]) if info["process_id"] == self.pid else None

    def _launch(self, users: Iterable[JoinUser]) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise FleetError(
                "redis-server",
                "is not installed; install it (Debian: apt install redis-server), or give the address of a server with "
                "--redis",
            )
        with writing(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._pipe is not None:
            self._pipe.release()
        self._pipe = ParentDeathPipe()
        try:
            self._child = subprocess.Popen(  # noqa: S603 - the program that `which` found
                [program, "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._folder,
                pass_fds=(self._pipe.fd,),
                start_new_session=True,  # Ctrl-C in the terminal must reach only this process, which ends the server
            )
        except OSError as error:
            raise FleetError(program, f"cannot be started: {error.strerror}") from error
        self._launched_at = time.monotonic()
        self._pipe.tie(self._child.pid, signal.SIGTERM)
        if self._child.stdin is not None:
            try:
                self._child.stdin.write(self._configuration(users).encode())
                self._child.stdin.close()
            except BrokenPipeError:
                pass  # it has ended; its exit is handled where it is watched

    def _configuration(self, users: Iterable[JoinUser]) -> str:
        host, port, _ = split_address(self._access.address)
        admin = f"user {self._access.user} reset on #{password_hash(self._access.password)} ~* &* +@all"
        lines = [
            f"bind {host}",
            f'dir "{self._folder}"',
            f'logfile "{self._folder / "redis.log"}"',
            "daemonize no",
            'save ""',
            "appendonly yes",
            "appendfsync always",
            "auto-aof-rewrite-min-size 256mb",
            f"maxmemory {self._max_memory_mb}mb",
            "maxmemory-policy noeviction",
            "protected-mode " + ("yes" if is_loopback(host) else "no"),
            "tcp-keepalive 30",
            f"proto-max-bulk-len {MAX_VALUE_BYTES}",
            "user default reset off",
            admin,
        ]
        if self._certificates is None:
            lines.append(f"port {port}")
        else:
            lines += ["port 0", f"tls-port {port}", "tls-auth-clients no"]
            lines += [f'tls-cert-file "{self._certificates.certificate}"', f'tls-key-file "{self._certificates.key}"']
            lines += [f'tls-ca-cert-file "{self._certificates.ca}"']
        lines += [
            f"user {each.name} reset on #{each.password_hash} {' '.join(user_rules(self._access.run, each.name))}"
            for each in users
        ]
        return "\n".join(lines) + "\n"


def set_user(client: Redis, run: str, user: JoinUser) -> None:
    """Make the user of a join file on a running server."""
    rules = user_rules(run, user.name)
    command: Any = client.execute_command  # the library has no type for it
    command("ACL", "SETUSER", user.name, "reset", "on", f"#{user.password_hash}", *rules)


def remove_user(client: Redis, user: str) -> None:
    """Remove the user of a join file from a running server, which ends its connections."""
    command: Any = client.execute_command
    command("ACL", "DELUSER", user)


def free_port(host: str) -> int:
    """Return a port of this machine that no process uses now."""
    with socket.create_server((host, 0)) as server:
        port: int = server.getsockname()[1]
        return port
