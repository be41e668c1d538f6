"""The check that a game obeys its speed: if it does not, a flag is set; without effect, the game is refused."""

import pytest

from soulslab.envs.tasks.souls.souls_entrance import SPEED_FLAG, TemporaryValues, check_standstill
from soulslab.errors import ClockUnavailableError
from soulslab.games.dark_souls_3 import PROFILE_PATH as DARK_SOULS_3
from soulslab.games.elden_ring import PROFILE_PATH as ELDEN_RING
from soulslab.siphon.session import SessionOptions
from support.scaled_game import ScaledSession


class RunningSession(ScaledSession):
    """A game that runs on between two reads at a speed of 0, unless its flag is set.

    Attributes:
        obeys_flag: Whether the game stands still when the flag is set.
    """

    obeys_flag = True

    def snapshot(self, names=None):
        """Advance some ticks before the read."""
        if not (self.obeys_flag and SPEED_FLAG in self.profile.attributes and self.read(SPEED_FLAG)):
            for _ in range(3):
                self.arena.fight.tick(())
            self.arena._mapped.publish(self.arena.fight)
        return super().snapshot(names)


def opened(kind, path):
    return kind(path, SessionOptions(options={"boss": "judge"}))


@pytest.mark.parametrize("path", [DARK_SOULS_3, ELDEN_RING])
def test_a_game_that_obeys_its_speed_is_not_changed(path):
    with opened(ScaledSession, path) as session:
        session.clock.run(1.0)
        changes = TemporaryValues()
        check_standstill(session, changes)
        assert session.clock.speed == 1.0
        assert not changes.is_set


def test_the_flag_is_set_and_restored():
    with opened(RunningSession, ELDEN_RING) as session:
        before = session.read(SPEED_FLAG)
        changes = TemporaryValues()
        check_standstill(session, changes)
        assert (before, session.read(SPEED_FLAG), changes.is_set) == (False, True, True)
        changes.restore(session)
        assert not session.read(SPEED_FLAG)
        assert not changes.is_set


@pytest.mark.parametrize("path", [DARK_SOULS_3, ELDEN_RING])
def test_a_game_that_runs_on_is_refused(path):
    with opened(RunningSession, path) as session:
        session.obeys_flag = False
        session.clock.run(1.0)
        with pytest.raises(ClockUnavailableError, match=r"runs on at a speed of 0.*game\.speed.*clock='realtime'"):
            check_standstill(session, TemporaryValues())
        assert session.clock.speed == 1.0
