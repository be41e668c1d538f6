"""Input logic common to all backends: held keys, sending of changes, and release when this process dies."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from soulslab.errors import DisplayError, InputError, SessionStateError, WindowGoneError
from soulslab.siphon.keys import Key, key_named
from soulslab.siphon.pad import Pad


class Change(msgspec.Struct, frozen=True):
    """A press or release of a key."""

    key: Key
    is_press: bool


class Sender(Protocol):
    """A stateless backend that sends keys and mouse to one game; `backend` is its name."""

    backend: str

    def check(self, keys: Collection[Key]) -> None:
        """Raise if these keys cannot be sent (`InputError`, `WindowGoneError`), before anything is sent."""

    def send(self, changes: Sequence[Change]) -> None:
        """Send changes in this order; return once they are in the game's queue."""

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse; return once the movement is in the game's queue."""

    def close(self) -> None:
        """Close the backend; all keys have been released before."""


def refuse_pad(pad: Pad) -> None:
    """Raise `InputError` because the session has no pad, unless the pad is at rest."""
    if not pad.is_at_rest:
        raise InputError(
            "the session has no gamepad; let it start the game with the input backend 'pad' (input_backend='pad' in "
            "Python, --input pad on the command line)"
        )


class HeldInput:
    """Keyboard and mouse of one game on a `Sender` (`soulslab.siphon.input.Input`); thread-safe.

    Keys are released at the end of the interpreter at the latest. `set_pad` sets the state of the gamepad.
    """

    def __init__(self, sender: Sender, set_pad: Callable[[Pad], None] = refuse_pad) -> None:
        self.backend = sender.backend
        self._sender = sender
        self._set_pad = set_pad
        self._held: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._is_closed = False
        atexit.register(self.close)

    @property
    def held(self) -> frozenset[str]:
        """Keys and mouse buttons that are held now."""
        return self._held

    def set_held(self, keys: Collection[str], again: Collection[str] = ()) -> None:
        """Hold exactly these keys; see `Input.set_held`. Keys change in alphabetical order."""
        wanted = {name: key_named(name) for name in keys}
        anew = {name for name in again if key_named(name).name in wanted}
        with self._lock:
            self._check_open()
            releases = [Change(key_named(name), False) for name in sorted(self._held - (wanted.keys() - anew))]
            presses = [Change(wanted[name], True) for name in sorted(wanted.keys() - (self._held - anew))]
            if not releases and not presses:
                return
            self._sender.check(wanted.values())
            before, self._held = self._held, frozenset(wanted)
            try:
                self._sender.send([*releases, *presses])
            except BaseException:
                # Every key that may be pressed by now, also after Ctrl-C, must be released at the end.
                self._held = before | self._held
                raise

    def type(self, keys: Collection[str]) -> None:
        """Press and release keys one after another; see `Input.type`. A held key is released first and stays held."""
        typed = [key_named(name) for name in keys]
        with self._lock:
            self._check_open()
            changes = []
            for key in typed:
                is_held = key.name in self._held
                changes += [Change(key, not is_held), Change(key, is_held)]
            if changes:
                self._sender.check(typed)
                self._sender.send(changes)

    def move_mouse(self, dx_px: int, dy_px: int) -> None:
        """Move the mouse relative to its position; see `Input.move_mouse`."""
        with self._lock:
            self._check_open()
            if dx_px or dy_px:
                self._sender.check(())
                self._sender.move_mouse(dx_px, dy_px)

    def set_pad(self, pad: Pad) -> None:
        """Set the state of the gamepad; see `Input.set_pad`."""
        with self._lock:
            self._check_open()
            self._set_pad(pad)

    def close(self) -> None:
        """Release all held keys and close the backend; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            atexit.unregister(self.close)
            held, self._held = self._held, frozenset()
            changes = [Change(key_named(name), False) for name in sorted(held)]
            # If the window or the server has ended, no key is held any more.
            with suppress(WindowGoneError, DisplayError), ExitStack() as closing:
                closing.callback(self._sender.close)
                if changes:
                    self._sender.send(changes)

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionStateError("keys were sent after the input was closed; open the session again")


#: A separate script without imports from soulslab, so that it starts within a tenth of a second.
SCRIPT = Path(__file__).with_name("guard_process.py")
_END_S = 5.0
#: Windows: no console, so that Ctrl-C in the console does not end it; 0 on other systems.
_CREATION_FLAGS = getattr(subprocess, "DETACHED_PROCESS", 0)


class Guard:
    """Releases keys when this process dies, in a small helper process, which starts with the first press.

    A key that was pressed through XTest stays pressed in the X server, and a key that was sent to a game stays pressed
    in the game, when the program that pressed it is killed. No handler runs on SIGKILL, and a library must not replace
    the signal handlers of the program that uses it, so another process watches. It is informed before each press and
    after each release through a pipe; when this process ends for any reason, it releases the remaining keys and ends
    too.

    A recipe describes how to release a key: ``xtest 3 25`` (type of the event, detail) or ``send 0x400001 2 0319...``
    (window, mask, the event in hex); for Windows see `soulslab.siphon.input.windows_guard_process`.

    Args:
        display: Display that the process connects to as a child process does; "" for a display that ends with this
            process, which needs no guard. Windows ignores it.
        script: Program of the process; it needs the standard library only.
    """

    def __init__(self, display: str, script: Path = SCRIPT) -> None:
        self._display = display
        self._script = script
        self._recorded: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, changes: Sequence[Change], recipe: Callable[[Key], str]) -> None:
        """Record the keys that are about to be pressed, even if only for a moment."""
        pressed = {change.key.name: change.key for change in changes if change.is_press}
        if pressed and self._display:
            self._recorded |= pressed.keys()
            self._tell(
                self._process or self._start(), [f"hold {name} {recipe(key)}\n" for name, key in pressed.items()]
            )

    def free(self, changes: Sequence[Change]) -> None:
        """Remove the keys that were released in the end."""
        if self._process is not None:
            last = {change.key.name: change for change in changes}
            released = [name for name, change in last.items() if not change.is_press]
            self._tell(self._process, [f"free {name}\n" for name in released])
            self._recorded.difference_update(released)

    def close(self) -> None:
        """End the process, which releases the keys that are still recorded. A second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None  # noqa: S101  # it was started with a pipe
        if not self._recorded:  # it need not finish its start, which takes a second on a busy machine
            process.kill()
        try:
            process.stdin.close()
            process.wait(_END_S)
        except (OSError, subprocess.TimeoutExpired):  # the pipe is broken if the process has ended
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # On Windows the program of a virtual environment starts the real one as a child, and only that one is needed.
        python = getattr(sys, "_base_executable", "") if sys.platform == "win32" else sys.executable
        try:
            # In a separate session, so that Ctrl-C in the terminal does not end it.
            self._process = subprocess.Popen(  # noqa: S603  # our own script
                [python or sys.executable, "-I", str(self._script), self._display, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                creationflags=_CREATION_FLAGS,
                cwd="/",
            )
        except OSError as error:
            raise InputError(f"cannot start the process that releases keys when this one dies: {error}") from error
        return self._process

    @staticmethod
    def _tell(process: subprocess.Popen[bytes], lines: list[str]) -> None:
        assert process.stdin is not None  # noqa: S101
        try:
            process.stdin.write("".join(lines).encode())
            process.stdin.flush()
        except OSError as error:
            raise InputError(
                f"the process {process.pid} that releases keys when this one dies has ended; open the session again"
            ) from error
