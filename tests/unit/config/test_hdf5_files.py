"""Reading of untrusted HDF5 files."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import psutil
import pytest

from soulslab.config.hdf5_files import Hdf5Reader
from soulslab.errors import RecordingError
from support.input_costs import InputCosts
from support.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def reader():
    with Hdf5Reader() as reader:
        yield reader


def read(reader, path, **options):
    return reader.read(path, partial(RecordingError, path), **options)


def test_all_supported_contents(reader, tmp_path):
    path = tmp_path / "ä \udcff.h5"  # a name that is not UTF-8
    arrays = {
        "bool": np.array([True, False]),
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4)),
        "narrow": np.zeros((3, 0), np.uint8),
        "big endian": np.arange(5, dtype=">i4"),
        "half": np.arange(4, dtype=np.float16).reshape(2, 2),
        "large": np.arange(10_000_000, dtype=np.float32),  # more than one part
    }
    with h5py.File(path, "w") as file:
        file.attrs.update({"number": 3, "float": np.float64(0.5), "text": "ä", "list": ["a", "b"], "flags": [True]})
        file.attrs["none"] = h5py.Empty("f8")
        group = file.create_group("group")
        for name, array in arrays.items():
            group.create_dataset(name, data=array)
        group.create_dataset("text", data=["one", "ü", ""], dtype=h5py.string_dtype())
        group["text"].attrs["bytes"] = np.bytes_(b"xyz")
        ragged = group.create_dataset("ragged", 2, h5py.vlen_dtype(np.uint8))
        ragged[0], ragged[1] = np.arange(3, dtype=np.uint8), np.arange(5, dtype=np.uint8)
    root = read(reader, path)
    assert root.attrs == {"number": 3, "float": 0.5, "text": "ä", "list": ["a", "b"], "flags": [True], "none": []}
    group = root.items["group"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(group.array(name), array, strict=True)
        assert group.items[name].shape == array.shape
    assert group.array("text").tolist() == ["one", "ü", ""]
    assert group.items["text"].attrs == {"bytes": b"xyz"}
    assert group.array("ragged").tolist() == [bytes(range(3)), bytes(range(5))]


def test_parts_of_a_file(reader, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for i in range(3):
            file[f"group_{i}/data"] = np.arange(10) + i
    assert list(read(reader, path, only=["group_1"]).items) == ["group_1"]
    np.testing.assert_array_equal(read(reader, path, rows=(4, 6)).items["group_2"].array("data"), [6, 7])
    skipped = read(reader, path, skip=["group_0/data"]).items["group_0"].items["data"]
    assert (skipped.values, skipped.shape) == (None, (10,))
    names = ["group_2", "group_0"]
    items = reader.read_items(path, partial(RecordingError, path), names)
    assert [(name, int(node.array("data")[0])) for name, node in items] == [("group_2", 2), ("group_0", 0)]
    with pytest.raises(RecordingError, match="nowhere"):
        read(reader, path, only=["nowhere"])
    with pytest.raises(ValueError, match="no data set 'data'"):
        read(reader, path).array("data")


def _external_link(file):
    file["link"] = h5py.ExternalLink("/dev/zero", "/a")


def _soft_link(file):
    file["link"] = h5py.SoftLink("/somewhere")


def _external_data(file):
    file.create_dataset("data", 10, "u1", external="/dev/zero")


def _virtual_data(file):
    layout = h5py.VirtualLayout(10, "u1")
    layout[:] = h5py.VirtualSource("/dev/zero", "a", 10)
    file.create_virtual_dataset("data", layout)


def _more_than_there_is(file):
    file.create_dataset("data", (10**6, 10**6), "f8", chunks=(100, 100))


def _huge_chunk(file):
    file.create_dataset("data", (900_000_000,), "u1", chunks=(900_000_000,), compression="gzip")


def _cycle(file):
    file.create_group("a")["a"] = file["/"]


def _compound(file):
    file.create_dataset("data", 3, np.dtype([("a", "f8")]))


def _reference(file):
    file["data"] = file.create_group("a").ref


@pytest.mark.parametrize(
    "fill",
    [
        _external_link,
        _soft_link,
        _external_data,
        _virtual_data,
        _more_than_there_is,
        _huge_chunk,
        _cycle,
        _compound,
        _reference,
    ],
)
def test_references_outside_the_file_and_large_data_are_refused(reader, tmp_path, fill):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        fill(file)
    with pytest.raises(RecordingError, match=r"a\.h5: cannot be read: "):
        read(reader, path)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["data"] = [1]
    assert read(reader, tmp_path / "b.h5").array("data").tolist() == [1]  # the reader still works


def test_a_small_file_with_much_data_is_refused(reader, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["noise"] = np.zeros(1_000_000, np.uint8)
        for i in range(2):
            file.create_dataset(f"group_{i}/zeros", (300, 1_000_000), "u1", chunks=(1, 1_000_000), compression="gzip")
    with pytest.raises(RecordingError, match="group_1/zeros and the data before it have more than 500000000 bytes"):
        read(reader, path)
    assert read(reader, path, rows=(0, 1)).items["group_1"].array("zeros").shape == (1, 1_000_000)


def test_the_limit_is_that_of_all_data_or_of_each_item(reader, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name in "ab":
            file[f"{name}/data"] = np.zeros(1000, np.uint8)
    assert read(reader, path, max_bytes=2000).items.keys() == {"a", "b"}
    assert read(reader, path, max_bytes=None).items.keys() == {"a", "b"}
    with pytest.raises(RecordingError, match="more than 1999 bytes"):
        read(reader, path, max_bytes=1999)
    fail = partial(RecordingError, path)
    assert [name for name, _ in reader.read_items(path, fail, ["a", "b"], max_bytes=1000)] == ["a", "b"]
    with pytest.raises(RecordingError, match="more than 999 bytes"):
        next(reader.read_items(path, fail, ["a"], max_bytes=999))


@pytest.mark.parametrize("make", [lambda path: path.write_text("text"), os.mkfifo, Path.mkdir, lambda _: None])
def test_other_files_are_refused_without_a_process(tmp_path, make):
    make(tmp_path / "a.h5")
    with Hdf5Reader() as reader, pytest.raises(RecordingError, match=r"a\.h5: cannot be read"):
        read(reader, tmp_path / "a.h5")
    assert reader._process is None


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
@pytest.mark.parametrize(
    "statement", ["while True: pass", "data = bytearray(1 << 30)", "import ctypes; ctypes.string_at(0)"]
)
def test_a_process_that_loops_or_crashes_is_an_error(tmp_path, monkeypatch, statement):
    """Run the real process with an injected fault."""
    import soulslab.config.hdf5_files as module  # noqa: PLC0415  (to change its process)

    source = module._CHILD.read_text(encoding="utf-8")
    marker = '    with h5py.File(path, "r") as file:'
    assert marker in source
    faulty = tmp_path / "child.py"
    faulty.write_text(source.replace(marker, f"    {statement}\n{marker}"), encoding="utf-8")
    monkeypatch.setattr(module, "_CHILD", faulty)
    path = tmp_path / "a.h5"
    h5py.File(path, "w").close()
    with (
        Hdf5Reader() as reader,
        InputCosts(reader).limited(statement),
        pytest.raises(RecordingError, match=r"too much time or memory|MemoryError"),
    ):
        read(reader, path)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent")
def test_an_interrupt_ends_the_reader_and_its_process(tmp_path):
    import soulslab.config.hdf5_files as module  # noqa: PLC0415  (where its process is)

    path = tmp_path / "a.h5"
    h5py.File(path, "w").close()
    faulty = tmp_path / "child.py"
    source = module._CHILD.read_text(encoding="utf-8")
    marker = '    with h5py.File(path, "r") as file:'
    stuck = (
        "    import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "print(file=open(path + '.stuck', 'w')); time.sleep(600)\n"
    )
    faulty.write_text(source.replace(marker, stuck + marker), encoding="utf-8")
    program = (
        "import sys; from pathlib import Path; import soulslab.config.hdf5_files as m; from functools import partial\n"
        "from soulslab.errors import RecordingError\n"
        "m._CHILD = Path(sys.argv[1])\n"
        "with m.Hdf5Reader() as reader:\n"
        "    reader._started(); print(reader._process.pid, flush=True)\n"
        "    reader.read(Path(sys.argv[2]), partial(RecordingError, 'a'))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, faulty, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        child = psutil.Process(int(process.stdout.readline()))
        deadline = time.monotonic() + 60
        while not (tmp_path / "a.h5.stuck").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=PATIENCE_S)[1]
        assert not child.is_running()
    finally:
        process.kill()
        process.communicate()
