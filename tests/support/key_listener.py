"""A program with a window that prints the received keys, buttons and movements: ``python key_listener.py DISPLAY``.

It reads its socket only after a line ``drain``, and sends no request to the server, so the printed events were in its
queue before. `Listener` starts the program and sends the commands.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

KINDS = {2: "press", 3: "release", 4: "press", 5: "release", 6: "move", 9: "focus", 10: "unfocus"}


class Listener:
    """Runs the program for a test.

    Attributes:
        pid: Process of the program.
        window: Id of the window.
        events: All events so far, as dicts: kind, detail, state, is_sent, time, x, y, is_button.
    """

    def __init__(self, display, *arguments, env=None):
        self.process = subprocess.Popen(
            [sys.executable, __file__, display, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.pid = self.process.pid
        self.events = []
        self.window = json.loads(self.process.stdout.readline())

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def drain(self):
        """Return the events since the last call, without focus events."""
        new = self.ask("drain")
        self.events += new
        return [event for event in new if event["kind"] not in ("focus", "unfocus")]

    def down(self):
        """Return the pressed keycodes, and negated buttons, after all events so far."""
        self.drain()
        down = set()
        for event in self.events:
            detail = -event["detail"] if event.get("is_button") else event["detail"]
            if event["kind"] == "press":
                down.add(detail)
            elif event["kind"] == "release":
                down.discard(detail)
        return down

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def listening(display, *arguments, env=None):
    listener = Listener(display, *arguments, env=env)
    try:
        yield listener
    finally:
        listener.close()


def main(display, *arguments):
    import xcffib  # noqa: PLC0415  # only the program needs it
    import xcffib.xproto  # noqa: PLC0415

    x = xcffib.connect(display)
    core = x.core
    root = x.setup.roots[0].root
    window = x.generate_id()
    mask = 0x1 | 0x2 | 0x4 | 0x8 | 0x40 | 0x200000  # keys, buttons, movement, focus
    place = [int(word) for word in arguments[:4]] or [10, 20, 300, 200]
    core.CreateWindow(24, window, root, *place, 0, 1, 0, xcffib.xproto.CW.EventMask, [mask], is_checked=True).check()
    core.ChangeProperty(0, window, xcffib.xproto.Atom.WM_NAME, xcffib.xproto.Atom.STRING, 8, 8, b"listener")
    core.MapWindow(window, is_checked=True).check()
    while core.GetWindowAttributes(window).reply().map_state != xcffib.xproto.MapState.Viewable:
        pass
    tell(window)
    for line in sys.stdin:
        command, *values = line.split()
        if command == "drain":
            tell([item for item in iter(x.poll_for_event, None) for item in described(item)])
        elif command == "focus":
            core.SetInputFocus(2, window, 0, is_checked=True).check()
            tell(True)
        elif command == "keysym":
            tell(core.GetKeyboardMapping(int(values[0]), 1).reply().keysyms[0])
        elif command == "keymap":
            keys = core.QueryKeymap().reply().keys
            tell([code for code in range(256) if keys[code // 8] >> code % 8 & 1])
        elif command == "close":
            core.DestroyWindow(window, is_checked=True).check()
            tell(True)


def described(event):
    kind = event.response_type & 0x7F
    if kind not in KINDS:
        return
    data = {"kind": KINDS[kind], "detail": event.detail, "is_sent": bool(event.response_type & 0x80)}
    if kind < 9:
        data |= {
            "state": event.state,
            "time": event.time,
            "x": event.event_x,
            "y": event.event_y,
            "root_x": event.root_x,
            "is_same_screen": bool(event.same_screen),
            "is_button": kind in (4, 5),
        }
    yield data


def tell(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
