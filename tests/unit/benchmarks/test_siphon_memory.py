from benchmarks.result import as_rows
from benchmarks.siphon_memory import CACHED, LAYOUTS, ONE_BY_ONE, MemoryBenchSettings, measure_memory


def test_every_method_reads_every_layout():
    result = measure_memory(MemoryBenchSettings(n_reads=2, n_rounds=2))
    rows = as_rows([result])
    assert len(rows) == 4 * len(LAYOUTS)
    assert all(row["us"] > 0 for row in rows)
    ratio = "times as fast as value by value"
    assert {row[ratio] for row in rows if row["read"] == ONE_BY_ONE} == {1.0}
    assert {row["target us"] for row in rows if row["read"] == CACHED} == {25.0}
