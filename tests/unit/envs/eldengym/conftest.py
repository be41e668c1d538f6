"""EldenGym's environment on the built-in fight, in memory that is laid out as Elden Ring's own profile says."""

import pytest

from soulslab.envs import eldengym
from soulslab.games.elden_ring import PROFILE_PATH
from support.masked_game import MaskedSession


class MaskedGame(MaskedSession):
    """A session whose game can be started again: there is one such program in a process at a time."""

    def _start(self, profile, options):
        if hasattr(self, "arena"):
            self.arena.close()
        return super()._start(profile, options)


@pytest.fixture
def session(tmp_path):
    with MaskedGame(PROFILE_PATH, tmp_path) as one:
        yield one


@pytest.fixture
def make(session):
    """Return what makes an environment over the session."""

    def make_one(name="Margit-v0", **options):
        return eldengym.make(name, session=session, **options)

    return make_one
