"""Waits until the X server has drawn all that the game has asked it to draw so far."""

from __future__ import annotations

import logging
import select

import xcffib.sync

from soulslab.siphon.process.x11 import XConnection

LOW_PRIORITY = -1_000_000
#: How long to wait for a server that is busy; longer than any game takes to draw one picture, also on a busy machine.
PATIENCE_S = 1.0
#: How long once that was not enough: somebody sends without end, so a picture may be the last but one.
SHORT_PATIENCE_S = 0.02

_log = logging.getLogger(__name__)


class Barrier:
    """A connection of its own whose requests the server handles only when nobody else has any.

    A server takes turns among its clients, so the answer to a request of ours does not mean that what the game had sent
    before was drawn; measured with a program that does not wait for its own drawing, 1 frame in 100 was an old one. The
    server prefers clients of higher priority (SYNC extension, SetPriority), so the answer to one of the lowest does.

    It looks who else has requests only when a client's turn ends. A request that comes while it is still at our last
    one would be answered in that turn, so each of ours is behind one that ends it: that changes the priority.

    Args:
        x: The connection that the events come to.
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
        """Wait for the server; then all events up to now have arrived at the connection too.

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
        """Take the lowest priority."""
        own = self._own
        self._poll = select.poll()
        self._poll.register(own.fileno(), select.POLLIN)
        with own.using("wait for the display"):
            # Something of ours, by which the other connection can name this one.
            self._name = own.raw.generate_id()
            own.core.CreatePixmap(own.root_depth, self._name, own.root, 1, 1, is_checked=True).check()
        for connection in (own, self._x):
            sync = connection.extension(xcffib.sync.key)
            with connection.using("wait for the display"):
                sync.Initialize(3, 1).reply()
        self._set_priority(LOW_PRIORITY)
        self._is_lower = False

    def _end_turn(self) -> None:
        """Have the server look for requests of others, before it goes on with what we ask for next."""
        self._is_lower = not self._is_lower
        self._own.extension(xcffib.sync.key).SetPriority(0, LOW_PRIORITY - self._is_lower)

    def _hurry(self) -> None:
        """Let the answer come although somebody sends without end."""
        if self._patience_s != SHORT_PATIENCE_S:
            _log.warning("X display %s is busy without end; pictures may be old ones", self._own.display)
        self._set_priority(0)
        # What ends our turn takes the low priority once more.
        while not self._poll.poll(SHORT_PATIENCE_S * 1000):
            self._set_priority(0)
        self._set_priority(LOW_PRIORITY)
        # Else the next one might ask for the priority that we have, and end no turn.
        self._is_lower = False

    def _set_priority(self, priority: int) -> None:
        with self._x.using("wait for the display"):
            self._x.extension(xcffib.sync.key).SetPriority(self._name, priority, is_checked=True).check()
