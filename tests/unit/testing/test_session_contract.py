"""The fake session passes the contract suite, and the suite detects a faulty session."""

import pytest

from soulslab.errors import SoulslabError
from soulslab.testing.fake_session import FakeSession
from soulslab.testing.session_contract import SessionContract
from support.toy_contract import TOY_GAME


class TestFakeSession(SessionContract):
    @pytest.fixture
    def session(self):
        with FakeSession() as session:
            yield session

    @pytest.fixture
    def game(self):
        return TOY_GAME


class ForgetfulSession(FakeSession):
    """A session with one fault in each method."""

    def write(self, values):
        super().write({name: value for name, value in values.items() if name != "hp"})

    def close(self):
        self.toy.input.set_held(())


@pytest.mark.parametrize(
    "test",
    [
        "test_written_values_are_read",
        "test_all_methods_of_a_closed_session_raise",
        "test_a_with_block_closes_the_session",
    ],
)
def test_the_contract_notices_broken_promises(test):
    check = getattr(SessionContract(), test)
    arguments = (ForgetfulSession(), TOY_GAME)[: check.__code__.co_argcount - 1]
    with pytest.raises((AssertionError, SoulslabError, pytest.fail.Exception)):
        check(*arguments)
