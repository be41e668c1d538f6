"""A window of the game that prints each event as a line: ``+w``, ``-w``, ``focus``, ``no focus``."""

import sys
import time

from soulslab.arena.window.panda_window import Window
from soulslab.arena.window.settings import WindowSettings

TITLE = "window events"


def main() -> None:
    """Print events until the window is closed."""
    window = Window(WindowSettings(size_px=(160, 90), renderer="software", title=TITLE))
    window.draw()
    had_focus = False
    say("open")
    while window.is_open:
        for event in window.events():
            say(("+" if event.is_press else "-") + event.name)
        if window.has_focus != had_focus:
            had_focus = window.has_focus
            say("focus" if had_focus else "no focus")
        time.sleep(0.002)
    window.close()
    say("closed")


def say(text: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
