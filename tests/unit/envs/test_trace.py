"""The first difference between two traces, and the files of traces."""

import h5py
import msgspec
import numpy as np
import pytest

from soulslab import cli
from soulslab.envs.trace import (
    HASH_BYTES,
    PixelRegion,
    Trace,
    TraceWriter,
    first_difference,
    hash_frame,
    make_columns,
    read_frame,
    read_trace,
)
from soulslab.errors import RecordingError
from soulslab.siphon.profile import Attribute
from support.broken_output import broken_output


def attribute(kind, **facts):
    return Attribute(base="toy", offsets=(0,), type=kind, source="a test", **facts)


ATTRIBUTES = {
    "hp": attribute("i32"),
    "exp": attribute("u64"),
    "x": attribute("f32"),
    "angle": attribute("i32", scale=0.5),
    "is_hurt": attribute("flag"),
    "name": attribute("utf16", length=16),
    "raw": attribute("bytes", length=3),
    "a/b.c": attribute("f64", length=2),
}
VALUES = {
    "hp": -7,
    "exp": 2**64 - 1,
    "x": 0.25,
    "angle": 1.5,
    "is_hurt": True,
    "name": "Iudex é",
    "raw": b"\0\1\2",
    "a/b.c": np.array([1.0, np.nan]),
}
OTHER = {
    "hp": 8,
    "exp": 2**64 - 2,
    "x": -0.0,
    "angle": 2.0,
    "is_hurt": False,
    "name": "Iudex",
    "raw": b"\0\1\3",
    "a/b.c": np.array([1.0, 2.0]),
}


def make_frame(seed):
    return np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)


def make_trace(n_steps=5, changes=None, frames=None, held=None):
    """Return a trace; `changes` are values by step (from 0); None is an unreadable value."""
    rows = []
    for step in range(n_steps):
        row = {**VALUES, **(changes or {}).get(step, {})}
        rows.append({name: value for name, value in row.items() if value is not None})
    pixels = [(frames or {}).get(step, make_frame(step)) for step in range(n_steps)]
    return Trace(
        facts={"game": "Toy", "episode": 1, "seed": 0, "step_ticks": 1},
        held=held or [("W", "RIGHT_CTRL") if step % 2 else () for step in range(n_steps)],
        columns=make_columns(rows, ATTRIBUTES),
        frame_hashes=np.frombuffer(b"".join(map(hash_frame, pixels)), np.uint8).reshape(-1, HASH_BYTES),
        frame=pixels.__getitem__,
    )


def write(path, trace):
    with TraceWriter(path) as writer:
        for step in range(len(trace)):
            writer.add_frame(trace.frame(step))
        writer.finish(trace)
    return path


def test_equal_traces_have_no_difference():
    assert first_difference(make_trace(), make_trace()) is None


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_value_that_differs_is_found_in_every_type(name):
    one, two = make_trace(), make_trace(changes={3: {name: OTHER[name]}, 4: {"hp": 99}})
    difference = first_difference(one, two)
    assert (difference.step, difference.problem, difference.has_other_frame) == (4, "", False)
    assert difference.held == (("W", "RIGHT_CTRL"),) * 2
    (first, second) = difference.values.pop(name)
    assert not difference.values
    expected = [np.frombuffer(value, np.uint8) if name == "raw" else value for value in (VALUES[name], OTHER[name])]
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(second, expected[1])


def test_a_difference_is_written_to_a_file_before_it_is_printed(tmp_path):
    one, two = write(tmp_path / "one.h5", make_trace()), write(tmp_path / "two.h5", make_trace(changes={3: {"hp": 8}}))
    file = tmp_path / "difference.json"
    with broken_output(), pytest.raises(BrokenPipeError):
        cli.run(["siphon", "compare", str(one), str(two), "--json", str(file)])
    (row,) = msgspec.json.decode(file.read_bytes())
    assert row["step"] == 4


def test_zeros_of_both_signs_differ_and_nans_are_equal():
    assert first_difference(make_trace(changes={1: {"x": 0.0}}), make_trace(changes={1: {"x": -0.0}})).step == 2
    nan = {1: {"x": float("nan")}}
    assert first_difference(make_trace(changes=nan), make_trace(changes=nan)) is None


def test_an_unreadable_value_differs_from_zero():
    difference = first_difference(make_trace(changes={2: {"hp": None}}), make_trace(changes={2: {"hp": 0}}))
    assert (difference.step, difference.values) == (3, {"hp": (None, 0)})
    unreadable = {2: {"hp": None, "name": None, "a/b.c": None}}
    assert first_difference(make_trace(changes=unreadable), make_trace(changes=unreadable)) is None


def test_the_region_of_the_pixels_that_differ():
    frame = make_frame(2)
    frame[1, 3] ^= 1
    frame[4, 5, 2] ^= 128
    difference = first_difference(make_trace(), make_trace(frames={2: frame}))
    assert (difference.step, difference.values, difference.has_other_frame) == (3, {}, True)
    assert difference.region == PixelRegion(left_px=3, top_px=1, width_px=3, height_px=4, n_pixels=2)


def test_frames_of_different_sizes_differ_without_a_region():
    difference = first_difference(make_trace(), make_trace(frames={0: make_frame(0).reshape(8, 6, 3)}))
    assert (difference.step, difference.has_other_frame, difference.region) == (1, True, None)


@pytest.mark.parametrize("lengths", [(3, 5), (5, 3)])
def test_a_trace_that_ends_earlier(lengths):
    difference = first_difference(*map(make_trace, lengths))
    assert (difference.step, difference.values) == (4, {})
    assert difference.problem == f"one trace has {lengths[0]} steps, the other {lengths[1]}"


def test_a_difference_before_the_end_of_the_shorter_trace_is_first():
    assert first_difference(make_trace(3), make_trace(5, {1: {"hp": 0}})).step == 2


def test_traces_with_other_keys_or_attributes_cannot_be_compared():
    difference = first_difference(make_trace(), make_trace(held=[(), ("A",), (), (), ()]))
    assert (difference.step, difference.held) == (2, (("W", "RIGHT_CTRL"), ("A",)))
    assert "keys differ" in difference.problem
    one = make_trace()
    fewer = {name: column for name, column in one.columns.items() if name != "hp"}
    difference = first_difference(one, msgspec.structs.replace(one, columns=fewer))
    assert (difference.step, difference.problem) == (1, "only one of the traces has the attributes hp")


def test_a_file_contains_the_complete_trace(tmp_path):
    trace = make_trace(70, changes={2: {"hp": None, "name": None}})
    path = write(tmp_path / "toy.h5", trace)
    found = read_trace(path)
    assert first_difference(trace, found) is None
    assert first_difference(found, trace) is None
    assert (found.facts, found.held, list(found.columns)) == (trace.facts, trace.held, list(ATTRIBUTES))
    np.testing.assert_array_equal(found.frame(69), make_frame(69))
    np.testing.assert_array_equal(read_frame(path, 0), make_frame(0))
    with h5py.File(path) as file:
        assert file["frames"].shape == (70, 6, 8, 3)
        assert file["frames"].compression == "gzip"


def test_a_trace_of_a_game_without_attributes(tmp_path):
    trace = msgspec.structs.replace(make_trace(3), columns={})
    found = read_trace(write(tmp_path / "toy.h5", trace))
    assert (found.columns, len(found)) == ({}, 3)
    assert first_difference(trace, found) is None


def test_a_file_that_was_not_finished_is_deleted(tmp_path):
    path = tmp_path / "toy.h5"
    with pytest.raises(ZeroDivisionError), TraceWriter(path) as writer:
        writer.add_frame(make_frame(0))
        raise ZeroDivisionError
    assert not path.exists()


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(RecordingError, match=r"nowhere.*toy\.h5: cannot be written"):
        TraceWriter(tmp_path / "nowhere" / "toy.h5")


def damage(path, how):
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "text":
        path.write_text("not a trace")
    elif how == "missing":
        path.unlink()
    else:
        with h5py.File(path, "r+") as file:
            if how == "other format":
                file.attrs["format"] = 99
            elif how == "without keys":
                del file["keys"]
            elif how == "other lengths":
                file["frames"].resize(2, axis=0)
            elif how == "without values":
                del file["values"]["hp"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated", "cannot be read as a trace"),
        ("text", "cannot be read as a trace"),
        ("missing", "cannot be read as a trace"),
        ("other format", "not a trace of format 1"),
        ("without keys", "it has no keys"),
        ("other lengths", "different lengths"),
        ("without values", "cannot be read as a trace"),
    ],
)
def test_the_error_of_a_damaged_file_names_it(tmp_path, how, words):
    path = write(tmp_path / "toy.h5", make_trace())
    damage(path, how)
    with pytest.raises(RecordingError, match=words) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)


def test_a_damaged_frame_is_an_error_when_it_is_read(tmp_path):
    path = write(tmp_path / "toy.h5", make_trace())
    other = make_frame(1)
    other[0, 0] ^= 1
    with h5py.File(path) as file:
        place = file["frames"].id.get_chunk_info(1).byte_offset
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 16)
    found = read_trace(path)
    assert first_difference(found, make_trace()) is None
    with pytest.raises(RecordingError, match="the frame of step 2 cannot be read"):
        first_difference(found, make_trace(frames={1: other}))
