"""A process with a fight in memory in the layout of a profile, controlled by its standard input.

Each line is a command with its argument: ``tick 10``, ``restart``, ``truth``. The answer is a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from soulslab.arena.binding import Binding
from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.memory.profile_memory import ProfileMemory, set_process_name
from soulslab.siphon.profile import load_profile


def main(path: str) -> None:
    """Execute commands until the input ends."""
    profile = load_profile(Path(path))
    binding = Binding(profile.duel, profile.attributes)
    game = LiveFight(load_boss("judge", list(load_knight().knock_backs)), LiveFightOptions(seed=1))
    memory = ProfileMemory(profile, binding, game)
    memory.publish(game)
    set_process_name(profile.process.executable)
    say("ready")
    for line in sys.stdin:
        command, *arguments = line.split()
        memory.apply_writes(game)
        for _ in range(int(arguments[0]) if command == "tick" else 0):
            game.tick(("forward",))
        if command == "restart":
            game.restart()
        memory.publish(game)
        truth = {
            name: value.hex() if isinstance(value, bytes) else value.tolist() if hasattr(value, "tolist") else value
            for name, value in binding.values(game).items()
        }
        say(json.dumps({"stage": game.stage, "values": truth}))


def say(line: str) -> None:
    """Print an answer."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
