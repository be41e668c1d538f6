"""The benchmark of the devices."""

import msgspec

from benchmarks import device
from benchmarks.device import DeviceBenchSettings, find_devices, measure_devices
from benchmarks.result import as_table
from soulslab.learn.settings import PPOSettings


def test_measures_each_algorithm_on_each_device(monkeypatch):
    # The table does not depend on the sizes of the rollouts.
    small = PPOSettings(n_steps=8, n_epochs=1, minibatch_size=16)
    monkeypatch.setattr(device, "_PPO", {"features": small, "pixels": small})
    monkeypatch.setattr(device, "_N_ENVS", {"features": 4, "pixels": 4})
    (result,) = measure_devices(msgspec.structs.replace(DeviceBenchSettings().quick(), n_updates=1))
    devices = [each.type for each in find_devices()]
    assert [(row["algorithm"], row["inputs"], row["device"]) for row in result.rows] == [
        (algorithm, inputs, name)
        for name in devices
        for inputs in ("features", "pixels")
        for algorithm in ("PPO", "Rainbow")
    ]
    assert all(row["updates/s (median)"] > 0.0 for row in result.rows)
    assert [row["ratio to cpu"] for row in result.rows if row["device"] == "cpu"] == [1.0] * 4
    as_table(result)
