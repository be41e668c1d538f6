"""Facts of the toy game for the session contract."""

from soulslab.testing.fake_session import TICK_HZ
from soulslab.testing.session_contract import ContractGame

TOY_GAME = ContractGame(
    number="hp",
    number_value=40,
    outside=5000,
    other="level",
    other_value=7,
    fixed="ticks",
    tick="ticks",
    tick_s=1.0 / TICK_HZ,
    key="W",
    changes="y",
    n_ticks=2,
)
