"""What a server costs: every way is measured, and frames come the way that the table says."""

from benchmarks import siphon_rpc
from benchmarks.siphon_rpc import FRAMES, RpcBenchSettings, measure_rpc


def test_every_way_is_measured():
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
