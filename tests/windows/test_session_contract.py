"""The contract suite of sessions, local and remote, with a game on Windows that its lockstep clock holds."""

import msgspec
import pytest

from benchmarks.windows import WindowsBenchSettings, measure_clock
from soulslab.errors import ConfigError, SessionStateError
from soulslab.siphon.local import open_session
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import Step
from soulslab.siphon.tick_alignment import TickAlignment
from soulslab.testing.session_contract import ContractGame, SessionContract
from support.windows_profile import PROFILE, start_options

TICK_S = 1 / 60
FULL_HP = 200


@pytest.fixture(scope="module")
def sessions():
    """The sessions that were opened so far; the tests share the last one, because each start takes seconds."""
    opened = []
    yield opened
    for one in opened:
        one.close()


def is_open(session):
    try:
        return bool(session.info)
    except SessionStateError:
        return False


@pytest.fixture
def local(sessions):
    if not sessions or not is_open(sessions[-1]):
        sessions.append(open_session(PROFILE, start_options()))
    one = sessions[-1]
    assert one.info.clock_grade == "lockstep", one.info.clock_reason
    yield one
    if is_open(one):
        one.input.set_held(())
        one.write({"hp": FULL_HP})


@pytest.fixture
def game():
    return ContractGame(
        number="hp",
        number_value=50,
        outside=2 * 10**9,
        other="presses",
        other_value=60,
        fixed="ticks",
        tick="ticks",
        tick_s=TICK_S,
        key="D",
        changes="x",
        n_ticks=4,
    )


class TestWindowsSession(SessionContract):
    @pytest.fixture
    def session(self, local):
        return local


class TestRemoteWindowsSession(SessionContract):
    @pytest.fixture
    def session(self, local):
        with serve(local, ServerOptions()) as server, connect(server.address, token=server.token) as session:
            yield session


@pytest.mark.parametrize(
    "loop", ["spin", "event", *(pytest.param(name, marks=pytest.mark.long) for name in ("sleep", "coarse"))]
)
def test_each_step_of_a_tick_makes_one_tick_with_other_keys_in_each(loop):
    with open_session(PROFILE, start_options(loop)) as session:
        assert session.info.clock_grade == "lockstep", session.info.clock_reason
        session.clock.pause()
        TickAlignment(session.profile).align(session)
        first = session.read("ticks")
        for n in range(1, 61):
            result = session.step(Step(held=("D",) if n % 2 else ("A",), advance_s=TICK_S, attributes=("ticks",)))
            assert result.snapshot["ticks"] == first + n


def test_the_benchmark_makes_a_tick_in_each_step():
    row = measure_clock("sleep", WindowsBenchSettings(n_steps=10, n_rounds=2))
    assert (row["ticks"], row["steps"]) == (20, 20)
    assert row["steps/s"] > 0


def test_deterministic_starts_are_refused():
    with pytest.raises(ConfigError, match="need Linux"):
        open_session(PROFILE, msgspec.structs.replace(start_options(), deterministic=True))
