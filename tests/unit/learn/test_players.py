"""Policies of every kind come through one door."""

import numpy as np
import pytest

from soulslab.errors import CheckpointError, CorruptCheckpointError, IncompatibleCheckpointError
from soulslab.learn.archive import write_archive
from soulslab.learn.inputs import PixelShape
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.players import load_player, start_from
from soulslab.learn.run_folder import CHECKPOINTS_NAME, POLICY_NAME
from soulslab.learn.settings import NetworkSettings
from support.policies import actor_critic, q_policy

SWITCH = Switch(feature=0, at_most=(0.5,))


@pytest.mark.parametrize(
    "player",
    [actor_critic(), q_policy(), PhasePolicy([q_policy(), actor_critic()], SWITCH)],
    ids=lambda player: type(player).__name__,
)
@pytest.mark.parametrize("is_folder", [True, False])
def test_each_kind_is_known_by_its_file(player, is_folder, tmp_path):
    path = tmp_path / POLICY_NAME
    player.save(path)
    loaded = load_player(tmp_path if is_folder else path)
    assert type(loaded) is type(player)
    assert loaded.header == player.header


def test_convolutions_do_not_matter_beside_residual_ones(tmp_path):
    def policy(seed, **network):
        settings = NetworkSettings(widths=(8,), **network)
        return actor_critic(seed, network=settings, pixels=PixelShape(40, 40, 1))

    path = tmp_path / "policy.safetensors"
    before = policy(1, channels=(2,), convolutions=((3, 4, 2),))
    before.save(path)
    began = policy(2, channels=(2,))
    start_from(began, path)
    np.testing.assert_array_equal(
        began.state()["network/eye.stages.0.entry.weight"], before.state()["network/eye.stages.0.entry.weight"]
    )
    with pytest.raises(IncompatibleCheckpointError, match=r"has network\.channels = \(2,\), but this run has \(\)"):
        start_from(policy(2), path)


def test_folders_without_a_policy(tmp_path):
    with pytest.raises(CheckpointError, match=r"holds no policy.safetensors; is it the folder of a run\?"):
        load_player(tmp_path)
    (tmp_path / CHECKPOINTS_NAME).mkdir()
    with pytest.raises(CheckpointError, match="it has checkpoints: resume the run"):
        load_player(tmp_path)


def test_other_files(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(CheckpointError, match="file: does not exist"):
        load_player(path)
    write_archive(path, {}, {"format": "soulslab-checkpoint", "version": 1})
    with pytest.raises(IncompatibleCheckpointError, match="does not describe its policy, because an older soulslab wr"):
        load_player(path)
    write_archive(path, {}, {"format": "soulslab-chunk", "version": 1})
    with pytest.raises(
        IncompatibleCheckpointError,
        match=r"is not a policy \(format 'soulslab-chunk' instead of one of soulslab-policy, soulslab-action-va",
    ):
        load_player(path)
    path.write_bytes(b"PK\x03\x04 a zip file")
    with pytest.raises(CorruptCheckpointError, match="is truncated or not a checkpoint of soulslab"):
        load_player(path)
    q_policy().save(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptCheckpointError, match="is truncated"):
        load_player(path)
