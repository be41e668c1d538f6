"""A client process that holds keys: ``python -m support.siphon_client ADDRESS TOKEN KEY...``.

It prints its id on the server once the keys are pressed, and steps until its standard input ends.
"""

import json
import os
import sys
import threading

from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.session import Step


def main():
    """Hold the keys and step."""
    address, token, *keys = sys.argv[1:]
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    with connect(address, token=token) as game:
        looks = game.watch(100.0, ["ticks"], FrameFormat(8, 8))
        next(looks)
        step = Step(held=tuple(keys), advance_s=1 / 60, frame=FrameFormat(84, 84, True))
        game.step(step)
        sys.stdout.write(json.dumps({"pid": os.getpid(), "shares_memory": game.shares_memory}) + "\n")
        sys.stdout.flush()
        while not is_over.is_set():
            game.step(step)


if __name__ == "__main__":
    main()
