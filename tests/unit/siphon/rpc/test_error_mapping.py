"""Conversion of errors to gRPC statuses and back."""

import inspect
from pathlib import Path

import grpc
import numpy as np
import pytest

import soulslab.errors
from soulslab.errors import (
    ImplausibleValueError,
    InvalidValueError,
    RemoteError,
    SiphonError,
    SoulslabError,
    UnknownAttributeError,
    WireError,
)
from soulslab.siphon.rpc.error_mapping import STATUS, classes_by_name, from_failure, status_of, to_failure
from soulslab.siphon.rpc.messages import Failure, decode
from soulslab.siphon.rpc.wire_encoding import encode, make_decoder

SAMPLES = {
    "pid": 4242,
    "pids": (1, 2),
    "address": 0x7FFF_0000_1234,
    "addresses": (2**63, 2**64 - 1),
    "size": 8,
    "level": 2,
    "status": -9,
    "known": ("a", "b"),
    "path": "over/there",
    "low": 0.0,
    "high": float("inf"),
    "waited_s": 1.5,
    "env_index": 3,
    "step": 7,
    "attempts": 9,
    "n_entities": 4,
    "failed": {"hp": "out of range (it reads -1)"},
    "value": np.arange(3.0),
}


def make(kind):
    if not inspect.isfunction(kind.__init__):  # it takes a message only
        return kind("what, where, what to do")
    return kind(**{name: SAMPLES.get(name, f"a {name}") for name in inspect.signature(kind).parameters})


def send(error):
    return from_failure(decode(make_decoder(Failure), encode(to_failure(error))))


@pytest.mark.parametrize("kind", classes_by_name().values(), ids=classes_by_name())
def test_every_error_is_raised_again_as_it_was(kind):
    error = make(kind)
    found = send(error)
    assert type(found) is kind
    assert str(found) == str(error)
    assert found.args == error.args
    assert {**vars(found), "value": 0} == {**vars(error), "value": 0}
    assert np.array_equal(getattr(found, "value", 0), getattr(error, "value", 0))


def test_all_error_classes_are_listed():
    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {kind for kind in below(SoulslabError) if kind.__module__.startswith(soulslab.errors.__name__)}
    assert set(classes_by_name().values()) == ours


@pytest.mark.parametrize("kind", classes_by_name().values(), ids=classes_by_name())
def test_every_error_has_the_status_of_a_family(kind):
    """Every family of errors is in the table; the two base classes are not families."""
    status = status_of(make(kind))
    assert status not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED)
    if kind not in (SoulslabError, SiphonError):
        assert any(parent in STATUS for parent in kind.__mro__ if parent not in (SoulslabError, SiphonError))


def test_fields_that_cannot_travel_become_text():
    found = send(InvalidValueError("hp", dict, "is a class"))
    assert found.value == "<class 'dict'>"
    found = send(InvalidValueError("hp", 2**70, "is too large"))
    assert found.value == str(2**70)


def test_paths_stay_paths():
    assert send(soulslab.errors.RecordingError("a/b", "is full")).path == Path("a/b")


def test_a_foreign_subclass_arrives_as_its_known_base_class():
    class OddError(UnknownAttributeError):
        pass

    assert type(send(OddError("a", ["b"]))) is UnknownAttributeError


def test_invalid_unicode_in_an_error_can_be_sent():
    assert "?" in str(send(SiphonError("file \udcff")))


def test_an_unknown_class_is_a_remote_error():
    found = from_failure(Failure("NewerError", "what it says", {"x": encode(1)}))
    assert type(found) is RemoteError
    assert str(found) == "NewerError: what it says"
    assert type(from_failure(Failure("SystemExit", "", {}))) is RemoteError


def test_malformed_fields_are_refused_and_private_ones_ignored():
    with pytest.raises(WireError):
        from_failure(Failure("ImplausibleValueError", "", {"value": b"\xc1"}))
    fields = {"__class__": encode(1), "_x": encode(1), "not a name": encode(1), "args": encode(1), "low": encode(2)}
    found = from_failure(Failure("ImplausibleValueError", "text", fields))
    assert type(found) is ImplausibleValueError
    assert vars(found) == {"low": 2}
