"""Alternatives and versions of attributes through a remote session equal those of a local session."""

import struct

import msgspec
import pytest

from soulslab.errors import AttributeVersionError, UndecidedAttributeError
from soulslab.siphon.profile import Alternative, Attribute
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.testing import fake_session
from soulslab.testing.fake_session import OBJECT_AT, OWNER_AT, OWNER_OFFSET, TOY_PROFILE, FakeSession

WRONG, RIGHT = "a tool that is wrong", "a tool that is right"
#: The toy's executable carries no version.
OTHER_VERSION = "1.0.0.0"


def hp(offset):
    """The toy's health with a wrong first alternative and a right second one."""
    way = Alternative(offsets=(OWNER_OFFSET, 0x0), source=RIGHT)
    return Attribute(
        base="toy", offsets=(OWNER_OFFSET, offset), type="i32", range=(1, 100), source=WRONG, alternatives=(way,)
    )


@pytest.fixture
def game(monkeypatch, tmp_path):
    """A toy and its remote session; the level, which the wrong alternative reads, is 0."""
    process = msgspec.structs.replace(TOY_PROFILE.process, versions=("", OTHER_VERSION))
    x = msgspec.structs.replace(TOY_PROFILE.attributes["x"], versions=(OTHER_VERSION,))
    attributes = {**TOY_PROFILE.attributes, "hp": hp(0x10), "x": x}
    monkeypatch.setattr(
        fake_session, "TOY_PROFILE", msgspec.structs.replace(TOY_PROFILE, process=process, attributes=attributes)
    )
    with FakeSession() as toys, serve(toys, ServerOptions(address=f"unix:{tmp_path}/s")) as server:
        toys.write({"level": 0})
        with connect(server.address, token=server.token) as remote:
            yield toys, remote


def test_the_selected_source_is_reported(game):
    toys, remote = game
    assert remote.profile == toys.profile
    assert remote.info.sources == {"hp": ""}
    assert remote.read("hp") == 100
    assert remote.info.sources == toys.info.sources == {"hp": RIGHT}
    toys.restart()
    assert remote.info.sources == {"hp": ""}


def test_a_write_decides(game):
    _, remote = game
    remote.write({"hp": 50})
    assert remote.info.sources == {"hp": RIGHT}
    assert remote.read("hp") == 50


def test_an_undecided_attribute_is_an_error(game):
    toys, remote = game
    toys.toy.memory.write(OWNER_AT + OWNER_OFFSET, bytes(8))
    for use in (lambda: remote.read("hp"), lambda: remote.write({"hp": 50})):
        with pytest.raises(UndecidedAttributeError, match="none of its 2 variants") as caught:
            use()
        assert caught.value.attribute == "hp"
        assert [problem.partition(":")[0] for problem in caught.value.problems] == [WRONG, RIGHT]
    toys.toy.memory.write(OWNER_AT + OWNER_OFFSET, struct.pack("<Q", OBJECT_AT))
    assert remote.read("hp") == 100


def test_attributes_unknown_for_the_version_are_left_out(game):
    _, remote = game
    assert list(remote.snapshot()) == [name for name in TOY_PROFILE.attributes if name != "x"]
    with pytest.raises(AttributeVersionError) as caught:
        remote.read("x")
    assert (caught.value.attribute, caught.value.version, caught.value.known) == ("x", "", (OTHER_VERSION,))
