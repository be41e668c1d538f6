"""Every reader of a file, given damaged files: an error of the tree, 2 s of CPU time and 500 MB at most.

Each reader has a small whole file, of which it reads 200 damaged copies, in the long form 3,000; resumed runs read a
quarter of that, because each trains. Bytes are changed at
random; where a checksum protects them, what the checksum covers is changed and signed again, as an attacker would.
"""

# ruff: noqa: S311  (seeds are what these are about)

import json
import random
import re
import shutil
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import h5py
import msgspec
import numpy as np
import pytest

from soulslab.arena.boss_file import BOSS_DIR, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.key_log import KeyLogWriter, read_key_log
from soulslab.arena.window.settings import read_keys
from soulslab.compat.eldengym.eldengym_options import read_keybinds
from soulslab.config import dump_settings, load_settings
from soulslab.config.hdf5_files import Hdf5Reader
from soulslab.envs.trace import read_trace
from soulslab.envs.wrappers.boundary import Boundary, load_boundary, save_boundary
from soulslab.errors import RecordingError, SoulslabError
from soulslab.games import profile_path
from soulslab.learn.archive import read_archive, write_archive
from soulslab.learn.checkpoint import CheckpointStore
from soulslab.learn.demonstrations.data_set_metadata import METADATA_NAME, describe
from soulslab.learn.phases import PhasePolicy, Switch
from soulslab.learn.players import load_player
from soulslab.learn.settings import TrainSettings
from soulslab.learn.sinks.json_lines_sink import read_json_lines
from soulslab.learn.train import train
from soulslab.learn.training import load_run_settings
from soulslab.learn.tuning.settings import load_tune_settings
from soulslab.siphon.profile import load_profile
from soulslab.siphon.recording.reading import read_recording
from support.long_form import IS_LONG
from support.policies import actor_critic, q_policy

N = 3000 if IS_LONG else 200
MAX_CPU_S = 2.0
MAX_MEMORY_BYTES = 500 << 20
KNOCK_BACKS = list(load_knight().knock_backs)
ODD = [None, True, -1, 0, 2**31, 2**63, 1e308, -0.5, "", "x" * 300, "\0", "/dev/zero", [], {}, [[]] * 3]
PIECES = [b"", b"\0", b"\xff", b"[[", b"]]", b"{", b"}", b'"', b"=", b"a.a.", b"99999999999999999999", b"1e999", b"nan"]


def _mutated(data, rng):
    """Return bytes with some changed, removed, doubled or put in."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] = rng.randrange(256)
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.choice((1, 4, 64))]
            case 3:
                data[at:at] = data[at : at + rng.choice((8, 200))]
            case 4:
                data[at:at] = rng.choice(PIECES) * rng.choice((1, 1, 1, 20_000))
            case _:
                del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def _changed(value, rng):
    """Return JSON with something odd in one place."""
    if not isinstance(value, list | dict) or not value or rng.random() < 0.15:
        return rng.choice([*ODD, 3_000_000])
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = _changed(copy[key], rng)
    return copy


def _signed(path, rng):
    """Change the header or a tensor of an archive, and sign it again."""
    tensors, header = read_archive(path)
    name = rng.choice(list(tensors))
    match rng.randrange(4):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = rng.choice(
                [
                    np.full_like(tensors[name], np.nan if tensors[name].dtype.kind == "f" else 7),
                    tensors[name].ravel()[:1],
                    np.zeros((1, 2, 3)),
                ]
            )
        case _:
            header = _changed(header, rng)
    write_archive(path, tensors, header if isinstance(header, dict) else {})


def _memory_bytes():
    """Return the most memory that this process had since `_forget_memory`."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def _forget_memory():
    Path("/proc/self/clear_refs").write_text("5")


def _fuzz(path, read, n=N, change=None):
    """Read n damaged files; return how many were refused."""
    whole, n_refused = path.read_bytes(), 0
    read(path)  # compiles and imports what it needs
    if sys.platform == "linux":
        _forget_memory()
        before = _memory_bytes()
    for seed in range(n):
        rng = random.Random(seed)
        if change is None:
            path.write_bytes(_mutated(whole, rng))
        else:
            path.write_bytes(whole)
            change(path, rng)
        start_s = time.process_time()
        try:
            read(path)
        except SoulslabError as error:
            n_refused += 1
            assert len(str(error)) < 30_000, seed
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        assert time.process_time() - start_s < MAX_CPU_S, seed
    if sys.platform == "linux":
        assert _memory_bytes() - before < MAX_MEMORY_BYTES
    return n_refused


# --- text ---------------------------------------------------------------------------------------------------


STUDY = "[study]\nn_trials = 4\n[search]\nlr = { low = 0.1, high = 1, log = true }\n"
TOML_READERS = {
    "settings": (lambda: dump_settings(TrainSettings()), partial(load_settings, TrainSettings)),
    "study": (lambda: STUDY, load_tune_settings),
    "profile": (lambda: profile_path(Path("elden_ring")).read_text(encoding="utf-8"), load_profile),
    "boss": (lambda: (BOSS_DIR / "judge.toml").read_text(encoding="utf-8"), lambda path: load_boss(path, KNOCK_BACKS)),
    "keys": (lambda: 'roll = "LEFT_SHIFT"\n[pad]\nroll = "face_a"\n', read_keys),
    "boundary": (lambda: "format = 1\n[[rings]]\npoints = [[0, 0], [9, 0], [9.5, 9], [0, 9]]\n", load_boundary),
}


@pytest.mark.parametrize("name", TOML_READERS)
def test_toml(tmp_path, name):
    text, read = TOML_READERS[name]
    path = tmp_path / "file.toml"
    path.write_text(text(), encoding="utf-8")
    assert _fuzz(path, read) > N // 4


def test_keybinds(tmp_path):
    path = tmp_path / "keybinds.json"
    actions = {"attack": {"index": 0, "key": "P"}, "roll": {"index": 1, "key": "K"}}
    path.write_text(json.dumps({"version": "2.0", "actions": actions}))
    assert _fuzz(path, read_keybinds) > N // 4


def test_key_log(tmp_path):
    path = tmp_path / "fight.keys"
    game = LiveFight(load_boss("judge", KNOCK_BACKS), LiveFightOptions(phase="full", random_pose=False, seed=1))
    writer = KeyLogWriter(path, game, "judge")
    for _ in range(200):
        game.replay_tick(0)
        writer.tick(game)
    writer.log_write(game, game.digest())
    writer.close(game)
    assert _fuzz(path, read_key_log) > N // 4


def test_json_lines(tmp_path):
    path = tmp_path / "progress.jsonl"
    path.write_text('{"type":"EvaluationProgress","n_done":1,"n_fights":2,"n_wins":1}\n' * 5)
    assert _fuzz(path, lambda path: list(read_json_lines(path))) > N // 4


def test_the_description_of_a_data_set(tmp_path):
    spec = json.dumps({"id": "soulslab/Arena-v0", "kwargs": {"boss": "judge"}})
    spaces = {"observation_space": "{}", "action_space": "{}", "data_format": "hdf5"}
    path = tmp_path / METADATA_NAME
    path.write_text(json.dumps({"env_spec": spec, **spaces, "total_episodes": 3, "total_steps": 30}))
    assert _fuzz(path, lambda path: describe(path.parent)) > N // 4


def test_boundary_npz(tmp_path):
    path = tmp_path / "ring.npz"
    save_boundary(Boundary([[(0, 0), (9, 0), (9.5, 9), (0, 9)]]), path)
    assert _fuzz(path, load_boundary) > N // 4


# --- archives -----------------------------------------------------------------------------------------------


POLICIES = {
    "actor-critic": actor_critic,
    "action values": q_policy,
    "phases": lambda: PhasePolicy([q_policy(1), actor_critic(2)], Switch(feature=2, at_most=(0.5,))),
}


@pytest.mark.parametrize("change", [None, _signed], ids=["bytes", "signed"])
@pytest.mark.parametrize("kind", POLICIES)
def test_policies(tmp_path, kind, change):
    path = tmp_path / "policy.safetensors"
    POLICIES[kind]().save(path)
    assert _fuzz(path, load_player, change=change) > N // 4


@pytest.mark.parametrize("change", [None, _signed], ids=["bytes", "signed"])
def test_checkpoints(tmp_path, change):
    policy = q_policy()
    header = {"policy": msgspec.to_builtins(policy.header), "settings": {}}
    tensors = {f"policy/{name}": tensor for name, tensor in policy.state().items()}
    tensors["learner/average"] = policy.network.parameters_flat.numpy().copy()
    path = CheckpointStore(tmp_path, 3).save(5, tensors, header)
    whole = path.read_bytes()
    assert _fuzz(path, load_player, change=change) > N // 4
    path.write_bytes(whole)
    assert _fuzz(path, lambda _: CheckpointStore(tmp_path, 3).latest(), n=N // 4, change=change) >= 0


# --- HDF5 ---------------------------------------------------------------------------------------------------


def _write_hdf5(path):
    text = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        file.attrs.update({"kind": "trace", "format": 1, "game": "toy"})
        file["keys"] = np.array(["W", "A D", ""], object)
        file["frame_hashes"] = np.zeros((3, 32), np.uint8)
        file.create_dataset("frames", data=np.zeros((3, 8, 8, 3), np.uint8), chunks=(1, 8, 8, 3), compression="gzip")
        file["unreadable"] = np.zeros((3, 2), np.uint8)
        file["unreadable"].attrs["attribute_names"] = ["hp", "name"]
        for name, values, dtype in (("hp", [1, 2, 3], "<i4"), ("name", ["a", "b", "c"], text)):
            file.create_dataset(f"values/{name}", data=values, dtype=dtype, maxshape=(None,)).attrs["attribute"] = name


def test_hdf5(tmp_path):
    path = tmp_path / "file.h5"
    _write_hdf5(path)
    with Hdf5Reader() as reader:
        assert _fuzz(path, lambda path: reader.read(path, partial(RecordingError, path))) > N // 10


@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_states_of_runs(tmp_path, algorithm):
    learner = ("learner.n_steps=8", "learner.minibatch_size=8")
    if algorithm == "rainbow":
        learner = ("learner.batch_size=8", "learner.learning_starts=16", "replay.capacity=256", "run.evaluate_every=0")
    common = (f"algorithm={algorithm}", "env.n_envs=4", "network.widths=[8]", *learner)
    # Resumed runs take one step, or one rollout of 8 steps, in each of the 4 environments.
    n_more = {"rainbow": 4, "ppo": 32}[algorithm]
    begun, resumed = (load_run_settings(None, [*common, f"run.total_steps={n}"]) for n in (128, 128 + n_more))
    train(begun, tmp_path / "run")

    def resume(path):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        train(resumed, tmp_path / "copy", resume=True)

    (path,) = (tmp_path / "run" / "checkpoints").glob("*.safetensors")
    assert _fuzz(path, resume, n=N // 4, change=_signed) > N // 16


class _LastingReader(Hdf5Reader):
    """A reader whose process ends after a crash or with the test: to start one takes longer than to read a file."""

    def __exit__(self, *_):
        pass


@pytest.fixture
def lasting_reader(monkeypatch):
    with closing(_LastingReader()) as reader:
        for module in ("soulslab.envs.trace", "soulslab.siphon.recording.reading"):
            monkeypatch.setattr(f"{module}.Hdf5Reader", lambda: reader)
        yield reader


@pytest.mark.parametrize("read", [read_trace, read_recording])
def test_readers_of_hdf5(tmp_path, lasting_reader, read):
    path = tmp_path / "file.h5"
    _write_hdf5(path)
    if read is read_recording:
        names = ["hp"]
        with h5py.File(path, "w") as file:
            file.attrs["format"] = 1
            for name, shape in (("timestamps", 3), ("game_time_s", 3), ("latencies", (3, 5))):
                file[name] = np.zeros(shape)
            for name, attribute in (("memory_data", names), ("inputs", names), ("unreadable", names)):
                file[name] = np.zeros((3, 1), np.uint8)
                file[name].attrs["key_mapping" if name == "inputs" else "attribute_names"] = attribute
    assert _fuzz(path, read) > N // 10
