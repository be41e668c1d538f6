"""Start of a game in tests."""

from soulslab.siphon.process.launch import start_command
from support.waiting import PATIENCE_S


def launch(process, *, deadline_s=PATIENCE_S, **options):
    """Start a game and wait for its process; the options are those of `start_command`."""
    game = start_command(process, **options)
    try:
        game.find_game(process.executable, deadline_s)
    except BaseException:
        game.kill(grace_s=0.0)
        raise
    return game
