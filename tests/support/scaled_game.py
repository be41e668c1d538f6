"""The built-in fight in the layout of a game, with a scaled clock, as in real games."""

import msgspec

from soulslab.siphon.clock.frame_rate import FrameRate
from soulslab.siphon.clock.scaled import ScaledClock
from soulslab.siphon.local import LocalSession
from support.masked_game import MaskedSession

#: Wall time of a frame. Each read of the game time advances it by a frame, independent of real wall time.
FRAME_S = 1 / 60
#: Frames between two reads of a self-check, in which another game would run by itself.
LOOK_FRAMES = 15
PACE = ("game.speed", "game.fps", "game.has_fps")


def step_by_speed(game, arena):
    """Make a fake game use a scaled clock; the game reads its speed from its memory at each frame."""
    profile, table = arena.profile, arena.table
    passed_s = 0.0

    def game_time():
        nonlocal passed_s
        arena.pass_time(FRAME_S)
        passed_s += FRAME_S * arena.fight.speed
        return passed_s

    def examine(names=None, look=table.examine):
        for _ in range(LOOK_FRAMES):
            game_time()
        return look(names)

    table.examine = examine
    speed = profile.clock.speed_attribute
    game.clock = ScaledClock(
        lambda: table.read(speed),
        lambda value: table.write({speed: value}),
        game_time=game_time,
        frames=FrameRate(profile.clock, table.read, table.write),
    )
    game.info = msgspec.structs.replace(game.info, clock_grade="scaled")
    return game


class ScaledSession(MaskedSession):
    """A session whose clock writes the speed to the game's memory, where the game reads it at its next frame.

    Attributes:
        left: Speed and limit of the frame rate after the session was closed.
    """

    left: tuple[float, ...] = ()

    def _start(self, profile, options):
        game = step_by_speed(super()._start(profile, options), self.arena)
        game.info = msgspec.structs.replace(game.info, version=profile.process.versions[0])
        return game

    def pace(self):
        """Return the game's speed and the limit of its frame rate from memory."""
        return tuple(self.arena.table.read(name) for name in PACE if name in self.profile.attributes)

    def close(self):
        """Close the session, record its final speed, and unmap the game; a second call does nothing."""
        if self.left:
            return
        LocalSession.close(self)
        self.left = self.pace()
        self.arena.close()
