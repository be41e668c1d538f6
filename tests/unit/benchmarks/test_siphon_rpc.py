"""The benchmark of remote sessions: each transport, call and way of frames is measured."""

import pytest

from benchmarks import siphon_rpc
from benchmarks.siphon_rpc import FRAMES, RpcBenchSettings, measure_rpc


def test_a_row_is_the_difference_from_a_local_session():
    measured = {("here", siphon_rpc.STEP, ""): 0.5, ("here", siphon_rpc.SNAPSHOT, ""): 0.25}
    measured |= {(siphon_rpc.TCP, siphon_rpc.STEP, ""): 0.75, (siphon_rpc.UNIX, siphon_rpc.UNARY, ""): 1.0}
    step = siphon_rpc._row((siphon_rpc.TCP, siphon_rpc.STEP, ""), measured)
    assert (step["ms"], step["in this process (ms)"], step["difference (ms)"]) == (0.75, 0.5, 0.25)
    assert step["reached"] == (siphon_rpc.TARGET_MS >= 0.25)
    snapshot = siphon_rpc._row((siphon_rpc.UNIX, siphon_rpc.UNARY, ""), measured)
    assert (snapshot["difference (ms)"], snapshot["target (ms)"], snapshot["reached"]) == (0.75, None, None)


@pytest.mark.long
def test_measures_every_transport():
    (result,) = measure_rpc(RpcBenchSettings(n_calls=1, n_rounds=1))
    ways = {(row["over"], row["call"], row["frames"]) for row in result.rows}
    for transport in (siphon_rpc.TCP, siphon_rpc.UNIX):
        for call in (siphon_rpc.UNARY, siphon_rpc.SNAPSHOT, siphon_rpc.STEP):
            assert (transport, call, "") in ways
        for frames in FRAMES.values():
            assert {(transport, siphon_rpc.STEP_SMALL, frames), (transport, siphon_rpc.STEP_LARGE, frames)} <= ways
    assert len(ways) == len(result.rows) == 18
    for row in result.rows:
        assert row["ms"] > 0.0
        assert row["difference (ms)"] == row["ms"] - row["in this process (ms)"]
        assert (row["target (ms)"] is None) == (row["reached"] is None)
