"""The device of the network that is trained."""

import msgspec
import numpy as np
import pytest
import torch

from soulslab.errors import ConfigError
from soulslab.learn.inputs import Inputs
from soulslab.learn.policy import Policy, PolicyHeader
from soulslab.learn.ppo.rollout import Rollout
from soulslab.learn.rainbow.q_network import QNetwork
from soulslab.learn.rainbow.rainbow_settings import QNetworkSettings, RainbowSettings
from soulslab.learn.settings import NetworkSettings, TrainSettings
from soulslab.learn.torch_device import CPU, select_device
from soulslab.learn.train import train

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.mark.parametrize("settings_type", [TrainSettings, RainbowSettings])
def test_default_is_cpu(settings_type):
    assert settings_type().run.device == "cpu"
    assert select_device("cpu") == CPU


@needs_no_gpu
def test_auto_without_gpu_is_cpu():
    assert select_device("auto") == CPU


@needs_no_gpu
@pytest.mark.parametrize("settings_type", [TrainSettings, RainbowSettings])
def test_cuda_without_gpu_is_reported_before_anything_is_made(settings_type, tmp_path):
    settings = msgspec.convert({"run": {"device": "cuda"}, "env": {"id": "toys/Nowhere-v0"}}, settings_type)
    with pytest.raises(ConfigError, match="finds no usable GPU; set it to 'auto' or 'cpu'") as error:
        train(settings, tmp_path / "run")
    assert error.value.path == "run.device"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("settings_type", [TrainSettings, RainbowSettings])
def test_unknown_device_is_refused(settings_type):
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'tpu'"):
        msgspec.convert({"run": {"device": "tpu"}}, settings_type)


# torch's meta device has no data. As on a GPU, an operation fails if one of its tensors is on the CPU.
META = torch.device("meta")


def devices(network):
    return {parameter.device for parameter in network.parameters()}


def test_network_of_ppo_is_on_the_device():
    header = PolicyHeader(
        env_id="toys/Corridor-v0",
        env_options={},
        n_features=6,
        n_actions=4,
        network=NetworkSettings(widths=(16,)),
        soulslab="",
        commit="",
    )
    policy = Policy(header, device=META)
    logits, values = policy.network.estimate(policy._see_all(Inputs(np.zeros((3, 6), np.float32))))
    assert devices(policy.network) == {logits.device, values.device} == {META}


@pytest.mark.parametrize("pixels", [None, (32, 32, 4)])
def test_network_of_rainbow_is_on_the_device(pixels):
    settings = QNetworkSettings(widths=(16,), n_quantiles=8)
    network = QNetwork(6, 4, settings, torch.Generator(), pixels=pixels, device=META)
    images = torch.zeros(5, *pixels, dtype=torch.uint8, device=META) if pixels is not None else None
    with torch.no_grad():
        quantiles = network.forward_both(torch.zeros(5, 6, device=META), images, 3)
        network.backward(torch.zeros(3, 8), torch.zeros(3, 1, dtype=torch.int64))
    assert quantiles.shape == (5, 4, 8)
    assert devices(network) == {quantiles.device, network.gradients_flat.device} == {META}


def test_minibatch_moves_to_the_device():
    rollout = Rollout(n_steps=2, n_envs=3, n_features=4, n_actions=5, pixels=(8, 8, 1))
    for device in (META, CPU):
        for batch in (
            rollout.select(torch.arange(4)).to(device),
            rollout.select_environments(torch.arange(2)).to(device),
        ):
            assert {tensor.device for tensor in batch if tensor is not None} == {device}


@needs_no_gpu
def test_auto_gives_the_results_of_cpu(corridor, tmp_path):
    """The name of the device is part of a checkpoint, but no tensor depends on it."""
    settings = msgspec.structs.replace(corridor, run=msgspec.structs.replace(corridor.run, total_steps=512))
    policies = []
    for device in ("cpu", "auto"):
        run = msgspec.structs.replace(settings.run, device=device)
        train(msgspec.structs.replace(settings, run=run), tmp_path / device)
        policies.append(Policy.load(tmp_path / device / "policy.safetensors").state())
    for name, tensor in policies[0].items():
        np.testing.assert_array_equal(tensor, policies[1][name])
