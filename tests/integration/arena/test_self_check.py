"""The self-check on the window of the built-in fight: as both games, and as games whose profile is wrong."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from soulslab import cli
from soulslab.errors import SiphonError
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.games.self_check import Verdict, check_session
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions

MASKS = ("dark_souls_3", "elden_ring")
#: Of enemies that are not in the fight, whose time does not pass.
STANDING = {"dark_souls_3": {"vordt.animation_time"}, "elden_ring": set()}
SMALL = {"size": "160x90", "renderer": "software"}


@pytest.fixture(params=MASKS, scope="module")
def mask(request):
    return request.param


@pytest.fixture(scope="module")
def window(mask):
    """A session with the window as a game, in the middle of its fight."""
    with open_session(stand_in(profile_path(Path(mask))), SessionOptions(options=SMALL)) as session:
        session.clock.advance(2.0)
        yield session


def run_from_full_health(window):
    """Let the game run from a moment at which the knight, whom the boss kills every 13 s, has full health."""
    window.clock.pause()
    for _ in range(200):
        with suppress(SiphonError):  # between two fights nothing is loaded
            if window.read("player.hp") == window.read("player.max_hp"):
                break
        window.clock.advance(0.25)
    else:
        pytest.fail("the knight never had full health within 50 s of game time")
    window.clock.run(1.0)


def wrong(session, **changes):
    """Return a session that attaches to the same game with other facts of the player's greatest health."""
    profile = load_profile(profile_path(Path(session.mask)))
    hp = msgspec.structs.replace(profile.attributes["player.max_hp"], **changes)
    profile = msgspec.structs.replace(profile, attributes={**profile.attributes, "player.max_hp": hp})
    options = SessionOptions(
        pid=session.info.pid, launch="never", with_window=False, is_read_only=True, clock="realtime"
    )
    return open_session(profile, options)


def test_both_profiles_fit_the_window_under_their_masks(window, mask):
    check = check_session(window)
    check.require()
    failed = {row.name for row in check.rows if row.verdict is not Verdict.OK}
    assert failed <= STANDING[mask]
    assert [row.name for row in check.rows] == list(window.profile.attributes)
    assert all(row.address for row in check.rows)
    held = window.info.sources
    for row in check.rows:
        if held.get(row.name):
            assert row.source == held[row.name]


@pytest.mark.long
def test_the_oldest_elden_ring_has_a_boss_too(tmp_path):
    """Its list of enemies lies elsewhere."""
    text = profile_path(Path("elden_ring")).read_text(encoding="utf-8")
    old = '"2.0.0.0"'
    assert f", {old},\n]" in text
    path = tmp_path / "elden_ring.toml"
    path.write_text(text.replace(f", {old},\n]", ",\n]", 1).replace("versions = [\n", f"versions = [\n  {old},", 1))
    with open_session(stand_in(path), SessionOptions(options=SMALL)) as session:
        session.clock.advance(2.0)
        assert session.info.version == "2.0.0.0"
        check = check_session(session)
    check.require()
    rows = {row.name: row.verdict for row in check.rows}
    assert rows["boss.hp"] is rows["boss.max_hp"] is Verdict.OK


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"range": (1e6, 2e6)}, Verdict.OUT_OF_RANGE, "outside its plausible range"),
        ({"is_moving": True, "is_holding": False}, Verdict.STANDS, "it stayed at"),
    ],
)
def test_a_wrong_fact_is_found_out(window, mask, changes, verdict, words):
    run_from_full_health(window)
    window.mask = mask
    with wrong(window, **changes, alternatives=()) as session:
        rows = {row.name: row for row in check_session(session, span_s=0.2).rows}
    assert rows["player.max_hp"].verdict is verdict
    assert words in rows["player.max_hp"].reason
    assert rows["boss.hp"].verdict is Verdict.OK


def test_the_command_attaches_reads_and_tells(window, mask, tmp_path, capsys):
    run_from_full_health(window)
    file = tmp_path / "check.json"
    arguments = ["--pid", str(window.info.pid), "--clock", "realtime", "--json", str(file)]
    code = cli.run(["games", "check", mask, *arguments])
    window.clock.pause()
    said = capsys.readouterr()
    assert code == 0, said
    assert "all needed attributes are ok" in said.out
    verdicts = {row["attribute"]: row["verdict"] for row in json.loads(file.read_text())}
    assert verdicts["player.hp"] == "ok"
