"""The benchmark of pattern scans: every method finds the planted patterns."""

import pytest

from benchmarks import siphon_scan
from benchmarks.siphon_scan import PATTERNS, ScanBenchSettings, code_with_patterns, measure_scan_rate
from soulslab.errors import SiphonError


def test_rows():
    result = measure_scan_rate(ScanBenchSettings(n_bytes=2 << 20, n_rounds=1))
    assert [row["way"] for row in result.rows][:2] == [siphon_scan.OURS, siphon_scan.READING]
    assert all(row["GB/s"] > 0 for row in result.rows)
    assert result.rows[0]["ours is faster by"] == 1


def test_the_code_is_reproducible():
    code, places = code_with_patterns(1 << 20)
    assert len(code) == 1 << 20
    assert len(places) == len(PATTERNS)
    assert code_with_patterns(1 << 20) == (code, places)


def test_a_machine_without_programs(monkeypatch, tmp_path):
    (tmp_path / "no program").write_bytes(bytes(100_000))
    monkeypatch.setattr(siphon_scan, "FOLDERS", (tmp_path,))
    with pytest.raises(SiphonError, match="found no programs"):
        code_with_patterns(1 << 20)
