"""A window of the game that saves a picture of a fight and prints its renderer: RENDERER, FOLDER."""

import sys
from pathlib import Path

from soulslab.arena.window.game_loop import Game, new_fight
from soulslab.arena.window.panda_window import Window
from soulslab.arena.window.settings import WindowSettings

N_TICKS = 90


def main(renderer: str, folder: str) -> None:
    """Play for a while without keys, and save the last picture."""
    window = Window(WindowSettings(size_px=(320, 180), renderer=renderer))
    settings = WindowSettings(seed=3, shows_help=False)
    game = Game(settings, window, new_fight(settings))
    for _ in range(N_TICKS):
        game.fight.tick(())
    # In the second one the camera does not move.
    for _ in range(2):
        game.show()
    window.save_screenshot(Path(folder))
    sys.stdout.write(window.driver + "\n")
    window.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
