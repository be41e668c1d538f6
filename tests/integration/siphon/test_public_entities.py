"""``method = "dll"`` with pysiphon and a real program: the locked-on enemy, without an injection."""

from pathlib import Path

import msgspec
import pytest
from pysiphon import SiphonClient

from soulslab.siphon.local import open_session
from soulslab.siphon.memory.linux import LinuxMemory
from soulslab.siphon.process.discovery import executable_of
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import Base, Profile
from soulslab.siphon.session import SessionOptions
from support.public_siphon import public_server
from support.target import NAME, PROFILE, Target

# What `dll` attributes look like in public profiles: the pattern is where a library would be hooked in.
TOML = """
[process_info]
name = "{name}"
window_name = ""
""" + "".join(
    f"""
[attributes.{name}]
pattern = "48 8B 48 08 49 89 8D"
offsets = [{offsets}]
type = "{kind}"
length = {length}
method = "dll"
"""
    for name, offsets, kind, length in (
        ("NpcHp", "0x4", "int", 0),
        ("NpcX", "0x8", "float", 0),
        ("NpcIsAlive", "0x15", "bool", 0),
        ("NpcExp", "0x58, 0x10", "int", 0),
        ("NpcName", "0x20", "array", 8),
    )
)


@pytest.fixture
def known(target: Target, memory: LinuxMemory) -> Profile:
    """A soulslab profile for the same program, as a user would write it, with an offset as base."""
    image = read_image(memory, executable_of(target.pid))
    root = Base(offset=target.root - image.base, source="printed by the target")
    return msgspec.structs.replace(
        PROFILE, bases={"root": root}, attributes={}, entities={"target": PROFILE.entities["boss"]}
    )


def served(folder: Path, target: Target, *known: Profile):
    options = SessionOptions(pid=target.pid, clock="realtime", with_window=False)
    return public_server(
        folder,
        served=open_session(msgspec.structs.replace(PROFILE, attributes={}, bases={}, entities={}), options),
        open_session=open_session,
        session=options,
        known={profile.process.executable: profile for profile in known},
    )


def initialised(server, folder: Path) -> SiphonClient:
    (folder / "target.toml").write_text(TOML.replace("{name}", NAME))
    client = SiphonClient(f"127.0.0.1:{server.port}")
    assert client.set_process_config(str(folder / "target.toml"))["success"]
    memory = client.initialize_memory()
    assert memory["success"], memory["message"]
    return client


def test_the_entity_of_a_known_profile_gives_the_value(target: Target, known: Profile, tmp_path: Path) -> None:
    with served(tmp_path, target, known) as server, initialised(server, tmp_path) as client:
        # The list holds the entities 10, 11 and 12, each with its number as its health; the target is 11.
        assert client.get_attribute("NpcHp")["value"] == 11
        assert client.get_attribute("NpcX")["value"] == 1.5
        assert client.get_attribute("NpcIsAlive")["value"] is True
        assert client.get_attribute("NpcName")["value"] == "Margité".encode()
        assert client.get_attribute("NpcExp")["value"] == 1234567890123 % 2**32
        assert client.set_attribute("NpcHp", 7, "int")["success"]
        assert client.get_attribute("NpcHp")["value"] == 7


def test_an_entity_is_found_again_in_a_moved_list_and_missing_after_its_removal(
    target: Target, known: Profile, tmp_path: Path
) -> None:
    with served(tmp_path, target, known) as server, initialised(server, tmp_path) as client:
        assert client.get_attribute("NpcHp")["value"] == 11
        target.do("insert 77")
        assert client.get_attribute("NpcHp")["value"] == 11
        target.do("empty")
        answer = client.get_attribute("NpcHp")
        assert not answer["success"]
        assert "entity 'target'" in answer["message"]


@pytest.mark.parametrize("executable", [None, "another_program"])
def test_a_program_that_no_profile_knows_is_reported(
    target: Target, known: Profile, tmp_path: Path, executable: str | None
) -> None:
    other = [_renamed(known, executable)] if executable is not None else []
    with served(tmp_path, target, *other) as server, initialised(server, tmp_path) as client:
        for answer in (client.get_attribute("NpcHp"), client.set_attribute("NpcHp", 1, "int")):
            assert not answer["success"]
            assert "injects nothing" in answer["message"]
            assert NAME in answer["message"]


def test_a_known_profile_without_the_entity_is_reported(target: Target, known: Profile, tmp_path: Path) -> None:
    bare = msgspec.structs.replace(known, entities={})
    with served(tmp_path, target, bare) as server, initialised(server, tmp_path) as client:
        answer = client.get_attribute("NpcHp")
        assert not answer["success"]
        assert "entity" in answer["message"]


def _renamed(profile: Profile, executable: str) -> Profile:
    return msgspec.structs.replace(profile, process=msgspec.structs.replace(profile.process, executable=executable))
