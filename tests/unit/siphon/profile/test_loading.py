"""Loading of profiles: valid files, and errors for all others."""

import random
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulslab.arena.binding import Binding
from soulslab.errors import ConfigError, ProfileError, SiphonError
from soulslab.siphon.profile import Alternative, Attribute, Base, Entity, Profile, load_profile
from soulslab.siphon.profile.facts import variants_of
from soulslab.siphon.profile.loading import parse_profile
from soulslab.siphon.profile.validation import find_mistakes, representable
from soulslab.testing.fake_session import TOY_PROFILE
from support.long_form import IS_LONG
from support.profiles import FULL, PUBLIC


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "game.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_bit_of_everything(write):
    profile = load_profile(write(FULL))
    assert profile.name == "Game"
    assert profile.process.command[2] == "{skill}"
    assert profile.bases["world"] == Base(
        pattern="48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F",
        displacement_at=3,
        instruction_end=7,
        is_pointer=True,
        source="found by hand",
    )
    assert profile.bases["speed"].offset == 0x1F0
    assert isinstance(profile.entities["boss"], Entity)
    assert profile.attributes["player.hp"] == Attribute(
        base="world", offsets=(0x10EF8, 0, 0x138), type="i32", unit="hp", range=(0.0, 2000.0), source="found by hand"
    )
    assert profile.attributes["pose"].length == 3
    assert profile.code_offsets["pace"].adjust == 0x68
    assert profile.attributes["game.pace"].is_holding
    assert profile.attributes["game.pace"].alternatives[1] == Alternative(
        entity="boss", type="i32", scale=0.5, source="another tool"
    )
    assert profile.keys == {"roll": "SPACE", "attack": "MOUSE_LEFT"}
    assert profile.clock.tick_attribute == "ticks"
    assert profile.env == {"step_ticks": 4, "reward": {"hp": {"attribute": "player.hp", "weight": -0.01}}}


@pytest.mark.parametrize(
    ("facts", "step_hz"),
    [("", 0.0), ("tick_hz = 60", 60.0), ("catch_up_s = 0.1", 10.0), ("tick_hz = 60\ncatch_up_s = 0.1", 10.0)],
)
def test_largest_step_of_a_profile(write, facts, step_hz):
    profile = load_profile(write(f'name = "x"\n[process]\nexecutable = "x"\n[clock]\n{facts}\n'))
    assert profile.clock.step_hz == pytest.approx(step_hz)


def test_the_least_that_a_profile_needs(write):
    profile = load_profile(write('name = "x"\n[process]\nexecutable = "x"\n'))
    assert (profile.format, profile.attributes, profile.env) == (1, {}, None)


def test_a_profile_survives_the_wire():
    profile = parse_profile(tomllib.loads(FULL), "text")
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(profile))
    assert parse_profile(sent, "wire") == profile


def test_the_toy_has_no_mistakes():
    assert list(find_mistakes(TOY_PROFILE)) == []


def test_valid_numbers():
    assert representable("u8") == (0, 255)
    assert representable("i16", -0.5) == (-16383.5, 16384)
    assert representable("i64") == (-(2.0**63), 2.0**63)
    assert representable("f32")[1] == pytest.approx(3.4028234663852886e38)


# --- invalid files ------------------------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path, write):
    for path, problem in (
        (tmp_path / "none.toml", "cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "a\0b", "cannot be read: embedded null"),
        (tmp_path / ("x" * 300), "cannot be read: File name too long"),
        (write(b"\xff\xfe\x00n"), "is not UTF-8 text (byte 0)"),
    ):
        with pytest.raises(ProfileError) as caught:
            load_profile(path)
        assert problem in caught.value.problem
        assert caught.value.source == str(path)


def test_empty_files(write):
    for content in (b"", b"\n", b"# nothing\n"):
        with pytest.raises(ProfileError, match="name: is missing") as caught:
            load_profile(write(content))
        assert caught.value.path == "name"


def test_a_profile_error_is_caught_by_both_of_its_families(write):
    for family in (ConfigError, SiphonError):
        with pytest.raises(family):
            load_profile(write(""))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (None, ""),
        ([], ""),
        ("name", ""),
        ({1: 2}, ""),
        ({"name": "x", "process": {"executable": b"x"}}, "process.executable"),
        ({"name": "x", "process": {"executable": "x"}, "attributes": {1: {}}}, "attributes"),
        ({"process_info": {"name": "x"}, "attributes": {1: {}}}, "attributes"),
        ({"process_info": {"name": "x"}, "attributes": {"a": {1: 2}}}, "attributes.a.type"),
        ({"process_info": None, "attributes": {}}, "process_info"),
    ],
)
def test_data_that_no_toml_can_hold(data, path):
    with pytest.raises(ProfileError) as caught:
        parse_profile(data, "wire")
    assert (caught.value.path, caught.value.source) == (path, "wire")


# --- mutations ----------------------------------------------------------------------------------------------

N_MUTANTS = 1000 if IS_LONG else 200
SEEDS = [text.encode() for text in (FULL, PUBLIC)]
WORDS = [
    b"", b'"', b"'", b"[", b"]]", b"{", b"}", b"=", b".", b"\n", b"#", b"-", b"0x", b"nan", b"inf", b"1e999", b"true",
    b'"\\u0000"', b"\xff", b"\xc3", b"99999999999999999999", b"[attributes]", b"[[env]]", b"1979-05-27", b'"""',
    b'"??"', b"[" * 500, b"a." * 200,
]  # fmt: skip


def load_or_refuse(content, write):
    """Load bytes; any result other than a profile or a ProfileError fails the test."""
    try:
        profile = load_profile(write(content))
    except ProfileError as error:
        assert error.problem
        assert error.source.endswith("game.toml")
        assert len(str(error)) < 5000
        return None
    assert isinstance(profile, Profile)
    return profile


def mutate_bytes(content, chance):
    """Delete, insert, duplicate or overwrite random parts."""
    content = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(content) + 1)
        end = at + chance.choice((0, 1, 1, 4, 30))
        match chance.randrange(4):
            case 0:
                content[at:end] = chance.choice(WORDS)
            case 1:
                content[at:end] = bytes([chance.randrange(256)])
            case 2:
                content[at:end] = b""
            case _:
                other = chance.randrange(len(content) + 1)
                content[other:other] = content[at:end]
    return bytes(content)


def test_mutated_files(write):
    chance = random.Random(20)  # noqa: S311  (mutants need no secure random source)
    loaded = [load_or_refuse(mutate_bytes(chance.choice(SEEDS), chance), write) for _ in range(N_MUTANTS)]
    assert 0 < sum(profile is not None for profile in loaded) < N_MUTANTS


def places_in(value, place=()):
    """Return the path of each value in nested tables and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(inner for key, item in items for inner in places_in(item, (*place, key)))]


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.sampled_from(
        ["", "world", "u8", "f32", "bool", "utf16", "flag", "scaled", "48 ?? 05", "{x}", "int", "dll", "target"]
    ),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=N_MUTANTS)
@given(st.data())
def test_mutated_structures(data):
    tables = tomllib.loads(data.draw(st.sampled_from([FULL, PUBLIC])))
    for _ in range(data.draw(st.integers(1, 2))):
        *way, key = data.draw(st.sampled_from(places_in(tables)[1:]))
        parent = tables
        for step in way:
            parent = parent[step]
        if data.draw(st.booleans()):
            parent[key] = data.draw(VALUES)
        else:
            del parent[key]
    try:
        assert isinstance(parse_profile(tables, "mutant"), Profile)
    except ProfileError as error:
        assert error.problem
        assert error.source == "mutant"


# --- the documentation --------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[4] / "docs" / "profiles.md"


def test_the_examples_of_the_documentation_load():
    example, scaled, entity, code_offset, alternatives, duel = re.findall(
        r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL
    )
    profile = parse_profile(tomllib.loads(example), "docs")
    assert profile.attributes["health"].range == (-200.0, 200.0)
    world = '[bases.world]\npattern = "48 8B 05"\nsource = "made up"\n'
    assert parse_profile(tomllib.loads(f"{example}\n{world}\n{entity}"), "docs").entities["boss"].id == 21300520
    place = 'base = "player"\noffsets = [0]\nsource = "made up"'
    number = f'type = "f32"\nrange = [0, 1000]\n{place}'
    paced = [f'[attributes."game.{name}"]\n{number}' for name in ("speed", "fps")]
    paced.append(f'[attributes."game.has_fps"]\ntype = "bool"\n{place}')
    without_clock, _, _ = example.partition("[clock]")
    clock = parse_profile(tomllib.loads("\n".join((without_clock, *paced, scaled))), "docs").clock
    assert (clock.frame_rate_hz, clock.frame_rate_attribute) == (60, "game.fps")
    versions = example.replace("[process]", '[process]\nversions = ["2.0.0.0", "2.2.0.0"]')
    flipper = world.replace("world", "flipper")
    more = parse_profile(tomllib.loads("\n".join((versions, flipper, code_offset, alternatives))), "docs")
    assert more.attributes["game.speed"].offsets == ("flipper.game_speed",)
    assert [way.offsets for way in variants_of(more.attributes["frame_s"])] == [(0x264,), (0x26C,)]
    stored = {
        "player.hp": Attribute(base="b", offsets=(0,), type="i32", range=(0, 1), source="made up"),
        "iudex.hp": Attribute(base="b", offsets=(4,), type="i32", range=(0, 1), source="made up"),
        "iudex.animation": Attribute(base="b", offsets=(8,), type="i32", range=(0, 1), source="made up"),
    }
    assert Binding(tomllib.loads(duel)["duel"], stored).decode("boss.animation", 3000) == "Attack3000"
