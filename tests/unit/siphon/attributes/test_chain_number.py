"""Access to numbers by pointer chain, without an attribute, local and remote."""

import struct

import pytest

from soulslab.errors import InvalidValueError, PatternError, PointerError, ReadOnlyError
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_session import HURT_BIT, LAYOUT, OBJECT_AT, OWNER_OFFSET, FakeSession


@pytest.fixture
def toys():
    with FakeSession() as one:
        yield one


@pytest.fixture(params=["local", "remote"])
def session(request, toys, tmp_path):
    if request.param == "local":
        yield toys
        return
    options = ServerOptions(address=f"unix:{tmp_path / 'socket'}", token="t" * 16, allow_raw_writes=True)
    with serve(toys, options) as server, connect(server.address, token=options.token) as remote:
        yield remote


def at(name, kind, **more):
    return ChainNumber(base="toy", offsets=(OWNER_OFFSET, LAYOUT[name][1]), type=kind, **more)


def test_it_is_read_and_written_as_the_attribute_is(session):
    assert session.read_number(at("hp", "i32")) == session.read("hp") == 100
    session.write_number(at("hp", "i32"), 33)
    session.write_number(at("x", "f32"), 1.5)
    assert (session.read("hp"), session.read("x")) == (33, 1.5)


def test_a_flag_is_one_bit(session):
    where = at("is_hurt", "flag", bit=HURT_BIT)
    assert session.read_number(where) is False
    session.write_number(where, True)
    session.write_number(at("is_hurt", "flag", bit=0), True)
    assert session.read("is_hurt")
    assert session.read_number(at("is_hurt", "u8")) == 1 << HURT_BIT | 1


def test_a_pointer_on_the_way_is_a_number_too(session):
    assert session.read_number(ChainNumber(base="toy", offsets=(OWNER_OFFSET,), type="u64")) == OBJECT_AT


def test_a_broken_chain_is_an_error(session, toys):
    with pytest.raises(PatternError, match=r"'nothing'.*no address"):
        session.read_number(ChainNumber(base="nothing", offsets=(0,), type="u8"))
    with pytest.raises(PointerError, match="by its own chain"):
        session.read_number(ChainNumber(base="toy", offsets=(0, 0), type="u8"))
    toys.toy.is_loading = True
    with pytest.raises(PointerError):
        session.read_number(at("hp", "i32"))


def test_values_out_of_range_are_not_written(session):
    for value in (2**31, 2**70, "1", None, True):
        with pytest.raises(InvalidValueError):
            session.write_number(at("hp", "i32"), value)
    assert session.read("hp") == 100


def test_a_session_that_may_not_write_does_not():
    with FakeSession(SessionOptions(is_read_only=True)) as session:
        with pytest.raises(ReadOnlyError, match="cannot write a number behind 'toy'"):
            session.write_number(at("hp", "i32"), 1)
        assert struct.unpack("<i", session.toy.memory.read(OBJECT_AT, 4)) == (100,)
