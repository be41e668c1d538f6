"""All that the process bridge is measured by: memory, patterns, pictures, calls to a server, and a real game."""

from __future__ import annotations

from soulslab.bench.result import Result
from soulslab.bench.siphon_capture import CaptureBenchSettings, measure_capture
from soulslab.bench.siphon_doom import DoomBenchSettings, measure_doom
from soulslab.bench.siphon_memory import MemoryBenchSettings, measure_memory
from soulslab.bench.siphon_public import PublicBenchSettings, measure_public
from soulslab.bench.siphon_rpc import RpcBenchSettings, measure_rpc
from soulslab.bench.siphon_scan import ScanBenchSettings, measure_scan_rate


def measure_siphon(*, is_quick: bool) -> list[Result]:
    """Measure the process bridge.

    Args:
        is_quick: Rough numbers.

    Raises:
        SiphonError: Xvfb, Doom or its game data is not installed.
    """
    return [
        measure_memory(MemoryBenchSettings.quick() if is_quick else MemoryBenchSettings()),
        measure_scan_rate(ScanBenchSettings.quick() if is_quick else ScanBenchSettings()),
        measure_capture(CaptureBenchSettings.quick() if is_quick else CaptureBenchSettings()),
        *measure_rpc(RpcBenchSettings.quick() if is_quick else RpcBenchSettings()),
        measure_public(PublicBenchSettings.quick() if is_quick else PublicBenchSettings()),
        *measure_doom(DoomBenchSettings.quick() if is_quick else DoomBenchSettings()),
    ]
