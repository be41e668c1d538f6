"""The benchmark of the devices."""

from benchmarks.device import DeviceBenchSettings, find_devices, measure_devices
from benchmarks.result import as_table


def test_measures_each_algorithm_on_each_device():
    (result,) = measure_devices(DeviceBenchSettings().quick())
    devices = [device.type for device in find_devices()]
    assert [(row["algorithm"], row["inputs"], row["device"]) for row in result.rows] == [
        (algorithm, inputs, device)
        for device in devices
        for inputs in ("features", "pixels")
        for algorithm in ("PPO", "Rainbow")
    ]
    assert all(row["updates/s (median)"] > 0.0 for row in result.rows)
    assert [row["ratio to cpu"] for row in result.rows if row["device"] == "cpu"] == [1.0] * 4
    as_table(result)
