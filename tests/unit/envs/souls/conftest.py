"""What the tests of bosses of real games share."""

import pytest

from support.souls_env import Souls


@pytest.fixture
def make(tmp_path):
    """Return what makes environments, which are closed in the end."""
    made = []

    def make_one(game, boss, arrange=None, **options):
        made.append(Souls(game, boss, tmp_path, arrange, **options))
        return made[-1]

    yield make_one
    for one in made:
        one.env.close()
