"""The self-check on a toy with correct facts, and with each kind of mistake."""

import msgspec
import numpy as np
import pytest

from soulslab.errors import ConfigError, ProcessExitedError, SelfCheckError, UnknownAttributeError
from soulslab.games.self_check import Verdict, check_session, needed_by
from soulslab.games.self_check_table import check_rows, summary
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import Alternative, Attribute
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import FakeArenaSession
from soulslab.testing.fake_game import FakeOpener
from soulslab.testing.fake_session import TOY_PROFILE, FakeSession

READ_ONLY = SessionOptions(is_read_only=True)


class ToySession(FakeSession):
    """A session with the toy under another profile."""

    def __init__(self, profile, options):
        LocalSession.__init__(self, profile, options, FakeOpener(self._start))


def changed(attributes=None, versions=(), **facts):
    """Return the toy's profile with changed facts of attributes, for versions of the program."""
    found = dict(TOY_PROFILE.attributes)
    for name, changes in (attributes or {}).items():
        found[name] = changes if isinstance(changes, Attribute) else msgspec.structs.replace(found[name], **changes)
    process = msgspec.structs.replace(TOY_PROFILE.process, versions=versions)
    return msgspec.structs.replace(TOY_PROFILE, attributes=found, process=process, **facts)


def rows(session, **options):
    return {row.name: row for row in check_session(session, **options).rows}


@pytest.fixture
def toy():
    with FakeSession() as session:
        yield session


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_matching_profile_is_ok(tmp_path, is_remote):
    profile = changed({"ticks": {"is_moving": True}, "level": {"is_holding": True}})
    with ToySession(profile, SessionOptions()) as local:
        before = bytes(local.toy.memory.read(0x20000, 8))
        if is_remote:
            with (
                serve(local, ServerOptions(address=f"unix:{tmp_path}/s", needs_token=False)) as server,
                connect(server.address) as session,
            ):
                check = check_session(session, span_s=0.5)
        else:
            check = check_session(local, span_s=0.5)
        assert bytes(local.toy.memory.read(0x20000, 8)) == before
        assert local.toy.values["ticks"] == 30
    assert check.is_ok
    assert check.is_known_version
    assert [row.name for row in check.rows] == list(profile.attributes)
    assert {row.verdict for row in check.rows} == {Verdict.OK}
    hp = check.rows[0]
    assert (hp.value, hp.address, hp.source, hp.is_writable, hp.others) == (100, 0x20000, "made up", True, ())
    assert check.span_s == pytest.approx(0.5)
    check.require()
    check.require("hp", "velocity")


@pytest.mark.parametrize("is_running", [False, True])
def test_the_clock_runs_or_is_stopped_afterwards_as_before(toy, is_running):
    toy.clock.run(2.0) if is_running else toy.clock.pause()
    check_session(toy)
    assert toy.clock.speed == (2.0 if is_running else 0.0)


@pytest.mark.parametrize(
    ("facts", "verdict", "words"),
    [
        ({"hp": {"range": (0, 50)}}, Verdict.OUT_OF_RANGE, "'hp' reads 100, which is outside"),
        ({"hp": {"is_moving": True}}, Verdict.STANDS, "stayed at 100 for 1 s"),
        ({"hp": {"offsets": (0x10, 0x0, 0x0)}}, Verdict.UNREADABLE, "which is not an address"),
        ({"hp": {"offsets": (0x10, 0x28, 0x0)}}, Verdict.NOT_LOADED, "offsets[1]: is a null pointer"),
        ({"hp": {"offsets": (0x10, 0xC), "is_holding": True}}, Verdict.CHANGES, "it was 0, then 15"),
        ({"hp": {"versions": ("2.0",)}}, Verdict.OTHER_VERSION, "known for 2.0"),
    ],
)
def test_each_mistake_has_its_verdict(facts, verdict, words):
    with ToySession(changed(facts, versions=("", "2.0")), SessionOptions()) as session:
        check = check_session(session, ["hp"])
    found = {row.name: row for row in check.rows}
    assert (found["hp"].verdict, check.is_ok) == (verdict, False)
    assert words in found["hp"].reason
    assert {row.verdict for name, row in found.items() if name != "hp"} == {Verdict.OK}
    check.require("x", "y")
    with pytest.raises(SelfCheckError) as caught:
        check.require("x", "hp")
    assert caught.value.attributes == ("hp",)
    assert f"'hp' {verdict.value}" in str(caught.value)
    assert words in str(caught.value)


def test_not_loaded_is_distinguished_from_unreadable(toy):
    toy.toy.is_loading = True
    check = check_session(toy)
    assert {row.verdict for row in check.rows} == {Verdict.NOT_LOADED}
    assert all("base 'toy', is_pointer: is a null pointer" in row.reason for row in check.rows)
    assert any("load a character" in line for line in summary(check))
    check.require(may_be_loading=True)
    with pytest.raises(SelfCheckError, match="8 needed attributes of toy"):
        check.require()
    toy.toy.is_loading = False
    check_session(toy).require()


def other(**facts):
    return Alternative(source="another page", **facts)


def test_sources_that_agree_disagree_and_fail():
    attributes = {
        "hp": {"alternatives": (other(offsets=(0x10, 0x0)),)},
        "x": {"alternatives": (other(offsets=(0x10, 0x4), scale=2.0),)},
        "level": {"range": (5, 99), "offsets": (0x10, 0x2C), "alternatives": (other(offsets=(0x10, 0x10)),)},
        "ticks": {"is_moving": True, "alternatives": (other(offsets=(0x10, 0x4, 0x0)),)},
    }
    with ToySession(changed(attributes), SessionOptions(options={"level": "7"})) as session:
        session.write({"x": 3.0})
        session.snapshot()
        check = check_session(session)
    found = {row.name: row for row in check.rows}
    assert found["hp"].verdict is Verdict.OK
    assert [(other.source, other.outcome) for other in found["hp"].others] == [("another page", "agrees")]
    assert found["x"].verdict is Verdict.DISAGREE
    assert found["x"].reason == "made up gives 3.0; another page gives 6.0"
    assert (found["level"].verdict, found["level"].source, found["level"].value) == (Verdict.OK, "another page", 7)
    assert (found["level"].others[0].source, found["level"].others[0].outcome) == ("made up", "fails")
    assert "outside its plausible range" in found["level"].others[0].detail
    assert found["ticks"].verdict is Verdict.OK
    assert "is not mapped" in found["ticks"].others[0].detail


def test_a_read_only_session_is_checked_while_the_game_runs():
    with ToySession(changed({"hp": {"is_holding": True}}), READ_ONLY) as session:
        check = check_session(session, span_s=0.01, n_looks=2)
        assert check.is_ok
        assert session.read("ticks") == 0


def test_an_unknown_version_is_reported():
    with ToySession(changed(versions=("2.0",)), SessionOptions()) as session:
        check = check_session(session)
    assert not check.is_known_version
    assert check.is_ok
    assert "which the profile does not know" in summary(check)[0]


def test_invalid_arguments_are_errors(toy):
    with pytest.raises(UnknownAttributeError, match="did you mean 'level'"):
        check_session(toy, ["levle"])
    with pytest.raises(UnknownAttributeError, match="no such"):
        check_session(toy).require("no such")
    for options in ({"span_s": 0.0}, {"n_looks": 1}):
        with pytest.raises(ConfigError, match="n_looks >= 2"):
            check_session(toy, **options)


def test_a_game_that_has_exited_is_an_error(toy):
    toy.toy.is_alive = False
    with pytest.raises(ProcessExitedError):
        check_session(toy)


def test_the_attributes_of_the_duel_table_are_needed():
    with FakeArenaSession() as session:
        needed = needed_by(session.profile)
        assert "player.hp" in needed
        assert len(needed) < len(session.profile.attributes) or set(needed) == set(session.profile.attributes)
        session.clock.advance(3.0)
        check = check_session(session)
        check.require()
        session.arena.fight.restart()
        loading = {row.name: row.verdict for row in check_session(session, span_s=0.01).rows}
    assert loading["player.hp"] is Verdict.NOT_LOADED


def test_rows_for_a_file_are_plain(toy):
    found = check_rows(check_session(toy))
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    by_name = {row["attribute"]: row for row in found}
    assert by_name["velocity"]["value"] == [0.0, 0.0]
    assert by_name["hp"]["verdict"] == "ok"
    assert np.isclose(by_name["hp"]["address"], 0x20000)
