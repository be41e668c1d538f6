"""Every reader of HDF5 files, given damaged files; see `support.damaged_files`."""

import shutil
from contextlib import closing
from functools import partial

import h5py
import numpy as np
import pytest

from soulslab.config.hdf5_files import Hdf5Reader
from soulslab.envs.registration import ARENA_ID
from soulslab.envs.trace import read_trace
from soulslab.errors import RecordingError
from soulslab.fights.fit_recordings import read_recorded_fights
from soulslab.fights.recording import FightRecorder, make_fight
from soulslab.learn.demonstrations.data_set_metadata import DATA_NAME, describe
from soulslab.learn.demonstrations.reading import read_demonstrations, read_outcomes
from soulslab.learn.demonstrations.writing import DemonstrationWriter
from soulslab.learn.environment import make_vector
from soulslab.learn.settings import EnvSettings
from soulslab.siphon.recording.reading import read_recording
from support.damaged_files import N, count_refused

SHORT = {"phase": "1", "max_episode_steps": 6}


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
        read = partial(reader.read, fail=partial(RecordingError, path))
        assert count_refused(path, read, reader=reader) > N // 10


class _LastingReader(Hdf5Reader):
    """A reader whose process ends after a crash or with the test: to start one takes longer than to read a file."""

    def __exit__(self, *_):
        pass


@pytest.fixture
def lasting_reader(monkeypatch):
    with closing(_LastingReader()) as reader:
        for module in (
            "soulslab.envs.trace",
            "soulslab.fights.fit_recordings",
            "soulslab.learn.demonstrations.reading",
            "soulslab.siphon.recording.reading",
        ):
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
    assert count_refused(path, read, reader=lasting_reader) > N // 10


def _where_set(path, rng):
    """Change bytes that are not zero, because an HDF5 file consists of padding for the most part."""
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = (rng.randrange(len(data)) for _ in range(1000))
        data[next(at for at in places if data[at])] = rng.choice((rng.randrange(256), 0xFF, 0x7F, 0))
    path.write_bytes(data)


@pytest.fixture(scope="module")
def data_set(tmp_path_factory):
    """A data set of two short fights, and the environment in which they were recorded."""
    folder = tmp_path_factory.mktemp("data_set") / "fights"
    with FightRecorder(folder, ARENA_ID, SHORT, "reference") as recorder:
        for seed in range(2):
            recorder.record_actions(np.zeros(SHORT["max_episode_steps"], np.int64), seed)
    return folder


@pytest.mark.parametrize("kind", ["outcomes", "episodes", "fit", "append"])
def test_data_sets(tmp_path, lasting_reader, data_set, kind):
    folder = shutil.copytree(data_set, tmp_path / "fights")
    with closing(make_vector(ARENA_ID, 1, SHORT)) as vector, closing(make_fight(ARENA_ID, SHORT)) as env:
        settings = EnvSettings(id=ARENA_ID, options=SHORT)

        def append(_):
            with DemonstrationWriter(folder, env, SHORT, "reference", is_continued=True) as writer:
                return writer.seeds

        read = {
            "outcomes": lambda _: read_outcomes(describe(folder)),
            "episodes": lambda _: read_demonstrations(folder, vector, settings, is_masked=True),
            "fit": lambda _: read_recorded_fights([folder]),
            "append": append,
        }[kind]
        assert count_refused(folder / DATA_NAME, read, change=_where_set, reader=lasting_reader) > N // 50
