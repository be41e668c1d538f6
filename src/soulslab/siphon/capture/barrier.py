"""Waiting until the X server has drawn everything that the game has requested so far."""

from __future__ import annotations

import logging
import select

import xcffib.sync

from soulslab.siphon.process.x11 import XConnection

LOW_PRIORITY = -1_000_000
#: Longest wait for a busy server; longer than any game takes to draw one frame, also on a busy machine.
PATIENCE_S = 1.0
#: Longest wait after a first timeout: a client sends without pause, so a frame may be outdated.
SHORT_PATIENCE_S = 0.02

_log = logging.getLogger(__name__)


class Barrier:
    """A separate connection whose requests the server handles only when no other client has any.

    A server serves its clients in turns, so a reply to our request does not mean that earlier requests of the game have
    been drawn; measured with a program that does not wait for its own drawing, 1 frame in 100 was outdated. The server
    prefers clients of higher priority (SYNC extension, SetPriority), so a reply to a client of lowest priority does
    mean that.

    The server checks for requests of other clients only when a client's turn ends. A request that arrives during our
    turn would be answered in that turn, so each request is preceded by one that ends the turn: a change of priority.

    Args:
        x: Connection that receives the events.
    """

    def __init__(self, x: XConnection) -> None:
        self._x = x
        self._patience_s = PATIENCE_S
        self._own = XConnection(x.display)
        try:
            self._has_priority = x.has_extension(xcffib.sync.key)
            if self._has_priority:
                self._prepare()
        except BaseException:
            self._own.close()
            raise

    def wait(self) -> None:
        """Wait for the server; afterwards all earlier events have arrived at the connection too.

        Raises:
            DisplayError: The display has ended.
        """
        if self._x.wait_until_idle():
            return
        with self._own.using("wait for the display"):
            if self._has_priority:
                self._end_turn()
            cookie = self._own.core.GetInputFocus()
            self._own.raw.flush()
            if self._has_priority:
                is_idle = bool(self._poll.poll(self._patience_s * 1000))
                if not is_idle:
                    self._hurry()
                self._patience_s = PATIENCE_S if is_idle else SHORT_PATIENCE_S
            cookie.reply()

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        self._own.close()

    def _prepare(self) -> None:
        """Set the lowest priority."""
        own = self._own
        self._poll = select.poll()
        self._poll.register(own.fileno(), select.POLLIN)
        with own.using("wait for the display"):
            # A resource of this connection, by which the other connection can refer to it.
            self._name = own.raw.generate_id()
            own.core.CreatePixmap(own.root_depth, self._name, own.root, 1, 1, is_checked=True).check()
        for connection in (own, self._x):
            sync = connection.extension(xcffib.sync.key)
            with connection.using("wait for the display"):
                sync.Initialize(3, 1).reply()
        self._set_priority(LOW_PRIORITY)
        self._is_lower = False

    def _end_turn(self) -> None:
        """Make the server check for requests of other clients before it continues with ours."""
        self._is_lower = not self._is_lower
        self._own.extension(xcffib.sync.key).SetPriority(0, LOW_PRIORITY - self._is_lower)

    def _hurry(self) -> None:
        """Get the reply although another client sends without pause."""
        if self._patience_s != SHORT_PATIENCE_S:
            _log.warning("X display %s does not become idle; captured images may be out of date", self._own.display)
        self._set_priority(0)
        # Ending our turn sets the low priority again.
        while not self._poll.poll(SHORT_PATIENCE_S * 1000):
            self._set_priority(0)
        self._set_priority(LOW_PRIORITY)
        # Otherwise the next request might set the current priority, which does not end the turn.
        self._is_lower = False

    def _set_priority(self, priority: int) -> None:
        with self._x.using("wait for the display"):
            self._x.extension(xcffib.sync.key).SetPriority(self._name, priority, is_checked=True).check()
