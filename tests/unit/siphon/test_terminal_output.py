"""Terminal output of a session with the toy."""

from __future__ import annotations

import io

import cv2
import msgspec
import numpy as np
import pytest
from rich.console import Console

from soulslab.errors import (
    AccessRefusedError,
    ConfigError,
    ProcessExitedError,
    ServerUnavailableError,
    UnknownAttributeError,
    WaitTimeoutError,
)
from soulslab.siphon.profile import Attribute
from soulslab.siphon.recording.reading import read_recording
from soulslab.siphon.recording.recorder import RecordingOptions
from soulslab.siphon.session import Frame, SessionOptions
from soulslab.siphon.terminal_output import (
    attribute_table,
    format_value,
    info_table,
    parse_values,
    record,
    save_frame,
    watch,
)
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession


@pytest.fixture
def session():
    with FakeSession() as session:
        yield session


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def printed(*tables):
    console = Console(file=io.StringIO(), width=200)
    console.print(*tables)
    return console.file.getvalue()


def test_tables_show_all_entries(session):
    assert str(session.info.pid) in printed(info_table(session.info))
    table, n_errors = attribute_table(session)
    assert n_errors == 0
    assert all(name in printed(table) for name in TOY_PROFILE.attributes)


def test_a_session_without_a_window_has_no_window_in_its_info():
    with FakeSession(SessionOptions(with_window=False)) as session:
        assert "window" not in printed(info_table(session.info))


def test_a_value_that_cannot_be_read_leaves_the_others(session):
    session.toy.values["hp"] = 500
    table, n_errors = attribute_table(session, ["hp", "ticks"])
    assert n_errors == 1
    said = printed(table)
    assert "outside its plausible range" in said
    assert str(session.read("ticks")) in said


@pytest.mark.parametrize("error", [ServerUnavailableError("gone"), AccessRefusedError("revoked")])
def test_a_lost_server_is_an_error(session, monkeypatch, error):
    monkeypatch.setattr(session, "snapshot", raising(error))
    with pytest.raises(type(error)):
        attribute_table(session)


def test_a_busy_server_is_not_asked_for_each_value(session, monkeypatch):
    monkeypatch.setattr(session, "snapshot", raising(WaitTimeoutError("the game to restart", 8.0)))
    monkeypatch.setattr(session, "read", raising(AssertionError("it was asked again")))
    table, n_errors = attribute_table(session, ["hp", "ticks"])
    assert n_errors == 2
    assert printed(table).count("the game to restart") == 2


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_a_game_that_has_ended_is_an_error(session):
    session.toy.is_alive = False
    with pytest.raises(ProcessExitedError):
        attribute_table(session)


def test_the_source_that_holds_is_shown(session, console):
    info = msgspec.structs.replace(session.info, sources={"hp": "a tool", "x": ""})
    console.print(info_table(info))
    said = console.file.getvalue()
    assert "hp: a tool" in said
    assert "x: not decided yet" in said


def test_attributes_unknown_for_the_version_are_left_out_unless_requested(monkeypatch):
    x = msgspec.structs.replace(TOY_PROFILE.attributes["x"], versions=("1.0",))
    process = msgspec.structs.replace(TOY_PROFILE.process, versions=("", "1.0"))
    facts = {"process": process, "attributes": {**TOY_PROFILE.attributes, "x": x}}
    monkeypatch.setattr("soulslab.testing.fake_session.TOY_PROFILE", msgspec.structs.replace(TOY_PROFILE, **facts))
    with FakeSession() as session:
        for spoil in (lambda: None, lambda: session.toy.values.update(hp=1000)):
            spoil()
            table, n_failed = attribute_table(session)
            assert table.row_count == len(TOY_PROFILE.attributes) - 1
            assert n_failed == session.toy.values["hp"] // 1000
        assert attribute_table(session, ["x"])[1] == 1


def test_watching_ends_after_its_time(session, console):
    watch(session, console, rate_hz=200, seconds=0.02)
    said = console.file.getvalue()
    assert "hp" in said
    assert "game time" in said


def test_ctrl_c_ends_watching(session, console, monkeypatch):
    def interrupt(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("soulslab.siphon.terminal_output.time.sleep", interrupt)
    watch(session, console, rate_hz=10)
    assert "hp" in console.file.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456789, "0.123457"),
        (7, "7"),
        (True, "True"),
        ("name", "name"),
        (b"\x01\xff", "01 ff"),
        (np.array([1.5, 2.0]), "1.5  2"),
    ],
)
def test_values_are_shown_as_a_person_reads_them(value, text):
    assert format_value(value) == text


def test_values_are_read_as_they_are_typed():
    texts = {"hp": "55", "x": "1.5", "is_hurt": "true", "name": "Melina", "velocity": "[1.0, 2.0]"}
    assert parse_values(TOY_PROFILE, texts) == {
        "hp": 55,
        "x": 1.5,
        "is_hurt": True,
        "name": "Melina",
        "velocity": [1.0, 2.0],
    }


def test_bytes_are_typed_in_hex():
    raw = Attribute(base="toy", offsets=(0,), type="bytes", length=2, source="made up")
    profile = type(TOY_PROFILE)(
        name="toy", process=TOY_PROFILE.process, bases=TOY_PROFILE.bases, attributes={"raw": raw}
    )
    assert parse_values(profile, {"raw": '"90 ff"'}) == {"raw": b"\x90\xff"}
    for text in ('"9"', "90", '"xy"'):
        with pytest.raises(ConfigError, match="not hex text"):
            parse_values(profile, {"raw": text})


def test_malformed_values_are_reported():
    with pytest.raises(UnknownAttributeError, match="did you mean 'hp'"):
        parse_values(TOY_PROFILE, {"hpp": "5"})
    for text in ("five", "5 = 6", "[" * 5000):
        with pytest.raises(ConfigError, match="not a value of type i32"):
            parse_values(TOY_PROFILE, {"hp": text})


@pytest.mark.parametrize("shape", [(6, 8, 3), (6, 8)])
def test_a_frame_is_written_as_it_is(tmp_path, shape):
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    save_frame(Frame(pixels, 0.0, 0.0), tmp_path / "frame.png")
    picture = cv2.imread(str(tmp_path / "frame.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(picture if picture.ndim == 2 else picture[..., ::-1], pixels)


@pytest.mark.parametrize(("last", "says"), [(7, "all pixels are alike"), (8, "")])
def test_a_uniform_frame_is_reported(tmp_path, caplog, last, says):
    pixels = np.full((6, 8, 3), 7, np.uint8)
    pixels[-1, -1, -1] = last
    save_frame(Frame(pixels, 0.0, 0.0), tmp_path / "frame.png")
    assert says in caplog.text
    assert bool(caplog.text) == bool(says)


@pytest.mark.parametrize("name", ["frame.xyz", "frame", "no_such_folder/frame.png"])
def test_a_frame_that_cannot_be_written(tmp_path, name):
    with pytest.raises(ConfigError):
        save_frame(Frame(np.zeros((2, 2), np.uint8), 0.0, 0.0), tmp_path / name)


def test_the_result_of_a_recording_is_printed(session, console, tmp_path):
    file = tmp_path / "toy.h5"
    status = record(session, file, RecordingOptions(rate_hz=100, frames="none", max_duration_s=0.1), console)
    assert status.end == "duration"
    assert f"{status.n_samples} samples" in console.file.getvalue()
    assert len(read_recording(file)) == status.n_samples


def test_ctrl_c_ends_a_recording_and_keeps_it(session, console, tmp_path, monkeypatch):
    def interrupt(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("soulslab.siphon.terminal_output.time.sleep", interrupt)
    status = record(session, tmp_path / "toy.h5", RecordingOptions(rate_hz=100, frames="none"), console)
    assert status.end == "stopped"
    assert len(read_recording(tmp_path / "toy.h5")) >= 1
