"""Plays Arena-v0 with render_mode="human" and saves pictures of the window to FOLDER; prints the result."""

import sys
import time
from pathlib import Path

import gymnasium

import soulslab  # noqa: F401  (registers the ids)
from soulslab.errors import WindowGoneError

N_STEPS = 10


def main(folder: Path) -> None:
    env = gymnasium.make("soulslab/Arena-v0", render_mode="human")
    arena = env.unwrapped
    env.reset(seed=3)
    window = arena._window
    window._window.save_screenshot(folder)
    started_s = time.monotonic()
    for _ in range(N_STEPS):
        env.step(0)
    sys.stdout.write(f"played {time.monotonic() - started_s}\n")
    window._window.save_screenshot(folder)
    assert env.render() is None
    window.close()
    try:
        env.step(0)
    except WindowGoneError as error:
        sys.stdout.write(f"closed {error}\n")
    env.reset(seed=3)
    env.step(0)
    env.close()
    env.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
